"""What is sent to Gemini: contents that alternate, and known fields only."""

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
from loopwright.models.wires.google_gemini_contents import ContentRules, contents_of
from loopwright.models.wires.google_gemini_encode import encode, forget_signatures
from loopwright.models.wires.google_gemini_families import family_of
from loopwright.models.wires.google_gemini_schema import json_schema, openapi_schema
from loopwright.testing import decode

from ..transcripts import transcripts

API = "google-gemini"
MODEL = Model("google", "gemini-3.5-flash", API, input=("text", "image"))
OLDER = msgspec.structs.replace(MODEL, id="gemini-2.5-flash")
STAND_IN = "skip_thought_signature_validator"
IMAGE = ImageContent("aGk=", "image/png")
IMAGE_SENT = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def named(model_id: str, **more: Any) -> Model:
    return msgspec.structs.replace(MODEL, id=model_id, **more)


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
        endpoint=Endpoint("https://generativelanguage.googleapis.com/v1beta"),
        clients=Clients(),
    )


def body(*messages: Message, **rest: Any) -> dict[str, Any]:
    return json.loads(encode(wire_call(*messages, **rest)))


def sent(*messages: Message, **rest: Any) -> list[dict[str, Any]]:
    return body(*messages, **rest)["contents"]


def said(text: str) -> dict[str, Any]:
    return {"text": text}


# -- fields ------------------------------------------------------------------------------------


def test_behaviour_053_nothing_is_sent_that_was_not_asked_for() -> None:
    assert body(cache="long", session_id="s") == {
        "contents": [{"role": "user", "parts": [said("Hi")]}]
    }


def test_options_go_into_the_fields_of_the_dialect() -> None:
    safety = [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]

    got = body(
        prompt="Be brief.", tools=(ADD,), temperature=1.5, max_tokens=5, tool_choice="required",
        sampling_params={"top_p": 0.5, "top_k": 3, "stop": "x", "seed": 7, "presence_penalty": 1},
        safety_settings=safety, extra_body={"labels": {"a": "b"}},
    )  # fmt: skip

    assert got["systemInstruction"] == {"parts": [said("Be brief.")]}
    assert got["generationConfig"] == {
        "maxOutputTokens": 5, "stopSequences": ["x"], "temperature": 1.5, "topP": 0.5, "topK": 3,
        "seed": 7, "presencePenalty": 1,
    }  # fmt: skip
    assert got["tools"] == [
        {"functionDeclarations": [
            {"name": "add", "description": "Adds.", "parametersJsonSchema": ADD.parameters}
        ]}
    ]  # fmt: skip
    assert got["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}
    assert (got["safetySettings"], got["labels"]) == (safety, {"a": "b"})


def test_an_unknown_sampling_parameter_is_named() -> None:
    with pytest.raises(Misuse, match="min_p"):
        body(sampling_params={"min_p": 1})


def test_sampling_is_left_out_where_the_row_says_so() -> None:
    got = body(temperature=0, sampling_params={"stop": ["x"]}, flags={"temperature": False})

    assert got["generationConfig"] == {"stopSequences": ["x"]}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("any", {"mode": "ANY"}),
        ("add", {"mode": "ANY", "allowedFunctionNames": ["add"]}),
        ({"type": "tool", "name": "add"}, {"mode": "ANY", "allowedFunctionNames": ["add"]}),
        ({"function": {"name": "add"}}, {"mode": "ANY", "allowedFunctionNames": ["add"]}),
    ],
)
def test_tool_choice_in_its_forms(choice: Any, expected: Any) -> None:
    got = body(tools=(ADD,), tool_choice=choice)

    assert got["toolConfig"]["functionCallingConfig"] == expected


def test_a_tool_that_is_not_on_offer_is_named() -> None:
    with pytest.raises(Misuse, match="'sub'"):
        body(tools=(ADD,), tool_choice="sub")


def test_quirks_of_hosts_about_tools() -> None:
    vertex = {"dialect": "google-vertex", "eager_tool_input": True}

    eager = body(tools=(ADD,), flags=vertex)["toolConfig"]["functionCallingConfig"]
    unforced = body(tools=(ADD,), tool_choice="add", flags={"tool_choice_required": False})

    assert eager == {"mode": "AUTO", "streamFunctionCallArguments": True}
    assert unforced["toolConfig"] == {"functionCallingConfig": {"mode": "AUTO"}}
    assert "toolConfig" not in body(tools=(ADD,), flags=vertex, model=OLDER)
    assert "tools" not in body(tools=(ADD,), tool_choice="auto", flags={"tools": False})


def test_the_vendors_own_tools_stand_beside_functions() -> None:
    search = {"googleSearch": {}}
    both = {"tools": (ADD,), "server_tools": [search]}

    got = body(**both)

    assert got["tools"][1] == search
    assert got["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert "toolConfig" not in body(server_tools=[search])
    assert "toolConfig" not in body(flags={"dialect": "google-vertex"}, **both)


def test_a_cache_made_beforehand_holds_prompt_and_tools() -> None:
    got = body(prompt="p", tools=(ADD,), tool_choice="add", cached_content="cachedContents/x")

    assert got.keys() == {"cachedContent", "contents"}


# -- schemas -----------------------------------------------------------------------------------

TREE = {
    "type": "object",
    "properties": {"task": {"$ref": "#/$defs/Task", "description": "new one"}},
    "$defs": {
        "Tag": {"type": "string", "enum": ["a", "b"]},
        "Task": {
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}},
                "parent": {"anyOf": [{"$ref": "#/$defs/Task"}, {"type": "null"}]},
            },
            "required": ["title", "tags"],
        },
    },
}


def test_case_044_references_are_replaced_and_recursion_ends_in_a_plain_object() -> None:
    got = json_schema(TREE)

    task = got["properties"]["task"]
    assert "$" not in json.dumps(got)
    assert (task["description"], task["required"]) == ("new one", ["title", "tags"])
    assert task["properties"]["tags"] == {
        "type": "array", "items": {"type": "string", "enum": ["a", "b"]},
    }  # fmt: skip
    assert task["properties"]["parent"] == {"anyOf": [{"type": "object"}, {"type": "null"}]}


def test_case_044_definitions_that_double_do_not_fill_the_memory() -> None:
    node = {f"c{i}": {"$ref": f"#/$defs/N{i}"} for i in range(10)}
    definitions = {f"N{i}": {"type": "object", "properties": node} for i in range(10)}

    got = json_schema({"type": "object", "properties": node, "$defs": definitions})

    assert len(json.dumps(got)) < 2_000_000


def test_case_044_a_reference_to_nowhere_is_named() -> None:
    with pytest.raises(Misuse, match="#/\\$defs/Gone"):
        json_schema({"properties": {"a": {"$ref": "#/$defs/Gone"}}})


def test_the_older_field_gets_its_subset_of_openapi() -> None:
    schema = {
        "$schema": "x", "type": "object", "additionalProperties": False,
        "properties": {
            "maybe": {"type": ["string", "null"], "default": None},
            "either": {"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            "one": {"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}]},
            "kind": {"const": "a"},
            "level": {"enum": [1, 2], "type": "integer", "exclusiveMinimum": 0},
            "both": {"allOf": [{"properties": {"x": {"type": "string"}}, "required": ["x"]}]},
            "any": {"type": "array"},
            "mixed": {"type": ["string", "integer"]},
        },
        "required": ["kind"],
    }  # fmt: skip

    assert openapi_schema(schema) == {
        "type": "object",
        "properties": {
            "maybe": {"type": "string", "nullable": True},
            "either": {"anyOf": [{"type": "string"}, {"type": "integer"}], "nullable": True},
            "one": {"type": "array", "items": {"type": "number"}, "nullable": True},
            "kind": {"type": "string", "enum": ["a"]},
            "level": {"type": "integer"},
            "both": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
            "any": {"type": "array", "items": {"type": "string"}},
            "mixed": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["kind"],
    }


def test_a_row_says_which_field_a_tools_schema_goes_into() -> None:
    bare = ToolSpec("now", " ", {"type": "object", "properties": {}})
    tree = ToolSpec("plan", "", TREE)

    newer = body(tools=(bare, tree))["tools"][0]["functionDeclarations"]
    older = body(tools=(bare, tree), flags={"tool_schema": "openapi"})["tools"][0]

    assert newer[0] == {"name": "now", "parametersJsonSchema": bare.parameters}
    assert "$ref" not in json.dumps(newer)
    assert older["functionDeclarations"][0] == {"name": "now"}
    assert older["functionDeclarations"][1]["parameters"]["properties"]["task"]["required"]


def test_a_schema_for_the_output_is_native_where_tools_allow_it() -> None:
    schema = {"type": "object", "properties": {"a": {"const": 1}}}
    wanted = {"name": "x", "schema": schema, "strict": True}

    native = body(output_schema=wanted, tools=(ADD,))
    older = body(output_schema=wanted, model=OLDER)
    beside = body(output_schema=wanted, tools=(ADD,), model=OLDER, prompt="p")

    expected = {
        "responseMimeType": "application/json",
        "responseJsonSchema": {"type": "object", "properties": {"a": {"enum": [1]}}},
    }
    assert native["generationConfig"] == older["generationConfig"] == expected
    assert "generationConfig" not in beside
    assert '"enum":[1]' in beside["systemInstruction"]["parts"][0]["text"]


# -- thinking ----------------------------------------------------------------------------------


def thinking(model_id: str, level: str, **rest: Any) -> Any:
    model = named(model_id, thinking_levels=rest.pop("levels", None))
    return (
        body(model=model, reasoning=level, **rest).get("generationConfig", {}).get("thinkingConfig")
    )


@pytest.mark.parametrize(
    ("model_id", "level", "word"),
    [
        ("gemini-3-pro-preview", "minimal", "LOW"),
        ("gemini-3-pro-preview", "medium", "LOW"),
        ("gemini-3-pro-preview", "max", "HIGH"),
        ("gemini-3.1-pro-preview", "medium", "MEDIUM"),
        ("gemini-3-flash-preview", "minimal", "MINIMAL"),
        ("gemini-3.5-flash", "xhigh", "HIGH"),
        ("gemini-3.7-flash", "minimal", "LOW"),
        ("gemini-4-argon", "xhigh", "HIGH"),
        ("gemini-4-neon", "max", "XHIGH"),
        ("gemini-flash-latest", "minimal", "LOW"),
        ("google/gemini-3.5-flash", "low", "LOW"),
        ("gemma-4-27b-it", "medium", "MINIMAL"),
        ("gemma-4-27b-it", "high", "HIGH"),
        ("something-else", "medium", "MEDIUM"),
    ],
)
def test_later_models_think_by_level(model_id: str, level: str, word: str) -> None:
    assert thinking(model_id, level) == {"includeThoughts": True, "thinkingLevel": word}


@pytest.mark.parametrize(
    ("model_id", "level", "budget"),
    [
        ("gemini-2.5-pro", "minimal", 128),
        ("gemini-2.5-pro", "high", 32_768),
        ("gemini-2.5-flash", "low", 2048),
        ("gemini-2.5-flash", "max", 24_576),
        ("gemini-2.5-flash-lite", "minimal", 512),
    ],
)
def test_older_models_think_within_a_budget(model_id: str, level: str, budget: int) -> None:
    assert thinking(model_id, level) == {"includeThoughts": True, "thinkingBudget": budget}


def test_a_budget_of_the_callers_own_counts_within_the_models_range() -> None:
    def own(model_id: str, tokens: int) -> Any:
        return thinking(model_id, "low", thinking_budgets={"low": tokens})

    assert own("gemini-2.5-pro", 5000)["thinkingBudget"] == 5000
    assert own("gemini-2.5-pro", 5)["thinkingBudget"] == 128
    assert own("gemini-2.5-flash", 99_999)["thinkingBudget"] == 24_576
    assert own("gemini-2.5-flash", -1)["thinkingBudget"] == -1
    assert own("gemini-2.5-flash", 0) == {"includeThoughts": False, "thinkingBudget": 0}


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("gemini-2.5-flash", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", {"thinkingBudget": 128}),
        ("gemini-3-pro-preview", {"thinkingLevel": "LOW"}),
        ("gemini-3.5-flash", {"thinkingLevel": "MINIMAL"}),
        ("gemini-2.0-flash", None),
        ("gemma-3-27b-it", None),
        ("gemini-2.5-flash-image", None),
        ("something-else", None),
    ],
)
def test_who_cannot_stop_thinking_thinks_the_least_unseen(model_id: str, expected: Any) -> None:
    assert thinking(model_id, "off") == expected


def test_a_row_says_more_than_the_id() -> None:
    levels: dict[str, str | None] = {"off": None, "low": "LOW", "high": "9000"}

    assert thinking("x", "low", levels=levels)["thinkingLevel"] == "LOW"
    assert thinking("x", "max", levels=levels)["thinkingBudget"] == 9000
    assert thinking("x", "off", levels=levels) == {"thinkingLevel": "LOW"}
    assert thinking("gemini-2.5-flash", "off", levels=levels) == {"thinkingBudget": 1}
    assert thinking("gemini-3.5-flash", "high", levels={}) is None
    budget = {"flags": {"thinking_control": "budget"}}
    assert thinking("x", "high", **budget) == {"includeThoughts": True, "thinkingBudget": -1}
    words: dict[str, str | None] = {"low": "low", "high": "high"}
    assert thinking("gemini-2.5-pro", "max", levels=words)["thinkingBudget"] == 32_768
    assert thinking("gemini-2.5-flash-image", "low", levels=words)["thinkingBudget"] == -1
    assert thinking("gemini-3.5-flash", "high", flags={"thinking_control": False}) is None


def test_thinking_is_never_mentioned_unasked_and_an_unknown_level_is_named() -> None:
    assert "generationConfig" not in body()
    with pytest.raises(Misuse, match="'extreme'"):
        body(reasoning="extreme")


# -- signatures --------------------------------------------------------------------------------


def test_case_018_parallel_calls_go_back_with_the_signature_on_the_first_alone() -> None:
    reply = assistant(call("k1", thought_signature="s1=="), call("k2"))
    stored = message_from_json(reply.to_json())
    assert isinstance(stored, AssistantMessage)

    _, model, answers = sent(user(), stored, result("k2"), result("k1"))

    assert model["parts"] == [
        {"functionCall": {"id": "k1", "name": "look", "args": {}}, "thoughtSignature": "s1=="},
        {"functionCall": {"id": "k2", "name": "look", "args": {}}},
    ]
    assert [part["functionResponse"]["id"] for part in answers["parts"]] == ["k1", "k2"]


def test_case_018_only_the_first_call_of_each_imported_step_gets_the_stand_in() -> None:
    other = msgspec.structs.replace(MODEL, provider="other")
    first = assistant(
        TextContent("Let me."), call("a", thought_signature="theirs"), call("b"), model=other
    )
    second = assistant(call("c"), model=other)
    turns = [user(), first, result("a"), result("b"), second, result("c")]

    got = sent(*turns)
    older = sent(*turns, model=OLDER)

    assert [part.get("thoughtSignature") for part in got[1]["parts"]] == [None, STAND_IN, None]
    assert [part.get("thoughtSignature") for part in got[3]["parts"]] == [STAND_IN]
    assert "thoughtSignature" not in json.dumps(older)


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (TextContent("Hi", "S=="), [{"text": "Hi", "thoughtSignature": "S=="}]),
        (TextContent("", "S"), [{"text": "", "thoughtSignature": "S"}]),
        (TextContent("Hi", "no base64!"), [said("Hi")]),
        (
            TextContent("a🙂bc", '{"signatures":[[0,2,"S1"],[4,4,"S2"]],"groundingMetadata":{}}'),
            [{"text": "a🙂", "thoughtSignature": "S1"}, said("bc"),
             {"text": "", "thoughtSignature": "S2"}],
        ),
        (TextContent("ab", '{"signatures":[[0,9,"S1"]]}'), [said("ab")]),
        (TextContent("ab", '{"signatures":"x"}'), [said("ab")]),
        (TextContent("ab", "{"), [said("ab")]),
        (ThinkingContent("T \r\n", "S"), [{"text": "T \r\n", "thought": True,
                                          "thoughtSignature": "S"}]),
        (ThinkingContent("", "S"), [{"text": "", "thought": True, "thoughtSignature": "S"}]),
    ],
)  # fmt: skip
def test_case_017_what_was_signed_goes_back_part_for_part(content: Any, parts: Any) -> None:
    _, model, _ = sent(user(), assistant(content), user())

    assert model["parts"] == parts


def test_case_017_thinking_without_a_signature_and_all_of_it_for_others_stays_behind() -> None:
    turns = [
        user(),
        assistant(ThinkingContent("hm"), ThinkingContent("T", "S"), TextContent("x", "S")),
        user(),
    ]

    assert sent(*turns, model=OLDER)[1]["parts"] == [said("x")]
    assert sent(*turns, flags={"reasoning_replay": "none"})[1]["parts"] == [said("x")]
    assert len(sent(*turns)[1]["parts"]) == 2


def test_case_017_what_was_refused_is_left_out_and_later_signatures_are_not() -> None:
    transcript = SendableTranscript(MODEL)
    signed = assistant(TextContent("x", "S1"), call("k", thought_signature="S2"))
    transcript.extend([user(), signed, result("k")])
    refused = wire_call(view=transcript.view())
    before = json.loads(encode(refused))["contents"]
    forget_signatures(refused)

    again = json.loads(encode(refused))["contents"]
    transcript.extend([assistant(TextContent("y", "S3")), user()])
    later = json.loads(encode(wire_call(view=transcript.view())))["contents"]

    def signatures(content: dict[str, Any]) -> list[Any]:
        return [part.get("thoughtSignature") for part in content["parts"]]

    assert signatures(before[1]) == ["S1", "S2"]
    assert signatures(again[1]) == signatures(later[1]) == [None, STAND_IN]
    assert signatures(later[3]) == ["S3"]


def test_what_was_decoded_goes_back_as_the_vendor_sent_it() -> None:
    parts = [
        {"text": "a🙂", "thoughtSignature": "S1"}, {"text": "b"},
        {"executableCode": {"code": "1", "id": "e"}, "thoughtSignature": "S2"},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "id": "e"}},
        {"text": "c"},
        {"functionCall": {"id": "k1", "name": "f", "args": {"x": [1]}}, "thoughtSignature": "S3"},
        {"functionCall": {"id": "k2", "name": "g", "args": {}}},
    ]  # fmt: skip
    chunks = [
        {"candidates": [{"content": {"parts": [part]}, "finishReason": "STOP"}]} for part in parts
    ]
    answer = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks]
    reply = msgspec.structs.replace(
        decode(API, answer), provider=MODEL.provider, model=MODEL.id, api=API
    )

    got = sent(user(), reply, result("k1"), result("k2"))

    assert got[1]["parts"] == parts


# -- contents ----------------------------------------------------------------------------------


def test_results_of_a_turn_and_what_the_user_says_next_are_one_content() -> None:
    got = sent(
        user("one"), user("two"), assistant(call("a"), call("b")), result("b"), result("a"),
        user("go on"),
    )  # fmt: skip

    assert [content["role"] for content in got] == ["user", "model", "user"]
    assert got[0]["parts"] == [said("one"), said("two")]
    assert [list(part) for part in got[2]["parts"]] == [
        ["functionResponse"], ["functionResponse"], ["text"],
    ]  # fmt: skip


def test_case_020_no_blank_text_is_sent_and_neighbours_are_joined() -> None:
    got = sent(
        user("a"), assistant(TextContent("  \n")), user("b"), assistant(), user("c"),
        assistant(TextContent(""), call("x")), result("x"),
    )  # fmt: skip

    assert [content["role"] for content in got] == ["user", "model", "user"]
    assert got[0]["parts"] == [said("a"), said("b"), said("c")]
    assert [next(iter(part)) for part in got[1]["parts"]] == ["functionCall"]


def test_results_say_what_came_and_whether_it_failed() -> None:
    got = sent(
        user(), assistant(call("a"), call("b"), call("c")), result("a", TextContent("1"),
        TextContent("2")), result("b", TextContent("No."), is_error=True),
        result("c", TextContent(" ")),
    )[2]["parts"]  # fmt: skip

    assert [part["functionResponse"]["response"] for part in got] == [
        {"output": "1\n2"}, {"error": "No."}, {"output": "(no output)"},
    ]  # fmt: skip


def test_images_of_users_and_of_tools_are_shown_where_the_family_takes_them() -> None:
    messages = [
        user([TextContent("see"), IMAGE]), assistant(call("a"), call("b")), result("a", IMAGE),
        result("b", TextContent("x"), ImageContent("aGk=", "image/heic")),
    ]  # fmt: skip

    got = sent(*messages)
    older = sent(*messages, model=OLDER)

    heic = {"inlineData": {"mimeType": "image/heic", "data": "aGk="}}
    assert got[0]["parts"] == [said("see"), IMAGE_SENT]
    first, second, introduction, moved = got[2]["parts"]
    assert first["functionResponse"]["parts"] == [IMAGE_SENT]
    assert first["functionResponse"]["response"] == {"output": "(see the images)"}
    assert "parts" not in second["functionResponse"]
    assert ("Images" in introduction["text"], moved) == (True, heic)
    assert [next(iter(part)) for part in older[2]["parts"]] == [
        "functionResponse", "functionResponse", "text", "inlineData", "inlineData",
    ]  # fmt: skip
    assert sent(*messages, user("go on"), model=OLDER)[2]["parts"] == [
        *older[2]["parts"], said("go on"),
    ]  # fmt: skip


def test_a_text_only_model_gets_one_placeholder_for_a_run_of_images() -> None:
    blind = msgspec.structs.replace(MODEL, input=("text",))

    got = sent(
        user([IMAGE, IMAGE, TextContent("x"), IMAGE]), assistant(call("a")),
        result("a", IMAGE, IMAGE), model=blind,
    )  # fmt: skip

    assert [list(part) for part in got[0]["parts"]] == [["text"]] * 3
    assert got[2]["parts"][0]["functionResponse"]["response"]["output"].count("image was left") == 1


def test_an_image_of_a_kind_the_vendor_does_not_take_is_told() -> None:
    (content,) = sent(user([ImageContent("aGk=", "image/gif"), ImageContent("aGk=", "image/jpg")]))

    assert "image/gif" in content["parts"][0]["text"]
    assert content["parts"][1]["inlineData"]["mimeType"] == "image/jpeg"


def test_older_models_get_only_the_ids_they_gave() -> None:
    own = assistant(call("k1"), call("call_r1_0"), model=OLDER)
    foreign = assistant(call("toolu_1"), model=MODEL)
    turns = [user(), own, result("k1"), result("call_r1_0"), foreign, result("toolu_1")]

    got = sent(*turns, model=OLDER)

    assert [part["functionCall"].get("id") for part in got[1]["parts"]] == ["k1", None]
    assert [part["functionResponse"].get("id") for part in got[2]["parts"]] == ["k1", None]
    assert "id" not in got[3]["parts"][0]["functionCall"]


def test_a_foreign_id_or_name_is_changed_the_same_way_each_time() -> None:
    messages = [user(), assistant(call("call_1|fc_2"), call("ä"), call("z" * 65, "1 a")),
                result("call_1|fc_2"), result("ä"), result("z" * 65)]  # fmt: skip

    first, second = sent(*messages), sent(*messages)

    assert first == second
    calls = [part["functionCall"] for part in first[1]["parts"]]
    answers = [part["functionResponse"] for part in first[2]["parts"]]
    assert [c["id"] for c in calls] == [a["id"] for a in answers]
    assert [c["name"] for c in calls] == [a["name"] for a in answers] == ["look", "look", "_1_a"]
    assert calls[0]["id"] == "call_1"


def test_case_002_a_call_that_could_not_be_parsed_is_sent_as_an_empty_object() -> None:
    broken = call("a", raw_arguments="[1]", arguments_error="an object was expected")

    parts = sent(user(), assistant(broken), result("a"))[1]["parts"]

    assert parts[0]["functionCall"]["args"] == {}


def test_a_conversation_begins_with_the_users_side() -> None:
    for messages in ([assistant(TextContent("x")), user()], [assistant(stop_reason="error")]):
        assert sent(*messages)[0]["role"] == "user"


CODE = {"executableCode": {"code": "1"}, "thoughtSignature": "S"}


def test_the_vendors_own_parts_go_back_to_their_model_only() -> None:
    kept = TextContent("", f'{{"part":{json.dumps(CODE)}}}')
    turns = [user(), assistant(kept, TextContent("x")), user()]

    unsigned = sent(*turns, flags={"reasoning_replay": "none"})[1]["parts"]

    assert sent(*turns)[1]["parts"] == [CODE, said("x")]
    assert unsigned == [{"executableCode": {"code": "1"}}, said("x")]
    assert sent(*turns, model=OLDER)[1]["parts"] == [said("x")]


def test_a_call_of_the_vendors_own_that_the_limit_cut_off_stays_behind() -> None:
    kept = TextContent("", f'{{"part":{json.dumps(CODE)}}}')

    got = sent(user(), assistant(TextContent("x"), kept, stop_reason="length"), user())

    assert got[1]["parts"] == [said("x")]


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


def test_a_content_is_encoded_once() -> None:
    """What can change no more is handed on as the same bytes object, not as equal ones."""
    transcript = SendableTranscript(MODEL)
    for _ in range(5):
        transcript.extend([user(), assistant(TextContent("x"))])
    rules = ContentRules.of(MODEL, family_of(MODEL, {}), {}, unsigned_before=0)
    before = contents_of(transcript.view(), rules).encoded()
    transcript.extend([user()])

    after = contents_of(transcript.view(), rules).encoded()

    assert (len(before), len(after)) == (10, 11)
    assert all(new is old for new, old in zip(after[:9], before[:9], strict=True))


def test_an_earlier_request_can_be_made_again() -> None:
    transcript = SendableTranscript(MODEL)
    transcript.extend([user()])
    early = transcript.view()
    first = encode(wire_call(view=early))
    transcript.extend([assistant(TextContent("x")), user()])
    encode(wire_call(view=transcript.view()))

    assert encode(wire_call(view=early)) == first


CARRIED = st.sampled_from([
    None, None, "S==", "odd signature", '{"signatures":[[0,1,"S1"]],"groundingMetadata":{"a":1}}',
    '{"signatures":[[0,99,"S1"]]}', f'{{"part":{json.dumps(CODE)}}}', '{"part":7}', '{"part":{',
])  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(transcripts(MODEL, signatures=CARRIED), st.sampled_from([MODEL, OLDER]), st.data())
def test_behaviour_051_every_request_begins_with_the_one_before(
    history: list[Message], model: Model, data: st.DataObject
) -> None:
    transcript = SendableTranscript(model)
    before: bytes | None = None
    for place, message in enumerate(history):
        transcript.extend([message])
        if not data.draw(st.booleans(), f"asked after {place}"):
            continue
        call = wire_call(view=transcript.view(), model=model)
        flat = b"".join(
            json.dumps([content["role"], part]).encode()
            for content in json.loads(encode(call))["contents"]
            for part in content["parts"]
        )
        if before is not None and b"nothing was said" not in before:
            assert flat.startswith(before)
        before = flat


# -- any transcript ----------------------------------------------------------------------------

BODY_FIELDS = {"systemInstruction", "tools", "toolConfig", "contents", "generationConfig"}
PART_FIELDS = {"text", "thought", "thoughtSignature", "inlineData", "functionCall",
               "functionResponse", "executableCode"}  # fmt: skip
SIGNATURE = "[A-Za-z0-9+/_-]+={0,2}"


def check_rules(got: dict[str, Any], *, modern: bool) -> None:
    """What Google's API demands of a body."""
    assert got.keys() <= BODY_FIELDS
    config = got.get("generationConfig", {}).get("thinkingConfig", {})
    assert not {"thinkingBudget", "thinkingLevel"} <= config.keys()
    assert ("thinkingLevel" if modern else "thinkingBudget") in config or not config
    contents = got["contents"]
    assert contents
    roles = [content["role"] for content in contents]
    assert roles == (["user", "model"] * len(roles))[: len(roles)]
    ids: set[str] = set()
    asked: list[dict[str, Any]] = []
    for content in contents:
        assert content["parts"]
        for part in content["parts"]:
            check_part(part)
        if content["role"] == "user":
            check_answers(content["parts"], asked)
            asked = []
        else:
            asked = check_calls(content["parts"], ids, modern=modern)
    assert not asked or roles[-1] == "model"


def check_part(part: dict[str, Any]) -> None:
    assert part.keys() <= PART_FIELDS
    kinds = part.keys() - {"thought", "thoughtSignature"}
    assert len(kinds) == 1, "one kind of data in each part"
    if "thoughtSignature" in part:
        assert re.fullmatch(SIGNATURE, part["thoughtSignature"])
    elif "text" in part:
        assert part["text"].strip()
    if "inlineData" in part:
        assert part["inlineData"]["mimeType"] in ("image/png", "image/jpeg")


def check_answers(parts: list[dict[str, Any]], asked: list[dict[str, Any]]) -> None:
    answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
    told = [(answer["name"], answer.get("id")) for answer in answers]
    assert told == [(call["name"], call.get("id")) for call in asked]
    assert all("functionResponse" in part for part in parts[: len(asked)])
    for answer in answers:
        assert answer["response"].keys() in ({"output"}, {"error"})
        for part in answer.get("parts", ()):
            check_part(part)


def check_calls(
    parts: list[dict[str, Any]], ids: set[str], *, modern: bool
) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []
    for part in parts:
        assert "inlineData" not in part
        if "functionCall" not in part:
            continue
        call = part["functionCall"]
        assert re.fullmatch("[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}", call["name"])
        assert isinstance(call["args"], dict)
        if modern:
            assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["id"])
            assert "thoughtSignature" in part or asked
        if "id" in call:
            assert call["id"] not in ids
            ids.add(call["id"])
        asked.append(call)
    return asked


@settings(max_examples=200, deadline=None)
@given(
    transcripts(MODEL, signatures=CARRIED),
    st.sampled_from(["off", "low", "max", None]),
    st.sampled_from([MODEL, OLDER, msgspec.structs.replace(MODEL, input=("text",))]),
)
def test_any_transcript_becomes_a_request_the_vendor_allows(
    history: list[Message], level: str | None, model: Model
) -> None:
    raw = encode(
        wire_call(
            view=sendable(history, model), model=model, reasoning=level, cache="long",
            prompt="p", tools=(ADD,), tool_choice="any", temperature=0,
        )
    )  # fmt: skip

    check_rules(json.loads(raw), modern=model.id != OLDER.id)
