"""Typed answers: `Agent(output_type=...)`."""

from __future__ import annotations

import dataclasses
from typing import Any, TypedDict

import pytest
from pydantic import BaseModel

from loopwright import Agent, tool
from loopwright.errors import Misuse
from loopwright.messages import ToolResultMessage
from loopwright.models import Models, Provider
from loopwright.testing import Call, Reply, ScriptedModel


class City(BaseModel):
    name: str
    people: int


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Row(TypedDict):
    key: str


def final(**arguments: Any) -> Reply:
    return Reply(calls=[Call("final_answer", arguments)])


async def ask(output_type: Any, *replies: Reply, **options: Any) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(replies)
    agent = Agent(model.model, stream_fn=model.stream_fn, output_type=output_type, **options)
    return await agent.prompt("go"), model


@pytest.mark.parametrize(
    ("output_type", "arguments", "expected"),
    [
        (City, {"name": "Oslo", "people": 700000}, City(name="Oslo", people=700000)),
        (City, {"name": "Oslo", "people": "700000"}, City(name="Oslo", people=700000)),
        (Point, {"x": 1, "y": 2}, Point(1, 2)),
        (Row, {"key": "a"}, {"key": "a"}),
        (int | str, {"answer": 3}, 3),
        (list[City], {"answer": [{"name": "a", "people": 1}]}, [City(name="a", people=1)]),
        (bool, {"answer": True}, True),
        (City | Point, {"answer": {"x": 1, "y": 2}}, Point(1, 2)),
    ],
)
async def test_the_answer_is_of_the_type_that_was_asked_for(
    output_type: Any, arguments: dict[str, Any], expected: Any
) -> None:
    result, model = await ask(output_type, final(**arguments))

    assert result.output == expected
    assert type(result.output) is type(expected)
    assert (result.stopped_by, len(model.requests)) == (None, 1)


async def test_every_call_of_the_final_answer_has_its_result() -> None:
    """The transcript of a typed run can be sent again like any other."""
    result, _ = await ask(City, final(name="Oslo", people=1))

    assert isinstance(result.messages[-1], ToolResultMessage)
    assert not result.messages[-1].is_error


async def test_an_answer_that_does_not_fit_goes_back_to_the_model_with_what_is_wrong() -> None:
    result, model = await ask(City, final(name="Oslo"), final(name="Oslo", people=1))

    told = model.requests[1].context.messages[-1]
    assert isinstance(told, ToolResultMessage)
    assert told.is_error
    assert "people" in told.text
    assert result.output == City(name="Oslo", people=1)


async def test_a_reply_in_plain_text_is_asked_for_again_a_bounded_number_of_times() -> None:
    result, model = await ask(City, *[Reply("It is Oslo.")] * 9)

    assert result.output is None
    assert (result.stop_reason, result.stopped_by) == ("error", "error")
    assert "It is Oslo." in result.error_message
    assert len(model.requests) == 3


async def test_wrong_arguments_are_bounded_too() -> None:
    result, model = await ask(City, *[final(name="Oslo")] * 9)

    assert (result.output, result.stop_reason) == (None, "error")
    assert "people" in result.error_message
    assert len(model.requests) == 3


async def test_json_text_that_fits_is_an_answer_even_without_the_tool() -> None:
    result, model = await ask(City, Reply('```json\n{"name": "Oslo", "people": 1}\n```'))

    assert result.output == City(name="Oslo", people=1)
    assert len(model.requests) == 1


async def test_plain_text_is_an_answer_where_text_is_wanted() -> None:
    result, _ = await ask(str, Reply("hello"))

    assert result.output == "hello"


async def test_other_tools_work_on_and_the_answer_ends_the_run() -> None:
    @tool
    async def look_up() -> str:
        """Look it up."""
        return "700000"

    result, model = await ask(
        City, Reply(calls=[Call("look_up")]), final(name="Oslo", people=7), tools=[look_up]
    )

    assert result.output == City(name="Oslo", people=7)
    assert [spec.name for spec in model.requests[0].context.tools] == ["look_up", "final_answer"]


async def test_an_answer_beside_other_calls_lets_them_finish_and_ends_the_run() -> None:
    ran: list[str] = []

    @tool
    async def note() -> str:
        """Note it."""
        ran.append("note")
        return "noted"

    both = Reply(calls=[Call("note"), Call("final_answer", {"name": "Oslo", "people": 1})])
    result, model = await ask(City, both, tools=[note])

    assert result.output == City(name="Oslo", people=1)
    assert (ran, len(model.requests)) == (["note"], 1)


async def test_each_run_gives_an_answer_of_its_own() -> None:
    model = ScriptedModel([final(answer=1), Reply(error="broken")])
    agent = Agent(model.model, stream_fn=model.stream_fn, output_type=int)

    first, second = await agent.prompt("one"), await agent.prompt("two")

    assert (first.output, second.output, second.stop_reason) == (1, None, "error")


async def test_max_turns_ends_a_run_that_still_owes_its_answer() -> None:
    result, model = await ask(City, *[Reply("hm")] * 3, max_turns=1)

    assert (result.output, result.stopped_by, len(model.requests)) == (None, "max_turns", 1)


async def test_a_tool_of_the_same_name_is_refused() -> None:
    @tool
    async def final_answer() -> str:
        """Mine."""
        return ""

    with pytest.raises(Misuse, match="final_answer"):
        await ask(City, Reply(""), tools=[final_answer])


async def test_a_vendor_that_takes_schemas_is_told_the_schema_and_offered_no_tool() -> None:
    """Native mode: the reply's text is the answer."""
    scripted = ScriptedModel([Reply("no"), Reply('{"name": "Oslo", "people": 1}')])

    class SchemaTakingModels(Models):
        def takes_output_schema(self, model: Any) -> bool:
            return True

    models = SchemaTakingModels([scripted.provider])
    agent = Agent(scripted.model, stream_fn=models.stream_simple, output_type=City)

    result = await agent.prompt("go")

    assert result.output == City(name="Oslo", people=1)
    asked = scripted.requests[0]
    assert not asked.context.tools
    assert asked.options["output_schema"]["schema"]["required"] == ["name", "people"]
    assert "JSON" in scripted.requests[1].context.messages[-1].text


def test_models_know_which_vendors_take_a_schema() -> None:
    own = Provider.openai_compatible("own", base_url="http://127.0.0.1:1/v1")
    taking = Provider.openai_compatible(
        "taking", base_url="http://127.0.0.1:1/v1", flags={"output_schema": True}
    )
    models = Models([own, taking])

    own_model, taking_model = models.resolve("own/x"), models.resolve("taking/x")

    assert not models.takes_output_schema(own_model)
    assert models.takes_output_schema(taking_model)


async def test_a_correction_that_was_not_said_is_nobodys_message() -> None:
    """A run that is stopped before it leaves nothing of ours in the queue of the user."""
    model = ScriptedModel([Reply("hm"), final(answer=1)])
    agent = Agent(model.model, stream_fn=model.stream_fn, output_type=int)
    agent.subscribe(lambda event: agent.abort() if event.type == "turn_end" else None)

    result = await agent.prompt("go")

    assert (result.stop_reason, result.undelivered) == ("aborted", ())
    assert not agent.has_queued_messages()
