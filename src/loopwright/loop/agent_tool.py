"""What a model may call: a tool, as the kernel sees it and as a class a program derives from.

A tool has a name, a description and a schema; `bind` turns a model's arguments into checked
parameters and `invoke` runs the body. The kernel knows nothing else about tools.

Not here: functions as tools (function_tool.py), tools with a foreign schema (schema_tool.py), when
tools run and what hooks see (dispatch.py).
"""

from __future__ import annotations

import copy
import inspect
import re
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

import msgspec

from ..messages import AgentToolResult, TextContent
from ..models.model import ToolSpec
from ..signals import AbortSignal
from .arguments import ArgumentsRejected, Binder, BoundCall
from .calling import call_blocking, is_async, refuse_generator
from .results import render
from .schema import Contract, contract_of_type, empty_contract
from .signature import InvalidTool, raw_signature
from .tool_context import OnUpdate, ToolContext

__all__ = ["AgentTool", "ExecutionMode", "Place", "Replay", "check_name"]

Params = TypeVar("Params")
Details = TypeVar("Details")

ExecutionMode = Literal["parallel", "sequential"]
Replay = Literal["never", "safe"]
Place = Literal["loop", "thread", "process"]

_NOTHING = type(None)
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class _FromDocstring:
    """The description of a tool that was given none: read when it is first asked for, so that
    making a tool stays cheap, and the same at every look."""

    def __get__(self, tool: AgentTool[Any, Any] | None, owner: type) -> str:
        return "" if tool is None else tool._describe()  # pyright: ignore[reportPrivateUsage]


class AgentTool(Generic[Params, Details]):
    """A tool, as a class: set the attributes, write `execute`, register an instance.

    The type arguments are optional; the first one, if it is given, stands for `params`, too.
    Functions become tools with `@tool`, foreign schemas with `AgentTool.from_schema`.
    """

    name: str = ""
    """1 to 64 letters, digits, `_` or `-`: what every vendor accepts."""
    label: str | None = None
    """For people; the name if None."""
    description: str = cast("str", _FromDocstring())
    """For the model; the docstring of the class if empty."""
    params: Any = None
    """A pydantic model, dataclass, TypedDict or msgspec Struct; None takes no arguments."""
    execution_mode: ExecutionMode | None = None
    """`sequential` makes a whole batch sequential; None leaves it to the agent."""
    timeout: float | None = None
    """Seconds one call may take; None is no limit."""
    replay: Replay = "never"
    """Whether a call cut off by a crash may simply be run again."""
    approval: bool = False
    """Whether somebody must say yes to each call. Only a session can wait for that; without one,
    and without a hook that grants it, such a call is refused."""
    isolation: Literal["process"] | None = None
    """`process` runs each call in a process that can be killed (functions only)."""

    _prepares: ClassVar[bool] = False
    _binder: Binder | None = None
    _spec: ToolSpec | None = None
    _takes: int = 4
    _is_async: bool = True

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        base = cast("type[AgentTool[Any, Any]]", AgentTool)
        cls._prepares = cls.prepare_arguments is not base.prepare_arguments

    # -- to be written by subclasses -----------------------------------------------------------

    def prepare_arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """Change a copy of the model's arguments before they are checked; for old spellings."""
        return args

    async def execute(
        self,
        tool_call_id: str,
        params: Params,
        signal: AbortSignal | None = None,
        on_update: OnUpdate | None = None,
    ) -> AgentToolResult:
        """Do the work. Raise to report failure; the text of the exception goes to the model.

        Trailing parameters may be left out. Written as a plain `def` it runs in a thread.
        """
        raise NotImplementedError(f"{type(self).__name__} has no execute")

    # -- what the kernel uses ------------------------------------------------------------------

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self.spec.parameters

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it. Raises `InvalidTool` like `check`."""
        self.check()
        return cast("ToolSpec", self._spec)

    @property
    def runs_in(self) -> Place:
        """Where the body runs, which decides how it can be stopped."""
        self.check()
        return "loop" if self._is_async else "thread"

    def check(self) -> None:
        """Build the schema. Raises `InvalidTool`, saying what to change, if it cannot be used."""
        if self._binder is not None:
            return
        self._check_attributes()
        contract = self._contract()
        self._spec = ToolSpec(self.name, self.description, contract.schema)
        self._binder = Binder(self.name, contract, self._unfillable())

    def bind(self, arguments: Mapping[str, Any]) -> BoundCall:
        """Check *arguments*, which are not changed. Raises `ArgumentsRejected`."""
        binder = self._binder
        if binder is None:
            self.check()
            binder = cast("Binder", self._binder)
        given: Any = arguments
        if type(given) is not dict and not isinstance(given, Mapping):  # a hook may give anything
            raise ArgumentsRejected(
                f"The tool {self.name!r} was not run: its arguments are a {type(given).__name__}, "
                "not an object."
            )
        if self._prepares:
            arguments = self._prepared(arguments)
        return binder.bind(arguments)

    async def invoke(self, bound: BoundCall, context: ToolContext) -> AgentToolResult:
        """Run the body. What it raises comes out as it is; what it returns is rendered.

        Notes of the binding become a text block of their own before the result, which stays
        machine-readable.
        """
        result = render(await self._run(bound.params, context))
        if not bound.notes:
            return result
        notes = TextContent("\n".join(bound.notes))
        return msgspec.structs.replace(result, content=[notes, *result.content])

    # -- the class form ------------------------------------------------------------------------

    async def _run(self, params: Any, context: ToolContext) -> Any:
        arguments = (context.tool_call_id, params, context.signal, context.update)[: self._takes]
        execute = cast("Callable[..., Any]", self.execute)
        if self._is_async:
            return await cast("Awaitable[Any]", execute(*arguments))
        return await call_blocking(context.signal, execute, *arguments)

    def _contract(self) -> Contract:
        params = self.params if self.params is not None else _type_argument(type(self))
        return empty_contract() if params is None else contract_of_type(params, self.name)

    def _unfillable(self) -> frozenset[str]:
        return frozenset()

    def _describe(self) -> str:
        return inspect.cleandoc(type(self).__dict__.get("__doc__") or "")

    def _check_attributes(self) -> None:
        check_name(self.name, type(self).__name__)
        _check_choice(self, "execution_mode", (None, "parallel", "sequential"))
        _check_choice(self, "replay", ("never", "safe"))
        _check_choice(self, "isolation", (None, "process"))
        timeout: Any = self.timeout
        if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
            raise InvalidTool(
                f"tool {self.name!r}: timeout is {timeout!r}, not a number of seconds"
            )
        self._check_body()

    def _check_body(self) -> None:
        if type(self).execute is cast("type[AgentTool[Any, Any]]", AgentTool).execute:
            raise InvalidTool(
                f"tool {self.name!r}: {type(self).__name__} does not define execute",
                hint="async def execute(self, tool_call_id, params, signal=None, on_update=None)",
            )
        if self.isolation == "process":
            raise InvalidTool(
                f"tool {self.name!r}: only functions can run in a process of their own",
                hint='use @tool(isolation="process") on a function at the top level of a module',
            )
        refuse_generator(self.execute, self.name)
        self._takes = _positional(self.execute, self.name)
        self._is_async = is_async(self.execute)

    def _prepared(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            prepared: Any = self.prepare_arguments(copy.deepcopy(dict(arguments)))
        except Exception as error:  # the tool's own code, on arguments of any shape
            raise ArgumentsRejected(
                f"The arguments do not fit the tool {self.name!r}, so it was not run: "
                f"they could not be prepared ({type(error).__name__}: {error})."
            ) from error
        if not isinstance(prepared, Mapping):
            raise ArgumentsRejected(
                f"The tool {self.name!r} was not run: its prepare_arguments returned "
                f"a {type(prepared).__name__} instead of a dict."
            )
        return cast("Mapping[str, Any]", prepared)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    # -- other makings -------------------------------------------------------------------------

    @staticmethod
    def from_schema(
        *,
        name: str,
        description: str,
        parameters: dict[str, Any],
        execute: Callable[..., Any],
        label: str | None = None,
        execution_mode: ExecutionMode | None = None,
        timeout: float | None = None,
        replay: Replay = "never",
        approval: bool = False,
    ) -> AgentTool[dict[str, Any], Any]:
        """A tool described by a JSON Schema, for MCP and other runtimes.

        *execute* is `(args)` or `(args, ctx)`, sync or async, and may return whatever a function
        tool may. Raises `InvalidTool`, naming the path, for what is no JSON Schema of an object.
        """
        from .schema_tool import SchemaTool

        made = SchemaTool(
            name, description, parameters, execute, label, execution_mode, timeout, replay
        )
        made.approval = approval
        made.check()
        return made


def check_name(name: Any, where: str) -> None:
    """Raise `InvalidTool` unless every vendor accepts *name*; *where* says whose it is."""
    if not isinstance(name, str) or not name:
        raise InvalidTool(f"{where}: a tool needs a name, this one has {name!r}")
    if not _NAME.fullmatch(name):
        raise InvalidTool(
            f"{where}: {name!r} cannot be the name of a tool; "
            "vendors accept 1 to 64 letters (a-z, A-Z), digits, '_' and '-'",
            hint='give it another: @tool(name="...")',
        )


def _check_choice(tool: Any, option: str, choices: tuple[str | None, ...]) -> None:
    value = getattr(tool, option)
    if value not in choices:
        known = ", ".join(map(repr, choices))
        raise InvalidTool(f"tool {tool.name!r}: {option} is {value!r}; known: {known}")


def _positional(execute: Callable[..., Any], tool: str) -> int:
    """How many of (tool_call_id, params, signal, on_update) *execute* takes: at least two."""
    signature = raw_signature(execute)
    for count in (4, 3, 2):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count
    raise InvalidTool(
        f"tool {tool!r}: execute cannot be called with (tool_call_id, params)",
        hint="async def execute(self, tool_call_id, params, signal=None, on_update=None)",
    )


def _type_argument(cls: type) -> Any:
    """The class in `AgentTool[GrepParams, ...]`, for tools that do not repeat it as `params`."""
    for ancestor in cls.__mro__:
        for base in getattr(ancestor, "__orig_bases__", ()):
            if typing.get_origin(base) is AgentTool:
                params = typing.get_args(base)[0]
                return None if isinstance(params, TypeVar) or params in (_NOTHING, Any) else params
    return None
