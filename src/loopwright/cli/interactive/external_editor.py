"""The input in an editor of the user's, which has the terminal meanwhile.

Not here: giving the terminal to it (app.py).
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ...errors import ConfigurationError

__all__ = ["edited", "editor_command"]

FILE = "prompt.md"
"""Its ending tells the editor how to colour it."""


def editor_command() -> list[str]:
    """The words of `VISUAL`, else of `EDITOR`. Raises `ConfigurationError`."""
    for name in ("VISUAL", "EDITOR"):
        value = os.environ.get(name, "").strip()
        if not value:
            continue
        try:
            words = shlex.split(value)
        except ValueError as error:
            raise ConfigurationError(f"{name} cannot be read: {error}") from error
        if shutil.which(words[0]) is None:
            raise ConfigurationError(
                f"{name} names {words[0]!r}, which is no program here",
                hint=f"{name}='code --wait', for example",
            )
        return words
    raise ConfigurationError(
        "no editor is known", hint="set VISUAL or EDITOR in the environment: EDITOR=nano"
    )


async def edited(text: str, command: Sequence[str]) -> str:
    """What has become of *text* when the editor is left; it may have the terminal until then.

    Raises `ConfigurationError` if the editor cannot be started or says that it failed, so that
    nothing is to be changed. Being cancelled ends the editor.
    """
    folder = tempfile.mkdtemp(prefix="loopwright-")  # only its user can read it
    file = Path(folder) / FILE
    try:
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        await _run([*command, str(file)])
        changed = file.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise ConfigurationError(f"the editor gave nothing back: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    changed = changed.replace("\r\n", "\n")
    # Editors end the last line; nobody means to send that.
    return changed if text.endswith("\n") else changed.removesuffix("\n")


async def _run(command: Sequence[str]) -> None:
    process = await asyncio.create_subprocess_exec(*command)
    try:
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    if code:
        raise ConfigurationError(
            f"{Path(command[0]).name} ended with code {code}; the input is as it was",
            hint="VISUAL or EDITOR names the editor",
        )
