"""What is sent to hosts of Chat Completions: known fields only, in each host's own words."""

from __future__ import annotations

import json
import re
from typing import Any

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
)
from loopwright.models import Context, Model, ToolSpec
from loopwright.models.builtin import builtin_providers
from loopwright.models.clients import Clients
from loopwright.models.handoff import SendableTranscript, sendable
from loopwright.models.provider import Endpoint
from loopwright.models.wires import WireCall
from loopwright.models.wires.openai_chat_encode import encode

MODEL = Model("acme", "large", "openai-chat", input=("text", "image"))
IMAGE = ImageContent("aGk=", "image/png")
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def assistant(*content: Any) -> AssistantMessage:
    return AssistantMessage(list(content), "openai-chat", "acme", "large", timestamp=1)


def result(id: str, *content: Any) -> ToolResultMessage:
    return ToolResultMessage(id, "look", list(content) or [TextContent("done")], timestamp=1)


def user(content: Any = "Hi") -> UserMessage:
    return UserMessage(content, 1)


def raw_body(
    *messages: Message,
    prompt: str = "",
    tools: tuple[ToolSpec, ...] = (),
    model: Model = MODEL,
    flags: dict[str, Any] | None = None,
    **options: Any,
) -> bytes:
    context = Context(prompt, list(messages) or [user()], tools)
    return encode(
        WireCall(
            model=model,
            context=context,
            messages=sendable(context.messages, model),
            options=options,
            flags=flags or {},
            endpoint=Endpoint("http://127.0.0.1/v1"),
            clients=Clients(),
        )
    )


def body(*messages: Message, **rest: Any) -> dict[str, Any]:
    return json.loads(raw_body(*messages, **rest))


def sent(*messages: Message, **rest: Any) -> list[dict[str, Any]]:
    return body(*messages, **rest)["messages"]


# -- fields ------------------------------------------------------------------------------------


def test_behaviour_053_nothing_is_sent_that_was_not_asked_for() -> None:
    assert body() == {
        "model": "large",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_options_go_into_the_fields_of_the_dialect() -> None:
    sampling = {"top_p": 0.5, "stop": ["x"], "seed": 1}

    got = body(
        tools=(ADD,), temperature=0, max_tokens=5, sampling_params=sampling, tool_choice="any",
        response_format={"type": "json_object"}, parallel_tool_calls=False, extra_body={"x": 1},
    )  # fmt: skip

    assert got["temperature"] == 0
    assert got["max_completion_tokens"] == 5
    assert {name: got[name] for name in sampling} == sampling
    assert got["tool_choice"] == "required"
    assert got["tools"] == [
        {"type": "function", "function": {"name": "add", "description": "Adds.",
                                          "parameters": ADD.parameters}}
    ]  # fmt: skip
    assert (got["response_format"], got["parallel_tool_calls"], got["x"]) == (
        {"type": "json_object"}, False, 1
    )  # fmt: skip


def test_the_name_of_the_output_limit_is_the_hosts() -> None:
    assert body(max_tokens=5, flags={"max_tokens_field": "max_tokens"})["max_tokens"] == 5


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        ({}, {}),
        ({"temperature": None, "max_tokens": None}, {}),
        ({"temperature": 0.7}, {"temperature": 0.7}),
        ({"max_tokens": 2000}, {"max_tokens": 2000}),
        ({"temperature": 1, "max_tokens": 5}, {"temperature": 1, "max_tokens": 5}),
        ({"extra_body": {"repeat_penalty": 1.5}}, {"repeat_penalty": 1.5}),
    ],
)
def test_case_078_the_local_model_is_asked_for_short_repeatable_replies_unless_options_say_else(
    options: dict[str, Any], changed: dict[str, Any]
) -> None:
    (local,) = builtin_providers()
    (model,) = local.models

    got = body(model=model, flags=dict(local.flags_for(model)), **options)

    wanted = {"temperature": 0, "repeat_penalty": 1.1, "max_tokens": 512, **changed}
    assert {name: got[name] for name in wanted} == wanted
    assert "max_completion_tokens" not in got


@pytest.mark.parametrize("value", ["omit", "always", "none"])
def test_usage_is_asked_for_only_where_that_is_understood(value: str) -> None:
    assert "stream_options" not in body(flags={"stream_usage": value})


def test_an_unknown_sampling_parameter_is_named() -> None:
    with pytest.raises(Misuse, match="top_z"):
        body(sampling_params={"top_z": 1})


def test_a_host_that_stores_replies_is_told_not_to() -> None:
    assert body(flags={"store": True})["store"] is False
    assert "store" not in body()


def test_the_prompt_comes_first_under_the_role_the_host_knows() -> None:
    assert sent(prompt="Be brief.")[0] == {"role": "system", "content": "Be brief."}
    assert sent(prompt="x", flags={"developer_role": True})[0]["role"] == "developer"
    assert sent(prompt=" \n") == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("add", {"type": "function", "function": {"name": "add"}}),
        ({"name": "add"}, {"type": "function", "function": {"name": "add"}}),
        ({"type": "function", "function": {"name": "add"}},
         {"type": "function", "function": {"name": "add"}}),
    ],
)  # fmt: skip
def test_tool_choice_in_its_forms(choice: Any, expected: Any) -> None:
    assert body(tools=(ADD,), tool_choice=choice)["tool_choice"] == expected


def test_tool_choice_is_nothing_without_tools_and_soft_where_the_host_cannot() -> None:
    assert "tool_choice" not in body(tool_choice="required")
    soft = body(tools=(ADD,), tool_choice="required", flags={"tool_choice_required": False})
    assert soft["tool_choice"] == "auto"
    thinking = {"tool_choice_required": "no-thinking"}
    assert body(tools=(ADD,), tool_choice="any", flags=thinking)["tool_choice"] == "required"
    assert (
        body(tools=(ADD,), tool_choice="any", flags=thinking, reasoning="low")["tool_choice"]
        == "auto"
    )
    with pytest.raises(Misuse, match="'sub'"):
        body(tools=(ADD,), tool_choice="sub")


# -- messages ----------------------------------------------------------------------------------


def test_a_call_and_its_result_in_the_form_of_the_dialect() -> None:
    told = sent(
        user(), assistant(TextContent("Look."), ToolCall("c1", "look", {"a": 1})), result("c1")
    )

    assert told[1:] == [
        {
            "role": "assistant",
            "content": "Look.",
            "tool_calls": [
                {"id": "c1", "type": "function",
                 "function": {"name": "look", "arguments": '{"a":1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]  # fmt: skip


def test_case_020_content_beside_calls_is_null_or_empty_as_the_host_wants_it() -> None:
    messages = (user(), assistant(TextContent(" "), ToolCall("c1", "look", {})), result("c1"))

    assert sent(*messages)[1]["content"] is None
    assert sent(*messages, flags={"non_null_assistant_content": True})[1]["content"] == ""


def test_case_020_no_blank_text_is_ever_sent() -> None:
    told = raw_body(
        user([TextContent(""), TextContent("x")]), assistant(TextContent(" ")), user(" "),
        assistant(ToolCall("c", "look", {})), result("c", TextContent("")),
    )  # fmt: skip

    assert not re.search(rb'"(text|content)":\s*"\s*"', told)


def test_images_of_users_are_sent_beside_the_text() -> None:
    told = sent(user([TextContent("What is it?"), IMAGE]))

    assert told[0]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    ]


def test_case_088_images_of_tools_follow_all_results_each_with_the_call_it_belongs_to() -> None:
    told = sent(
        user(), assistant(ToolCall("a", "look", {}), ToolCall("b", "look", {})),
        result("a", IMAGE), result("b", TextContent("text"), IMAGE), assistant(TextContent("ok")),
    )  # fmt: skip

    assert [m["role"] for m in told] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    parts = told[4]["content"]
    assert [part["type"] for part in parts] == ["text", *["text", "image_url"] * 2]
    assert [part["text"] for part in parts[1::2]] == [
        "From look (call a):", "From look (call b):",
    ]  # fmt: skip
    assert isinstance(told[2]["content"], str)


def test_a_text_only_model_gets_one_placeholder_for_a_run_of_images() -> None:
    blind = Model("acme", "large", "openai-chat")

    told = sent(
        user([IMAGE, IMAGE, TextContent("?")]), assistant(ToolCall("c", "look", {})),
        result("c", IMAGE, IMAGE), model=blind,
    )  # fmt: skip

    assert [part["type"] for part in told[0]["content"]] == ["text", "text"]
    assert "left out" in told[2]["content"]
    assert len(told) == 3


def test_a_long_or_foreign_id_is_shortened_the_same_way_each_time() -> None:
    long = "call_" + "x" * 90
    history = (user(), assistant(ToolCall(long, "look", {}), ToolCall("c|fc_1", "look", {})),
               result(long), result("c|fc_1"))  # fmt: skip

    told = sent(*history)

    ids = [call["id"] for call in told[1]["tool_calls"]]
    assert len(ids[0]) <= 40
    assert ids[1] == "c"
    assert [m["tool_call_id"] for m in told[2:]] == ids
    assert sent(*history) == told


def test_a_host_with_a_rule_for_ids_gets_ids_that_keep_it() -> None:
    flags = {"tool_call_id": {"pattern": "[a-zA-Z0-9]{9}", "max": 9}}

    told = sent(user(), assistant(ToolCall("call_1", "look", {})), result("call_1"), flags=flags)

    assert re.fullmatch("[a-zA-Z0-9]{9}", told[2]["tool_call_id"])


def test_quirks_of_hosts_about_results() -> None:
    history = (user(), assistant(ToolCall("c", "look", {})), result("c"), user("next"))

    named = sent(*history, flags={"tool_result_name": True})
    between = sent(*history, flags={"assistant_after_tool_result": True})

    assert named[2]["name"] == "look"
    assert [m["role"] for m in between] == ["user", "assistant", "tool", "assistant", "user"]
    assert body(*history, flags={"tools_with_tool_history": True})["tools"] == []


def test_a_call_that_could_not_be_parsed_is_sent_as_an_empty_object() -> None:
    broken = ToolCall("c", "look", {}, None, '{"a":', "no JSON")

    told = sent(user(), assistant(broken), result("c"))

    assert told[1]["tool_calls"][0]["function"]["arguments"] == "{}"


# -- reasoning ---------------------------------------------------------------------------------

THOUGHT = (
    user(),
    assistant(ThinkingContent("need the date"), ToolCall("c", "look", {})),
    result("c"),
)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_case_019_reasoning_goes_back_where_the_host_wants_it(field: str) -> None:
    told = sent(*THOUGHT, flags={"reasoning_replay": field})

    assert told[1][field] == "need the date"
    assert told[1]["content"] is None


@pytest.mark.parametrize("flags", [{}, {"reasoning_replay": "none"}])
def test_case_019_and_nowhere_else(flags: dict[str, Any]) -> None:
    assert b"need the date" not in raw_body(*THOUGHT, flags=flags)


def test_case_019_nor_to_another_vendor() -> None:
    other = Model("other", "m", "openai-chat")
    flags = {"reasoning_replay": "reasoning_content"}

    assert b"need the date" not in raw_body(*THOUGHT, model=other, flags=flags)


def test_case_019_a_host_that_insists_gets_the_field_even_if_it_is_empty() -> None:
    flags = {"reasoning_replay": "reasoning_content", "reasoning_content_required": True}
    plain = (user(), assistant(TextContent("x")), user())

    assert sent(*plain, flags=flags, reasoning="high")[1]["reasoning_content"] == ""
    assert "reasoning_content" not in sent(*plain, flags=flags, reasoning="off")[1]


def test_signed_reasoning_details_go_back_as_they_came() -> None:
    details = '[{"type":"reasoning.text","text":"T","signature":"S=="}]'
    history = (user(), assistant(ThinkingContent("T", details), TextContent("x")), user())

    told = sent(*history, flags={"reasoning_replay": "reasoning_details"})

    assert told[1]["reasoning_details"] == json.loads(details)


def test_thinking_as_tags() -> None:
    told = sent(user(), assistant(ThinkingContent("T"), TextContent("x")), user(),
                flags={"reasoning_replay": "think-tags"})  # fmt: skip

    assert told[1]["content"] == "<think>T</think>x"


@pytest.mark.parametrize(
    ("style", "level", "expected"),
    [
        ("openai", "high", {"reasoning_effort": "high"}),
        ("openai", "off", {}),
        ("openrouter", "low", {"reasoning": {"effort": "low"}}),
        ("openrouter", "off", {"reasoning": {"effort": "none"}}),
        ("deepseek", "high", {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
        ("deepseek", "off", {"thinking": {"type": "disabled"}}),
        ("qwen", "off", {"enable_thinking": False}),
        ("qwen-chat-template", "low",
         {"chat_template_kwargs": {"enable_thinking": True, "preserve_thinking": True}}),
        ("together", "off", {"reasoning": {"enabled": False}}),
        ("string-thinking", "off", {"thinking": "none"}),
        ("ant-ling", "off", {}),
        ("zai", "off", {"thinking": {"type": "disabled"}}),
        ("baseten", "off", {"chat_template_args": {"enable_thinking": False}}),
    ],
)  # fmt: skip
def test_thinking_is_switched_in_the_hosts_own_words(
    style: str, level: str, expected: dict[str, Any]
) -> None:
    got = body(flags={"thinking_format": style}, reasoning=level)

    assert {key: value for key, value in got.items() if key not in body()} == expected


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("minimal", "lowest"),
        ("low", "lowest"),
        ("medium", "lowest"),
        ("max", "top"),
        ("off", "none"),
    ],
)
def test_a_level_the_model_does_not_have_becomes_the_nearest_lower_or_else_higher(
    level: str, expected: str
) -> None:
    levels = {"off": "none", "low": "lowest", "medium": None, "xhigh": "top"}
    model = Model("acme", "large", "openai-chat", thinking_levels=levels)

    assert body(model=model, reasoning=level)["reasoning_effort"] == expected


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(Misuse, match="'extreme'"):
        body(reasoning="extreme")


def test_thinking_budgets_go_where_a_host_has_a_field_for_them() -> None:
    got = body(reasoning="low", thinking_budgets={"low": 99},
               flags={"thinking_budget_field": "thinking_budget"})  # fmt: skip

    assert got["thinking_budget"] == 99


# -- caching -----------------------------------------------------------------------------------


def test_the_session_becomes_the_cache_key_where_the_host_knows_one() -> None:
    flags = {"prompt_cache_key": True, "long_cache": True}
    session = "s" * 99

    assert body(flags=flags, session_id=session)["prompt_cache_key"] == "s" * 64
    assert body(flags=flags, session_id="s", cache="long")["prompt_cache_retention"] == "24h"
    assert "prompt_cache_key" not in body(flags=flags, session_id="s", cache="none")
    assert "prompt_cache_key" not in body(session_id="s")


def test_cache_marks_stand_behind_the_prompt_the_tools_and_the_last_message() -> None:
    got = body(user(), prompt="P", tools=(ADD,), flags={"cache_control_format": "anthropic"})

    marked = [
        got["messages"][0]["content"][-1],
        got["messages"][-1]["content"][-1],
        got["tools"][-1],
    ]
    assert all(part["cache_control"] == {"type": "ephemeral"} for part in marked)


# -- bytes -------------------------------------------------------------------------------------


def test_case_021_half_a_surrogate_pair_anywhere_still_gives_utf_8() -> None:
    tool = ToolSpec("t\ud83d", "d\ud83d", {"type": "object"})

    got = raw_body(
        user("\ud83d"), assistant(ToolCall("c", "t\ud83d", {"a": "\udce9"})),
        result("c", TextContent("done \ud83d 🙂")), prompt="p\ud83d", tools=(tool,),
        sampling_params={"stop": ["\ud83d"]},
    )  # fmt: skip

    text = got.decode("utf-8")
    assert "🙂" in text
    assert "�" in text


def test_the_next_request_begins_with_the_very_bytes_of_the_last_and_encodes_only_what_is_new() -> (
    None
):
    transcript = SendableTranscript(MODEL)
    bodies: list[bytes] = []
    encoded: list[Any] = []
    turns: list[list[Message]] = [
        [user(), assistant(ToolCall("a", "look", {}))], [result("a", IMAGE)],
        [assistant(TextContent("x")), user([TextContent("y"), IMAGE])],
    ]  # fmt: skip

    for turn in turns:
        transcript.extend(turn)
        view = transcript.view()
        call = WireCall(MODEL, Context("P", view), view, {}, {}, Endpoint(None), Clients())
        bodies.append(encode(call).partition(b'],"stream"')[0])
        (written,) = view.memo.values()
        encoded.append(list(written.out))

    assert bodies[1].startswith(bodies[0])
    assert bodies[2].startswith(bodies[1])
    assert all(a is b for a, b in zip(encoded[1], encoded[2], strict=False))


def test_an_earlier_request_can_be_made_again() -> None:
    transcript = SendableTranscript(MODEL)
    transcript.extend([user("a")])
    first = transcript.view()

    def make(view: Any) -> bytes:
        return encode(WireCall(MODEL, Context("", view), view, {}, {}, Endpoint(None), Clients()))

    before = make(first)
    transcript.extend([assistant(TextContent("b")), user("c")])
    make(transcript.view())

    assert make(first) == before


texts = st.sampled_from(["", " ", "a", "\ud83d", "🙂" * 3])
ids = st.sampled_from(["", "x", "y|fc_1", "x_2", "z" * 60, "ä"])
content = st.one_of(st.builds(TextContent, texts), st.just(IMAGE))
messages = st.one_of(
    st.builds(lambda c: UserMessage(c, 1), st.one_of(texts, st.lists(content, max_size=3))),
    st.builds(
        lambda c, model: AssistantMessage(c, "openai-chat", "acme", model, timestamp=1),
        st.lists(
            st.one_of(
                st.builds(TextContent, texts),
                st.builds(ThinkingContent, texts, st.none() | st.just("S")),
                st.builds(ToolCall, ids, st.just("look"), st.dictionaries(texts, texts)),
            ),
            max_size=3,
        ),
        st.sampled_from(["large", "small"]),
    ),
    st.builds(lambda i, c: ToolResultMessage(i, "look", c, timestamp=1), ids,
              st.lists(content, max_size=2)),
)  # fmt: skip


@settings(max_examples=200)
@given(
    st.lists(messages, max_size=10),
    st.sampled_from([
        {}, {"reasoning_replay": "reasoning_content", "tool_result_name": True},
        {"assistant_after_tool_result": True, "non_null_assistant_content": True},
    ]),
)  # fmt: skip
def test_any_transcript_becomes_a_request_the_dialect_allows(
    history: list[Message], flags: dict[str, Any]
) -> None:
    told = sent(user(), *history, flags=flags)

    open_calls: list[str] = []
    seen: set[str] = set()
    for message in told:
        assert message.keys() <= {
            "role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content"
        }  # fmt: skip
        if open_calls:
            assert message["role"] == "tool"
            assert message["tool_call_id"] == open_calls.pop(0)
            assert message["content"].strip()
            continue
        assert message["role"] in ("user", "assistant")
        if message["role"] == "user":
            assert message["content"]
        else:
            open_calls = [call["id"] for call in message.get("tool_calls", [])]
            assert message["content"] or open_calls
            assert not seen & set(open_calls)
            assert all(0 < len(id) <= 40 for id in open_calls)
            seen |= set(open_calls)
    assert open_calls == []
