"""What is sent to hosts of Anthropic Messages: turns that alternate, and known fields only."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.errors import Misuse
from loopwright.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    message_from_json,
)
from loopwright.models import Context, Model, ToolSpec
from loopwright.models.clients import Clients
from loopwright.models.handoff import MessageView, SendableTranscript, sendable
from loopwright.models.provider import Endpoint
from loopwright.models.wires import WireCall
from loopwright.models.wires.anthropic_messages_encode import encode, forget_thinking
from loopwright.models.wires.anthropic_messages_turns import TurnRules, turns_of

from ..transcripts import transcripts

MODEL = Model(
    "anthropic", "claude-sonnet-4-5", "anthropic-messages",
    input=("text", "image"), max_tokens=64_000,
)  # fmt: skip
ADAPTIVE = msgspec.structs.replace(MODEL, id="claude-opus-4-8", max_tokens=128_000)
IMAGE = ImageContent("aGk=", "image/png")
IMAGE_SENT = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
}
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def assistant(*content: Any, model: Model = MODEL, **more: Any) -> AssistantMessage:
    return AssistantMessage(list(content), model.api, model.provider, model.id, timestamp=1, **more)


def call(id: str, name: str = "look", **more: Any) -> ToolCall:
    return ToolCall(id, name, {}, **more)


def result(id: str, *content: Any, is_error: bool = False) -> ToolResultMessage:
    said = list(content) or [TextContent("done")]
    return ToolResultMessage(id, "look", said, is_error=is_error, timestamp=1)


def user(content: Any = "Hi") -> UserMessage:
    return UserMessage(content, 1)


def wire_call(
    *messages: Message,
    view: MessageView | None = None,
    prompt: str = "",
    tools: tuple[ToolSpec, ...] = (),
    model: Model = MODEL,
    flags: dict[str, Any] | None = None,
    **options: Any,
) -> WireCall:
    context = Context(prompt, list(messages) or [user()], tools)
    return WireCall(
        model=model,
        context=context,
        messages=sendable(context.messages, model) if view is None else view,
        options=options,
        flags=flags or {},
        endpoint=Endpoint("https://api.anthropic.com"),
        clients=Clients(),
    )


def body(*messages: Message, **rest: Any) -> dict[str, Any]:
    return json.loads(encode(wire_call(*messages, **rest)))


def sent(*messages: Message, **rest: Any) -> list[dict[str, Any]]:
    rest.setdefault("cache", "none")
    return body(*messages, **rest)["messages"]


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


# -- fields ------------------------------------------------------------------------------------


def test_behaviour_053_nothing_is_sent_that_was_not_asked_for() -> None:
    assert body(cache="none", model=Model("acme", "large", "anthropic-messages")) == {
        "model": "large",
        "max_tokens": 8192,
        "stream": True,
        "messages": [{"role": "user", "content": [said("Hi")]}],
    }


def test_options_go_into_the_fields_of_the_dialect() -> None:
    got = body(
        tools=(ADD,), temperature=1.5, max_tokens=5, tool_choice="required",
        sampling_params={"top_p": 0.5, "top_k": 3, "stop": "x"}, parallel_tool_calls=False,
        metadata={"user_id": 7, "else": 1}, extra_body={"service_tier": "auto"}, cache="none",
    )  # fmt: skip

    assert (got["temperature"], got["top_p"], got["top_k"]) == (1, 0.5, 3)
    assert (got["max_tokens"], got["stop_sequences"]) == (5, ["x"])
    assert got["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert got["tools"] == [{"name": "add", "description": "Adds.", "input_schema": ADD.parameters}]
    assert (got["metadata"], got["service_tier"]) == ({"user_id": "7"}, "auto")


def test_the_output_limit_is_the_models_unless_that_is_very_large() -> None:
    small = msgspec.structs.replace(MODEL, max_tokens=4096)

    assert body(model=small)["max_tokens"] == 4096
    assert body(model=ADAPTIVE)["max_tokens"] == 32_000


def test_an_unknown_sampling_parameter_is_named() -> None:
    with pytest.raises(Misuse, match="seed"):
        body(sampling_params={"seed": 1})


def test_sampling_is_left_out_where_the_model_refuses_it() -> None:
    for rest in (
        {"model": ADAPTIVE},
        {"flags": {"temperature": False}},
        {"reasoning": "low"},
    ):
        got = body(temperature=0, sampling_params={"top_k": 1, "stop": ["x"]}, **rest)

        assert "temperature" not in got
        assert "top_k" not in got
        assert got["stop_sequences"] == ["x"]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ("any", {"type": "any"}),
        ("add", {"type": "tool", "name": "add"}),
        ({"type": "tool", "name": "add"}, {"type": "tool", "name": "add"}),
        ({"type": "any"}, {"type": "any"}),
    ],
)
def test_tool_choice_in_its_forms(choice: Any, expected: Any) -> None:
    assert body(tools=(ADD,), tool_choice=choice)["tool_choice"] == expected


@pytest.mark.parametrize(
    "rest",
    [
        {"reasoning": "high"},
        {"flags": {"tool_choice_required": False}},
        {"model": Model("anthropic", "claude-fable-5", "anthropic-messages")},
    ],
)
def test_who_thinks_or_cannot_be_forced_chooses_freely(rest: dict[str, Any]) -> None:
    assert body(tools=(ADD,), tool_choice="add", **rest)["tool_choice"] == {"type": "auto"}


def test_a_tool_that_is_not_on_offer_is_named() -> None:
    with pytest.raises(Misuse, match="'sub'"):
        body(tools=(ADD,), tool_choice="sub")


def test_quirks_of_hosts_about_tools() -> None:
    bare = ToolSpec("now", " ", {"properties": {}})
    search = {"type": "web_search_20250305", "name": "web_search"}

    eager = body(tools=(bare,), flags={"eager_tool_input": True}, cache="none")
    with_search = body(tools=(bare,), server_tools=[search], cache="none")

    assert eager["tools"] == [
        {"name": "now", "input_schema": {"type": "object", "properties": {}},
         "eager_input_streaming": True}
    ]  # fmt: skip
    assert with_search["tools"][1] == search
    assert "tools" not in body(tools=(ADD,), tool_choice="auto", flags={"tools": False})


def test_a_schema_for_the_output_is_closed_and_without_what_the_vendor_does_not_know() -> None:
    schema = {
        "type": "object",
        "properties": {
            "minimum": {"type": "integer", "minimum": 1},
            "tags": {"type": "array", "minItems": 3, "items": {"$ref": "#/$defs/Tag"}},
            "kind": {"oneOf": [{"const": {"default": 1}}, {"type": "null"}]},
        },
        "required": ["minimum"],
        "$defs": {"Tag": {"type": "object", "properties": {}}},
    }

    config = body(output_schema={"name": "x", "schema": schema, "strict": True})["output_config"]

    assert config == {
        "format": {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "properties": {
                    "minimum": {"type": "integer"},
                    "tags": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Tag"}},
                    "kind": {"anyOf": [{"const": {"default": 1}}, {"type": "null"}]},
                },
                "required": ["minimum"],
                "$defs": {
                    "Tag": {"type": "object", "properties": {}, "additionalProperties": False}
                },
                "additionalProperties": False,
            },
        }
    }


def test_on_vertex_the_model_stands_in_the_address() -> None:
    got = body(flags={"dialect": "vertex"})

    assert "model" not in got
    assert got["anthropic_version"] == "vertex-2023-10-16"


# -- thinking ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "budget"),
    [("minimal", 1024), ("low", 2048), ("medium", 8192), ("high", 16_384), ("max", 32_768)],
)
def test_older_models_think_within_a_budget_that_adds_to_the_output(
    level: str, budget: int
) -> None:
    got = body(reasoning=level, max_tokens=1000)

    assert got["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert got["max_tokens"] == 1000 + budget
    assert "output_config" not in got


def test_a_budget_of_the_callers_own_counts_and_is_capped() -> None:
    small = msgspec.structs.replace(MODEL, max_tokens=8192)
    tiny = msgspec.structs.replace(MODEL, max_tokens=1500)

    own = body(reasoning="low", thinking_budgets={"low": 5000}, max_tokens=100)
    capped = body(reasoning="high", model=small)
    hopeless = body(reasoning="high", model=tiny)
    too_small = body(reasoning="low", thinking_budgets={"low": 10})

    assert (own["thinking"]["budget_tokens"], own["max_tokens"]) == (5000, 5100)
    assert (capped["thinking"]["budget_tokens"], capped["max_tokens"]) == (7168, 8192)
    assert (hopeless["thinking"], hopeless["max_tokens"]) == ({"type": "disabled"}, 1500)
    assert too_small["thinking"]["budget_tokens"] == 1024


@pytest.mark.parametrize(
    ("model_id", "level", "effort"),
    [
        ("claude-opus-4-6", "minimal", "low"),
        ("claude-opus-4-6", "xhigh", "high"),
        ("claude-sonnet-4-6", "max", "max"),
        ("claude-opus-4-7", "xhigh", "xhigh"),
        ("anthropic/claude-sonnet-4.6", "medium", "medium"),
        ("claude-haiku-5", "low", "low"),
        ("claude-fable-5", "high", "high"),
        ("claude-opus-4-6-20260115", "low", "low"),
    ],
)
def test_newer_models_think_by_effort(model_id: str, level: str, effort: str) -> None:
    got = body(model=msgspec.structs.replace(MODEL, id=model_id), reasoning=level)

    assert got["thinking"]["type"] == "adaptive"
    assert got["output_config"] == {"effort": effort}
    assert got["max_tokens"] == 32_000


@pytest.mark.parametrize(
    "model_id",
    ["claude-3-7-sonnet-20250219", "claude-sonnet-4-20250514", "claude-opus-4-5", "claude-haiku-4-5-20251001"],
)  # fmt: skip
def test_which_models_are_older_is_seen_in_the_id(model_id: str) -> None:
    got = body(model=msgspec.structs.replace(MODEL, id=model_id), reasoning="low")

    assert got["thinking"]["type"] == "enabled"


def test_models_that_hide_their_thinking_are_asked_to_show_it() -> None:
    assert body(model=ADAPTIVE, reasoning="low")["thinking"] == {
        "type": "adaptive", "display": "summarized",
    }  # fmt: skip


def test_a_row_says_more_than_the_id() -> None:
    levels: dict[str, str | None] = {"off": None, "low": "low", "high": "max"}
    model = Model("acme", "m3", "anthropic-messages", thinking_levels=levels)
    flags = {"adaptive_thinking": True}

    assert body(model=model, flags=flags, reasoning="medium")["output_config"] == {"effort": "low"}
    assert body(model=model, flags=flags, reasoning="max")["output_config"] == {"effort": "max"}
    never_off = body(model=model, flags=flags, reasoning="off")
    assert never_off["output_config"] == {"effort": "low"}
    budget = msgspec.structs.replace(model, thinking_levels={"low": "3000"})
    assert body(model=budget, reasoning="high")["thinking"]["budget_tokens"] == 3000


def test_thinking_can_be_off_and_is_never_mentioned_unasked() -> None:
    unthinking = msgspec.structs.replace(MODEL, thinking_levels={})

    assert body(reasoning="off")["thinking"] == {"type": "disabled"}
    assert body(reasoning="off", model=ADAPTIVE)["thinking"] == {"type": "disabled"}
    assert "thinking" not in body()
    assert "thinking" not in body(model=unthinking, reasoning="high")
    assert "thinking" not in body(model=unthinking, reasoning="off")


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(Misuse, match="'extreme'"):
        body(reasoning="extreme")


def test_a_tool_loop_that_began_without_thinking_goes_on_without_it() -> None:
    """With a budget, the vendor refuses it; with an effort it does not."""
    loop = [user(), assistant(call("a")), result("a")]
    thought = [user(), assistant(ThinkingContent("hm", "S"), call("a")), result("a")]
    further = [*thought, assistant(call("b")), result("b")]

    assert body(*loop, reasoning="low")["thinking"] == {"type": "disabled"}
    assert body(*thought, reasoning="low")["thinking"]["type"] == "enabled"
    assert body(*further, reasoning="low")["thinking"]["type"] == "enabled"
    assert body(*loop, user("go on"), reasoning="low")["thinking"]["type"] == "enabled"
    assert body(*loop, reasoning="low", model=ADAPTIVE)["thinking"]["type"] == "adaptive"


SIGNED = [
    ThinkingContent("T1 \r\n", "S1"),
    ThinkingContent("", "R", redacted=True),
    ThinkingContent("", "S2"),
    TextContent("Let me look. "),
    call("t1"),
]
SIGNED_SENT = [
    {"type": "thinking", "thinking": "T1 \r\n", "signature": "S1"},
    {"type": "redacted_thinking", "data": "R"},
    {"type": "thinking", "thinking": "", "signature": "S2"},
    said("Let me look. "),
    {"type": "tool_use", "id": "t1", "name": "look", "input": {}},
]


def test_case_017_signed_thinking_goes_back_byte_for_byte_also_through_a_file() -> None:
    stored = message_from_json(assistant(*SIGNED).to_json())
    assert isinstance(stored, AssistantMessage)

    _, turn, _ = sent(user(), stored, result("t1"))

    assert turn == {"role": "assistant", "content": SIGNED_SENT}


@pytest.mark.parametrize("field", ["provider", "id"])
def test_case_017_thinking_goes_to_no_other_model(field: str) -> None:
    other = msgspec.structs.replace(MODEL, **{field: "other"})

    _, turn, _ = sent(user(), assistant(*SIGNED), result("t1"), model=other)

    assert turn["content"] == SIGNED_SENT[3:]


def test_case_017_thinking_whose_signature_was_refused_is_left_out_and_later_one_is_not() -> None:
    transcript = SendableTranscript(MODEL)
    transcript.extend([user(), assistant(*SIGNED), result("t1")])
    refused = wire_call(view=transcript.view(), cache="none")
    before = json.loads(encode(refused))["messages"]
    forget_thinking(refused)

    again = json.loads(encode(refused))["messages"]
    transcript.extend([assistant(ThinkingContent("new", "S3"), TextContent("x")), user()])
    later = json.loads(encode(wire_call(view=transcript.view(), cache="none")))["messages"]

    assert before[1]["content"] == SIGNED_SENT
    assert again[1]["content"] == later[1]["content"] == SIGNED_SENT[3:]
    assert later[3]["content"][0]["signature"] == "S3"


def test_unsigned_thinking_goes_back_only_where_that_is_allowed() -> None:
    turns = [user(), assistant(ThinkingContent("hm"), TextContent("x")), user()]

    assert sent(*turns)[1]["content"] == [said("x")]
    assert sent(*turns, flags={"empty_signature": True})[1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": ""}, said("x"),
    ]  # fmt: skip
    assert (
        sent(user(), assistant(*SIGNED), result("t1"), flags={"reasoning_replay": "none"})[1][
            "content"
        ]
        == SIGNED_SENT[3:]
    )


# -- turns -------------------------------------------------------------------------------------


def test_results_of_a_turn_and_what_the_user_says_next_are_one_turn() -> None:
    turns = sent(
        user("one"), user("two"), assistant(call("a"), call("b")), result("b"), result("a"),
        user("go on"),
    )  # fmt: skip

    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[0]["content"] == [said("one"), said("two")]
    assert [block.get("tool_use_id") for block in turns[2]["content"]] == ["a", "b", None]


def test_case_020_no_blank_text_is_sent_and_neighbours_are_joined() -> None:
    turns = sent(
        user("a"), assistant(TextContent("  \n")), user("b"), assistant(), user("c"),
        assistant(TextContent(""), call("x")), result("x"),
    )  # fmt: skip

    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[0]["content"] == [said("a"), said("b"), said("c")]
    assert [block["type"] for block in turns[1]["content"]] == ["tool_use"]


def test_images_of_users_and_tools_stay_where_they_are() -> None:
    turns = sent(
        user([TextContent("see"), IMAGE]), assistant(call("a")), result("a", IMAGE, TextContent("x"))
    )  # fmt: skip

    assert turns[0]["content"] == [said("see"), IMAGE_SENT]
    assert turns[2]["content"][0]["content"] == [IMAGE_SENT, said("x")]


def test_images_in_failed_results_follow_all_results() -> None:
    messages = [
        user(), assistant(call("a"), call("b")),
        result("a", TextContent("broken"), IMAGE, is_error=True), result("b", IMAGE),
    ]  # fmt: skip

    turn = sent(*messages)[2]["content"]
    kept = sent(*messages, flags={"text_only_error_results": False})[2]["content"]

    assert [block["type"] for block in turn] == ["tool_result", "tool_result", "text", "image"]
    assert (turn[0]["content"], turn[0]["is_error"]) == ([said("broken")], True)
    assert turn[1]["content"] == [IMAGE_SENT]
    assert kept[0]["content"] == [said("broken"), IMAGE_SENT]
    assert sent(*messages, user("go on"))[2]["content"] == [*turn, said("go on")]


def test_a_text_only_model_gets_one_placeholder_for_a_run_of_images() -> None:
    blind = msgspec.structs.replace(MODEL, input=("text",))

    (turn,) = sent(user([IMAGE, IMAGE, TextContent("x"), IMAGE]), model=blind)

    assert [block["type"] for block in turn["content"]] == ["text"] * 3


def test_an_image_of_a_kind_the_vendor_does_not_take_is_told() -> None:
    (turn,) = sent(user([ImageContent("aGk=", "image/bmp"), ImageContent("aGk=", "image/jpg")]))

    assert "image/bmp" in turn["content"][0]["text"]
    assert turn["content"][1]["source"]["media_type"] == "image/jpeg"


def test_a_foreign_id_or_name_is_changed_the_same_way_each_time() -> None:
    messages = [user(), assistant(call("call_1|fc_2"), call("ä"), call("z" * 65, "a.b")),
                result("call_1|fc_2"), result("ä"), result("z" * 65)]  # fmt: skip

    first, second = sent(*messages), sent(*messages)

    assert first == second
    ids = [block["id"] for block in first[1]["content"]]
    assert ids == [block["tool_use_id"] for block in first[2]["content"]]
    assert ids[0] == "call_1"
    assert first[1]["content"][2]["name"] == "a_b"


def test_case_002_a_call_that_could_not_be_parsed_is_sent_as_an_empty_object() -> None:
    broken = call("a", raw_arguments="[1]", arguments_error="an object was expected")

    assert sent(user(), assistant(broken), result("a"))[1]["content"][0]["input"] == {}


def test_a_final_text_of_the_models_own_does_not_end_in_white_space() -> None:
    turns = [user(), assistant(TextContent("Once upon \n"))]

    assert sent(*turns)[1]["content"] == [said("Once upon")]
    assert sent(*turns, user("go on"))[1]["content"] == [said("Once upon \n")]


def test_a_conversation_begins_with_the_users_side() -> None:
    for messages in ([assistant(TextContent("x")), user()], [assistant(stop_reason="error")]):
        assert sent(*messages)[0]["role"] == "user"


# -- the vendor's own blocks -------------------------------------------------------------------


def kept(**block: Any) -> TextContent:
    return TextContent("", json.dumps(block))


USE = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}


def test_server_side_tools_go_back_to_their_model_only() -> None:
    turns = [user(), assistant(kept(**USE), kept(**FOUND), TextContent("x")), user()]

    assert sent(*turns)[1]["content"] == [USE, FOUND, said("x")]
    assert sent(*turns, model=ADAPTIVE)[1]["content"] == [said("x")]


def test_a_paused_reply_is_sent_as_it_is_and_goes_on_in_the_same_turn() -> None:
    paused = assistant(TextContent("Hm."), kept(**USE), raw_stop_reason="pause_turn")

    assert sent(user(), paused)[1]["content"] == [said("Hm."), USE]
    assert sent(user(), paused, assistant(kept(**FOUND), TextContent("x")), user())[1][
        "content"
    ] == [said("Hm."), USE, FOUND, said("x")]


def test_a_server_side_call_without_a_result_does_not_break_the_transcript() -> None:
    paused = assistant(TextContent("Hm."), kept(**USE))
    late = assistant(kept(**FOUND), TextContent("x"))

    turns = sent(user(), paused, user("never mind"), late, user())

    assert [turn["content"] for turn in turns] == [
        [said("Hi")], [said("Hm.")], [said("never mind")], [said("x")], [said("Hi")],
    ]  # fmt: skip
    assert len(sent(user(), assistant(kept(**USE)), user("x"))) == 1


def test_a_call_from_the_vendors_sandbox_goes_back_with_its_caller() -> None:
    caller = {"type": "code_execution_20250825", "tool_id": "srv_1"}
    use = {**USE, "name": "code_execution"}
    from_sandbox = call("t", thought_signature=json.dumps({"caller": caller}))

    turns = sent(user(), assistant(kept(**use), from_sandbox), result("t"))

    assert turns[1]["content"][0] == use
    assert turns[1]["content"][1]["caller"] == caller


def test_citations_go_back_with_their_text() -> None:
    cited = TextContent("As said", json.dumps({"citations": [{"type": "x"}]}))

    assert sent(user(), assistant(cited), user())[1]["content"] == [
        {"type": "text", "text": "As said", "citations": [{"type": "x"}]}
    ]


def test_a_signature_nobody_here_wrote_is_ignored() -> None:
    for signature in ("refusal", "{", "[1]", "{}"):
        turns = sent(user(), assistant(TextContent("x", signature)), user())

        assert turns[1]["content"] == [said("x")]


# -- caching -----------------------------------------------------------------------------------

MARK = {"type": "ephemeral"}


def marks(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [mark for item in value for mark in marks(item)]
    if isinstance(value, dict):
        own = [value["cache_control"]] if "cache_control" in value else []
        return own + [mark for item in value.values() for mark in marks(item)]
    return []


def test_breakpoints_stand_behind_the_prompt_the_tools_and_the_users_last_words() -> None:
    got = body(user(), assistant(TextContent("x")), user("y"), prompt="Be brief.", tools=(ADD, ADD))

    assert got["system"] == [{**said("Be brief."), "cache_control": MARK}]
    assert [tool.get("cache_control") for tool in got["tools"]] == [None, MARK]
    assert got["messages"][2]["content"] == [{**said("y"), "cache_control": MARK}]
    assert marks(got) == [MARK] * 3


def test_a_breakpoint_stands_behind_results_and_before_a_reply_that_goes_on() -> None:
    results = body(user(), assistant(call("a"), call("b")), result("a"), result("b"))
    prefilled = body(user(), assistant(TextContent("x")))

    assert [b.get("cache_control") for b in results["messages"][2]["content"]] == [None, MARK]
    assert prefilled["messages"][0]["content"][0]["cache_control"] == MARK


def test_the_cache_can_be_off_or_kept_for_an_hour() -> None:
    rest: dict[str, Any] = {"prompt": "x", "tools": (ADD,)}
    hour = {"type": "ephemeral", "ttl": "1h"}

    assert marks(body(cache="none", **rest)) == []
    assert marks(body(cache="long", **rest)) == [hour] * 3
    assert marks(body(cache="long", flags={"long_cache": False}, **rest)) == [MARK] * 3
    assert marks(body(flags={"cache_control_on_tools": False}, **rest)) == [MARK] * 2


# -- requests grow at the end ------------------------------------------------------------------


def test_case_021_half_a_surrogate_pair_anywhere_still_gives_utf_8() -> None:
    tool = ToolSpec("add", "half \ud83d", {"type": "object", "properties": {"\udce9": {}}})

    raw = encode(
        wire_call(
            user("u \ud83d"), assistant(ToolCall("a\ud83d", "l\ud83d", {"k\ud83d": "v\ud83d"})),
            result("a\ud83d", TextContent("caf\udce9 🙂")), prompt="p\ud83d", tools=(tool,),
        )
    )  # fmt: skip

    assert "�" in raw.decode()
    assert "🙂" in raw.decode()


def test_a_turn_is_encoded_once() -> None:
    """What can change no more is handed on as the same bytes object, not as equal ones."""
    transcript = SendableTranscript(MODEL)
    for _ in range(5):
        transcript.extend([user(), assistant(TextContent("x"))])
    rules = TurnRules.of(MODEL, {}, unsigned_before=0)
    before = turns_of(transcript.view(), rules).encoded(b"{}")
    transcript.extend([user()])

    after = turns_of(transcript.view(), rules).encoded(b"{}")

    assert (len(before), len(after)) == (10, 11)
    assert all(new is old for new, old in zip(after[:8], before[:8], strict=True))


def test_an_earlier_request_can_be_made_again() -> None:
    transcript = SendableTranscript(MODEL)
    transcript.extend([user()])
    early = transcript.view()
    first = encode(wire_call(view=early))
    transcript.extend([assistant(TextContent("x")), user()])
    encode(wire_call(view=transcript.view()))

    assert encode(wire_call(view=early)) == first


def without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [without_marks(item) for item in value]
    if isinstance(value, dict):
        return {k: without_marks(item) for k, item in value.items() if k != "cache_control"}
    return value


CARRIED = st.sampled_from(
    [None, None, json.dumps(USE), json.dumps(FOUND), '{"citations":[{"type":"x"}]}', "odd"]
)


@settings(max_examples=250, deadline=None)
@given(transcripts(MODEL, signatures=CARRIED), st.data())
def test_behaviour_051_every_request_begins_with_the_one_before_breakpoints_apart(
    history: list[Message], data: st.DataObject
) -> None:
    transcript = SendableTranscript(MODEL)
    before: bytes | None = None
    for place, message in enumerate(history):
        transcript.extend([message])
        if not data.draw(st.booleans(), f"asked after {place}"):
            continue
        got = without_marks(json.loads(encode(wire_call(view=transcript.view())))["messages"])
        if got[-1]["role"] == "assistant":
            continue  # the end of the model's own words is trimmed for that request alone
        flat = b"".join(
            json.dumps([turn["role"], block]).encode() for turn in got for block in turn["content"]
        )
        if before is not None and b"nothing was said" not in before:
            assert flat.startswith(before)
        before = flat


# -- any transcript ----------------------------------------------------------------------------

BODY_FIELDS = {
    "model", "max_tokens", "stream", "system", "tools", "tool_choice", "messages", "thinking",
    "output_config", "temperature", "top_p", "top_k", "stop_sequences", "metadata",
}  # fmt: skip


def check_rules(got: dict[str, Any]) -> None:
    """What Anthropic's API demands of a body."""
    assert got.keys() <= BODY_FIELDS
    assert got["max_tokens"] >= 1
    thinking = got.get("thinking", {})
    if thinking.get("type") == "enabled":
        assert 1024 <= thinking["budget_tokens"] < got["max_tokens"]
    if thinking.get("type") in ("enabled", "adaptive"):
        assert got.get("tool_choice", {"type": "auto"})["type"] in ("auto", "none")
        assert "temperature" not in got
    assert all(block["text"].strip() for block in got.get("system", []))
    assert len(marks(got)) <= 4
    turns = got["messages"]
    assert [turn["role"] for turn in turns] == (["user", "assistant"] * len(turns))[: len(turns)]
    assert turns
    ids: set[str] = set()
    server: set[str] = set()
    asked: list[str] = []
    for turn in turns:
        assert turn["content"]
        if turn["role"] == "user":
            check_user_turn(turn["content"], asked)
            asked = []
        else:
            asked = check_reply(turn["content"], ids, server)
    assert not asked or turns[-1]["role"] == "assistant"
    last = turns[-1]["content"][-1]
    if turns[-1]["role"] == "assistant" and last["type"] == "text":
        assert last["text"] == last["text"].rstrip()


def check_user_turn(blocks: list[dict[str, Any]], asked: list[str]) -> None:
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    assert answered == asked, "every call is answered once, directly behind its reply"
    assert all(block["type"] == "tool_result" for block in blocks[: len(asked)])
    for block in blocks:
        assert block["type"] in ("text", "image", "tool_result")
        inner = block["content"] if block["type"] == "tool_result" else [block]
        for part in inner:
            check_part(part)
            assert part["type"] != "image" or not block.get("is_error")


def check_part(part: dict[str, Any]) -> None:
    if part["type"] == "text":
        assert part["text"].strip()
    else:
        assert part["source"]["media_type"] in (
            "image/png", "image/jpeg", "image/gif", "image/webp",
        )  # fmt: skip


def check_reply(blocks: list[dict[str, Any]], ids: set[str], server: set[str]) -> list[str]:
    asked: list[str] = []
    open_server: set[str] = set()
    for block in blocks:
        assert "cache_control" not in block
        match block["type"]:
            case "text":
                assert block["text"].strip()
            case "thinking":
                assert block["signature"]
            case "redacted_thinking":
                assert block["data"]
            case "tool_use":
                assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", block["id"])
                assert re.fullmatch("[a-zA-Z0-9_-]{1,128}", block["name"])
                assert isinstance(block["input"], dict)
                assert block["id"] not in ids
                ids.add(block["id"])
                asked.append(block["id"])
            case "server_tool_use":
                server.add(block["id"])
                open_server.add(block["id"])
            case "web_search_tool_result":
                assert block["tool_use_id"] in server
                open_server.discard(block["tool_use_id"])
            case other:
                raise AssertionError(other)
    assert blocks[-1]["type"] not in ("thinking", "redacted_thinking")
    return asked


@settings(max_examples=400, deadline=None)
@given(
    transcripts(MODEL, signatures=CARRIED),
    st.sampled_from(["off", "low", "max", None]),
    st.sampled_from(["none", "short", "long"]),
    st.sampled_from([{}, {"empty_signature": False, "long_cache": False}]),
    st.sampled_from([MODEL, ADAPTIVE, msgspec.structs.replace(MODEL, input=("text",))]),
)
def test_any_transcript_becomes_a_request_the_vendor_allows(
    history: list[Message], level: str | None, cache: str, flags: dict[str, Any], model: Model
) -> None:
    raw = encode(
        wire_call(
            view=sendable(history, model), model=model, flags=flags, reasoning=level, cache=cache,
            prompt="p", tools=(ADD,), tool_choice="any", temperature=0,
        )
    )  # fmt: skip

    check_rules(json.loads(raw))
