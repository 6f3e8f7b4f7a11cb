"""Loading extensions: what other people wrote is brought in, looked at, and made to fit together.

The first of a name wins: what the user named comes before installed packages, and those before the
files of the project. Whatever is wrong with one is a sentence for the user and never stops the
start.

Not here: where they are (discovery.py), importing (importing.py), what calls their hooks
(combining.py).
"""

from __future__ import annotations

import copy
import inspect
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from .discovery import Announced, announced, project_files
from .extension import Extension
from .importing import (
    ImportFailed,
    foreign_code,
    import_file,
    import_module,
    split_reference,
    variable_of,
    why,
)

__all__ = ["LoadedExtensions", "load_extensions"]

VARIABLE = "extension"
"""Where a module or file has its extension, unless said."""


@dataclass(slots=True)
class LoadedExtensions:
    """What was found, in the order in which hooks are called, and what was wrong with the rest."""

    extensions: list[Extension] = field(default_factory=list[Extension])
    """No two of them have a tool, a command or a provider of the same name."""
    faults: list[str] = field(default_factory=list[str])
    """One sentence each. They quote foreign code: neutralize them before they are shown."""
    sources: dict[str, str] = field(default_factory=dict[str, str])
    """Name of an extension -> where it came from, in words."""


def load_extensions(
    *,
    disabled: Collection[str] = (),
    extra: Sequence[str] = (),
    project: Path | None = None,
    folder: Path | None = None,
    reserved: Collection[str] = (),
    reserved_tools: Collection[str] = (),
) -> LoadedExtensions:
    """Every extension there is for work in *folder* (the current one, unless said).

    Loaded are, in this order: *extra*, each `module:variable` or a path to a .py file, relative to
    *folder* (`:variable` may be left out: `extension`); entry points of the group
    `loopwright.extensions`; and if *project* is given, the files in its `.loopwright/extensions`.
    Give it only if the user trusts it: they are run.

    What is found is an `Extension`, several in a list, or a function without arguments that returns
    that. What is named in *disabled*, by the name of the entry point, the file or the extension, is
    left out; by the first two it is not even imported. *reserved* are the commands, *reserved_tools*
    the tools that an extension cannot have because the program does.

    Raises nothing. Blocks for as long as the imports take.
    """
    folder = Path.cwd() if folder is None else folder
    loading = _Loading({_plain(name) for name in disabled}, reserved, reserved_tools)
    for reference in extra:
        loading.add_reference(reference, folder)
    found, faults = announced(but_not_in=folder if project is None else None)
    loading.loaded.faults += faults
    for each in found:
        loading.add_announced(each)
    if project is not None:
        files, faults = project_files(project)
        loading.loaded.faults += faults
        for file in files:
            loading.add_file(file)
    return loading.loaded


class _Loading:
    """One call of `load_extensions`."""

    def __init__(
        self, disabled: set[str], reserved: Collection[str], reserved_tools: Collection[str]
    ) -> None:
        self.loaded = LoadedExtensions()
        self._disabled = disabled
        # Of what kind, by what name -> who has it.
        self._owners = {
            **{("command", name): "the program" for name in reserved},
            **{("tool", name): "the program" for name in reserved_tools},
        }

    # -- where they come from ------------------------------------------------------------------

    def add_reference(self, reference: str, folder: Path) -> None:
        with self._told(f"extension {reference!r}") as source:
            target, variable = found = split_reference(reference)
            file = folder / os.path.expanduser(target)
            if self._off(reference, file.stem if found.is_path else target):
                return
            module = _import_loose(file) if found.is_path else import_module(target)
            self._take(module, target, variable, source.words)

    def add_announced(self, each: Announced) -> None:
        if self._off(each.name, each.package):
            return
        with self._told(f"extension {each.name!r} of the package {each.package}") as source:
            # Extras in brackets may follow; they are for whoever installs.
            target, variable = split_reference(each.entry_point.value.partition("[")[0])
            self._take(import_module(target), target, variable, source.words)

    def add_file(self, file: Path) -> None:
        name = file.parent.name if file.name == "__init__.py" else file.stem
        if self._off(name):
            return
        with self._told(f"extension {file}") as source:
            self._take(_import_loose(file), file.name, None, source.words)

    def _off(self, *names: str) -> bool:
        return any(_plain(name) in self._disabled for name in names)

    def _told(self, words: str) -> _Told:
        return _Told(words, self.loaded.faults)

    # -- what they are -------------------------------------------------------------------------

    def _take(self, module: ModuleType, target: str, variable: str | None, source: str) -> None:
        variable = variable or VARIABLE
        for extension in _extensions_in(variable_of(module, variable, target), variable):
            if self._off(extension.name):
                continue
            if extension.name in self.loaded.sources:
                self.loaded.faults.append(
                    f"two extensions are named {extension.name!r}: {source} is not used, "
                    f"{self.loaded.sources[extension.name]} is"
                )
                continue
            fitted = self._fitted(extension)
            self.loaded.sources[extension.name] = source
            self.loaded.extensions.append(fitted)

    def _fitted(self, extension: Extension) -> Extension:
        """*extension* without what cannot be used beside the others."""
        here = f"extension {extension.name!r}"
        tools = [tool for tool in extension.tools if self._can_be_used(tool, here)]
        fields = {
            "tools": self._unclaimed("tool", tools, lambda tool: tool.name, here),
            "commands": self._unclaimed("command", extension.commands, lambda c: c.name, here),
            "providers": self._unclaimed("provider", extension.providers, lambda p: p.id, here),
        }
        fitted = copy.copy(extension)  # not `replace`: a subclass may be made in ways of its own
        for name, values in fields.items():
            object.__setattr__(fitted, name, values)
        return fitted

    def _can_be_used(self, tool: Any, here: str) -> bool:
        """Builds its schema now, since an agent refuses the whole list for one bad tool."""
        with self._told(f"the tool {tool.name!r} of {here}"), foreign_code("its schema"):
            tool.check()
            return True
        return False

    def _unclaimed(
        self, kind: str, values: Sequence[Any], name_of: Callable[[Any], str], here: str
    ) -> tuple[Any, ...]:
        kept: list[Any] = []
        for value in values:
            name = name_of(value)
            owner = self._owners.setdefault((kind, name), here)
            if owner == here:
                kept.append(value)
            else:
                self.loaded.faults.append(
                    f"two {kind}s are named {name!r}: that of {here} is not used, "
                    f"that of {owner} is"
                )
        return tuple(kept)


class _Told:
    """What fails in here becomes a fault, beginning with the words for what was being loaded."""

    def __init__(self, words: str, faults: list[str]) -> None:
        self.words = words
        self._faults = faults

    def __enter__(self) -> _Told:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):  # Ctrl-C, or none
            return False
        failure = error if isinstance(error, ImportFailed) else ImportFailed(f"it {why(error)}")
        hint = f"; {failure.hint}" if failure.hint else ""
        fault = f"{self.words} was not loaded: {failure}{hint}"
        self._faults.append(" ".join(fault.splitlines()))
        return True


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _import_loose(file: Path) -> ModuleType:
    """The module in a file that no package is known for: named so that two can have one name."""
    name = file.parent.name if file.name == "__init__.py" else file.stem
    place = zlib.crc32(os.fsencode(file.absolute()))
    return import_file(file, re.sub(r"\W", "_", f"loopwright_extension_{name}_{place:08x}"))


def _extensions_in(value: Any, called: str) -> Iterator[Extension]:
    """The extensions that *value* is, holds or makes. Raises `ImportFailed`."""
    if callable(value) and not isinstance(value, Extension):
        with foreign_code(f"{called}()"):
            value = value()
        called = f"what {called}() returned"
    if inspect.iscoroutine(value):
        value.close()  # else Python warns that nobody awaited it
        raise ImportFailed(f"{called} is async: an extension is made by a plain function")
    if isinstance(value, Extension):
        yield value
        return
    if not isinstance(value, list | tuple):
        raise ImportFailed(
            f"{called} is a {type(value).__name__}, not an Extension", hint='Extension("name", ...)'
        )
    for each in cast("Sequence[Any]", value):
        if not isinstance(each, Extension):
            raise ImportFailed(f"there is a {type(each).__name__} in {called}, not an Extension")
        yield each
