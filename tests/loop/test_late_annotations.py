"""Python 3.14 reads annotations when somebody asks, so they may name what is not there yet or, under
TYPE_CHECKING, never. Only what a model fills in has to be resolved.

The sources are text: written here, they would not even load before 3.14.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tests.loop.traces import results, scripted, texts

from loopwright import AgentTool, tool
from loopwright.events import AgentEnd
from loopwright.loop.hooks import with_signal
from loopwright.loop.signature import InvalidTool
from loopwright.loop.tool import as_tool
from loopwright.testing import Call, Reply

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 14), reason="annotations are read at once before Python 3.14"
)


def module(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "written_later"}
    exec(compile(source, "<written later>", "exec", dont_inherit=True), names)
    return names


def test_a_type_may_be_defined_after_the_function_that_takes_it() -> None:
    names = module(
        """
def find(where: list[Place], limit: int = 3) -> Place: ...

Place = dict[str, int]
"""
    )

    found = tool(names["find"])

    assert found.parameters["properties"]["where"]["items"] == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }


def test_a_local_type_may_be_defined_after_the_function_that_takes_it() -> None:
    names = module(
        """
def make():
    from loopwright import tool
    @tool
    def find(where: Place | None) -> None: ...
    Place = dict[str, int]
    return find
"""
    )

    where = names["make"]().parameters["properties"]["where"]

    assert where["anyOf"] == [
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "null"},
    ]


def test_what_a_function_returns_need_not_be_known() -> None:
    names = module("def find(where: str) -> Nowhere: ...")

    assert list(as_tool(names["find"]).parameters["properties"]) == ["where"]


def test_a_parameter_that_cannot_be_resolved_is_refused_by_name() -> None:
    names = module("def find(good: int, where: Nowhere) -> None: ...")

    with pytest.raises(InvalidTool, match=r"tool 'find': the annotation 'Nowhere' of .*'where'"):
        as_tool(names["find"]).check()


def test_a_hook_may_name_types_that_only_a_checker_knows() -> None:
    names = module(
        "def hook(call: Nowhere, signal: Nowhere | None) -> Nowhere: return call, signal"
    )

    assert with_signal(names["hook"])(1, 2) == (1, 2)


async def test_a_class_tool_and_a_foreign_one_may_name_types_that_only_a_checker_knows() -> None:
    names = module(
        """
from loopwright import AgentTool

class Look(AgentTool):
    name = "look"
    description = "Look."
    async def execute(self, tool_call_id, params: Nowhere, signal: Nowhere = None): return "seen"

async def execute(args: Nowhere, ctx: Nowhere) -> Nowhere: return "seen"
"""
    )
    peek = AgentTool.from_schema(
        name="peek", description="Peek.", parameters={}, execute=names["execute"]
    )
    calls = [Call("look", {}), Call("peek", {})]
    agent, _, events = scripted(Reply(calls=calls), "Done.", tools=[names["Look"](), peek])

    await agent.prompt("go")

    ended = [event for event in events if isinstance(event, AgentEnd)]
    assert texts(results(ended[0].messages)) == ["seen", "seen"]
