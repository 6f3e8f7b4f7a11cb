"""What is sent to Bedrock: turns that alternate, known fields only, each model what it takes."""

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
from loopwright.models.wires.bedrock_converse_encode import encode, forget_thinking
from loopwright.models.wires.bedrock_converse_models import Family
from loopwright.models.wires.bedrock_converse_turns import TurnRules, turns_of

from ..transcripts import transcripts

API = "bedrock-converse"


def model(id: str, **more: Any) -> Model:
    return Model("amazon-bedrock", id, API, input=("text", "image"), **more)


CLAUDE = model("us.anthropic.claude-sonnet-4-5-20250929-v1:0", max_tokens=64_000)
ADAPTIVE = model("global.anthropic.claude-opus-4-8-v1:0", max_tokens=128_000)
NOVA = model("us.amazon.nova-2-lite-v1:0")
GPT_OSS = model("openai.gpt-oss-120b-1:0")
MISTRAL = model("mistral.mistral-large-2407-v1:0")
LLAMA = model("us.meta.llama4-maverick-17b-instruct-v1:0")

IMAGE = ImageContent("aGk=", "image/png")
IMAGE_SENT = {"image": {"format": "png", "source": {"bytes": "aGk="}}}
PDF = ImageContent("aGk=", "application/pdf")
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
ADD_SENT = {
    "toolSpec": {"name": "add", "description": "Adds.", "inputSchema": {"json": ADD.parameters}}
}
POINT = {"cachePoint": {"type": "default"}}
HOUR = {"cachePoint": {"type": "default", "ttl": "1h"}}


def assistant(*content: Any, model: Model = CLAUDE, **more: Any) -> AssistantMessage:
    return AssistantMessage(list(content), model.api, model.provider, model.id, timestamp=1, **more)


def call(id: str, name: str = "look", **arguments: Any) -> ToolCall:
    return ToolCall(id, name, arguments)


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
    model: Model = CLAUDE,
    flags: dict[str, Any] | None = None,
    model_id: str | None = None,
    **options: Any,
) -> WireCall:
    context = Context(prompt, list(messages) or [user()], tools)
    return WireCall(
        model=model,
        context=context,
        messages=sendable(context.messages, model) if view is None else view,
        options=options,
        flags=flags or {},
        endpoint=Endpoint(None, model_id=model_id),
        clients=Clients(),
    )


def body(*messages: Message, **rest: Any) -> dict[str, Any]:
    return json.loads(encode(wire_call(*messages, **rest)))


def sent(*messages: Message, **rest: Any) -> list[dict[str, Any]]:
    rest.setdefault("cache", "none")
    return body(*messages, **rest)["messages"]


def kinds(blocks: list[dict[str, Any]]) -> list[str]:
    return [kind for block in blocks for kind in block]


# -- fields ------------------------------------------------------------------------------------


def test_behaviour_053_nothing_is_sent_that_was_not_asked_for() -> None:
    assert body(model=LLAMA) == {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}
    assert body(cache="none") == body(model=LLAMA)


def test_options_go_into_the_fields_of_the_dialect() -> None:
    got = body(
        tools=(ADD,), temperature=1.5, max_tokens=5, tool_choice="required", prompt="Be brief.",
        sampling_params={"top_p": 0.5, "top_k": 3, "stop": "x"}, metadata={"user": 7, "a!": "b{}"},
        extra_body={"serviceTier": {"type": "flex"}, "additionalModelRequestFields": {"z": 1}},
        cache="none", betas=["b1"],
    )  # fmt: skip

    assert got["system"] == [{"text": "Be brief."}]
    assert got["inferenceConfig"] == {
        "maxTokens": 5, "stopSequences": ["x"], "temperature": 1, "topP": 0.5,
    }  # fmt: skip
    assert got["toolConfig"] == {"tools": [ADD_SENT], "toolChoice": {"any": {}}}
    assert got["requestMetadata"] == {"user": "7", "a_": "b__"}
    assert got["serviceTier"] == {"type": "flex"}
    assert got["additionalModelRequestFields"] == {"top_k": 3, "z": 1, "anthropic_beta": ["b1"]}


def test_sampling_is_left_out_where_the_model_refuses_it() -> None:
    for rest in (
        {"model": ADAPTIVE},
        {"flags": {"temperature": False}},
        {"reasoning": "low"},
        {"model": NOVA, "reasoning": "high", "max_tokens": 9},
    ):
        got = body(temperature=0, sampling_params={"top_k": 1, "stop": ["x"]}, **rest)

        config = got["inferenceConfig"]
        assert config.keys() <= {"stopSequences", "maxTokens"}
        assert config["stopSequences"] == ["x"]
        assert "top_k" not in got.get("additionalModelRequestFields", {})
    assert "maxTokens" not in config


def test_nova_takes_top_k_in_a_place_of_its_own() -> None:
    got = body(model=NOVA, sampling_params={"top_k": 3})

    assert got["additionalModelRequestFields"] == {"inferenceConfig": {"topK": 3}}


def test_an_unknown_sampling_parameter_is_named() -> None:
    with pytest.raises(Misuse, match="seed"):
        body(sampling_params={"seed": 1})


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, None),
        ("auto", None),
        ("required", {"any": {}}),
        ("any", {"any": {}}),
        ("add", {"tool": {"name": "add"}}),
        ({"type": "tool", "name": "add"}, {"tool": {"name": "add"}}),
    ],
)
def test_tool_choice_in_its_forms(choice: Any, expected: Any) -> None:
    config = body(tools=(ADD,), tool_choice=choice, cache="none")["toolConfig"]

    assert config.get("toolChoice") == expected


@pytest.mark.parametrize(
    "rest",
    [
        {"reasoning": "high"},
        {"flags": {"tool_choice_required": False}},
        {"model": LLAMA},
        {"model": model("anthropic.claude-fable-5-v1:0")},
    ],
)
def test_who_thinks_or_cannot_be_forced_chooses_freely(rest: dict[str, Any]) -> None:
    assert "toolChoice" not in body(tools=(ADD,), tool_choice="add", **rest)["toolConfig"]


def test_some_can_be_told_to_call_but_not_what() -> None:
    got = body(tools=(ADD,), tool_choice="add", model=MISTRAL)
    forced = body(
        tools=(ADD,), tool_choice="add", model=LLAMA, flags={"tool_choice_required": True}
    )

    assert got["toolConfig"]["toolChoice"] == {"any": {}}
    assert forced["toolConfig"]["toolChoice"] == {"tool": {"name": "add"}}


def test_a_tool_that_is_not_on_offer_is_named() -> None:
    with pytest.raises(Misuse, match="'sub'"):
        body(tools=(ADD,), tool_choice="sub")


def test_no_tool_may_be_called_when_none_is_offered() -> None:
    """The dialect has no word for it; a history with calls must offer tools all the same."""
    loop = [user(), assistant(call("a")), result("a"), user()]

    assert "toolConfig" not in body(tools=(ADD,), tool_choice="none")
    assert body(*loop, tools=(ADD,), tool_choice="none", cache="none")["toolConfig"] == {
        "tools": [ADD_SENT]
    }


def test_tools_are_offered_when_the_history_has_calls_though_they_are_gone() -> None:
    loop = [user(), assistant(call("a"), call("b", "find.it")), result("a"), result("b"), user()]

    tools = body(*loop, cache="none")["toolConfig"]["tools"]

    assert [tool["toolSpec"]["name"] for tool in tools] == ["look", "find_it"]
    assert all(tool["toolSpec"]["inputSchema"]["json"]["type"] == "object" for tool in tools)
    assert "toolConfig" not in body(user(), assistant(TextContent("x")), user())


def test_a_model_without_tools_reads_past_calls_as_text() -> None:
    loop = [user(), assistant(call("a", x=1)), result("a"), user("go on")]

    got = body(*loop, flags={"tools": False}, tools=(ADD,), tool_choice="none", model=LLAMA)

    assert "toolConfig" not in got
    assert [list(block) for turn in got["messages"] for block in turn["content"]] == [["text"]] * 5


def test_the_vendors_own_tools_and_bare_schemas() -> None:
    bare = ToolSpec("now", " ", {"properties": {}})
    own = {"systemTool": {"name": "nova_code_interpreter"}}

    tools = body(tools=(bare,), server_tools=[own], model=NOVA)["toolConfig"]["tools"]

    schema = {"type": "object", "properties": {}}
    assert tools == [{"toolSpec": {"name": "now", "inputSchema": {"json": schema}}}, own]


def test_a_schema_for_the_output_is_closed_and_goes_as_text() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}

    config = body(output_schema={"name": "x", "schema": schema, "strict": True})["outputConfig"]

    given = config["textFormat"]["structure"]["jsonSchema"]
    assert (config["textFormat"]["type"], given["name"]) == ("json_schema", "x")
    assert json.loads(given["schema"]) == {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "additionalProperties": False,
    }


# -- thinking ----------------------------------------------------------------------------------


def asked(**rest: Any) -> Any:
    return body(**rest).get("additionalModelRequestFields")


def test_older_claudes_think_within_a_budget_that_adds_to_the_output() -> None:
    got = body(reasoning="low", max_tokens=1000)

    assert got["additionalModelRequestFields"] == {
        "thinking": {"type": "enabled", "budget_tokens": 2048}
    }
    assert got["inferenceConfig"] == {"maxTokens": 3048}
    assert body(reasoning="low")["inferenceConfig"] == {"maxTokens": 34_048}
    tiny = msgspec.structs.replace(CLAUDE, max_tokens=1500)
    assert asked(reasoning="high", model=tiny) == {"thinking": {"type": "disabled"}}


def test_newer_claudes_think_by_effort() -> None:
    got = body(model=ADAPTIVE, reasoning="xhigh")

    assert got["additionalModelRequestFields"] == {
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "xhigh"},
    }
    assert "inferenceConfig" not in got


@pytest.mark.parametrize(
    ("who", "level", "fields"),
    [
        (NOVA, "low", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}),
        (NOVA, "max", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}}),
        (NOVA, "off", {"reasoningConfig": {"type": "disabled"}}),
        (model("amazon.nova-pro-v1:0"), "high", None),
        (GPT_OSS, "minimal", {"reasoning_effort": "low"}),
        (GPT_OSS, "off", None),
        (model("us.openai.gpt-5.2"), "medium", {"reasoning": {"effort": "medium"}}),
        (LLAMA, "high", None),
        (model("qwen.qwen3-32b-v1:0", thinking_levels={"high": "high"}), "low",
         {"reasoning_config": "high"}),
        (CLAUDE, "off", {"thinking": {"type": "disabled"}}),
    ],
)  # fmt: skip
def test_each_maker_has_its_own_words(who: Model, level: str, fields: Any) -> None:
    assert asked(model=who, reasoning=level) == fields
    assert asked(model=who) is None


def test_a_name_behind_an_arn_counts() -> None:
    arn = "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc"

    assert asked(model=CLAUDE, model_id=arn, reasoning="off") == {"thinking": {"type": "disabled"}}
    assert asked(model=model(arn), reasoning="high") is None


@pytest.mark.parametrize("who", [CLAUDE, NOVA, LLAMA])
def test_an_unknown_level_is_named(who: Model) -> None:
    with pytest.raises(Misuse, match="'extreme'"):
        body(reasoning="extreme", model=who)


def test_a_tool_loop_that_began_without_thinking_goes_on_without_it() -> None:
    loop = [user(), assistant(call("a")), result("a")]
    thought = [user(), assistant(ThinkingContent("hm", "S"), call("a")), result("a")]

    def kind(*messages: Message, who: Model = CLAUDE) -> str:
        got = body(*messages, reasoning="low", model=who)
        return got["additionalModelRequestFields"]["thinking"]["type"]

    assert kind(*loop) == "disabled"
    assert kind(*thought) == "enabled"
    assert kind(*loop, user("go on")) == "enabled"
    assert kind(*loop, who=ADAPTIVE) == "adaptive"


SIGNED = [
    ThinkingContent("T1 \r\n", "S1"),
    ThinkingContent("", "Ug==", redacted=True),
    ThinkingContent("", "S2"),
    TextContent("Let me look. "),
    call("t1"),
]
SIGNED_SENT = [
    {"reasoningContent": {"reasoningText": {"text": "T1 \r\n", "signature": "S1"}}},
    {"reasoningContent": {"redactedContent": "Ug=="}},
    {"reasoningContent": {"reasoningText": {"text": "", "signature": "S2"}}},
    {"text": "Let me look. "},
    {"toolUse": {"toolUseId": "t1", "name": "look", "input": {}}},
]


def test_case_017_signed_thinking_goes_back_byte_for_byte_also_through_a_file() -> None:
    stored = message_from_json(assistant(*SIGNED).to_json())
    assert isinstance(stored, AssistantMessage)

    _, turn, _ = sent(user(), stored, result("t1"))

    assert turn == {"role": "assistant", "content": SIGNED_SENT}


def test_case_017_thinking_goes_to_no_other_model_and_not_where_it_is_not_wanted() -> None:
    turns = [user(), assistant(*SIGNED), result("t1")]

    for rest in ({"model": ADAPTIVE}, {"flags": {"reasoning_replay": "none"}},
                 {"replay_thinking": False}):  # fmt: skip
        assert sent(*turns, **rest)[1]["content"] == SIGNED_SENT[3:]


def test_unsigned_thinking_and_a_reply_that_only_thought_are_left_out() -> None:
    unsigned = assistant(ThinkingContent("hm"), TextContent("x"))

    assert sent(user(), unsigned, user())[1]["content"] == [{"text": "x"}]
    assert len(sent(user(), assistant(ThinkingContent("hm", "S")), user())) == 1
    assert sent(user(), assistant(TextContent("x"), ThinkingContent("hm", "S")), user())[1][
        "content"
    ] == [{"text": "x"}]


def test_case_017_thinking_whose_signature_was_refused_is_left_out_and_later_one_is_not() -> None:
    transcript = SendableTranscript(CLAUDE)
    transcript.extend([user(), assistant(*SIGNED), result("t1")])
    refused = wire_call(view=transcript.view(), cache="none")
    before = json.loads(encode(refused))["messages"]
    forget_thinking(refused)

    again = json.loads(encode(refused))["messages"]
    transcript.extend([assistant(ThinkingContent("new", "S3"), TextContent("x")), user()])
    later = json.loads(encode(wire_call(view=transcript.view(), cache="none")))["messages"]

    assert before[1]["content"] == SIGNED_SENT
    assert again[1]["content"] == later[1]["content"] == SIGNED_SENT[3:]
    assert later[3]["content"][0] == {
        "reasoningContent": {"reasoningText": {"text": "new", "signature": "S3"}}
    }


# -- turns -------------------------------------------------------------------------------------


def test_turns_of_one_role_become_one_and_results_stand_in_one_turn() -> None:
    turns = sent(
        user("a"), user("b"), assistant(call("x"), call("y")), result("x"), result("y"), user("c")
    )

    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert turns[0]["content"] == [{"text": "a"}, {"text": "b"}]
    assert kinds(turns[2]["content"]) == ["toolResult", "toolResult", "text"]


def test_case_020_blank_text_is_never_sent() -> None:
    turns = sent(
        user(" "), assistant(TextContent(""), call("c")), result("c", TextContent(" \n")),
        assistant(TextContent("  \n")), user("x"),
    )  # fmt: skip

    assert kinds(turns[1]["content"]) == ["toolUse"]
    assert turns[2]["content"][0]["toolResult"]["content"] == [{"text": "(no output)"}]
    assert '"text": " ' not in json.dumps(turns)


def test_images_of_users_and_tools_stay_where_they_are() -> None:
    turns = sent(
        user([TextContent("see"), IMAGE]), assistant(call("a")), result("a", IMAGE, TextContent("x"))
    )  # fmt: skip

    assert turns[0]["content"] == [{"text": "see"}, IMAGE_SENT]
    assert turns[2]["content"][0]["toolResult"] == {
        "toolUseId": "a", "content": [IMAGE_SENT, {"text": "x"}],
    }  # fmt: skip


def test_images_where_a_result_may_have_none_follow_all_results() -> None:
    messages = [
        user(), assistant(call("a"), call("b")),
        result("a", TextContent("broken"), IMAGE, is_error=True), result("b", IMAGE),
    ]  # fmt: skip

    turn = sent(*messages)[2]["content"]
    llama = sent(*messages, model=LLAMA)[2]["content"]
    kept = sent(*messages, flags={"text_only_error_results": False})[2]["content"]

    assert kinds(turn) == ["toolResult", "toolResult", "text", "image"]
    assert (turn[0]["toolResult"]["content"], turn[0]["toolResult"]["status"]) == (
        [{"text": "broken"}], "error",
    )  # fmt: skip
    assert turn[1]["toolResult"]["content"] == [IMAGE_SENT]
    assert kept[0]["toolResult"]["content"] == [{"text": "broken"}, IMAGE_SENT]
    assert kinds(llama)[2:] == ["text", "image", "image"]
    assert sent(*messages, user("go on"))[2]["content"] == [*turn, {"text": "go on"}]


def test_a_text_only_model_gets_one_line_for_a_run_of_images() -> None:
    blind = msgspec.structs.replace(CLAUDE, input=("text",))

    (turn,) = sent(user([IMAGE, IMAGE, TextContent("x"), IMAGE, PDF]), model=blind)

    assert [list(block) for block in turn["content"]] == [["text"]] * 4
    assert "application/pdf" in turn["content"][3]["text"]


def test_files_of_document_types_are_sent_as_documents_with_a_name_and_a_word_beside_them() -> None:
    turns = sent(user([PDF, PDF]), assistant(call("a")), result("a", PDF), user([PDF]))

    first, second, words = turns[0]["content"]
    assert first == {
        "document": {"format": "pdf", "name": "document-1", "source": {"bytes": "aGk="}}
    }
    assert second["document"]["name"] == "document-2"
    assert words["text"]
    assert turns[2]["content"][0]["toolResult"]["content"][0]["document"]["name"] == "document-3"
    assert kinds(turns[2]["content"]) == ["toolResult", "document", "text"]
    (refused,) = sent(user([PDF]), flags={"document_input": False})
    assert list(refused["content"][0]) == ["text"]


def test_mistral_reads_results_as_json() -> None:
    turns = sent(user(), assistant(call("a")), result("a"), model=MISTRAL)

    assert turns[2]["content"][0]["toolResult"]["content"] == [{"json": {"result": "done"}}]


def test_foreign_ids_and_names_are_changed_the_same_way_each_time() -> None:
    messages = [user(), assistant(call("call_1|fc_2"), call("ä"), call("z" * 65, "a.b" * 40)),
                result("call_1|fc_2"), result("ä"), result("z" * 65)]  # fmt: skip

    first, second = sent(*messages), sent(*messages)

    assert first == second
    uses = [block["toolUse"] for block in first[1]["content"]]
    ids = [block["toolResult"]["toolUseId"] for block in first[2]["content"]]
    assert [use["toolUseId"] for use in uses] == ids
    assert ids[0] == "call_1"
    assert uses[2]["name"] == ("a_b" * 40)[:64]


def test_empty_names_in_arguments_are_renamed() -> None:
    arguments = {"": 1, "a": [{"": {"b": 2}}]}
    turns = sent(user(), assistant(ToolCall("a", "look", arguments)), result("a"))

    assert turns[1]["content"][0]["toolUse"]["input"] == {"_": 1, "a": [{"_": {"b": 2}}]}


def test_case_002_a_call_that_could_not_be_parsed_is_sent_as_an_empty_object() -> None:
    broken = ToolCall("a", "look", {}, raw_arguments="[1]", arguments_error="no object")

    assert sent(user(), assistant(broken), result("a"))[1]["content"][0]["toolUse"]["input"] == {}


def test_a_final_text_of_the_models_own_does_not_end_in_white_space() -> None:
    turns = [user(), assistant(TextContent("Once upon \n"))]

    assert sent(*turns)[1]["content"] == [{"text": "Once upon"}]
    assert sent(*turns, user("go on"))[1]["content"] == [{"text": "Once upon \n"}]


def test_a_conversation_begins_with_the_users_side() -> None:
    for messages in ([assistant(TextContent("x")), user()], [assistant(stop_reason="error")]):
        assert sent(*messages)[0]["role"] == "user"


def kept(**block: Any) -> TextContent:
    return TextContent("", json.dumps(block, separators=(",", ":")))


USE = {"toolUse": {"toolUseId": "s", "name": "search", "type": "server_tool_use", "input": {}}}
FOUND = {"toolResult": {"toolUseId": "s", "type": "found", "content": [{"text": "x"}]}}


def test_server_side_tools_go_back_to_their_model_only() -> None:
    turns = [user(), assistant(kept(**USE), kept(**FOUND), TextContent("x")), user()]

    assert sent(*turns)[1]["content"] == [USE, FOUND, {"text": "x"}]
    assert sent(*turns, model=ADAPTIVE)[1]["content"] == [{"text": "x"}]


def test_a_server_side_call_without_a_result_or_the_reverse_is_left_out() -> None:
    for lone in (USE, FOUND):
        turns = sent(user(), assistant(kept(**lone), TextContent("x")), user())

        assert turns[1]["content"] == [{"text": "x"}]


def test_a_signature_nobody_here_wrote_is_ignored_and_citations_stay_here() -> None:
    for signature in ("refusal", "{", '{"toolUse":1}', '{"toolUse":{},"x":1}', '{"toolUse":',
                      '{"citations":[]}'):  # fmt: skip
        turns = sent(user(), assistant(TextContent("x", signature)), user())

        assert turns[1]["content"] == [{"text": "x"}]


# -- caching -----------------------------------------------------------------------------------


def points(value: Any) -> list[Any]:
    if isinstance(value, list):
        return [point for item in value for point in points(item)]
    if isinstance(value, dict):
        own = [value] if "cachePoint" in value else []
        return own + [point for item in value.values() for point in points(item)]
    return []


def test_breakpoints_stand_behind_the_prompt_the_tools_and_the_users_last_words() -> None:
    got = body(user(), assistant(TextContent("x")), user("y"), prompt="Be brief.", tools=(ADD,))

    assert got["system"] == [{"text": "Be brief."}, POINT]
    assert got["toolConfig"]["tools"] == [ADD_SENT, POINT]
    assert got["messages"][2]["content"] == [{"text": "y"}, POINT]
    assert points(got) == [POINT] * 3


def test_a_breakpoint_stands_behind_results_and_before_a_reply_that_goes_on() -> None:
    results = body(user(), assistant(call("a"), call("b")), result("a"), result("b"))
    prefilled = body(user(), assistant(TextContent("x")))

    assert results["messages"][2]["content"][2] == POINT
    assert prefilled["messages"][0]["content"] == [{"text": "Hi"}, POINT]


def test_the_cache_can_be_off_or_kept_for_an_hour() -> None:
    rest: dict[str, Any] = {"prompt": "x", "tools": (ADD,)}

    assert points(body(cache="none", **rest)) == []
    assert points(body(cache="long", **rest)) == [HOUR] * 3
    assert points(body(cache="long", flags={"long_cache": False}, **rest)) == [POINT] * 3
    assert points(body(cache="long", flags={"long_cache": "per-model"}, **rest)) == [HOUR] * 3
    assert points(body(flags={"cache_points": False}, **rest)) == []


@pytest.mark.parametrize(
    ("model_id", "short", "long"),
    [
        ("anthropic.claude-v2:1", [], []),
        ("anthropic.claude-3-haiku-20240307-v1:0", [], []),
        ("anthropic.claude-3-5-haiku-20241022-v1:0", [POINT], [POINT]),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", [POINT], [POINT]),
        ("us.anthropic.claude-opus-4-20250514-v1:0", [POINT], [POINT]),
        ("global.anthropic.claude-haiku-4-5-20251001-v1:0", [POINT], [HOUR]),
        ("amazon.nova-pro-v1:0", [], []),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", [], []),
    ],
)
def test_only_claude_takes_breakpoints(model_id: str, short: Any, long: Any) -> None:
    assert points(body(model=model(model_id))) == short
    assert points(body(model=model(model_id), cache="long")) == long
    assert points(body(model=model(model_id), flags={"cache_points": True})) == [POINT]


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
    transcript = SendableTranscript(CLAUDE)
    for _ in range(5):
        transcript.extend([user(), assistant(TextContent("x"))])
    rules = TurnRules.of(CLAUDE, {}, Family.of(CLAUDE, {}, CLAUDE.id), unsigned_before=0)
    before = turns_of(transcript.view(), rules).encoded(b"{}")
    transcript.extend([user()])

    after = turns_of(transcript.view(), rules).encoded(b"{}")

    assert (len(before), len(after)) == (10, 11)
    assert all(new is old for new, old in zip(after[:8], before[:8], strict=True))


def test_an_earlier_request_can_be_made_again() -> None:
    transcript = SendableTranscript(CLAUDE)
    transcript.extend([user()])
    early = transcript.view()
    first = encode(wire_call(view=early))
    transcript.extend([assistant(TextContent("x"), call("a")), result("a"), user()])
    encode(wire_call(view=transcript.view()))

    assert encode(wire_call(view=early)) == first


def without_points(turns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**turn, "content": [block for block in turn["content"] if "cachePoint" not in block]}
        for turn in turns
    ]


CARRIED = st.sampled_from([
    None, None, kept(**USE).text_signature, kept(**FOUND).text_signature,
    '{"citations":[{"title":"x"}]}', "odd",
])  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(transcripts(CLAUDE, signatures=CARRIED), st.data())
def test_behaviour_051_every_request_begins_with_the_one_before_breakpoints_apart(
    history: list[Message], data: st.DataObject
) -> None:
    transcript = SendableTranscript(CLAUDE)
    before: bytes | None = None
    for place, message in enumerate(history):
        transcript.extend([message])
        if not data.draw(st.booleans(), f"asked after {place}"):
            continue
        got = without_points(json.loads(encode(wire_call(view=transcript.view())))["messages"])
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
    "messages", "system", "inferenceConfig", "toolConfig", "additionalModelRequestFields",
    "outputConfig", "requestMetadata",
}  # fmt: skip
ONLY_IN_USER = {"image", "document", "toolResult", "cachePoint"}
ONLY_IN_REPLY = {"toolUse", "reasoningContent"}


def check_rules(got: dict[str, Any], who: Model) -> None:
    """What the Converse API demands of a body, by botocore's model of it and AWS's manual."""
    assert got.keys() <= BODY_FIELDS
    config = got.get("inferenceConfig", {})
    assert config.get("maxTokens", 1) >= 1
    assert 0 <= config.get("temperature", 0) <= 1
    fields = got.get("additionalModelRequestFields", {})
    thinking = fields.get("thinking", {})
    if thinking.get("type") == "enabled":
        assert 1024 <= thinking["budget_tokens"] < config["maxTokens"]
    if thinking.get("type") in ("enabled", "adaptive"):
        assert "toolChoice" not in got.get("toolConfig", {})
        assert "temperature" not in config
    assert len(points(got)) <= (4 if "claude" in who.id else 0)
    turns = got["messages"]
    assert [turn["role"] for turn in turns] == (["user", "assistant"] * len(turns))[: len(turns)]
    assert turns
    ids: set[str] = set()
    asked: list[str] = []
    names: set[str] = set()
    for turn in turns:
        assert turn["content"]
        assert all(len(block) == 1 for block in turn["content"])
        if turn["role"] == "user":
            check_user_turn(turn["content"], asked, who)
            asked = []
        else:
            asked = check_reply(turn["content"], ids, names)
    assert not asked or turns[-1]["role"] == "assistant"
    last = turns[-1]["content"][-1]
    if turns[-1]["role"] == "assistant" and "text" in last:
        assert last["text"] == last["text"].rstrip()
    if names:
        assert got["toolConfig"]["tools"], "demanded where there are tool blocks"


def check_user_turn(blocks: list[dict[str, Any]], asked: list[str], who: Model) -> None:
    results = [block["toolResult"] for block in blocks if "toolResult" in block]
    assert [one["toolUseId"] for one in results] == asked, "each call is answered once, at once"
    assert all("toolResult" in block for block in blocks[: len(asked)])
    assert not ONLY_IN_REPLY & {kind for block in blocks for kind in block}
    for block in blocks:
        check_part(block, who)
    for one in results:
        assert one["content"]
        for part in one["content"]:
            check_part(part, who)
            assert part.keys() <= {"text", "image", "json"}
            assert "image" not in part or one.get("status") != "error"
            assert "json" in part or "mistral" not in who.id


def check_part(part: dict[str, Any], who: Model) -> None:
    if "text" in part:
        assert part["text"].strip()
    elif "image" in part:
        assert "image" in who.input
        assert part["image"]["format"] in ("png", "jpeg", "gif", "webp")
        assert part["image"]["source"]["bytes"]


def check_reply(blocks: list[dict[str, Any]], ids: set[str], names: set[str]) -> list[str]:
    asked: list[str] = []
    server: set[str] = set()
    for block in blocks:
        ((kind, inner),) = block.items()
        match kind:
            case "text":
                assert inner.strip()
            case "reasoningContent":
                told = inner.get("reasoningText", {})
                assert inner.get("redactedContent") or told["signature"]
            case "toolUse" if inner.get("type") == "server_tool_use":
                server.add(inner["toolUseId"])
            case "toolUse":
                assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", inner["toolUseId"])
                assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", inner["name"])
                assert isinstance(inner["input"], dict)
                assert "" not in inner["input"]
                assert inner["toolUseId"] not in ids
                ids.add(inner["toolUseId"])
                names.add(inner["name"])
                asked.append(inner["toolUseId"])
            case "toolResult":
                assert inner["toolUseId"] in server
            case other:
                raise AssertionError(other)
    assert "reasoningContent" not in blocks[-1]
    return asked


@settings(max_examples=200, deadline=None)
@given(
    st.data(),
    st.sampled_from(["off", "low", "max", None]),
    st.sampled_from(["none", "short", "long"]),
    st.sampled_from([
        CLAUDE, ADAPTIVE, msgspec.structs.replace(CLAUDE, input=("text",)), NOVA, MISTRAL, LLAMA,
        GPT_OSS,
    ]),
    st.booleans(),
)  # fmt: skip
def test_any_transcript_becomes_a_request_the_vendor_allows(
    data: st.DataObject, level: str | None, cache: str, who: Model, with_tools: bool
) -> None:
    history = data.draw(transcripts(who, signatures=CARRIED))

    raw = encode(
        wire_call(
            view=sendable(history, who), model=who, reasoning=level, cache=cache, prompt="p",
            tools=(ADD,) if with_tools else (), tool_choice="any", temperature=1.7,
        )
    )  # fmt: skip

    check_rules(json.loads(raw), who)
