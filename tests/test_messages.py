"""Messages: what they hold, and that they come back from storage as they went."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import DecodeError
from loopwright.messages import (
    MOST_DOLLARS,
    MOST_TOKENS,
    AgentToolResult,
    AssistantMessage,
    Cost,
    CustomMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    message_from_dict,
    message_from_json,
    text_of,
)


class Memo(CustomMessage, tag="memo"):
    """A message with a role of the program's own."""

    text: str
    written_by: str | None = None


names = st.sampled_from(["plain", "snake_case", "camelCase", "text", "type", "isError", "is_error"])
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
free = st.dictionaries(names, json_values, max_size=3)
text = st.text(max_size=8)
maybe = st.none() | text
texts = st.builds(TextContent, text, maybe)
images = st.builds(ImageContent, text, text)
calls = st.builds(ToolCall, text, text, free, maybe, maybe, maybe)
thoughts = st.builds(ThinkingContent, text, maybe, st.booleans())
count = st.integers(0, 10**9)
money = st.none() | st.floats(0, 1e6, allow_nan=False)
costs = st.builds(Cost, money, money, money, money, money)
usages = st.builds(
    Usage, count, count, count, count, st.none() | count, count, costs, st.booleans()
)
times = st.integers(0, 2**53)
content = st.lists(texts | images, max_size=3)
messages = st.one_of(
    st.builds(UserMessage, text | content, times),
    st.builds(
        AssistantMessage, st.lists(texts | thoughts | calls, max_size=4), text, text, text, usages,
        st.sampled_from(["stop", "length", "toolUse", "error", "aborted"]), maybe, maybe, maybe, times,
    ),
    st.builds(ToolResultMessage, text, text, content, json_values, st.booleans(),
              st.none() | usages, times),
    st.builds(Memo, text=text, written_by=maybe, timestamp=times),
)  # fmt: skip


# -- round trips -------------------------------------------------------------------------------


@given(messages)
def test_every_message_comes_back_from_json_and_from_dictionaries_in_both_cases(
    message: Any,
) -> None:
    assert message_from_json(message.to_json()) == message
    assert message_from_dict(message.to_dict()) == message
    assert message_from_dict(message.to_dict(camel=True)) == message
    assert type(message).from_json(message.to_json()) == message


@given(messages)
def test_behaviour_047_a_written_message_is_of_one_case_throughout(message: Any) -> None:
    """Apart from the keys of free-form values, which are the user's."""

    def keys(value: Any) -> set[str]:
        found: set[str] = set()
        if isinstance(value, dict):
            for key, inner in value.items():
                found.add(key)
                if key not in ("arguments", "details"):
                    found |= keys(inner)
        elif isinstance(value, list):
            for inner in value:
                found |= keys(inner)
        return found

    assert not any("_" in key for key in keys(message.to_dict(camel=True)))
    assert not any(key != key.lower() for key in keys(message.to_dict()))
    assert json.loads(message.to_json()) == message.to_dict(camel=True)


@given(free)
def test_keys_inside_arguments_and_details_are_never_renamed(data: dict[str, Any]) -> None:
    call = AssistantMessage([ToolCall("c", "look", data)])
    result = ToolResultMessage("c", "look", [], data)

    for camel in (False, True):
        assert call.to_dict(camel)["content"][0]["arguments"] == data
        assert result.to_dict(camel).get("details", {}) == data
    assert json.loads(call.to_json())["content"][0]["arguments"] == data


def test_an_optional_value_that_is_absent_is_not_written_as_null() -> None:
    data = AssistantMessage([TextContent("x")], timestamp=1).to_dict()

    assert None not in data.values()
    assert data["content"] == [{"type": "text", "text": "x"}]


def test_the_form_files_and_front_ends_read() -> None:
    message = ToolResultMessage("c", "look", [ImageContent("aGk=", "image/png")], timestamp=5)

    assert json.loads(message.to_json()) == {
        "role": "toolResult",
        "toolCallId": "c",
        "toolName": "look",
        "content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}],
        "isError": False,
        "timestamp": 5,
    }


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"role": "narrator", "content": "x"}, "unknown role 'narrator'"),
        ({"content": "x"}, "no role"),
        ({"role": 3}, "role"),
        ({"role": "user"}, "no 'content'"),
        ({"role": "user", "content": [{"type": "video", "url": "x"}]}, "unknown type 'video'"),
        ({"role": "assistant", "content": [{"type": "image", "data": "", "mimeType": ""}]},
         "unknown type 'image'"),
        ({"role": "user", "content": 5}, "content"),
        ({"role": "assistant", "content": [], "stopReason": "tired"}, "tired"),
        ({"role": "toolResult", "toolCallId": 5, "toolName": "x", "content": []}, "toolCallId"),
    ],
)  # fmt: skip
def test_what_nobody_knows_is_refused_by_name_and_place(data: dict[str, Any], said: str) -> None:
    with pytest.raises(DecodeError) as caught:
        message_from_dict(data)

    assert said in str(caught.value)


@pytest.mark.parametrize("data", [b"{", b"[]", b'"user"', b"\xff", b""])
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        message_from_json(data)


def test_unknown_fields_are_passed_over() -> None:
    message = message_from_dict({"role": "user", "content": "x", "timestamp": 1, "mood": "good"})

    assert message == UserMessage("x", 1)


# -- custom messages ---------------------------------------------------------------------------


def test_a_role_of_ones_own_is_read_on_the_object_and_survives_storage() -> None:
    memo = Memo(text="x", written_by="me", timestamp=1)

    assert memo.role == "memo"
    assert memo.to_dict() == {"role": "memo", "timestamp": 1, "text": "x", "written_by": "me"}
    assert message_from_json(memo.to_json()) == memo
    assert CustomMessage.from_json(memo.to_json()) == memo
    assert isinstance(memo, CustomMessage)


def test_a_custom_message_needs_a_role() -> None:
    with pytest.raises(TypeError, match='tag="nameless"'):

        class Nameless(CustomMessage):
            pass


@pytest.mark.parametrize("role", ["user", "assistant", "toolResult"])
def test_the_roles_of_the_runtime_cannot_be_taken(role: str) -> None:
    with pytest.raises(TypeError, match="belongs to the runtime"):

        class Impostor(CustomMessage, tag=role):
            pass


def test_a_role_declared_again_belongs_to_the_later_class_and_a_log_line_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Two tests, or two runs of a notebook's cell, may each declare a `Note`."""

    class First(CustomMessage, tag="declared_again"):
        text: str

    class Second(CustomMessage, tag="declared_again"):
        text: str

    assert type(message_from_json(First(text="x").to_json())) is Second
    assert "declared_again" in caplog.text


def test_another_custom_class_does_not_read_it() -> None:
    class Other(CustomMessage, tag="other_memo"):
        text: str

    with pytest.raises(DecodeError, match="unknown role 'memo'"):
        Other.from_json(Memo(text="x").to_json())


# -- surrogates --------------------------------------------------------------------------------


def test_case_021_behaviour_150_half_a_surrogate_pair_never_stops_the_writing() -> None:
    message = AssistantMessage(
        [TextContent("done \ud83d"), ToolCall("c", "n", {"k\udce9": ["\ud83d", "🙂"]})],
        error_message="caf\udce9",
        timestamp=1,
    )

    back = message_from_json(message.to_json())

    assert isinstance(back, AssistantMessage)
    assert back.text == "done �"
    assert back.tool_calls[0].arguments == {"k�": ["�", "🙂"]}
    assert back.error_message == "caf�"
    assert message_from_dict(message.to_dict()) == back


def test_case_021_the_two_halves_of_a_pair_are_joined() -> None:
    assert UserMessage("\ud83d\ude42", 1).to_dict()["content"] == "🙂"


# -- reading -----------------------------------------------------------------------------------


def test_the_parts_of_a_message_are_at_hand() -> None:
    call = ToolCall("c", "look", {})
    message = AssistantMessage([ThinkingContent("hm"), TextContent("a"), call, TextContent("b")])

    assert (message.text, message.thinking, message.tool_calls) == ("ab", "hm", [call])
    assert (message.role, call.type) == ("assistant", "toolCall")
    assert UserMessage([TextContent("a"), ImageContent("", ""), TextContent("b")]).text == "ab"
    assert ToolResultMessage("c", "n", [TextContent("r")]).text == "r"
    assert AgentToolResult([TextContent("r")]).text == "r"
    assert text_of("plain") == "plain"


def test_a_message_says_when_it_was_made_in_milliseconds() -> None:
    assert UserMessage("x").timestamp > 1_600_000_000_000


def test_fields_go_in_the_order_printed() -> None:
    result = ToolResultMessage("c", "look", [], {"d": 1}, True, Usage(1), 7)

    assert (result.details, result.is_error, result.usage, result.timestamp) == (
        {"d": 1}, True, Usage(1), 7
    )  # fmt: skip


def test_messages_cannot_be_changed() -> None:
    message: Any = UserMessage("x")

    with pytest.raises(AttributeError):
        message.content = "y"


# -- usage -------------------------------------------------------------------------------------


def test_usages_add_up_and_an_unknown_cost_stays_unknown() -> None:
    priced = Usage(1, 2, 3, 4, 1, 10, Cost(1, 1, 1, 1, 4))
    unpriced = Usage(1, 2, 3, 4, None, 10)

    both = priced + priced
    mixed = priced + unpriced

    assert (both.input, both.output, both.total_tokens, both.cost.total) == (2, 4, 20, 8)
    assert (mixed.reasoning, mixed.cost.total) == (1, None)
    assert priced + Usage() == Usage() + priced == priced


def test_a_usage_nobody_told_makes_the_sum_unknown() -> None:
    assert (Usage(1) + Usage(known=False)).known is False


@given(usages, usages)
def test_case_042_the_sum_is_plain(left: Usage, right: Usage) -> None:
    both = left + right

    assert both.input == left.input + right.input
    assert both.cache_read == left.cache_read + right.cache_read
    assert both.total_tokens == left.total_tokens + right.total_tokens


def test_counts_that_nobody_can_have_counted_are_kept_in_bounds() -> None:
    below = Usage(input=-5, output=7, total_tokens=2)
    nothing = Usage.from_dict({"input": -5, "output": -5, "cost": {"total": -10}})
    above = Usage.from_json('{"input": 1000000000000000000, "reasoning": -1}')

    assert (below.input, below.output, below.known, below.doubtful) == (0, 7, True, True)
    assert (nothing.is_empty, nothing.known, nothing.cost.total) == (True, False, None)
    assert (above.input, above.reasoning, above.doubtful) == (MOST_TOKENS, 0, True)
    assert (above + above).input == MOST_TOKENS
    assert msgspec.structs.replace(below, output=-1).output == 0


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        (-0.01, None),
        (float("nan"), None),
        (float("-inf"), None),
        (float("inf"), MOST_DOLLARS),
        (1e308, MOST_DOLLARS),
        (0.25, 0.25),
        (0, 0),
    ],
)
def test_what_is_no_price_is_not_known_and_none_is_without_end(
    told: float, kept: float | None
) -> None:
    cost = Cost(total=told, input=told)

    assert (cost.total, cost.input) == (kept, kept)
    assert (cost + cost).total == (None if kept is None else min(2 * kept, MOST_DOLLARS))


def test_messages_can_be_replaced_in_parts() -> None:
    message = AssistantMessage([TextContent("x")], timestamp=1)

    assert msgspec.structs.replace(message, stop_reason="length").stop_reason == "length"
    assert message.stop_reason == "stop"
