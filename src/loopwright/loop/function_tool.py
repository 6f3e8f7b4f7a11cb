"""A function as a tool: its signature is the schema, its docstring the description.

Not here: the decorator (tool.py), how signatures become schemas (signature.py, schema.py).
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast

from .agent_tool import AgentTool, ExecutionMode, Place, Replay
from .calling import call_blocking, is_async, refuse_generator
from .docstrings import Documentation, read_docstring
from .schema import Contract, contract_of_signature
from .signature import (
    InvalidTool,
    Signature,
    raw_annotations,
    read_signature,
    resolve_hints,
    signature_of,
    underlying,
)
from .tool_context import ToolContext

__all__ = ["FunctionTool"]

P = ParamSpec("P")
R = TypeVar("R")


class FunctionTool(AgentTool[dict[str, Any], Any], Generic[P, R]):
    """Made by `@tool`, or of any function given to an agent. Calling it calls the function."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        label: str | None = None,
        description: str | None = None,
        execution_mode: ExecutionMode | None = None,
        timeout: float | None = None,
        replay: Replay = "never",
        approval: bool = False,
        isolation: Literal["process"] | None = None,
        local_names: Mapping[str, Any] | None = None,
    ) -> None:
        """*local_names* are those of the place of decoration, for annotations that are strings."""
        function = _plain(function)
        functools.update_wrapper(cast("Any", self), function)
        self.function: Callable[..., Any] = function
        self.name = name if name is not None else _name_of(function)
        self.label = label
        self.execution_mode = execution_mode
        self.timeout = timeout
        self.replay = replay
        self.approval = approval
        self.isolation = isolation
        self._documentation: Documentation | None = None
        if description is not None:
            self.description = description
        self._signature: Signature | None = None
        self._hints: dict[str, Any] | None = None
        self._check_attributes()
        if local_names is not None and _has_text_hints(function):
            try:
                self._hints = resolve_hints(function, self.name, local_names)
            except InvalidTool:  # perhaps defined further down; check() looks again
                self._hints = None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, without schema, coercion or thread."""
        return cast("R", self.function(*args, **kwargs))

    def __get__(self, instance: object, owner: type | None = None) -> FunctionTool[..., R]:
        """A tool on an instance: `self` is bound, the model never sees it."""
        if instance is None:
            return self
        return FunctionTool(
            types.MethodType(self.function, instance),
            name=self.name,
            label=self.label,
            description=self.__dict__.get("description"),
            execution_mode=self.execution_mode,
            timeout=self.timeout,
            replay=self.replay,
            approval=self.approval,
            isolation=self.isolation,
        )

    @property
    def runs_in(self) -> Place:
        """Where the body runs, which decides how it can be stopped."""
        if self.isolation == "process":
            return "process"
        return "loop" if self._is_async else "thread"

    async def _run(self, params: dict[str, Any], context: ToolContext) -> Any:
        signature = cast("Signature", self._signature)
        if self.isolation == "process":
            from .processes import run_in_process

            return await run_in_process(
                self.function,
                kwargs=params,
                timeout=self.timeout,
                inject=signature.injected,
                context=context,
                name=self.name,
            )
        if signature.injected:
            params = params | _injections(signature, context)
        if self._is_async:
            return await self.function(**params)
        return await call_blocking(context.signal, self.function, **params)

    # -- registration --------------------------------------------------------------------------

    def _check_body(self) -> None:
        refuse_generator(self.function, self.name)
        signature_of(self.function, self.name)
        self._is_async = is_async(self.function)
        if self.isolation == "process":
            from .processes import refuse_unimportable

            refuse_unimportable(self.function, self.name)

    def _contract(self) -> Contract:
        if self.isolation == "process":
            from .processes import importable

            importable(self.function, self.name)
        signature = read_signature(self.function, self.name, self._hints)
        _refuse_unbound_method(self.function, signature, self.name)
        self._signature = signature
        return contract_of_signature(signature, self._documented(), self.name)

    def _unfillable(self) -> frozenset[str]:
        return cast("Signature", self._signature).unfillable

    def _describe(self) -> str:
        return self._documented().description

    def _documented(self) -> Documentation:
        if self._documentation is None:
            self._documentation = read_docstring(_docstring_of(self.function))
        return self._documentation


def _injections(signature: Signature, context: ToolContext) -> dict[str, Any]:
    values: dict[str, Any] = {
        "context": context,
        "signal": context.signal,
        "update": context.update,
    }
    return {name: values[role] for name, role in signature.injected}


def _plain(function: Any) -> Callable[..., Any]:
    """The callable meant by *function*: out of static methods and tools that are methods."""
    if isinstance(function, staticmethod):
        return cast("Callable[..., Any]", function.__func__)
    if isinstance(function, classmethod):
        raise InvalidTool(
            "@tool stands above @classmethod, where there is no class yet to bind",
            hint="register the bound method instead: Agent(tools=[MyClass.method])",
        )
    if not callable(function):
        raise InvalidTool(f"@tool was given {function!r}, which cannot be called")
    return cast("Callable[..., Any]", function)


def _name_of(function: Callable[..., Any]) -> str:
    plain: Any = function
    name = getattr(plain, "__name__", None)
    if name is None and isinstance(plain, functools.partial):
        name = getattr(underlying(cast("Any", plain)), "__name__", None)
    if not isinstance(name, str):
        name = cast("type", function.__class__).__name__
    if name == "<lambda>":
        raise InvalidTool(
            "a lambda has no name a model could call it by",
            hint='write a function, or give a name: tool(name="...")(lambda: ...)',
        )
    return name


def _docstring_of(function: Callable[..., Any]) -> str | None:
    """Of the function that runs, else of the class of a callable object."""
    text = getattr(underlying(function), "__doc__", None)
    if text or inspect.isroutine(function) or isinstance(function, functools.partial):
        return text
    return cast("type", type(function)).__doc__


def _has_text_hints(function: Callable[..., Any]) -> bool:
    hints = raw_annotations(underlying(function)).values()
    return any(isinstance(hint, str | typing.ForwardRef) for hint in hints)


def _refuse_unbound_method(function: Callable[..., Any], signature: Signature, tool: str) -> None:
    """A method taken from its class still asks for `self`, which no model can give."""
    first = next(iter(signature.parameters), None)
    if first is None or first.name != "self" or first.hint is not Any:
        return
    path = getattr(function, "__qualname__", "").split(".")
    if len(path) > 1 and path[-2] != "<locals>":
        raise InvalidTool(
            f"tool {tool!r}: {path[-2]}.{path[-1]} is a method without its object",
            hint=f"register that of an instance: {path[-2]}().{path[-1]}",
        )
