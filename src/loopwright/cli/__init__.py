"""The command line. `main` is the command `loopwright`; app.py has its commands and options.

Not here: anything that takes time to import. `loopwright --version` is answered from this file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with *arguments*, else those of the process. Returns the exit code; what
    each one means is in exit_codes.py."""
    from .exit_codes import ExitCode
    from .streams import drop_output, prepare_streams, print_error

    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        prepare_streams()
        code = _run(given)
        sys.stdout.flush()
    except KeyboardInterrupt:  # before or after a run, which deals with Ctrl-C itself
        code = ExitCode.ABORTED
    except BrokenPipeError:
        # The reader has seen enough, as in `loopwright demo | head -1`. Nothing is wrong.
        drop_output()
        code = ExitCode.BROKEN_PIPE
    except OSError as error:  # a full disk, or a terminal that is gone
        print_error(f"the output cannot be written: {error.strerror or error}")
        drop_output()
        code = ExitCode.FAILED
    except SystemExit as error:  # nothing of ours raises it; cyclopts does so for a Ctrl-C
        if error.code == ExitCode.ABORTED:
            return int(ExitCode.ABORTED)
        print_error(
            f"a tool or an extension called sys.exit({error.code!r}) in the middle of a run",
            hint="what was done until then is in the session; `loopwright -c` takes it up",
        )
        code = ExitCode.FAILED
    return int(code)


def _run(arguments: list[str]) -> int:
    if arguments in (["--version"], ["-v"]):
        from .. import __version__

        print(f"loopwright {__version__}")
        return 0
    from .app import run_command_line

    return run_command_line(arguments)
