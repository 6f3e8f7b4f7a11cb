"""Reading a TOML file that people write, and saying what is wrong with it and in which line.

Not here: what is in it.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ConfigurationError
from .toml_lines import line_of

__all__ = ["MOST_BYTES", "TomlFile", "parse_toml", "read_toml"]

MOST_BYTES = 256 * 1024

_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A file as it was read."""

    path: Path
    """Where it really is: a link was followed."""
    shown: str
    """Its name for people."""
    text: str
    content: dict[str, Any]

    def wrong(
        self, message: str, *, key: Sequence[str] = (), hint: str | None = None
    ) -> ConfigurationError:
        """An error about *key*, to be raised."""
        line = line_of(self.text, key) if key else None
        where = self.shown if line is None else f"{self.shown}, line {line}"
        return ConfigurationError(f"{where}: {message}", hint=hint)


def read_toml(file: Path, shown: str, *, within: Path | None = None) -> TomlFile | None:
    """What *file* holds; None if there is none. *shown* is its name in errors.

    With *within*, the file came with that folder: it may not be a link that leads out of it, and
    nobody else may be able to write to it. Raises `ConfigurationError`.
    """
    if within is not None:
        _check_link(file, shown, within)
    data = _read(file, shown, within)
    if data is None:
        return None
    try:
        text = data.decode("utf-8-sig")  # some editors put a mark there
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _wrong(f"{shown}, line {line}", "it is not UTF-8", "save it as UTF-8") from None
    return TomlFile(Path(os.path.realpath(file)), shown, text, parse_toml(text, shown))


def parse_toml(text: str, shown: str) -> dict[str, Any]:
    """The content of *text*. Raises `ConfigurationError` with the line."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _wrong(shown, "it is nested too deeply") from None
    except ValueError as error:  # a number with too many digits is a plain one
        message = str(error).splitlines()[0]
        found = _PLACE.search(message)
        where = shown
        if found is not None:
            message = message[: found.start()]
            where += f", line {found[1]}" if found[1] else ", at its end"
        raise _wrong(where, f"it is not valid TOML: {message}", _TOML_HINT) from None


_TOML_HINT = 'a line is `key = "text"`, `key = 5`, `key = ["a", "b"]` or `[table]`'


def _check_link(file: Path, shown: str, within: Path) -> None:
    """Who trusts a folder has looked at what is in it, not at what its links lead to: there,
    somebody else may decide what the settings are."""
    for path in (file.parent, file):
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(os.path.realpath(within)):
            raise _wrong(
                shown, "it is a link that leads out of the project", "put the file itself there"
            )


def _read(file: Path, shown: str, within: Path | None) -> bytes | None:
    # O_NONBLOCK: a pipe in its place must not hang us.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        descriptor = os.open(file, flags)
    except FileNotFoundError:
        if os.path.islink(file):
            raise _wrong(shown, "it is a link to nothing", "mend or delete the link") from None
        return None
    except NotADirectoryError:
        return None
    except OSError as error:
        if os.path.isdir(file):  # Windows refuses to open one
            raise _wrong(shown, "it is a folder", "a file belongs there") from None
        raise _wrong(shown, f"it cannot be read: {error.strerror or error}") from None
    try:
        found = os.fstat(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise _wrong(shown, "it is a folder", "a file belongs there")
        if not stat.S_ISREG(found.st_mode):
            raise _wrong(shown, "it is no regular file", "a file belongs there")
        if within is not None:
            _check_owner(found, os.stat(file.parent), os.stat(within), shown)
        with open(descriptor, "rb", closefd=False) as opened:
            data = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise _wrong(shown, f"it cannot be read: {error.strerror or error}") from None
    finally:
        os.close(descriptor)
    if len(data) > MOST_BYTES:
        raise _wrong(shown, f"it is larger than {MOST_BYTES // 1024} KB", "no settings are so many")
    return data


def _check_owner(
    file: os.stat_result, folder: os.stat_result, project: os.stat_result, shown: str
) -> None:
    """Trust in a folder is trust in its owner, as `TrustFile` has it."""
    if os.name != "posix":
        return
    for found in (file, folder):
        if found.st_uid not in (os.geteuid(), 0, project.st_uid):
            raise _wrong(
                shown, "it belongs to another user", "copy it, so that it is yours, if you want it"
            )
        if found.st_mode & stat.S_IWOTH:
            raise _wrong(shown, "everybody may write to it", f"chmod -R o-w {Path(shown).parent}")


def _wrong(where: str, message: str, hint: str | None = None) -> ConfigurationError:
    return ConfigurationError(f"{where}: {message}", hint=hint)
