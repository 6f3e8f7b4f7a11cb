"""Changing one key in a settings file that people write: comments and order stay as they are.

What comes out is read back before it is written. If it does not hold exactly what it held before
and the one change, or would not load, the file is left alone.

Not here: the command (settings/command.py).
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

from ...errors import ConfigurationError
from ...whole_file import write_whole_file
from ..places import project_settings_file, shown_path, user_settings_file
from .check import Key, WrongSetting, check_table, describe, is_table, type_of
from .files import check_file
from .toml_file import TomlFile, read_toml
from .toml_lines import toml_value, with_new_key, without_key

__all__ = ["EditedFile", "parse_key", "parse_value", "set_value", "unset_key"]


@dataclass(frozen=True, slots=True)
class EditedFile:
    """The file to be changed: the user's, or that of a project."""

    path: Path
    shown: str
    project: Path | None = None

    @classmethod
    def of_user(cls) -> EditedFile:
        """The user's settings.toml."""
        path = user_settings_file()
        return cls(path, shown_path(path))

    @classmethod
    def of_project(cls, folder: Path) -> EditedFile:
        """`.loopwright/settings.toml` in *folder*."""
        path = project_settings_file(folder)
        return cls(path, str(path.relative_to(folder)), folder)


def parse_key(text: str) -> Key:
    """*text*, such as `permissions.mode`, as a key. Raises `ConfigurationError` if it is none."""
    key = tuple(text.split("."))
    try:
        type_of(key)
    except WrongSetting as error:
        raise ConfigurationError(error.message, hint=error.hint) from None
    return key


def parse_value(key: Key, text: str) -> Any:
    """The value that *text* stands for: TOML, but a text needs no quotes.

    Raises `ConfigurationError` if *key* cannot have it.
    """
    name = ".".join(key)
    kind = type_of(key)
    if is_table(key):
        raise ConfigurationError(
            f"`{name}` is a table", hint=f"name a key in it, such as `{name}.KEY`"
        )
    value: Any = text
    if not _is_text(kind) or text[:1] in ('"', "'"):
        try:
            table = tomllib.loads(f"value = {text}")
        except (ValueError, RecursionError):
            table = {}
        if set(table) != {"value"}:  # no TOML, or more than one line of it
            raise ConfigurationError(f"`{name}` cannot be {text!r}", hint=f"it is {describe(kind)}")
        value = table["value"]
    table = value
    for part in reversed(key):
        table = {part: table}
    try:
        check_table(cast("dict[str, Any]", table))
    except WrongSetting as error:
        raise ConfigurationError(error.message, hint=error.hint) from None
    return value


def set_value(file: EditedFile, key: Key, value: Any) -> None:
    """Write *value* for *key* into *file*. Raises `ConfigurationError` if it would not load, or
    cannot be written; nothing was changed then."""

    def change(content: dict[str, Any]) -> None:
        table = content
        for name in key[:-1]:
            table = table.setdefault(name, {})
        table[key[-1]] = value

    proposals = partial(with_new_key, key=key, value=value), partial(_put, key=key, value=value)
    _edit(file, key, change, proposals, check=True)


def unset_key(file: EditedFile, key: Sequence[str]) -> bool:
    """Take *key*, a value or a whole table, out of *file*. False if it is not in there.

    It need not be a key that there is, so that a file can be mended. Raises `ConfigurationError`.
    """
    found = read_toml(file.path, file.shown, within=file.project)
    if found is None or not _has(found.content, key):
        return False

    def change(content: dict[str, Any]) -> None:
        table = content
        for name in key[:-1]:
            table = table[name]
        del table[key[-1]]

    proposals = partial(without_key, key=key), partial(_drop, key=key)
    _edit(file, key, change, proposals, check=False)
    return True


# -- the document ------------------------------------------------------------------------------


def _put(text: str, key: Key, value: Any) -> str:
    """*value* in place of the one that is there; its comment stays."""
    import tomlkit
    from tomlkit.items import InlineTable

    document = tomlkit.parse(text)
    table: Any = document
    for name in key[:-1]:
        if name not in table:
            is_inline = isinstance(table, InlineTable)
            table[name] = tomlkit.inline_table() if is_inline else tomlkit.table()
        table = table[name]
    item: Any = value
    if isinstance(value, list):
        item = tomlkit.array(toml_value(value))
    table[key[-1]] = item
    return tomlkit.dumps(document)


def _drop(text: str, key: Sequence[str]) -> str:
    import tomlkit

    document = tomlkit.parse(text)
    table: Any = document
    for name in key[:-1]:
        table = table[name]
    del table[key[-1]]
    return tomlkit.dumps(document)


def _edit(
    file: EditedFile,
    key: Sequence[str],
    change: Callable[[dict[str, Any]], None],
    proposals: Sequence[Callable[[str], str | None]],
    *,
    check: bool,
) -> None:
    """Write the first of *proposals* that means the same as what *change* makes of the content."""
    _make_folder(file)
    with _alone(file.path.parent):
        found = read_toml(file.path, file.shown, within=file.project)
        text = "" if found is None else found.text
        wanted = tomllib.loads(text)
        try:
            change(wanted)
        except (TypeError, KeyError, AttributeError):  # there is no table where one should be
            raise _stuck(file, key) from None
        if check:
            _check(file, found, wanted)
        new = next((t for p in proposals if (t := _proposed(p, text, wanted)) is not None), None)
        if new is None:
            raise _stuck(file, key)
        _replace(file, Path(os.path.realpath(file.path)), new.encode())


def _proposed(
    propose: Callable[[str], str | None], text: str, wanted: dict[str, Any]
) -> str | None:
    try:
        new = propose(text)
        if new is not None and _filled(tomllib.loads(new)) == _filled(wanted):
            return new
    except Exception:  # noqa: BLE001 - tomlkit does not know every form that TOML has
        return None
    return None


def _stuck(file: EditedFile, key: Sequence[str]) -> ConfigurationError:
    return ConfigurationError(
        f"{file.shown} cannot be changed there without rewriting it",
        hint=f"change `{'.'.join(key)}` in an editor: {file.path}",
    )


def _has(content: dict[str, Any], key: Sequence[str]) -> bool:
    table: Any = content
    for name in key:
        if not isinstance(table, dict) or name not in table:
            return False
        table = cast("dict[str, Any]", table)[name]
    return True


def _check(file: EditedFile, found: TomlFile | None, content: dict[str, Any]) -> None:
    """Raises if *content* would not load; with the line if it was wrong before."""
    try:
        # Without its text: nobody has seen those lines yet.
        check_file(TomlFile(file.path, file.shown, "", content), file.path.parent)
    except ConfigurationError:
        if found is not None:
            check_file(found, file.path.parent)
        raise


def _filled(table: dict[str, Any]) -> dict[str, Any]:
    """*table* without empty tables in it: the last key may take its table with it, or not."""
    below = {
        name: _filled(cast("dict[str, Any]", value)) if isinstance(value, dict) else value
        for name, value in table.items()
    }
    return {name: value for name, value in below.items() if value != {}}


# -- the file ----------------------------------------------------------------------------------


def _make_folder(file: EditedFile) -> None:
    try:
        mode = 0o700 if file.project is None else 0o777
        file.path.parent.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{file.path.parent} cannot be made: {error.strerror or error}"
        ) from None


@contextmanager
def _alone(folder: Path) -> Generator[None, None, None]:
    """Two processes that change the file at once lose nothing. The folder itself is the lock, so
    that no other file is left in a project; where that cannot be locked (NFS), nothing is."""
    if os.name != "posix":
        yield
        return
    import fcntl

    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be used: {error.strerror or error}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            pass
        yield
    finally:
        os.close(descriptor)


def _replace(file: EditedFile, path: Path, data: bytes) -> None:
    """A link stays one: what it leads to is replaced."""
    try:
        old = os.stat(path) if path.exists() else None
        if old is not None and not os.access(path, os.W_OK):
            raise PermissionError(13, "it is write-protected")
        write_whole_file(path, data, prepare=partial(_take_after, old=old, file=file))
    except OSError as error:
        raise ConfigurationError(
            f"{file.shown} cannot be written: {error.strerror or error}",
            hint="look at the rights of the file and its folder",
        ) from None


def _take_after(descriptor: int, old: os.stat_result | None, file: EditedFile) -> None:
    if os.name != "posix":
        return
    if old is None:
        if file.project is not None:  # others work there, too
            mask = os.umask(0o077)
            os.umask(mask)
            os.fchmod(descriptor, 0o666 & ~mask)
        return
    if old.st_uid != os.geteuid():
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _is_text(kind: Any) -> bool:
    """Whether every value of the type *kind* is a text."""
    if kind is str or get_origin(kind) is Literal:
        return True
    return any(_is_text(one) for one in get_args(kind)) and get_origin(kind) is not list
