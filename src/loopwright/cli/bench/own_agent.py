"""`--agent module:variable`: the agent of somebody's own program.

Not here: what the product puts around it (bench/workbench.py).
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ...errors import ConfigurationError
from ...extensions.importing import (
    ImportFailed,
    foreign_code,
    import_file,
    import_module,
    split_reference,
    variable_of,
)
from ...loop.agent import Agent

__all__ = ["load_agent"]

VARIABLE = "agent"
"""What the agent is called in its module, unless said."""


async def load_agent(reference: str, folder: Path) -> Agent[Any]:
    """The agent that *reference* names: `module:variable` or `path/to/file.py:variable`, relative
    to *folder*.

    The variable may be dotted, and is `agent` if left out. A function without arguments, sync or
    async, is called for the agent. As with `python file.py`, the folders of the file and of the
    work stand at the front of `sys.path`, and stay there: an agent may import more later.

    Raises `ConfigurationError` for everything that goes wrong, also in the foreign code.
    """
    try:
        target, variable = found = split_reference(reference)
        module = _module(target, found.is_path, folder)
        called = f"{target}:{variable or VARIABLE}"
        value = _value(module, variable, target)
        if not isinstance(value, Agent) and callable(value):
            called = f"{called}()"
            value = await _made(value, called)
    except ImportFailed as error:
        raise ConfigurationError(f"--agent {reference}: {error}", hint=error.hint) from error
    if not isinstance(value, Agent):
        raise ConfigurationError(
            f"--agent {reference}: {called} is a {type(value).__name__}, not an Agent",
            hint=_agents_in(module, target) or "it is an Agent, or a function that returns one",
        )
    return cast("Agent[Any]", value)


def _module(target: str, is_path: bool, folder: Path) -> ModuleType:
    _put_in_front(folder)
    if not is_path:
        try:
            return import_module(target)
        except ImportFailed as error:
            if error.missing is not None:
                error.hint = _near_modules(error.missing, folder)
            raise
    file = folder / os.path.expanduser(target)
    if file.is_dir():
        raise ImportFailed(f"{target} is a folder", hint="path/to/file.py:variable")
    _put_in_front(file.parent)
    # Named as it would be on being imported by a file beside it, so that it is there only once.
    name = file.stem if file.stem.isidentifier() and file.stem not in sys.modules else "own_agent"
    return import_file(file, name)


def _put_in_front(folder: Path) -> None:
    path = str(folder.absolute())
    if sys.path[:1] != [path]:
        sys.path.insert(0, path)


def _near_modules(name: str, folder: Path) -> str:
    """What to say of a module that is not there."""
    try:
        names = [
            *(file.stem for file in folder.glob("*.py")),
            *(p.parent.name for p in folder.glob("*/__init__.py")),
        ]
    except OSError:
        names = []
    from difflib import get_close_matches

    near = get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"modules are looked for in {folder} and where {sys.executable} has its packages"


def _value(module: ModuleType, variable: str | None, target: str) -> Any:
    try:
        return variable_of(module, variable or VARIABLE, target)
    except ImportFailed as error:
        error.hint = _agents_in(module, target) or error.hint
        raise


def _agents_in(module: ModuleType, target: str) -> str | None:
    names: Sequence[str] = [
        name for name, value in vars(module).items() if isinstance(value, Agent)
    ]
    return f"agents in there: {', '.join(f'{target}:{name}' for name in names)}" if names else None


async def _made(function: Any, called: str) -> Any:
    """What *function* returns, now or later."""
    with foreign_code(called):
        value = function()
        return await value if inspect.isawaitable(value) else value
