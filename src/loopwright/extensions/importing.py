"""Bringing in somebody's module or file by name, and saying in words why that failed.

Importing runs foreign code, which may raise anything, leave with `sys.exit`, or print. All of it
becomes `ImportFailed`; only the user's Ctrl-C goes through. What is printed goes to stderr: stdout
may be a stream of JSON.

Not here: what is looked for (loading.py, cli/own_agent.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import re
import sys
import traceback
from collections.abc import Generator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from ..errors import LoopwrightError
from ..loop.faults import in_words

__all__ = [
    "ImportFailed",
    "Reference",
    "foreign_code",
    "import_file",
    "import_module",
    "split_reference",
    "variable_of",
    "why",
]

_LONGEST = 300
_OURS = f"{Path(__file__).parent.parent}{os.sep}"
_STANDARD = f"{Path(os.__file__).parent}{os.sep}"
_VARIABLE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")


class ImportFailed(Exception):
    """In words; `hint` says what may help. `missing` is the module that is not there, if the name
    that was asked for is what is wrong."""

    def __init__(self, message: str, *, hint: str | None = None, missing: str | None = None):
        super().__init__(message)
        self.hint = hint
        self.missing = missing


class Reference(NamedTuple):
    """What `module:variable` or `path/to/file.py:variable` names."""

    target: str
    variable: str | None
    """May be dotted. None: it was left out."""

    @property
    def is_path(self) -> bool:
        """It names a file, not a module."""
        separators = [os.sep, os.altsep] if os.altsep else [os.sep]
        return self.target.endswith(".py") or any(each in self.target for each in separators)


def split_reference(reference: str) -> Reference:
    """The parts of *reference*. Raises `ImportFailed` for what has no meaning."""
    target, colon, variable = reference.strip().rpartition(":")
    if colon and target and _VARIABLE.fullmatch(variable):
        found = Reference(target, variable)
    else:  # no variable; a colon may belong to the path, as in C:\agents\mine.py
        found = Reference(reference.strip(), None)
    if not found.is_path and not _VARIABLE.fullmatch(found.target):
        raise ImportFailed(
            f"{reference!r} names neither a module nor a file",
            hint="module:variable or path/to/file.py:variable",
        )
    return found


def import_module(name: str) -> ModuleType:
    """The module *name*. Raises `ImportFailed`."""
    with foreign_code(f"importing {name}"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if name != missing and not name.startswith(f"{missing}."):
                raise  # something else is missing, that it wants to import
            raise ImportFailed(f"there is no module {missing!r}", missing=missing) from error


def import_file(file: Path, module_name: str) -> ModuleType:
    """The module in *file*; in an `__init__.py` it is a package. Raises `ImportFailed`."""
    if not file.is_file():  # nor a pipe, which would wait for ever
        found = "is no file" if os.path.lexists(file) else "does not exist"
        raise ImportFailed(f"{file} {found}")
    folders = [str(file.parent)] if file.name == "__init__.py" else None
    spec = spec_from_file_location(
        module_name,
        file,
        loader=_FromSource(module_name, str(file)),
        submodule_search_locations=folders,
    )
    if spec is None or spec.loader is None:
        raise ImportFailed(f"{file} is no Python file")
    module = module_from_spec(spec)
    before = sys.modules.get(module_name)
    sys.modules[module_name] = module  # what dataclasses and pydantic ask for names
    try:
        with foreign_code("it"):
            spec.loader.exec_module(module)
    except BaseException:
        if before is None:
            del sys.modules[module_name]
        else:
            sys.modules[module_name] = before
        raise
    return module


def variable_of(module: ModuleType, dotted: str, called: str) -> Any:
    """The value of *dotted* in *module*, which the user knows as *called*. Raises `ImportFailed`
    with near names."""
    value: Any = module
    here = called
    for name in dotted.split("."):
        with foreign_code(f"looking for {dotted}"):
            try:
                value = getattr(value, name)
            except AttributeError:
                from difflib import get_close_matches

                names = [each for each in dir(value) if not each.startswith("_")]
                near = get_close_matches(name, names, n=3, cutoff=0.6)
                raise ImportFailed(
                    f"there is no {name!r} in {here}",
                    hint=f"did you mean {' or '.join(map(repr, near))}?" if near else None,
                ) from None
        here = f"{here}.{name}"
    return value


@contextlib.contextmanager
def foreign_code(doing: str) -> Generator[None, None, None]:
    """Whatever is raised in here comes out as `ImportFailed`, which says that *doing* raised it."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (ImportFailed, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit, too
        if isinstance(error, asyncio.CancelledError) and _cancelled_from_outside():
            raise
        raise ImportFailed(f"{doing} {why(error)}", hint=_hint(error)) from error


def _cancelled_from_outside() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs
        return False
    return task is not None and task.cancelling() > 0


def why(error: BaseException) -> str:
    """What happened, in one line: as the last of a traceback, and where."""
    message = error.message if isinstance(error, LoopwrightError) else in_words(error)
    message = " ".join(message.split())
    if len(message) > _LONGEST:
        message = f"{message[:_LONGEST]}…"
    if isinstance(error, SystemExit):
        said = f"called sys.exit({message if error.code is not None else ''})"
    elif message in ("", type(error).__name__):
        said = f"raised {type(error).__name__}"
    else:
        name = type(error).__name__
        said = f"raised {name}: {message.removeprefix(f'{name}: ')}"
    place = _place(error)
    return f"{said} ({place})" if place else said


def _place(error: BaseException) -> str | None:
    """File and line of the foreign code that raised, or called what did."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}" if error.filename else None
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        library = frame.filename.startswith(("<", _OURS, _STANDARD))
        if not library or "site-packages" in frame.filename.removeprefix(_OURS):
            return f"{frame.filename}:{frame.lineno}"
    return None


def _hint(error: BaseException) -> str | None:
    if isinstance(error, LoopwrightError):
        return error.hint
    started = isinstance(error, RuntimeError) and "running event loop" in in_words(error)
    if started or isinstance(error, SystemExit):
        return 'what a script does when it is run goes below `if __name__ == "__main__":`'
    return None


class _FromSource(SourceFileLoader):
    """Compiles the file that can be read, never a compiled one beside it, and leaves none there."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)
