"""`loopwright config [get | set | unset | path]`: what holds, who said it, and how to change it.

Not here: what there is to set (settings/schema.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from ...errors import ConfigurationError
from ..exit_codes import ExitCode
from ..options import Mode
from ..places import (
    grants_file,
    project_settings_file,
    shown_path,
    user_settings_file,
    working_folder,
)
from ..streams import Output, Piece, print_error, print_note
from .check import RULE_LISTS, Key, is_table
from .edit import EditedFile, parse_key, parse_value, set_value, unset_key
from .files import Layer, LoadedSettings, all_settings, load_settings
from .toml_lines import toml_value
from .trust import is_trusted

__all__ = ["get_setting", "print_path", "set_setting", "show_settings", "unset_setting"]

SOURCE_COLUMN = 26
"""Before the end of the line, for who said it."""

Row = tuple[Key, Any, tuple[Layer, ...]]


def show_settings(mode: Mode) -> ExitCode:
    """Print every setting with its value and who set it."""
    folder = working_folder()
    trusted = is_trusted(folder)
    loaded = load_settings(folder, trusted=trusted)
    output = Output(sys.stdout)
    rows = all_settings(loaded)
    if mode == "json":
        for row in rows:
            output.write_line_of_bytes(_as_json(row))
    else:
        output.write_pieces(_legend(folder, trusted))
        output.write_pieces(_pieces(rows, loaded, output.width))
    for note in loaded.notes:
        print_note(note)
    return ExitCode.DONE


def get_setting(name: str, mode: Mode) -> ExitCode:
    """Print the value of one setting: a text as it is, anything else as TOML; or a whole table."""
    key = parse_key(name)
    folder = working_folder()
    loaded = load_settings(folder, trusted=is_trusted(folder))
    rows = [row for row in all_settings(loaded) if row[0][: len(key)] == key]
    output = Output(sys.stdout)
    if mode == "json":
        for row in rows:
            output.write_line_of_bytes(_as_json(row))
    elif is_table(key):
        output.write_pieces(_pieces(rows, loaded, output.width))
    else:
        value = rows[0][1] if rows else None
        if value is None:
            print_error(f"{name} is not set", hint=f"loopwright config set {name} VALUE")
            return ExitCode.FAILED
        output.write((value if isinstance(value, str) else _toml(value)) + "\n")
    return ExitCode.DONE


def set_setting(name: str, text: str, *, project: bool) -> ExitCode:
    """Write a setting into the user's file, or into the project's."""
    key = parse_key(name)
    value = parse_value(key, text)
    file = _file(project)
    set_value(file, key, value)
    print_note(f"{name} = {_toml(value)}, in {file.shown}")
    _say_what_holds(key, file)
    return ExitCode.DONE


def unset_setting(name: str, *, project: bool) -> ExitCode:
    """Take a setting, or a whole table, out of the user's file, or out of the project's."""
    file = _file(project)
    key = tuple(name.split("."))
    if not unset_key(file, key):
        print_error(
            f"{name} is not set in {file.shown}", hint="loopwright config shows where it is"
        )
        return ExitCode.FAILED
    print_note(f"{name} is taken out of {file.shown}")
    return ExitCode.DONE


def print_path(*, project: bool) -> ExitCode:
    """Print where the user's file is, or the project's, whether or not it is there."""
    Output(sys.stdout).write(f"{_file(project).path}\n")
    return ExitCode.DONE


def _file(project: bool) -> EditedFile:
    return EditedFile.of_project(working_folder()) if project else EditedFile.of_user()


def _say_what_holds(key: Key, file: EditedFile) -> None:
    """Something stronger may say otherwise, or nobody may listen."""
    folder = working_folder()
    trusted = is_trusted(folder)
    if file.project is not None and not trusted:
        print_note("it is passed over until the folder is trusted: loopwright trust")
        return
    try:
        loaded = load_settings(folder, trusted=trusted)
    except ConfigurationError:  # the other file is wrong; whoever runs something will hear of it
        return
    layers = loaded.layers_of(key)
    if file.shown not in [layer.shown for layer in layers]:
        print_note(f"but {layers[-1].shown} says otherwise, and comes before it")


# -- as text -----------------------------------------------------------------------------------


def _legend(folder: Path, trusted: bool) -> list[Piece]:
    user, project = user_settings_file(), project_settings_file(folder)
    lines = [("user", shown_path(user), "" if os.path.exists(user) else "not there")]
    if os.path.exists(grants_file()):
        lines.append(("grants", shown_path(grants_file()), ""))
    state = (
        ("" if trusted else "not trusted: passed over") if os.path.exists(project) else "not there"
    )
    lines.append(("project", str(project.relative_to(folder)), state))
    return [
        Piece(f"# {name:<8} {file}{f' ({state})' if state else ''}\n", "quiet")
        for name, file, state in lines
    ]


def _pieces(rows: Sequence[Row], loaded: LoadedSettings, width: int) -> Iterable[Piece]:
    """The rows as tables, as in TOML, except that `not set` stands for what TOML cannot say."""
    sections: dict[Key, list[Row]] = {}
    for row in rows:
        sections.setdefault(row[0][:-1], []).append(row)
    for section, inner in sections.items():
        if section:
            yield Piece(f"\n[{'.'.join(section)}]\n", "event")
        longest = max(len(key[-1]) for key, _, _ in inner)
        for key, value, layers in inner:
            head = f"{key[-1]:<{longest}} = "
            if key in RULE_LISTS and len(value) > 1:
                yield from _rules(key[-1], head, loaded, width)
            else:
                yield from _setting(head, value, layers, width)


def _setting(head: str, value: Any, layers: Sequence[Layer], width: int) -> Iterable[Piece]:
    source = ", ".join(_short(layer) for layer in layers)
    text = "not set" if value is None else _toml(value)
    if isinstance(value, list) and len(head) + len(text) + 2 > width - SOURCE_COLUMN:
        yield from _line(f"{head}[", source, width)
        for item in cast("list[Any]", value):
            yield Piece(f"    {_toml(item)},\n")
        yield Piece("]\n")
    else:
        yield from _line(head + text, source, width)


def _rules(effect: str, head: str, loaded: LoadedSettings, width: int) -> Iterable[Piece]:
    yield Piece(f"{head}[\n")
    layers = loaded.layers_of(("permissions", effect))
    for rule in loaded.rules:
        if rule.effect == effect:
            source = next((one for one in layers if rule.where.startswith(one.shown)), None)
            shown = "" if source is None else _short(source)
            yield from _line(f"    {_toml(str(rule))},", shown, width)
    yield Piece("]\n")


def _line(text: str, source: str, width: int) -> Iterable[Piece]:
    column = max(len(text) + 2, width - SOURCE_COLUMN)
    if column + len(source) + 2 > width:  # no room behind it
        yield Piece(f"# {source}:\n", "quiet")
        yield Piece(f"{text}\n")
    else:
        yield Piece(text.ljust(column))
        yield Piece(f"# {source}\n", "quiet")


def _short(layer: Layer) -> str:
    return layer.name if layer.name in ("default", "user", "grants", "project") else layer.shown


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(item) for item in cast("list[Any]", value)) + "]"
    return toml_value(value)


# -- as JSON -----------------------------------------------------------------------------------


def _as_json(row: Row) -> bytes:
    key, value, layers = row
    sources = [{"layer": layer.name, "name": layer.shown} for layer in layers]
    return msgspec.json.encode({"key": ".".join(key), "value": value, "sources": sources})
