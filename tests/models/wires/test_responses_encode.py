"""What is sent to hosts of Responses: known fields only, and hidden items back as they came."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
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
from loopwright.models.wires.openai_responses_encode import encode, forget_reasoning

from ..transcripts import transcripts

MODEL = Model(
    "openai", "gpt-5.2", "openai-responses", input=("text", "image"),
    thinking_levels={"off": "none", "low": "low", "medium": "medium", "high": "high"},
)  # fmt: skip
PLAIN = Model("acme", "large", "openai-responses", thinking_levels={})
IMAGE = ImageContent("aGk=", "image/png")
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


def assistant(*content: Any, model: Model = MODEL, **more: Any) -> AssistantMessage:
    return AssistantMessage(list(content), model.api, model.provider, model.id, timestamp=1, **more)


def call(id: str, name: str = "look", arguments: Any = None, **more: Any) -> ToolCall:
    return ToolCall(id, name, arguments or {}, **more)


def result(id: str, *content: Any) -> ToolResultMessage:
    return ToolResultMessage(id, "look", list(content) or [TextContent("done")], timestamp=1)


def user(content: Any = "Hi") -> UserMessage:
    return UserMessage(content, 1)


def hidden(item: dict[str, Any], text: str = "") -> ThinkingContent:
    return ThinkingContent(text, json.dumps(item), redacted=not text)


def text(said: str, **signature: Any) -> TextContent:
    return TextContent(said, json.dumps(signature) if signature else None)


def wire_call(
    *messages: Message,
    view: MessageView | None = None,
    prompt: str = "",
    tools: tuple[ToolSpec, ...] = (),
    model: Model = MODEL,
    flags: dict[str, Any] | None = None,
    endpoint: Endpoint | None = None,
    **options: Any,
) -> WireCall:
    context = Context(prompt, list(messages) or [user()], tools)
    return WireCall(
        model=model,
        context=context,
        messages=sendable(context.messages, model) if view is None else view,
        options=options,
        flags=flags or {},
        endpoint=endpoint or Endpoint("https://api.openai.com/v1"),
        clients=Clients(),
    )


def body(*messages: Message, **rest: Any) -> dict[str, Any]:
    return json.loads(encode(wire_call(*messages, **rest)))


def sent(*messages: Message, **rest: Any) -> list[dict[str, Any]]:
    return body(*messages, **rest)["input"]


def shape(items: list[dict[str, Any]]) -> list[str]:
    return [item.get("type") or item["role"] for item in items]


# -- fields ------------------------------------------------------------------------------------


def test_behaviour_053_nothing_is_sent_that_was_not_asked_for() -> None:
    assert body(model=PLAIN) == {
        "model": "large",
        "input": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "store": False,
    }


def test_options_go_into_the_fields_of_the_dialect() -> None:
    got = body(
        model=PLAIN, prompt="Be brief.", tools=(ADD,), temperature=0, max_tokens=9,
        tool_choice="required", parallel_tool_calls=False, sampling_params={"top_p": 0.5},
        verbosity="low", service_tier="flex", extra_body={"truncation": "auto"},
        metadata={"a": "b"}, flags={"metadata": True},
    )  # fmt: skip

    assert got == {
        "model": "large",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "store": False,
        "tools": [
            {
                "type": "function",
                "name": "add",
                "description": "Adds.",
                "parameters": ADD.parameters,
                "strict": False,
            }
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_output_tokens": 9,
        "temperature": 0,
        "top_p": 0.5,
        "text": {"verbosity": "low"},
        "metadata": {"a": "b"},
        "service_tier": "flex",
        "truncation": "auto",
    }


@pytest.mark.parametrize(
    ("flag", "field"),
    [("max_output_tokens", "max_output_tokens"), ("temperature", "temperature"),
     ("store", "store"), ("tools", "tools")],
)  # fmt: skip
def test_a_host_that_refuses_a_field_is_not_sent_it(flag: str, field: str) -> None:
    options: dict[str, Any] = {"tools": (ADD,), "max_tokens": 9, "temperature": 0}

    assert field in body(**options)
    assert field not in body(**options, flags={flag: False})


def test_strictness_is_left_out_where_it_is_not_understood() -> None:
    (tool,) = body(tools=(ADD,), flags={"strict_tools": False})["tools"]

    assert "strict" not in tool


def test_the_name_of_the_deployment_goes_in_place_of_the_models() -> None:
    assert body(endpoint=Endpoint("x", model_id="my-gpt"))["model"] == "my-gpt"


def test_an_unknown_sampling_parameter_is_named() -> None:
    with pytest.raises(Misuse, match="top_k"):
        body(sampling_params={"top_k": 3})


def test_a_schema_for_the_output_is_the_vendors_own_mode() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}

    got = body(output_schema={"name": "answer", "schema": schema, "strict": True})

    assert got["text"]["format"] == {
        "type": "json_schema",
        "name": "answer",
        "schema": schema,
        "strict": True,
    }


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("any", "required"),
        ("add", {"type": "function", "name": "add"}),
        ({"name": "add"}, {"type": "function", "name": "add"}),
        ({"type": "function", "function": {"name": "add"}}, {"type": "function", "name": "add"}),
        ("web_search", {"type": "web_search"}),
        ({"type": "web_search"}, {"type": "web_search"}),
    ],
)
def test_tool_choice_in_its_forms(choice: Any, expected: Any) -> None:
    got = body(tools=(ADD,), server_tools=[{"type": "web_search"}], tool_choice=choice)

    assert got["tool_choice"] == expected


def test_tool_choice_is_nothing_without_tools_and_soft_where_the_host_cannot() -> None:
    assert "tool_choice" not in body(tool_choice="required")
    assert body(tools=(ADD,), tool_choice="add", flags={"tool_choice_required": False})[
        "tool_choice"
    ] == "auto"  # fmt: skip
    with pytest.raises(Misuse, match="mul"):
        body(tools=(ADD,), tool_choice="mul")


def test_a_tool_in_the_vendors_own_form_takes_the_place_of_its_namesake() -> None:
    custom = {"type": "custom", "name": "add", "format": {"type": "text"}}

    got = body(tools=(ADD,), server_tools=[custom, {"type": "web_search"}], tool_choice="add")

    assert got["tools"] == [custom, {"type": "web_search"}]
    assert got["tool_choice"] == {"type": "custom", "name": "add"}


# -- thinking ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "reasoning"),
    [
        (None, None),
        ("off", {"effort": "none"}),
        ("minimal", {"effort": "low", "summary": "auto"}),
        ("medium", {"effort": "medium", "summary": "auto"}),
        ("max", {"effort": "high", "summary": "auto"}),
    ],
)
def test_levels_are_clamped_to_what_the_model_offers(asked: Any, reasoning: Any) -> None:
    got = body(reasoning=asked)

    assert got.get("reasoning") == reasoning
    assert got["include"] == ["reasoning.encrypted_content"]


def test_a_model_that_does_not_reason_is_asked_for_none() -> None:
    """It would answer 400 to both."""
    got = body(model=PLAIN, reasoning="high")

    assert "reasoning" not in got
    assert "include" not in got


def test_of_an_unknown_model_reasoning_is_asked_only_if_the_user_does() -> None:
    unknown = msgspec.structs.replace(MODEL, thinking_levels=None)

    assert "include" not in body(model=unknown)
    assert "include" not in body(model=unknown, reasoning="off")
    assert body(model=unknown, reasoning="xhigh")["reasoning"]["effort"] == "high"
    assert "include" in body(model=unknown, reasoning="low")


def test_the_summary_is_as_wished() -> None:
    assert body(reasoning="low", reasoning_summary="detailed")["reasoning"] == {
        "effort": "low",
        "summary": "detailed",
    }
    assert body(reasoning="low", reasoning_summary=None)["reasoning"] == {"effort": "low"}


def test_a_host_without_grades_or_replay_is_not_sent_them() -> None:
    flags = {"reasoning_effort": False, "reasoning_replay": "none"}

    got = body(reasoning="high", flags=flags)

    assert got["reasoning"] == {"summary": "auto"}
    assert "include" not in got


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(Misuse, match="loud"):
        body(reasoning="loud")


# -- caching -----------------------------------------------------------------------------------

CACHES = {"prompt_cache_key": True, "long_cache": True}


def test_the_session_becomes_the_cache_key_where_the_host_knows_one() -> None:
    assert body(session_id="s" * 70, flags=CACHES)["prompt_cache_key"] == "s" * 64
    assert "prompt_cache_key" not in body(session_id="s")
    assert "prompt_cache_key" not in body(session_id="s", cache="none", flags=CACHES)
    assert "prompt_cache_key" not in body(flags=CACHES)


def test_long_caching_in_the_hosts_own_words_or_not_at_all() -> None:
    explicit = {**CACHES, "x_explicit_prompt_cache_mode": True}

    assert body(cache="long", flags=CACHES)["prompt_cache_retention"] == "24h"
    assert body(cache="long", flags=explicit)["prompt_cache_options"] == {"ttl": "30m"}
    for got in (body(cache="long"), body(cache="short", flags=CACHES)):
        assert not {"prompt_cache_retention", "prompt_cache_options"} & got.keys()


# -- items -------------------------------------------------------------------------------------


def test_a_conversation_in_the_forms_every_host_takes() -> None:
    items = sent(
        user([TextContent("a"), TextContent("b")]),
        assistant(text("c"), call("x", "look", {"q": 1})),
        result("x"),
        assistant(text("d")),
    )

    assert items == [
        {"role": "user", "content": "a\nb"},
        {"type": "message", "role": "assistant", "content": "c"},
        {"type": "function_call", "call_id": "x", "name": "look", "arguments": '{"q":1}'},
        {"type": "function_call_output", "call_id": "x", "output": "done"},
        {"type": "message", "role": "assistant", "content": "d"},
    ]


def test_images_are_sent_beside_the_text_in_user_messages_and_results() -> None:
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="}
    said = {"type": "input_text", "text": "see"}

    items = sent(
        user([TextContent("see"), IMAGE]), assistant(call("x")), result("x", TextContent("see"), IMAGE)
    )  # fmt: skip

    assert items[0]["content"] == [said, image]
    assert items[2]["output"] == [said, image]


def test_a_text_only_model_gets_one_placeholder_for_a_run_of_images() -> None:
    items = sent(user([TextContent("a"), IMAGE, IMAGE, TextContent("b")]), model=PLAIN)

    assert items[0]["content"] == "a\n(an image was left out: this model reads text only)\nb"


def test_behaviour_066_a_result_of_nothing_says_so() -> None:
    items = sent(assistant(call("x")), result("x", TextContent(" ")))

    assert items[1]["output"] == "(no output)"


def test_the_phase_id_and_citations_of_a_message_go_back_to_its_model() -> None:
    cited = {"type": "url_citation", "url": "https://example.org"}
    message = assistant(
        text("one", id="msg_1", phase="commentary", annotations=[cited]),
        text("two", id="msg_1", phase="commentary"),
        text("three", id="msg_2", phase="final_answer"),
    )

    first, second = sent(user(), message)[1:]

    assert first == {
        "type": "message",
        "id": "msg_1",
        "status": "completed",
        "role": "assistant",
        "phase": "commentary",
        "content": [
            {"type": "output_text", "text": "one", "annotations": [cited]},
            {"type": "output_text", "text": "two", "annotations": []},
        ],
    }
    assert (second["id"], second["phase"]) == ("msg_2", "final_answer")


def test_an_id_the_vendor_would_refuse_is_left_out_and_the_phase_stays() -> None:
    message = assistant(
        hidden({**THOUGHT, "id": "opaque+/="}),
        text("one", id="opaque+/=", phase="commentary"),
        call("c|opaque+/="),
        call("d|fc_" + "1" * 70),
    )

    items = sent(user(), message)[1:5]

    assert [item for item in items if "id" in item] == []
    assert items[1] == {
        "type": "message",
        "role": "assistant",
        "content": "one",
        "phase": "commentary",
    }
    assert items[0]["encrypted_content"] == "gAAA"


def test_nothing_of_another_models_signatures_is_sent() -> None:
    other = msgspec.structs.replace(MODEL, id="gpt-5.1")
    message = assistant(
        hidden(THOUGHT), text("one", id="msg_1", phase="commentary"), call("c|fc_1"), model=other
    )

    assert sent(user(), message, result("c|fc_1"))[1:] == [
        {"type": "message", "role": "assistant", "content": "one"},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "done"},
    ]


def test_a_refusal_goes_back_as_text() -> None:
    (_, said) = sent(user(), assistant(TextContent("I cannot.", "refusal")))

    assert said == {"type": "message", "role": "assistant", "content": "I cannot."}


def test_case_020_no_blank_text_is_ever_sent() -> None:
    items = sent(
        user(), assistant(text(" ", id="msg_1"), call("x")), result("x"), assistant(text("\n"))
    )

    assert shape(items) == ["user", "function_call", "function_call_output"]


def test_case_001_case_002_a_call_that_could_not_be_parsed_is_sent_as_an_empty_object() -> None:
    broken = call("x", raw_arguments='{"a":', arguments_error="cut")

    assert sent(user(), assistant(broken))[1]["arguments"] == "{}"


# -- ids ---------------------------------------------------------------------------------------


def test_the_item_of_a_call_goes_back_under_its_id_and_results_use_the_calls() -> None:
    items = sent(user(), assistant(call("call_1|fc_1")), result("call_1|fc_1"))

    assert (items[1]["call_id"], items[1]["id"]) == ("call_1", "fc_1")
    assert (items[2]["call_id"], "id" in items[2]) == ("call_1", False)


@pytest.mark.parametrize("id", ["toolu_01", "c" * 65, "resp_1:call_0", "ä", "functions.look:0"])
def test_an_id_of_another_vendor_becomes_one_that_this_one_takes(id: str) -> None:
    made, answer = sent(user(), assistant(call(id)), result(id))[1:]

    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", made["call_id"])
    assert answer["call_id"] == made["call_id"]
    assert sent(user(), assistant(call(id)), result(id))[1] == made, "the same each time"


def test_case_016_a_host_that_counts_from_zero_in_every_reply_is_told_apart() -> None:
    items = sent(
        assistant(call("call_0|fc_a")), result("call_0|fc_a"),
        assistant(call("call_0|fc_b")), result("call_0|fc_b"),
    )  # fmt: skip

    first, second = items[0]["call_id"], items[2]["call_id"]
    assert first == "call_0" != second
    assert [items[1]["call_id"], items[3]["call_id"]] == [first, second]


def test_a_name_the_vendor_would_refuse_is_mended() -> None:
    made = sent(user(), assistant(call("x", "functions.look it up"), call("y", "")))[1:3]

    assert [item["name"] for item in made] == ["functions_look_it_up", "unnamed"]


# -- hidden items ------------------------------------------------------------------------------


def test_case_017_reasoning_goes_back_byte_for_byte_after_saving_and_loading() -> None:
    signature = (
        '{"type":"reasoning", "id":"rs_1",  "summary":[], "encrypted_content":"g\\u00e4\\/"}'
    )
    message = assistant(ThinkingContent("T ", signature), text("Hi", id="msg_1"), call("c|fc_1"))

    loaded = message_from_json(message.to_json())
    raw = encode(wire_call(user(), loaded))  # pyright: ignore[reportArgumentType]

    assert signature.encode() in raw
    assert shape(json.loads(raw)["input"]) == [
        "user", "reasoning", "message", "function_call", "function_call_output",
    ]  # fmt: skip


def test_parts_of_a_summary_without_the_item_are_not_sent() -> None:
    message = assistant(ThinkingContent("One"), hidden(THOUGHT, "Two"), text("Hi"))

    assert shape(sent(user(), message)) == ["user", "reasoning", "message"]


def test_reasoning_that_leads_to_nothing_is_left_out() -> None:
    message = assistant(text("Hi"), hidden(THOUGHT), hidden(THOUGHT))

    assert shape(sent(user(), message)) == ["user", "message"]


def test_items_of_the_vendors_own_tools_go_back_in_their_place() -> None:
    message = assistant(hidden(THOUGHT), hidden(SEARCH), hidden(THOUGHT), text("Hi", id="msg_1"))

    assert shape(sent(user(), message)) == [
        "user", "reasoning", "web_search_call", "reasoning", "message",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "missing",
    [
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {**THOUGHT, "status": "incomplete"},
        {"type": "shell_call", "id": "sh_1", "call_id": "c1", "action": {}},
        {"type": "mcp_approval_request", "id": "mcpr_1", "name": "x", "arguments": "{}"},
        {"type": None},
    ],
)
def test_hidden_items_go_back_all_or_none_and_with_none_no_ids_either(
    missing: dict[str, Any],
) -> None:
    message = assistant(
        hidden(THOUGHT), hidden(missing), hidden(SEARCH), text("Hi", id="msg_1"), call("c|fc_1")
    )

    assert sent(user(), message)[1:3] == [
        {"type": "message", "role": "assistant", "content": "Hi"},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
    ]


def test_a_shell_the_vendor_runs_itself_is_answered_already() -> None:
    ran = {"type": "shell_call", "id": "sh_1", "call_id": "c1", "action": {}}
    answer = {"type": "shell_call_output", "id": "sho_1", "call_id": "c1", "output": []}

    items = sent(user(), assistant(hidden(ran), hidden(answer), text("Hi")))

    assert shape(items) == ["user", "shell_call", "shell_call_output", "message"]


def test_reasoning_in_the_open_goes_back_too() -> None:
    item = {"type": "reasoning", "id": "x", "content": [{"type": "reasoning_text", "text": "T"}]}

    items = sent(user(), assistant(hidden(item, "T"), text("Hi")))

    assert items[1] == {"type": "reasoning", "content": item["content"], "summary": []}


def test_a_host_that_takes_no_reasoning_back_gets_none() -> None:
    items = sent(
        user(),
        assistant(hidden(THOUGHT), text("Hi", id="msg_1")),
        flags={"reasoning_replay": "none"},
    )

    assert items[1:] == [{"type": "message", "role": "assistant", "content": "Hi"}]


def test_case_017_hidden_items_the_vendor_refuses_are_left_out_from_then_on() -> None:
    transcript = SendableTranscript(MODEL)
    transcript.extend([user(), assistant(hidden(THOUGHT), call("c|fc_1")), result("c|fc_1")])
    refused = wire_call(view=transcript.view())
    forget_reasoning(refused)
    transcript.extend([assistant(hidden(THOUGHT), text("Hi")), user()])

    again = json.loads(encode(refused))["input"]
    later = json.loads(encode(wire_call(view=transcript.view())))["input"]

    assert shape(again) == ["user", "function_call", "function_call_output"]
    assert "id" not in again[1]
    assert shape(later) == [*shape(again), "reasoning", "message", "user"]
    assert shape(sent(user(), assistant(hidden(THOUGHT), text("Hi")), replay_thinking=False)) == [
        "user", "message",
    ]  # fmt: skip


def test_calls_stand_last_where_a_host_wants_that() -> None:
    message = assistant(call("x"), text("Hi"), call("y"))

    items = sent(user(), message, flags={"responses_interleaved_calls": False})

    assert shape(items)[1:4] == ["message", "function_call", "function_call"]


def test_a_custom_tools_call_and_result_in_their_own_form() -> None:
    made = call("c|ctc_1", "sql", {"input": "SELECT 1"},
                thought_signature='{"type":"custom_tool_call"}')  # fmt: skip

    assert sent(user(), assistant(made), result("c|ctc_1"))[1:] == [
        {
            "type": "custom_tool_call",
            "call_id": "c",
            "id": "ctc_1",
            "name": "sql",
            "input": "SELECT 1",
        },
        {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
    ]


def test_a_custom_tools_call_is_an_ordinary_one_for_another_model() -> None:
    made = call("c|ctc_1", "sql", {"input": "S"}, thought_signature='{"type":"custom_tool_call"}')

    item = sent(user(), assistant(made, model=PLAIN), result("c|ctc_1"))[1]

    assert (item["type"], item["arguments"]) == ("function_call", '{"input":"S"}')


def test_who_called_goes_back_with_the_call_and_its_result() -> None:
    caller = {"type": "program", "caller_id": "p"}
    made = call("c|fc_1", thought_signature=json.dumps({"caller": caller, "namespace": "n"}))

    item, answer = sent(user(), assistant(made), result("c|fc_1"))[1:]

    assert (item["caller"], item["namespace"]) == (caller, "n")
    assert (answer["caller"], "namespace" in answer) == (caller, False)


# -- bytes -------------------------------------------------------------------------------------


def test_case_021_half_a_surrogate_pair_anywhere_still_gives_utf_8() -> None:
    half = "x\ud83d"
    tool = ToolSpec("add", half, {"type": "object", "properties": {half: {}}})

    raw = encode(
        wire_call(
            user(half),
            assistant(text(half), call(half, half, {half: half})),
            result(half, TextContent(half)),
            prompt=half,
            tools=(tool,),
            session_id=half,
            metadata={"a": half},
            flags={"metadata": True, "prompt_cache_key": True},
        )
    )

    assert "x\N{REPLACEMENT CHARACTER}" in json.dumps(json.loads(raw), ensure_ascii=False)


def test_the_next_request_encodes_only_what_is_new() -> None:
    transcript = SendableTranscript(MODEL)
    transcript.extend([user("a"), assistant(hidden(THOUGHT), call("c|fc_1")), result("c|fc_1")])
    first = encode(wire_call(view=transcript.view()))
    (written,) = transcript.view().memo.values()
    before = list(written.out)
    transcript.extend([assistant(text("b")), user("c")])
    second = encode(wire_call(view=transcript.view()))

    assert second.startswith(first[: first.index(b'],"stream"')])
    assert all(old is new for old, new in zip(before, written.out, strict=False))


def test_an_earlier_request_can_be_made_again() -> None:
    transcript = SendableTranscript(MODEL)
    transcript.extend([user("a")])
    early = transcript.view()
    before = encode(wire_call(view=early))
    transcript.extend([assistant(text("b")), user("c")])
    encode(wire_call(view=transcript.view()))

    assert encode(wire_call(view=early)) == before


# -- any transcript ----------------------------------------------------------------------------

SIGNATURES = st.sampled_from([None, "refusal", '{"id":"msg_1","phase":"commentary"}', "{", "[]"])
ITEMS: Sequence[Any] = (
    THOUGHT,
    SEARCH,
    {"type": "reasoning", "id": "rs_2", "summary": []},
    {"type": "local_shell_call", "id": "l", "call_id": "c"},
)


def with_items(history: list[Message], choices: list[int]) -> list[Message]:
    """*history* in which signed thinking holds items of this wire."""
    changed: list[Message] = []
    turn = iter(choices * 100)
    for message in history:
        if type(message) is AssistantMessage:
            blocks = [
                hidden(ITEMS[next(turn)], block.thinking)
                if type(block) is ThinkingContent and block.thinking_signature
                else block
                for block in message.content
            ]
            message = msgspec.structs.replace(message, content=blocks)
        changed.append(message)
    return changed


def check(request: dict[str, Any]) -> None:
    """The vendor's rules, https://developers.openai.com/api/reference/resources/responses."""
    waiting: list[str] = []
    taken: set[str] = set()
    items = request["input"]
    for place, item in enumerate(items):
        kind = item.get("type")
        if kind in ("function_call_output", "custom_tool_call_output"):
            assert item["call_id"] == waiting.pop(0), "results in the order asked"
            assert item["output"]
            continue
        if kind not in ("function_call", None, "message", "reasoning", "web_search_call"):
            raise AssertionError(f"an item the vendor does not know: {item}")
        if item.get("role") == "user":
            assert not waiting, "every call has its result before anything else is said"
        if kind == "function_call":
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", item["call_id"])
            assert item["call_id"] not in taken
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", item["name"])
            assert isinstance(json.loads(item["arguments"]), dict)
            assert re.fullmatch(r"fc_[A-Za-z0-9_-]{1,61}", item.get("id", "fc_1"))
            taken.add(item["call_id"])
            waiting.append(item["call_id"])
        if kind == "reasoning":
            assert item.get("encrypted_content")
            follower = items[place + 1]
            assert follower.get("type", "message") != "function_call_output"
            assert follower.get("role") != "user", "reasoning only with what it led to"
        if kind in (None, "message"):
            content = item["content"]
            texts = [content] if isinstance(content, str) else [
                part["text"] for part in content if part["type"] != "input_image"
            ]  # fmt: skip
            assert content
            assert all(said.strip() for said in texts)
    assert not waiting


@settings(max_examples=300)
@given(
    transcripts(MODEL, signatures=SIGNATURES),
    st.lists(st.integers(0, len(ITEMS) - 1), min_size=1, max_size=6),
    st.sampled_from([MODEL, PLAIN]),
)
def test_any_transcript_becomes_a_request_the_dialect_allows(
    history: list[Message], choices: list[int], model: Model
) -> None:
    history = with_items(history, choices)

    check(json.loads(encode(wire_call(view=sendable(history, model), model=model))))


@settings(max_examples=200)
@given(transcripts(MODEL, signatures=SIGNATURES), st.data())
def test_behaviour_051_every_request_begins_with_the_one_before(
    history: list[Message], data: st.DataObject
) -> None:
    history = with_items(history, [0, 1, 2])
    transcript = SendableTranscript(MODEL)
    before: list[bytes] = []
    place = 0
    while place < len(history):
        step = data.draw(st.integers(1, len(history) - place))
        transcript.extend(history[place : place + step])
        place += step
        call = wire_call(view=transcript.view(), cache="long", session_id="s", flags=CACHES)
        request = msgspec.json.decode(encode(call), type=dict[str, msgspec.Raw])
        items = [bytes(i) for i in msgspec.json.decode(request["input"], type=list[msgspec.Raw])]
        assert items[: len(before)] == before
        before = items
