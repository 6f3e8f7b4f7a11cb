"""Standard input and output for the protocol alone.

A library that prints, or a child process that inherits our streams, would break the lines or take
some away. So while the protocol is spoken it has descriptors that nobody else knows; what goes to
standard output otherwise comes out on standard error, and standard input is empty.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO

__all__ = ["private_streams"]


@contextmanager
def private_streams(
    stdin: BinaryIO | None, stdout: BinaryIO
) -> Generator[tuple[int, int], None, None]:
    """Descriptors of *stdin* and *stdout* that no child inherits. None is an empty input.

    They stay open: threads may still wait on them, and a number that is used again for another
    file would be read from or written to by mistake.
    """
    sys.stdout.flush()
    stdout.flush()
    nothing = os.open(os.devnull, os.O_RDONLY)
    given = nothing if stdin is None else stdin.fileno()
    input_fd, output_fd = os.dup(given), os.dup(stdout.fileno())
    printed = sys.stdout
    sys.stdout = sys.stderr
    try:
        if given == 0:
            os.dup2(nothing, 0)
        if stdout.fileno() == 1:
            os.dup2(2, 1)
        yield input_fd, output_fd
    finally:
        sys.stdout = printed
        if given == 0 and stdin is not None:
            os.dup2(input_fd, 0)
        if stdout.fileno() == 1:
            printed.flush()
            os.dup2(output_fd, 1)
        if nothing != 0:
            os.close(nothing)
