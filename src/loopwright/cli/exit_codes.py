"""How the command ends, for scripts. docs/cli.md has the same table for people."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ExitCode"]


class ExitCode(IntEnum):
    """Codes above 128 are 128 plus the number of the signal, as shells count them."""

    DONE = 0
    FAILED = 1
    """The run failed: the model could not be asked, or the output could not be written."""
    USAGE = 2
    """The command line is wrong; nothing was run."""
    CONFIGURATION = 3
    """A model, a key or a package is missing; nothing was run."""
    SESSION = 4
    """The session is not there, in use by another process or damaged, or its store cannot be used."""
    ABORTED = 130
    """Ctrl-C (SIGINT)."""
    BROKEN_PIPE = 141
    """Whoever read our output went away."""
    TERMINATED = 143
    """SIGTERM."""
