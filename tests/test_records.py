"""Records inside other people's models, and free-form values made plain."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError

from loopwright.messages import (
    AgentMessage,
    AssistantMessage,
    CustomMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from loopwright.records import clean_text, to_jsonable
from loopwright.stream import TextDelta


class RecordsNote(CustomMessage, tag="records_note"):
    text: str


class Holder(BaseModel):
    """Somebody's model that holds ours."""

    last: AssistantMessage
    history: list[Message]
    everything: list[AgentMessage] = []
    usage: Usage | None = None


REPLY = AssistantMessage([TextContent("x"), ToolCall("c", "look", {"snake_key": 1})], timestamp=1)
HOLDER = Holder(
    last=REPLY,
    history=[UserMessage("Hi", 1), REPLY, ToolResultMessage("c", "look", [], timestamp=1)],
    everything=[RecordsNote(text="n", timestamp=1)],
)


# -- pydantic ----------------------------------------------------------------------------------


def test_a_pydantic_model_holds_ours_dumps_them_and_reads_them_back() -> None:
    data = HOLDER.model_dump()
    text = HOLDER.model_dump_json()

    assert data["history"][1]["content"][1]["arguments"] == {"snake_key": 1}
    assert data["last"]["stopReason"] == "stop"
    assert Holder.model_validate(data) == HOLDER
    assert Holder.model_validate_json(text) == HOLDER
    assert Holder.model_validate({"last": REPLY.to_dict(), "history": []}).last == REPLY


def test_a_pydantic_model_refuses_what_is_not_ours() -> None:
    with pytest.raises(ValidationError, match="unknown role 'narrator'|expected"):
        Holder.model_validate({"last": {"role": "narrator"}, "history": []})
    with pytest.raises(ValidationError):
        Holder.model_validate({"last": 5, "history": []})


def test_the_json_schema_is_true() -> None:
    schema = Holder.model_json_schema(mode="serialization")
    data = HOLDER.model_dump(mode="json")

    jsonschema.validate(data, schema)
    jsonschema.Draft202012Validator.check_schema(schema)
    for broken in (
        {**data, "last": {**data["last"], "content": "text"}},
        {**data, "last": {**data["last"], "role": "user"}},
        {**data, "last": {**data["last"], "stopReason": "tired"}},
        {**data, "history": [{"role": "narrator"}]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)


def test_events_fit_into_pydantic_models_too() -> None:
    adapter = TypeAdapter(TextDelta)
    event = TextDelta(0, "x")

    assert adapter.validate_python({"type": "text_delta", "contentIndex": 0, "delta": "x"}) == event
    assert adapter.dump_python(event) == {"type": "text_delta", "contentIndex": 0, "delta": "x"}
    assert adapter.json_schema()["properties"]["contentIndex"] == {"type": "integer"}


# -- free-form values --------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    x_axis: int


class Pydantic(BaseModel):
    some_name: datetime.date


def test_free_form_values_become_plain_data_with_their_keys_untouched() -> None:
    day = datetime.date(2030, 1, 2)

    assert to_jsonable({1: Point(2), "p": Pydantic(some_name=day), "d": day, "t": (1, "\ud83d")}) == {
        "1": {"x_axis": 2}, "p": {"some_name": "2030-01-02"}, "d": "2030-01-02", "t": [1, "�"]
    }  # fmt: skip
    assert to_jsonable({"usage": Usage(1, told := 2)})["usage"]["output"] == told
    assert to_jsonable(object).startswith("<class")


def test_details_of_any_type_can_be_stored() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd \ud83d"

    message = ToolResultMessage(
        "c", "n", [], {"odd": Odd(), "when": datetime.date(2030, 1, 2)}, timestamp=1
    )

    assert message.to_dict()["details"] == {"odd": "odd �", "when": "2030-01-02"}
    assert ToolResultMessage.from_json(message.to_json()).details["when"] == "2030-01-02"


# -- text --------------------------------------------------------------------------------------


@given(st.text(max_size=10))
def test_clean_text_can_always_be_encoded_and_good_text_is_the_same_object(text: str) -> None:
    cleaned = clean_text(text)

    cleaned.encode("utf-8")
    assert cleaned is text


@given(st.lists(st.sampled_from(["a", "🙂", "\ud83d", "\ude42", "\udce9", "é"]), max_size=8))
def test_behaviour_150_lone_halves_become_marks_and_pairs_are_joined(parts: list[str]) -> None:
    text = "".join(parts)

    cleaned = clean_text(text)

    cleaned.encode("utf-8")
    assert clean_text(cleaned) is cleaned
    assert len(cleaned) >= len([p for p in parts if p in ("a", "🙂", "é")])
    if not any("\ud800" <= c <= "\udfff" for c in text):
        assert cleaned is text


def test_a_record_compares_by_what_it_says(recwarn: Any) -> None:
    assert UserMessage("x", 1) == UserMessage("x", 1) != UserMessage("y", 1)
    assert not recwarn.list
