"""Rules that the user granted with "always", kept for the folder in which it was said.

    version = 1

    [folders."/srv/project"]
    owner = 1000
    allow = ["bash(npm test)"]

A folder is known by its real path and its owner: if somebody else puts another folder in its place
(in /tmp, say), nothing is granted there. What was granted in a folder does not hold above or below
it, since the paths in rules are relative to it.

Not here: asking (permissions/gate.py), or what else is set (settings/files.py).
"""

from __future__ import annotations

import os
import stat
import tomllib

import msgspec

from ...errors import ConfigurationError
from ...permissions.private_file import PrivateFile
from ...permissions.rules import Rule, parse_rule
from ..places import grants_file, shown_path
from .toml_lines import toml_value

__all__ = ["add_grant", "forget_grants", "granted_rules"]

FORMAT = 1


class _Folder(msgspec.Struct, forbid_unknown_fields=True):
    owner: int
    allow: list[str]


class _Content(msgspec.Struct, forbid_unknown_fields=True):
    version: int = FORMAT
    folders: dict[str, _Folder] = {}


def granted_rules(folder: str | os.PathLike[str]) -> list[Rule]:
    """What was granted in *folder*. Raises `ConfigurationError` if the file cannot be believed."""
    real = os.path.realpath(folder)
    kept = _read(_file()).folders.get(real)
    if kept is None or kept.owner != _owner(real):
        return []
    where = f"{shown_path(grants_file())}: allow"
    return [
        parse_rule("allow", text, where=f"{where}[{number}]")
        for number, text in enumerate(kept.allow, start=1)
    ]


def add_grant(folder: str | os.PathLike[str], rule: Rule) -> None:
    """Grant *rule* in *folder* from now on. Blocks for a moment.

    Raises `ConfigurationError` if it cannot be kept: the folder may be written by everybody, the
    file cannot be believed or written, or the rule is no allowance.
    """
    text = str(rule)
    if rule.effect != "allow" or parse_rule("allow", text) != rule:
        raise ConfigurationError(
            f"the rule {text!r} cannot be granted", hint="only what allows something is granted"
        )
    real = os.path.realpath(folder)
    owner = _owner(real)
    if owner is None:
        raise ConfigurationError(
            f"{real} may be written by everybody, or is gone, so no rule is kept for it",
            hint=f"chmod o-w {real}",
        )
    file = _file()
    with file.alone():
        content = _read(file)
        kept = content.folders.get(real)
        if kept is None or kept.owner != owner:  # what was granted for another one is no good
            kept = content.folders[real] = _Folder(owner, [])
        if text not in kept.allow:
            kept.allow.append(text)
            _write(file, content)


def forget_grants(folder: str | os.PathLike[str]) -> int:
    """Take back all that was granted in *folder*. Returns how many rules that were."""
    file = _file()
    if not os.path.lexists(file.path):
        return 0
    with file.alone():
        content = _read(file)
        kept = content.folders.pop(os.path.realpath(folder), None)
        if kept is None:
            return 0
        _write(file, content)
    return len(kept.allow)


def _file() -> PrivateFile:
    return PrivateFile(grants_file(), "so no rule in it counts")


def _read(file: PrivateFile) -> _Content:
    data = file.read()
    if data is None:
        return _Content(folders={})
    try:
        content = msgspec.convert(tomllib.loads(data.decode()), _Content)
    except (ValueError, RecursionError):  # not UTF-8, not TOML, not of this form
        raise file.unsafe("is not a list of granted rules") from None
    if content.version != FORMAT:
        raise file.unsafe(f"is not of version {FORMAT}")
    return content


def _write(file: PrivateFile, content: _Content) -> None:
    lines = ['# Granted with "always". Change it if you like.', f"version = {content.version}"]
    for name, kept in sorted(content.folders.items()):
        lines += ["", f"[folders.{toml_value(name)}]", f"owner = {kept.owner}", "allow = ["]
        lines += [f"    {toml_value(text)}," for text in kept.allow]
        lines += ["]"]
    try:
        data = "".join(line + "\n" for line in lines).encode()
    except UnicodeEncodeError:  # a half of a character in a folder's name or a command
        raise ConfigurationError(
            "this rule cannot be kept: it has characters that are no text",
            hint="it holds until the program ends",
        ) from None
    file.replace(data)


def _owner(real: str) -> int | None:
    """Whose folder it is. None if it is gone, or if everybody may write to it."""
    try:
        found = os.stat(real)
    except OSError:
        return None
    if os.name != "posix":
        return 0
    return None if found.st_mode & stat.S_IWOTH else found.st_uid
