"""A command that the user runs, not the model: in the workspace, and by the user's own word.

No mode and no rule is asked: they say what a model may do. The rest is as for the tool `bash`: a
shell without input and terminal, a process group that is ended as a whole, the end of the output
in bounded memory and all of it in a file. But there is no timeout: somebody sits before it.

Not here: how it is typed and shown (interactive/shell_line.py, interactive/command_view.py), what
a model reads of it (session/formats/pi_messages.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from ...errors import ConfigurationError
from ...records import clean_text
from ...session.formats.pi_messages import BashExecution
from ...signals import AbortController
from ...tools.bash import command_environment, shell_path
from ...tools.output_files import OutputFiles
from ...tools.process_group import Ended, run_group
from ...tools.process_output import ProcessOutput, TextFilter

__all__ = ["UserCommand"]


class UserCommand:
    """Runs once."""

    def __init__(
        self,
        command: str,
        folder: Path,
        *,
        told: bool,
        clean: Callable[[], TextFilter],
        keep_env: Iterable[str] = (),
    ) -> None:
        """*told*: the model is shown it, with the next prompt. *clean* makes what keeps secrets out
        of all that is printed."""
        self.command = command
        self.told = told
        self.left_running: tuple[int, ...] = ()
        """The process groups that it left running in the background, when it has ended."""
        self._folder = folder
        self._keep_env = frozenset(keep_env)
        self._output = ProcessOutput(OutputFiles(), clean=clean)
        self._abort = AbortController()

    def so_far(self) -> str:
        """The end of what it has printed."""
        return self._output.shown().text

    def stop(self, reason: object = None) -> None:
        """End it, and all that it has started. May come before it runs, and more than once."""
        self._abort.abort(reason)

    async def run(self) -> BashExecution:
        """Run it to its end. Raises `ConfigurationError` if it cannot be started."""
        if self._abort.signal.aborted:
            return self._told_as(Ended("abort", None, None))
        if os.name != "posix":
            raise ConfigurationError(
                "commands can only be run on Linux, macOS and other POSIX systems",
                hint="on Windows start the program in WSL",
            )
        shell = shell_path()
        try:
            ended = await run_group(
                [shell, "-c", "--", clean_text(self.command)],
                cwd=str(self._folder),
                env=command_environment(os.environ, keep=self._keep_env),
                timeout=None,
                abort=self._abort.signal,
                feed=self._output.feed,
                write=self._output.write,
            )
            self._output.feed(b"", final=True)
            await self._output.close()
        except (OSError, ValueError) as error:
            raise self._not_started(error) from error
        finally:
            self._output.abandon()
        self.left_running = ended.left_groups
        return self._told_as(ended)

    def _told_as(self, ended: Ended) -> BashExecution:
        code = ended.exit_code
        return BashExecution(
            command=self.command,
            output=self.so_far(),
            exit_code=None if code is None or ended.how != "exit" else _as_in_a_shell(code),
            cancelled=ended.how != "exit",
            truncated=self._output.is_cut,
            full_output_path=self._output.path,
            exclude_from_context=not self.told,
        )

    def _not_started(self, error: OSError | ValueError) -> ConfigurationError:
        if "\0" in self.command:
            return ConfigurationError("the command holds a NUL character, so it was not run")
        if not self._folder.is_dir():
            return ConfigurationError(
                f"the command was not run: the folder {str(self._folder)!r} is gone"
            )
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        return ConfigurationError(
            f"the command could not be started: {reason}",
            hint="write a long one to a file and run that" if len(self.command) > 100_000 else None,
        )


def _as_in_a_shell(code: int) -> int:
    """A signal's number as a shell tells it in `$?`."""
    return code if code >= 0 else 128 - code
