"""Functions and classes as tools: made, refused, called."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from loopwright.loop.tool import (
    AgentTool,
    ArgumentsRejected,
    FunctionTool,
    InvalidTool,
    OnUpdate,
    ToolContext,
    as_tool,
    tool,
)
from loopwright.messages import AgentToolResult, TextContent
from loopwright.signals import AbortController, AbortSignal


class GrepParams(BaseModel):
    """What to look for."""

    pattern: str
    limit: int = 10


async def call(of: AgentTool[Any, Any], arguments: dict[str, Any], **context: Any) -> str:
    return (await of.invoke(of.bind(arguments), ToolContext("id", **context))).text


# -- functions -------------------------------------------------------------------------------


async def test_async_and_sync_functions_become_tools_and_stay_functions() -> None:
    @tool
    async def later(a: int) -> int:
        """Later."""
        return a + 1

    @tool(name="now", label="Now!", description="At once.", timeout=3, replay="safe")
    def immediately(a: int) -> int:
        return a + 1

    assert (later.name, later.runs_in, later.spec.description) == ("later", "loop", "Later.")
    assert (immediately.name, immediately.label) == ("now", "Now!")
    assert (immediately.timeout, immediately.replay) == (3, "safe")
    assert (immediately.runs_in, immediately.spec.description) == ("thread", "At once.")
    assert await call(later, {"a": 1}) == "2"
    assert await call(immediately, {"a": 1}) == "2"
    assert await later(1) == 2
    assert immediately(1) == 2
    assert getattr(later, "__name__", None) == "later"
    assert later.__doc__ == "Later."


async def test_behaviour_102_sync_functions_run_in_a_thread() -> None:
    @tool
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    assert await call(where, {}) == "false"


async def test_behaviour_144_defaults_of_the_function_apply() -> None:
    @tool
    async def f(a: int, b: list[int] | None = None, *, c: str = "c") -> str:
        return f"{a} {b} {c}"

    assert await call(f, {"a": 1}) == "1 None c"


async def test_what_is_injected_reaches_the_function() -> None:
    seen: list[Any] = []
    updates: list[str] = []
    controller = AbortController()

    @tool
    async def f(a: int, ctx: ToolContext, signal: AbortSignal, report: OnUpdate) -> None:
        seen.extend((ctx.tool_call_id, ctx.signal is signal, signal.aborted, ctx.deps))
        ctx.update("one")
        report({"two": 2})

    bound = f.bind({"a": 1})
    context = ToolContext("id", controller.signal, {"db": 1}, lambda r: updates.append(r.text))
    controller.abort()
    await f.invoke(bound, context)

    assert seen == ["id", True, True, {"db": 1}]
    assert updates == ["one", '{"two":2}']
    assert bound.params == {"a": 1}


async def test_updates_from_other_threads_are_delivered_in_the_loop_before_the_result() -> None:
    here = threading.get_ident()
    deliveries: list[tuple[str, bool]] = []

    @tool
    def work(ctx: ToolContext) -> str:
        for step in range(3):
            ctx.update(f"{step}")
        return "done"

    context = ToolContext(
        "id", deliver=lambda r: deliveries.append((r.text, threading.get_ident() == here))
    )
    await work.invoke(work.bind({}), context)

    assert deliveries == [("0", True), ("1", True), ("2", True)]


def test_an_update_after_the_loop_has_gone_is_dropped() -> None:
    async def make() -> ToolContext:
        return ToolContext("id", deliver=lambda partial: pytest.fail("nobody listens"))

    asyncio.run(make()).update("late")


async def test_behaviour_142_the_note_on_ignored_arguments_is_a_block_before_the_result() -> None:
    @tool
    def f(a: int) -> dict[str, int]:
        return {"a": a}

    result = await f.invoke(f.bind({"a": 1, "b": 2}), ToolContext("id"))

    note, text = (block.text for block in result.content if isinstance(block, TextContent))
    assert "b" in note
    assert text == '{"a":1}'


async def test_behaviour_063_exceptions_of_the_body_come_out_as_they_are() -> None:
    @tool
    async def fail() -> None:
        raise TypeError("inside")

    @tool
    def fail_in_thread() -> None:
        raise TypeError("inside")

    for failing in (fail, fail_in_thread):
        with pytest.raises(TypeError, match="inside"):
            await call(failing, {})


async def test_behaviour_064_a_type_error_inside_is_no_argument_error() -> None:
    @tool
    async def f(a: int) -> None:
        f(a, a, a)  # pyright: ignore[reportCallIssue]

    with pytest.raises(TypeError):
        await f.invoke(f.bind({"a": 1}), ToolContext("id"))
    with pytest.raises(ArgumentsRejected):
        f.bind({})


async def test_a_sync_function_may_hand_back_an_awaitable() -> None:
    async def inner(a: int) -> str:
        await asyncio.sleep(0)
        return f"inner {a}"

    @tool
    @functools.wraps(inner)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    assert await call(wrapper, {"a": 1}) == "inner 1"


async def test_methods_partials_and_callable_objects_are_tools() -> None:
    class Store:
        def __init__(self, name: str) -> None:
            self.name = name

        def read(self, key: str) -> str:
            """Read."""
            return f"{self.name}/{key}"

        @tool
        async def write(self, key: str) -> str:
            """Write."""
            return f"{self.name}={key}"

        @staticmethod
        @tool
        def version(digits: int) -> str:
            return "1.0"[:digits]

        @classmethod
        def kind(cls, loud: bool) -> str:
            return cls.__name__.upper() if loud else cls.__name__

    class Search:
        """Search for words."""

        async def __call__(self, words: list[str]) -> int:
            return len(words)

    store = Store("a")
    tools = {
        "read": (as_tool(store.read), {"key": "k"}, "a/k"),
        "write": (as_tool(store.write), {"key": "k"}, "a=k"),
        "version": (as_tool(store.version), {"digits": 1}, "1"),
        "kind": (as_tool(Store.kind), {"loud": True}, "STORE"),
        "Search": (as_tool(Search()), {"words": ["x"]}, "1"),
    }

    for name, (made, arguments, expected) in tools.items():
        assert made.name == name
        assert list(made.parameters["properties"]) == list(arguments)
        assert await call(made, arguments) == expected
    assert tools["Search"][0].spec.description == "Search for words."


def test_a_method_without_its_object_is_refused() -> None:
    class Store:
        @tool
        def read(self, key) -> str:
            raise NotImplementedError

        def write(self, key: str) -> str:
            raise NotImplementedError

    for method in (Store.read, Store.write):
        with pytest.raises(InvalidTool, match=r"Store\(\)\."):
            as_tool(method).check()


@pytest.mark.parametrize(
    "thing", [None, "read", 3, {"name": "read"}, GrepParams(pattern="x")], ids=repr
)
def test_what_is_no_tool_is_refused_naming_it(thing: Any) -> None:
    with pytest.raises(InvalidTool, match=type(thing).__name__):
        as_tool(thing)


def test_a_class_instead_of_an_instance_is_refused_with_a_hint() -> None:
    class Grep(AgentTool[GrepParams, None]):
        name = "grep"

    with pytest.raises(InvalidTool, match=r"Grep\(\)"):
        as_tool(Grep)
    with pytest.raises(InvalidTool, match="GrepParams"):
        as_tool(GrepParams)


def test_generators_are_refused_at_once() -> None:
    async def stream(a: int) -> AsyncIterator[int]:
        yield a

    def steps(a: int) -> Iterator[int]:
        yield a

    for function in (stream, steps):
        with pytest.raises(InvalidTool, match=r"ctx\.update"):
            tool(function)


@pytest.mark.parametrize("name", ["", "two words", "größe", "a" * 65, "dots.are.out", None, 3])
def test_a_name_no_vendor_accepts_is_refused(name: Any) -> None:
    def f() -> None:
        raise NotImplementedError

    other: Any = name
    if name is not None:
        with pytest.raises(InvalidTool, match="name"):
            tool(name=name)(f)
    with pytest.raises(InvalidTool, match="name"):
        AgentTool.from_schema(name=other, description="", parameters={}, execute=f)


def test_a_lambda_needs_a_name() -> None:
    with pytest.raises(InvalidTool, match="lambda"):
        as_tool(lambda a: a)
    assert tool(name="same")(lambda a: a).name == "same"


@pytest.mark.parametrize(
    "options",
    [
        {"execution_mode": "serial"},
        {"timeout": 0},
        {"timeout": "3"},
        {"replay": "always"},
        {"isolation": "thread"},
    ],
    ids=repr,
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    def f() -> None:
        raise NotImplementedError

    with pytest.raises(InvalidTool, match=next(iter(options))):
        tool(**options)(f)


def test_importing_and_decorating_needs_no_pydantic() -> None:
    source = """
import sys
from loopwright.loop.tool import AgentTool, ToolContext, tool
@tool(isolation=None, timeout=3)
async def f(a: int, b: list[str], ctx: ToolContext) -> str: "Do."
class Own(AgentTool):
    name = "own"
    async def execute(self, tool_call_id, params): ...
Own()
for name in ("pydantic", "pydantic_core", "jsonschema", "docstring_parser"):
    assert name not in sys.modules, name
f.check()
assert "pydantic" in sys.modules
"""
    finished = subprocess.run(
        [sys.executable, "-c", source],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
    )

    assert finished.stderr == ""


# -- classes ---------------------------------------------------------------------------------


class Grep(AgentTool[GrepParams, dict[str, int]]):
    name = "grep"
    label = "Grep"
    description = "Search files."
    params = GrepParams

    async def execute(
        self,
        tool_call_id: str,
        params: GrepParams,
        signal: AbortSignal | None = None,
        on_update: OnUpdate | None = None,
    ) -> AgentToolResult:
        assert on_update is not None
        on_update("looking")
        return AgentToolResult(
            [TextContent(f"{tool_call_id} {params.pattern} {params.limit}")], details={"hits": 1}
        )


async def test_the_class_form_gets_its_params_and_reports() -> None:
    updates: list[str] = []
    grep = Grep()

    bound = grep.bind({"pattern": "x", "limit": "3"})
    result = await grep.invoke(bound, ToolContext("c1", deliver=lambda r: updates.append(r.text)))

    assert bound.params == GrepParams(pattern="x", limit=3)
    assert bound.args == {"pattern": "x", "limit": 3}
    assert result.text == "c1 x 3"
    assert result.details == {"hits": 1}
    assert updates == ["looking"]
    assert grep.spec.description == "Search files."
    assert list(grep.parameters["properties"]) == ["pattern", "limit"]
    assert grep.spec is grep.spec


async def test_type_arguments_and_trailing_parameters_may_be_left_out() -> None:
    class Plain(AgentTool):
        """Say hello."""

        name = "plain"

        async def execute(self, tool_call_id, params):  # pyright: ignore[reportIncompatibleMethodOverride]
            return f"hello {params}"

    plain = Plain()

    assert plain.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert plain.spec.description == "Say hello."
    assert await call(plain, {}) == "hello {}"
    assert "x" in plain.bind({"x": 1}).notes[0]


def test_the_type_argument_stands_for_params() -> None:
    class Inferred(AgentTool[GrepParams, None]):
        name = "inferred"

        async def execute(self, *rest: Any) -> AgentToolResult:  # pyright: ignore[reportIncompatibleMethodOverride]
            raise NotImplementedError

    assert Inferred().bind({"pattern": "x"}).params == GrepParams(pattern="x")


@dataclasses.dataclass
class DataParams:
    pattern: str


class DictParams(TypedDict):
    pattern: str


class StructParams(msgspec.Struct):
    pattern: str


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (DataParams, DataParams("x")),
        (DictParams, {"pattern": "x"}),
        (StructParams, StructParams("x")),
    ],
)
def test_params_may_be_a_dataclass_a_typed_dict_or_a_struct(kind: Any, expected: Any) -> None:
    class Own(AgentTool[Any, None]):
        name = "own"
        params = kind

        async def execute(self, *rest: Any) -> AgentToolResult:  # pyright: ignore[reportIncompatibleMethodOverride]
            raise NotImplementedError

    own = Own()

    assert own.bind({"pattern": "x"}).params == expected
    assert own.parameters["required"] == ["pattern"]
    with pytest.raises(ArgumentsRejected):
        own.bind({})


async def test_a_sync_execute_runs_in_a_thread() -> None:
    class Own(AgentTool[None, None]):
        name = "own"

        def execute(self, tool_call_id: str, params: Any) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
            return threading.current_thread().name

    own = Own()

    assert own.runs_in == "thread"
    assert await call(own, {}) != threading.current_thread().name


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "name"),
        ({"name": "x"}, "does not define execute"),
        ({"name": "x", "execute": lambda self: None}, "tool_call_id"),
        ({"name": "x", "execute": lambda self, a, b: None, "params": int}, "params"),
        ({"name": "x", "execute": lambda self, a, b: None, "params": object()}, "'x'"),
    ],
)
def test_a_class_that_cannot_work_is_refused_when_registered(
    body: dict[str, Any], message: str
) -> None:
    made = type("Broken", (AgentTool,), body)()

    with pytest.raises(InvalidTool, match=message):
        made.check()


def test_function_tools_know_each_other_by_their_function() -> None:
    @tool
    def f() -> None:
        raise NotImplementedError

    assert isinstance(f, FunctionTool)
    assert as_tool(f) is f
    assert repr(f) == "<FunctionTool 'f'>"


def test_case_147_a_tool_says_the_same_of_itself_from_the_start() -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: the first
            b: the second

        Returns:
            The sum.
        """
        return a + b

    class Look(AgentTool[Any, Any]):
        """Look at it."""

        name = "look"

        async def execute(self, tool_call_id: str, params: Any) -> AgentToolResult:  # pyright: ignore[reportIncompatibleMethodOverride]
            return AgentToolResult([])

    for one, text in ((tool(add), "Add two numbers."), (Look(), "Look at it.")):
        before = (one.name, one.label, one.description)
        _ = one.parameters

        assert before == (one.name, one.label, one.description)
        assert one.description == one.spec.description == text
