"""Which settings hold: what the user, the project and the environment say, one over the other.

    default      what settings/schema.py says
    user         settings.toml in the user's configuration folder
    grants       rules that the user granted with "always" in this folder
    project      .loopwright/settings.toml, if the folder is trusted
    LOOPWRIGHT_MODEL

Options of the command line come on top, where they are used.

The later one counts. Tables are merged key by key, and the rules of all of them hold; any other
list is replaced. A project's file gives orders to this program (whom to ask, what to run), so an
untrusted one is not even opened.

Paths in a file are relative to its folder, those in a project's file to the project; `~` is the
user's home. In `LoadedSettings` they are absolute.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from ...errors import ConfigurationError
from ...permissions.rules import EFFECTS, Rule, parse_rules
from ...permissions.trust import what_needs_trust
from ..places import (
    MODEL_VARIABLE,
    grants_file,
    model_from_environment,
    project_settings_file,
    shown_path,
    user_settings_file,
)
from .check import RULE_LISTS, Key, WrongSetting, check_table, leaves, merged, type_of
from .grants import granted_rules
from .schema import Settings
from .toml_file import TomlFile, read_toml

__all__ = [
    "Layer",
    "LayerName",
    "LoadedSettings",
    "all_settings",
    "check_content",
    "check_file",
    "load_settings",
    "project_file",
    "user_file",
]

LayerName = Literal["default", "user", "grants", "project", "environment"]

_PATHS: tuple[Key, ...] = (
    ("permissions", "readable"),
    ("permissions", "writable"),
    ("skills", "paths"),
    ("templates", "paths"),
    ("extensions", "load"),
)

_WIDTH = ("read-only", "ask", "auto-edit", "yolo")
"""Modes of permissions, from the narrowest on."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One place that says something."""

    name: LayerName
    shown: str
    """For people: a file or a variable."""


DEFAULT = Layer("default", "default")


@dataclass(frozen=True)
class LoadedSettings:
    """The settings that hold, and where each comes from."""

    settings: Settings
    rules: list[Rule]
    """Those of all layers; each knows where it stands."""
    notes: list[str]
    """What the user should be told."""
    content: dict[str, Any] = field(default_factory=dict[str, Any])
    """What is set, as in a file."""
    origins: Mapping[Key, tuple[Layer, ...]] = field(default_factory=dict[Key, tuple[Layer, ...]])
    """Who set it; several for lists of rules. What is not in there is the default."""

    def source_of(self, key: str) -> str:
        """Where the value of *key*, such as `permissions.mode`, comes from: files, a variable, or
        `default`. Raises KeyError if there is no such key."""
        return " and ".join(layer.shown for layer in self.layers_of(tuple(key.split("."))))

    def layers_of(self, key: Key) -> tuple[Layer, ...]:
        """Who set *key*, the weakest first. Raises KeyError if there is no such key."""
        try:
            type_of(key)
        except WrongSetting as error:
            raise KeyError(error.message) from None
        found = self.origins.get(key)
        if found is None:  # of a table: of what is in it
            inner = [layers for at, layers in self.origins.items() if at[: len(key)] == key]
            found = tuple(dict.fromkeys(layer for layers in inner for layer in layers))
        return found or (DEFAULT,)

    def _over(self, key: Key, value: Any, layer: Layer) -> LoadedSettings:
        table: dict[str, Any] = {key[-1]: value}
        for name in reversed(key[:-1]):
            table = {name: table}
        try:
            check_table(table)
        except WrongSetting as error:
            raise ConfigurationError(f"{layer.shown}: {error.message}", hint=error.hint) from None
        return _add(self, table, layer)


def load_settings(folder: Path, *, trusted: bool) -> LoadedSettings:
    """The settings for work in *folder*, the project's among them if it is *trusted*.

    Raises `ConfigurationError` that names the file, the line if it is known, the key, and what is
    right there.
    """
    loaded = LoadedSettings(Settings(), [], [])
    user = user_file()
    if user is not None:
        loaded = _add(loaded, user.content, Layer("user", user.shown), user)
    try:
        granted = granted_rules(folder)
    except ConfigurationError as error:  # without them, more is asked for
        loaded.notes.append(f"{error.message}; {error.hint}" if error.hint else error.message)
        granted = []
    if granted:
        loaded = _add_granted(loaded, granted)
    if trusted:
        project = project_file(folder)
        if project is not None:
            before = loaded.settings.permissions.mode
            loaded = _add(loaded, project.content, Layer("project", project.shown), project)
            mode = loaded.settings.permissions.mode
            if _WIDTH.index(mode) > _WIDTH.index(before):
                loaded.notes.append(f'{project.shown} sets permissions.mode to "{mode}"')
    else:
        waiting = what_needs_trust(folder)
        if waiting:
            names = ", ".join(str(path.relative_to(folder)) for path in waiting)
            loaded.notes.append(
                f"{names}: passed over, since this folder is not trusted; to trust it: "
                "loopwright trust"
            )
    model = model_from_environment()
    if model is not None:
        loaded = loaded._over(("model",), model, Layer("environment", MODEL_VARIABLE))  # pyright: ignore[reportPrivateUsage]
    return loaded


def user_file() -> TomlFile | None:
    """The user's file, checked; None if there is none. Raises `ConfigurationError`.

    It may be a link: many keep such files elsewhere.
    """
    file = user_settings_file()
    found = read_toml(file, shown_path(file))
    return None if found is None else check_file(found, file.parent)


def project_file(folder: Path) -> TomlFile | None:
    """The file of the project in *folder*, checked; only for folders that are trusted."""
    file = project_settings_file(folder)
    found = read_toml(file, str(file.relative_to(folder)), within=folder)
    return None if found is None else check_file(found, folder)


def check_content(file: TomlFile) -> list[Rule]:
    """The rules in *file*. Raises `ConfigurationError` if anything in it is wrong."""
    try:
        check_table(file.content)
    except WrongSetting as error:
        raise file.wrong(error.message, key=error.key, hint=error.hint) from None
    table = file.content.get("permissions", {})
    lists = {effect: table[effect] for effect in EFFECTS if effect in table}
    return parse_rules(lists, where=f"{file.shown}: permissions")


def check_file(file: TomlFile, base: Path) -> TomlFile:
    """*file* with its paths made absolute, relative ones being in *base*.

    Raises `ConfigurationError` if anything in it is wrong.
    """
    check_content(file)
    content = file.content
    for key in _PATHS:
        table = content.get(key[0], {})
        if key[1] in table:
            paths = [_absolute(text, base, key, file) for text in table[key[1]]]
            content = merged(content, {key[0]: {key[1]: paths}})
    return replace(file, content=content)


def _absolute(text: str, base: Path, key: Key, file: TomlFile) -> str:
    variable = ""
    if key == ("extensions", "load"):
        file_text, colon, name = text.rpartition(":")
        if colon and file_text.endswith(".py"):
            # Left as it is it would be looked for in whatever folder the program is started in.
            text, variable = file_text, f":{name}"
        elif not text.endswith(".py"):
            if colon:
                return text
            raise file.wrong(
                f"`extensions.load` cannot have {text!r}",
                key=key,
                hint='write "module:variable", or the path of a .py file',
            )
    try:
        path = Path(text).expanduser()
    except RuntimeError as error:
        raise file.wrong(f"`{'.'.join(key)}` has {text!r}: {error}", key=key) from None
    return os.path.normpath(Path(os.path.abspath(base)) / path) + variable


def _add(
    loaded: LoadedSettings, table: Mapping[str, Any], layer: Layer, file: TomlFile | None = None
) -> LoadedSettings:
    """*table*, which was checked, over what is *loaded*."""
    content = merged(loaded.content, table)
    origins = dict(loaded.origins)
    for key in _keys_of(table):
        origins[key] = (*origins.get(key, ()), layer) if key in RULE_LISTS else (layer,)
    rules = [] if file is None else check_content(file)
    return replace(
        loaded,
        settings=msgspec.convert(content, Settings),
        rules=[*loaded.rules, *rules],
        content=content,
        origins=origins,
    )


def _add_granted(loaded: LoadedSettings, granted: list[Rule]) -> LoadedSettings:
    table = {"permissions": {"allow": [str(rule) for rule in granted]}}
    added = _add(loaded, table, Layer("grants", shown_path(grants_file())))
    return replace(added, rules=[*loaded.rules, *granted])


def _keys_of(table: Mapping[str, Any], at: Key = ()) -> list[Key]:
    keys: list[Key] = []
    for name, value in table.items():
        key = (*at, name)
        keys += _keys_of(cast("dict[str, Any]", value), key) if isinstance(value, dict) else [key]
    return keys


def all_settings(loaded: LoadedSettings) -> list[tuple[Key, Any, tuple[Layer, ...]]]:
    """Every setting, its value, and who set it."""
    return [(key, value, loaded.layers_of(key)) for key, value in leaves(loaded.settings)]
