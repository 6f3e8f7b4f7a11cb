"""Any transcript becomes sendable to any model, and nothing of it is changed that need not be."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.errors import Misuse
from loopwright.messages import (
    AssistantMessage,
    CustomMessage,
    ImageContent,
    Message,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.models import Model
from loopwright.models.handoff import MessageView, SendableTranscript, sendable

MODEL = Model("acme", "large", "openai-chat")
SAME: dict[str, Any] = {"provider": "acme", "api": "openai-chat", "model": "large"}


def assistant(*content: Any, stop_reason: StopReason = "stop", **who: Any) -> AssistantMessage:
    return AssistantMessage(list(content), stop_reason=stop_reason, timestamp=1, **(who or SAME))


def call(id: str, name: str = "look", **arguments: Any) -> ToolCall:
    return ToolCall(id, name, arguments)


def result(id: str, text: str = "done", name: str = "look") -> ToolResultMessage:
    return ToolResultMessage(id, name, [TextContent(text)], timestamp=1)


def user(text: str = "Hi") -> UserMessage:
    return UserMessage(text, 1)


def sent(*messages: Message) -> list[Message]:
    return list(sendable(messages, MODEL))


def shape(messages: Any) -> list[str]:
    """Roles, with the ids of calls and of what they were answered by."""
    words: list[str] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            words.append(" ".join(["assistant", *[c.id for c in message.tool_calls]]))
        elif isinstance(message, ToolResultMessage):
            words.append(f"result {message.tool_call_id}")
        else:
            words.append("user")
    return words


# -- what stays --------------------------------------------------------------------------------


def test_messages_that_need_no_change_are_the_very_same_objects() -> None:
    messages: list[Message] = [
        user(),
        assistant(ThinkingContent("hm", "S"), TextContent("Hello"), call("c1")),
        result("c1"),
        assistant(TextContent("Done")),
    ]

    assert all(a is b for a, b in zip(sent(*messages), messages, strict=True))


def test_the_transcript_itself_is_never_changed() -> None:
    messages: list[Message] = [user("\ud83d"), assistant(call("c", text="\ud83d")), user("")]
    before = repr(messages)

    sent(*messages)

    assert repr(messages) == before


# -- failed replies ----------------------------------------------------------------------------


@pytest.mark.parametrize("stop_reason", ["error", "aborted"])
def test_behaviour_050_failed_replies_and_their_results_are_left_out(stop_reason: Any) -> None:
    messages = [
        user(),
        assistant(TextContent("I will"), call("c1"), stop_reason=stop_reason),
        result("c1"),
        user("go on"),
    ]

    assert sent(*messages) == [messages[0], messages[3]]


def test_a_failed_reply_does_not_take_the_results_of_the_one_before() -> None:
    messages = [
        user(), assistant(call("c1")), result("c1"),
        assistant(call("c1"), stop_reason="aborted"), user("go on"),
    ]  # fmt: skip

    assert shape(sent(*messages)) == ["user", "assistant c1", "result c1", "user"]


# -- calls and results -------------------------------------------------------------------------


def test_behaviour_089_a_call_without_a_result_is_answered_in_its_place() -> None:
    told = sent(user(), assistant(call("c1"), call("c2")), result("c2"), user("go on"))

    assert shape(told) == ["user", "assistant c1 c2", "result c1", "result c2", "user"]
    made_up = told[2]
    assert isinstance(made_up, ToolResultMessage)
    assert made_up.is_error
    assert "No result provided" in made_up.text


def test_case_022_a_call_at_the_very_end_is_answered_too() -> None:
    assert shape(sent(user(), assistant(call("c1")))) == ["user", "assistant c1", "result c1"]


def test_behaviour_089_results_without_a_call_and_second_results_are_left_out() -> None:
    told = sent(user(), result("x"), assistant(call("c1")), result("c1", "1"), result("c1", "2"))

    assert shape(told) == ["user", "assistant c1", "result c1"]
    assert cast("ToolResultMessage", told[2]).text == "1"


def test_results_are_put_in_the_order_asked() -> None:
    told = sent(user(), assistant(call("a"), call("b")), result("b"), result("a"))

    assert shape(told) == ["user", "assistant a b", "result a", "result b"]


def test_what_was_said_between_a_call_and_its_result_moves_behind_it() -> None:
    told = sent(user(), assistant(call("a"), call("b")), result("a"), user("wait"), result("b"))

    assert shape(told) == ["user", "assistant a b", "result a", "result b", "user"]
    assert cast("ToolResultMessage", told[3]).text == "done"


def test_case_022_a_result_that_comes_after_the_next_reply_is_not_added() -> None:
    told = sent(user(), assistant(call("a")), assistant(TextContent("x")), result("a", "late"))

    assert shape(told) == ["user", "assistant a", "result a", "assistant"]
    assert "No result" in cast("ToolResultMessage", told[2]).text


# -- ids ---------------------------------------------------------------------------------------


def test_case_016_an_id_used_in_two_turns_is_renamed_with_its_result() -> None:
    history = [
        user(), assistant(call("f:7", path="a.txt")), result("f:7", "A"),
        assistant(call("f:7", path="b.txt")), result("f:7", "B"),
    ]  # fmt: skip

    told = sent(*history)

    assert shape(told) == [
        "user", "assistant f:7", "result f:7", "assistant f:7_2", "result f:7_2"
    ]  # fmt: skip
    assert cast("ToolResultMessage", told[4]).text == "B"
    assert told == sent(*history)


def test_case_016_behaviour_088_two_calls_with_one_id_in_one_reply_are_matched_by_position() -> (
    None
):
    told = sent(
        user(), assistant(call("x", n=1), call("x", n=2)), result("x", "1"), result("x", "2")
    )

    assert shape(told) == ["user", "assistant x x_2", "result x", "result x_2"]
    assert [cast("ToolResultMessage", m).text for m in told[2:]] == ["1", "2"]


def test_an_empty_id_gets_one() -> None:
    told = sent(user(), assistant(call("")), result(""))

    assert shape(told) == ["user", "assistant call", "result call"]


# -- thinking and signatures -------------------------------------------------------------------


def test_case_017_signed_thinking_goes_back_byte_for_byte() -> None:
    signed = assistant(
        ThinkingContent("T1 \r\n ", "S1"),
        ThinkingContent("", "R", True),
        ThinkingContent("", "S2"),
        TextContent("text", "phase"),
        call("c1"),
    )

    assert sent(user(), signed, result("c1"))[1] is signed


@pytest.mark.parametrize("field", ["provider", "api", "model"])
def test_case_017_behaviour_053_no_other_model_sees_it(field: str) -> None:
    foreign = assistant(
        ThinkingContent("T1", "S1"),
        TextContent("text", "phase"),
        ToolCall("c1", "look", {}, "thought"),
        **cast("dict[str, Any]", {**SAME, field: "other"}),
    )

    told = cast("AssistantMessage", sent(user(), foreign, result("c1"))[1])

    assert told.content == [TextContent("text"), ToolCall("c1", "look", {})]


def test_case_018_a_thought_signature_stays_on_the_call_it_came_with() -> None:
    reply = assistant(ToolCall("a", "look", {}, "s1"), ToolCall("b", "look", {}))

    told = sent(user(), reply, result("a"), result("b"))

    assert told[1] is reply


def test_thinking_without_text_and_signature_is_nothing() -> None:
    assert shape(sent(user(), assistant(ThinkingContent("")), user())) == ["user", "user"]


# -- empty content -----------------------------------------------------------------------------


def test_case_020_blank_text_is_left_out_and_the_call_stays() -> None:
    told = sent(
        user(), assistant(TextContent(""), call("c1")), result("c1"),
        assistant(TextContent("  \n")), assistant(), user("next"),
    )  # fmt: skip

    assert shape(told) == ["user", "assistant c1", "result c1", "user"]
    assert cast("AssistantMessage", told[1]).content == [call("c1")]


def test_an_empty_user_turn_says_so() -> None:
    image = ImageContent("aGk=", "image/png")

    told = sent(user("  "), UserMessage([], 1), UserMessage([TextContent(""), image], 1))

    assert cast("UserMessage", told[0]).content == "(empty message)"
    assert cast("UserMessage", told[1]).content == [TextContent("(empty message)")]
    assert cast("UserMessage", told[2]).content == [image]


def test_behaviour_066_a_tool_that_returned_nothing_is_sent_as_an_empty_list() -> None:
    empty = ToolResultMessage("c", "look", [TextContent("")], timestamp=1)

    told = sent(user(), assistant(call("c")), empty)

    assert cast("ToolResultMessage", told[2]).content == []


# -- surrogates --------------------------------------------------------------------------------


def test_case_021_behaviour_150_half_pairs_are_replaced_everywhere_and_whole_ones_kept() -> None:
    told = sent(
        user("cut \ud83d"),
        assistant(
            TextContent("caf\udce9"),
            ToolCall("i\ud83d", "n\ud83d", {"k\ud83d": ["v\ud83d", {"a": "\ud83d"}], "ok": "🙂"}),
        ),
        result("i\ud83d", "done \ud83d🙂", "n\ud83d"),
    )

    def texts(value: Any) -> str:
        return repr(value).encode("utf-8").decode("utf-8")

    assert "�" in texts([m.to_dict() for m in told])
    assert cast("AssistantMessage", told[1]).content[1] == ToolCall(
        "i�", "n�", {"k�": ["v�", {"a": "�"}], "ok": "🙂"}
    )
    assert cast("ToolResultMessage", told[2]).text == "done �🙂"
    assert cast("ToolResultMessage", told[2]).tool_call_id == "i�"


# -- misuse ------------------------------------------------------------------------------------


class HandoffNote(CustomMessage, tag="handoff_note"):
    text: str


def test_a_role_no_vendor_knows_is_refused_by_name() -> None:
    with pytest.raises(Misuse, match="'handoff_note'"):
        sent(user(), cast("Any", HandoffNote(text="x")))


# -- growing -----------------------------------------------------------------------------------


def test_a_view_is_immutable_and_compares_like_a_list() -> None:
    items: list[Message] = [user("a"), user("b")]
    view = MessageView(items)

    items.append(user("c"))

    assert len(view) == 2
    assert view == [user("a"), user("b")]
    assert view == MessageView([user("a"), user("b")])
    assert view != [user("a")]
    assert view[-1] == user("b")
    assert view[:1] == [user("a")]
    assert [m.text for m in view if isinstance(m, UserMessage)] == ["a", "b"]
    assert repr(view) == repr([user("a"), user("b")])
    with pytest.raises(IndexError):
        view[2]
    assert not hasattr(view, "append")


def test_a_view_made_for_the_same_model_is_not_made_again() -> None:
    view = sendable([user(), assistant(ThinkingContent("x", "S"))], MODEL)

    assert sendable(view, MODEL) is view
    assert sendable(view, Model("other", "m", "openai-chat")) is not view


def test_work_is_done_once_a_message_however_many_requests_are_made() -> None:
    """Counted, not timed: each view shares the one list, and `extend` touches only what is new."""
    transcript = SendableTranscript(MODEL)
    views: list[MessageView] = []

    for n in range(500):
        transcript.extend([user(str(n))])
        views.append(transcript.view())

    assert len({id(view._items) for view in views}) == 1
    assert [len(view) for view in views] == list(range(1, 501))
    assert len({id(view.memo) for view in views}) == 1


texts = st.sampled_from(["", " ", "a", "b\ud83d", "🙂"])
ids = st.sampled_from(["", "x", "y", "x_2"])
blocks = st.one_of(
    st.builds(TextContent, texts, st.none() | st.just("sig")),
    st.builds(ThinkingContent, texts, st.none() | st.just("S"), st.booleans()),
    st.builds(ToolCall, ids, st.just("look"), st.dictionaries(texts, texts, max_size=2)),
)
whos = st.sampled_from([SAME, {"provider": "other", "api": "openai-chat", "model": "m"}])
messages = st.one_of(
    st.builds(lambda text: UserMessage(text, 1), texts),
    st.builds(
        lambda content, stop, who: AssistantMessage(content, stop_reason=stop, timestamp=1, **who),
        st.lists(blocks, max_size=4),
        st.sampled_from(["stop", "toolUse", "length", "error", "aborted"]),
        whos,
    ),
    st.builds(lambda id, text: result(id, text), ids, texts),
)


@settings(max_examples=300)
@given(st.lists(messages, max_size=14))
def test_any_transcript_becomes_well_formed(history: list[Message]) -> None:
    told = sent(*history)

    seen: set[str] = set()
    place = 0
    while place < len(told):
        message = told[place]
        place += 1
        assert not isinstance(message, ToolResultMessage), "a result stands only behind its call"
        repr(message).encode("utf-8")
        if isinstance(message, AssistantMessage):
            assert message.content
            assert message.stop_reason not in ("error", "aborted")
            calls = [c.id for c in message.tool_calls]
            assert len(set(calls)) == len(calls)
            assert not seen & set(calls)
            seen |= set(calls)
            answers = told[place : place + len(calls)]
            assert [cast("ToolResultMessage", a).tool_call_id for a in answers] == calls
            place += len(calls)
            if (message.provider, message.model) != ("acme", "large"):
                assert not message.thinking
                assert all(getattr(b, "text_signature", None) is None for b in message.content)
    assert told == sent(*history)
    assert sendable(sendable(history, MODEL), MODEL) == told


@settings(max_examples=300)
@given(st.lists(messages, max_size=14), st.data())
def test_behaviour_051_every_request_begins_with_the_one_before(
    history: list[Message], data: st.DataObject
) -> None:
    """Whenever a view is taken, also with calls open; what it showed stays."""
    transcript = SendableTranscript(MODEL)
    before: list[Message] = []

    for message in history:
        transcript.extend([message])
        if data.draw(st.booleans()):
            shown = list(transcript.view())
            assert shown[: len(before)] == before
            before = shown

    assert list(transcript.view())[: len(before)] == before


@settings(max_examples=100)
@given(st.lists(messages, max_size=14), st.integers(0, 14))
def test_growing_in_steps_gives_the_same_as_all_at_once(history: list[Message], cut: int) -> None:
    transcript = SendableTranscript(MODEL)

    transcript.extend(history[:cut])
    transcript.extend(history[cut:])

    assert transcript.view() == sent(*history)
