"""What single hosts of Chat Completions do differently, as their users reported it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from loopwright.messages import (
    AssistantMessage,
    ThinkingContent,
    ToolResultMessage,
    UserMessage,
)
from loopwright.models import Context, Model, Models, Provider
from loopwright.models.handoff import sendable
from loopwright.models.provider import Endpoint
from loopwright.models.wires import WireCall, load_wire
from loopwright.stream import Error
from loopwright.testing import decode
from loopwright.testing.decode import decode_events

from .fault_server import DONE, USAGE, event

WIRE = "openai-chat"


def data(document: Any) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def chunk(*choices: dict[str, Any], **more: Any) -> bytes:
    return data({"id": "r1", "choices": [{"index": 0, **c} for c in choices], **more})


def call(id: str | None, name: str | None, arguments: str | None, **more: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": id, "type": "function", "function": function, **more}


def calls_of(message: AssistantMessage) -> list[tuple[str, str, Any]]:
    assert message.stop_reason == "toolUse", message.error_message
    return [(c.id, c.name, c.arguments) for c in message.tool_calls]


# -- thought signatures (Google) ---------------------------------------------------------------

SIGNED = {"google": {"thought_signature": "c2ln"}}


def request_after(message: AssistantMessage, model: Model) -> dict[str, Any]:
    """The request with which *model* is told the results of the calls of *message*."""
    results = [ToolResultMessage(c.id, c.name, []) for c in message.tool_calls]
    context = Context("", [UserMessage("Hi", 1), message, *results])
    call = WireCall(
        model=model, context=context, messages=sendable(context.messages, model), options={},
        flags={}, endpoint=Endpoint("http://127.0.0.1/v1"), clients=Models()._clients,
    )  # fmt: skip
    return json.loads(load_wire(WIRE).encode(call))


@pytest.mark.parametrize("host", ["google", "vertex"])
def test_case_018_a_signature_on_a_call_goes_back_on_that_call_to_the_same_model(host: str) -> None:
    signed = {host: {"thought_signature": "c2ln"}}
    message = decode(
        WIRE,
        [
            chunk({"delta": {"tool_calls": [call("a1", "look", '{"n":1}', extra_content=signed)]}}),
            chunk({"delta": {"tool_calls": [call("a2", "look", '{"n":2}')]}}),
            event({}, "tool_calls"), DONE,
        ],
    )  # fmt: skip
    message = msgspec.structs.replace(message, provider="acme", model="gemini-x")
    assert calls_of(message) == [("a1", "look", {"n": 1}), ("a2", "look", {"n": 2})]

    same = request_after(message, Model("acme", "gemini-x", WIRE))["messages"][1]["tool_calls"]
    other = request_after(message, Model("acme", "other", WIRE))["messages"][1]["tool_calls"]

    assert [c.get("extra_content") for c in same] == [signed, None]
    assert [c.get("extra_content") for c in other] == [None, None]


def test_the_first_signature_of_a_call_counts() -> None:
    first = call("a", "look", '{"n":', index=0, extra_content=SIGNED)
    more = call(None, None, "1}", index=0, extra_content={"google": {"thought_signature": ""}})
    chunks = [event({"tool_calls": [first]}), event({"tool_calls": [more]}), event({}, "stop")]

    (kept,) = decode(WIRE, chunks).tool_calls

    assert kept.arguments == {"n": 1}
    assert json.loads(kept.thought_signature or "") == {"extra_content": SIGNED}


@pytest.mark.parametrize(("opening", "closing"), [("", ""), ("<thought>", "</thought>")])
def test_content_that_google_marks_as_a_thought_is_thinking(opening: str, closing: str) -> None:
    marked = {"google": {"thought": True}}
    message = decode(
        WIRE,
        [
            event({"content": f"{opening}I must ", "extra_content": marked}),
            event({"content": "look.", "extra_content": marked}),
            event({"content": f"{closing}It is"}), event({"content": " noon."}),
            event({}, "stop"), DONE,
        ],
    )  # fmt: skip

    assert (message.thinking, message.text) == ("I must look.", "It is noon.")


# -- the whole again at the end (MiniMax) ------------------------------------------------------


def test_a_message_at_the_end_that_repeats_the_reply_is_not_said_twice() -> None:
    again = {
        "role": "assistant", "content": "Hello", "reasoning_content": "Hm.",
        "tool_calls": [call("c1", "look", '{"n":1}')],
    }  # fmt: skip
    message = decode(
        WIRE,
        [
            event({"reasoning_content": "Hm."}), event({"content": "Hel"}), event({"content": "lo"}),
            event({"tool_calls": [call("c1", "look", '{"n":1}', index=0)]}),
            chunk({"message": again, "finish_reason": "tool_calls"}, object="chat.completion",
                  usage={"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
                  base_resp={"status_code": 0, "status_msg": ""}),
            DONE,
        ],
    )  # fmt: skip

    assert (message.thinking, message.text) == ("Hm.", "Hello")
    assert calls_of(message) == [("c1", "look", {"n": 1})]
    assert message.usage.output == 4


def test_what_only_the_message_at_the_end_says_is_taken() -> None:
    again = {"content": "Hello", "tool_calls": [call("c1", "look", "{}")]}
    chunks = [event({"content": "Hello"}), chunk({"message": again, "finish_reason": "stop"})]

    message = decode(WIRE, chunks)

    assert message.text == "Hello"
    assert calls_of(message) == [("c1", "look", {})]


def test_a_message_beside_an_empty_delta_is_taken() -> None:
    last = {"delta": {"content": ""}, "message": {"content": "Hello"}, "finish_reason": "stop"}

    for chunks in (
        [chunk(last)],
        [event({"content": "Hel"}), event({"content": "lo"}), chunk(last)],
    ):
        assert decode(WIRE, chunks).text == "Hello"


def test_a_host_that_says_its_pieces_as_messages_is_read_piece_by_piece() -> None:
    chunks = [chunk({"message": {"content": piece}}) for piece in ("Hel", "lo")]

    assert decode(WIRE, [*chunks, event({}, "stop")]).text == "Hello"


def test_two_choices_with_one_index_are_both_the_reply() -> None:
    """Copilot puts the text of some models and their calls into choices of their own."""
    text = {"delta": {"content": "Let me look."}}
    calls = {"delta": {"tool_calls": [call("c1", "look", "{}")]}, "finish_reason": "tool_calls"}

    message = decode(WIRE, [chunk(text, calls), DONE])

    assert message.text == "Let me look."
    assert calls_of(message) == [("c1", "look", {})]


# -- errors that are not called so -------------------------------------------------------------

ERRORS: dict[str, tuple[dict[str, Any], str, bool]] = {
    "vLLM": (
        {"object": "error", "message": "too warm", "type": "BadRequestError", "code": 400},
        "too warm", False,
    ),
    "SGLang": (
        {"object": "error", "message": "server busy", "type": "InternalServerError", "code": 500},
        "server busy", True,
    ),
    "a gateway": ({"code": 422, "details": "no such option"}, "no such option", False),
    "FastAPI": ({"detail": "Rate limit reached"}, "Rate limit reached", True),
    "DashScope": (
        {"code": "InvalidParameter", "message": "bad range", "request_id": "x"}, "bad range", False,
    ),
    "MiniMax": (
        {"id": "r", "choices": None, "base_resp": {"status_code": 1008,
                                                   "status_msg": "insufficient balance"}},
        "insufficient balance", False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("after_text", [False, True])
@pytest.mark.parametrize("host", ERRORS)
def test_an_error_without_that_name_is_the_end(host: str, after_text: bool) -> None:
    document, text, retryable = ERRORS[host]
    begun = [event({"content": "Par"})] if after_text else []

    last = decode_events(WIRE, [*begun, data(document), DONE])[-1]

    assert isinstance(last, Error)
    assert text in (last.error.error_message or "")
    assert last.retryable is retryable
    assert last.error.text == ("Par" if after_text else "")


@pytest.mark.parametrize("host", ERRORS)
def test_so_is_one_as_a_whole_body(host: str) -> None:
    document, text, _ = ERRORS[host]

    message = decode(WIRE, [json.dumps(document).encode()])

    assert text in (message.error_message or "")


@pytest.mark.parametrize(
    "sign",
    [
        {"type": "ping"}, {}, {"choices": [], "prompt_filter_results": [{}]},
        {"id": "x", "object": "chat.completion.chunk", "choices": []},
        {"choices": None, "base_resp": {"status_code": 0, "status_msg": "ok"}},
        {"code": 0, "message": "Success"}, {"code": "200", "msg": "ok"},
    ],
)  # fmt: skip
def test_signs_of_life_are_no_errors(sign: dict[str, Any]) -> None:
    chunks = [data(sign), event({"content": "Hi"}), data(sign), event({}, "stop"), USAGE, DONE]

    message = decode(WIRE, chunks)

    assert (message.text, message.stop_reason) == ("Hi", "stop"), message.error_message


def test_the_word_of_groq_for_a_stream_it_gave_up_is_an_error_that_may_pass() -> None:
    told = data({"choices": [], "x_groq": {"id": "q", "error": "over_capacity"}})

    last = decode_events(WIRE, [event({"content": "Par"}), told, DONE])[-1]

    assert isinstance(last, Error)
    assert (last.error.text, last.retryable) == ("Par", True)
    assert "over_capacity" in (last.error.error_message or "")


def test_an_error_inside_a_choice_says_why() -> None:
    failed = {"delta": {"content": ""}, "finish_reason": "error",
              "error": {"code": 502, "message": "Provider returned error"}}  # fmt: skip

    last = decode_events(WIRE, [event({"content": "Par"}), chunk(failed), DONE])[-1]

    assert isinstance(last, Error)
    assert "Provider returned error" in (last.error.error_message or "")
    assert last.retryable


@pytest.mark.parametrize(
    "beside",
    [
        chunk({"delta": {"content": "tial"}, "error": {"code": 502, "message": "went away"}}),
        chunk({"delta": {"content": "tial"}}, x_groq={"error": "it went away"}),
    ],
)
def test_an_error_beside_more_text_is_not_passed_over(beside: bytes) -> None:
    last = decode_events(WIRE, [event({"content": "Par"}), beside, event({}, "stop"), DONE])[-1]

    assert isinstance(last, Error)
    assert last.error.text == "Partial"
    assert "went away" in (last.error.error_message or "")


# -- words for the end -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("STOP", "stop"), ("eos_token", "stop"), ("<|eot_id|>", "stop"), ("COMPLETE", "stop"),
        ("MAX_TOKENS", "length"), ("model_context_window_exceeded", "length"),
    ],
)  # fmt: skip
def test_the_word_of_a_host_behind_the_host_is_understood(raw: str, reason: str) -> None:
    message = decode(WIRE, [event({"content": "Hi"}), event({}, raw), DONE])

    assert (message.stop_reason, message.raw_stop_reason) == (reason, raw), message.error_message


@pytest.mark.parametrize(
    ("raw", "kind", "retryable"),
    [
        ("SAFETY", "refused", False), ("content_filter: RECITATION", "refused", False),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "model_error", True),
        ("abort", "model_error", True), ("insufficient_system_resource", "model_error", True),
        ("whatever", "model_error", False),
    ],
)  # fmt: skip
def test_the_word_for_a_failure_says_whether_it_may_pass(
    raw: str, kind: str, retryable: bool
) -> None:
    last = decode_events(WIRE, [event({"content": "Hi"}), event({}, raw), DONE])[-1]

    assert isinstance(last, Error)
    assert (last.kind, last.retryable) == (kind, retryable)
    assert repr(raw) in (last.error.error_message or "")


def test_null_as_a_word_is_no_end() -> None:
    chunks = [event({"content": "Hi"}, "null"), event({"content": "!"}, "null")]

    assert decode(WIRE, [*chunks, event({}, "stop"), DONE]).text == "Hi!"
    assert decode(WIRE, chunks).stop_reason == "error"


# -- pieces of calls ---------------------------------------------------------------------------


def test_arguments_that_come_before_the_name_and_the_id_belong_to_their_index() -> None:
    chunks = [
        event({"tool_calls": [{"index": 0, "function": {"arguments": '{"n":'}}]}),
        event({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "look"}}]}),
        event({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}),
        event({}, "tool_calls"), DONE,
    ]  # fmt: skip

    assert calls_of(decode(WIRE, chunks)) == [("c1", "look", {"n": 1})]


def test_case_006_another_name_at_the_index_of_a_call_without_arguments_is_another_call() -> None:
    chunks = [
        event({"tool_calls": [call(None, "now", "", index=0)]}),
        event({"tool_calls": [call(None, "look", '{"n":1}', index=0)]}),
        event({}, "tool_calls"), DONE,
    ]  # fmt: skip

    made = [(name, arguments) for _, name, arguments in calls_of(decode(WIRE, chunks))]
    assert made == [("now", {}), ("look", {"n": 1})]


def test_an_empty_object_in_front_of_the_arguments_is_no_part_of_them() -> None:
    chunks = [
        event({"tool_calls": [call("c1", "look", "{}", index=0)]}),
        event({"tool_calls": [call(None, None, '{"n":', index=0)]}),
        event({"tool_calls": [call(None, None, "1}", index=0)]}),
        event({}, "tool_calls"), DONE,
    ]  # fmt: skip

    assert calls_of(decode(WIRE, chunks)) == [("c1", "look", {"n": 1})]


@pytest.mark.parametrize("arguments", ["{}{", "{} x", "{}[1]"])
def test_case_004_what_is_cut_behind_an_empty_object_is_never_run(arguments: str) -> None:
    chunks = [event({"tool_calls": [call("c1", "look", arguments, index=0)]})]

    (made,) = decode(WIRE, [*chunks, event({}, "tool_calls"), DONE]).tool_calls

    assert made.arguments_error


@pytest.mark.parametrize(
    ("arguments", "came"), [(["notes.md"], "an array"), (17, "a number"), (True, "a boolean")]
)
def test_case_002_arguments_that_are_neither_text_nor_object_are_refused(
    arguments: Any, came: str
) -> None:
    chunks = [event({"tool_calls": [call("c1", "look", arguments, index=0)]})]

    (made,) = decode(WIRE, [*chunks, event({}, "tool_calls"), DONE]).tool_calls

    assert came in (made.arguments_error or "")


def test_one_call_or_one_part_without_its_list_is_taken() -> None:
    chunks = [
        event({"content": {"type": "text", "text": "Hi"}}),
        event({"tool_calls": call("c1", "look", "{}", index=0)}), event({}, "tool_calls"), DONE,
    ]  # fmt: skip

    message = decode(WIRE, chunks)

    assert message.text == "Hi"
    assert calls_of(message) == [("c1", "look", {})]


def test_empty_ids_and_names_in_later_pieces_change_nothing() -> None:
    chunks = [
        event({"tool_calls": [call("c1", "look", "{", index=0)]}),
        event({"tool_calls": [call("", "", '"n":', index=0)]}),
        event({"tool_calls": [call("", "", "1}", index=0)]}),
        event({}, "tool_calls"), DONE,
    ]  # fmt: skip

    assert calls_of(decode(WIRE, chunks)) == [("c1", "look", {"n": 1})]


async def test_a_whole_reply_that_was_not_streamed_may_be_long() -> None:
    from .fault_server import answer, serving

    text = "abcdefgh" * 40_000
    document = {"choices": [{"index": 0, "message": {"content": text}, "finish_reason": "stop"}]}
    pretty = json.dumps(document, indent=2).encode()

    async with serving(answer(200, pretty)) as server:
        host = Provider.openai_compatible("acme", base_url=server.base_url)
        async with Models().add(host) as models:
            message = await models.complete("acme/large", Context("", [UserMessage("Hi")]))

    assert message.text == text, message.error_message


# -- what it cost ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "total"),
    [
        ({"cost": 0.25}, 0.25),
        ({"cost": {"input_tokens_cost": 0.1, "request_cost": 0.2, "total_cost": 0.3}}, 0.3),
        ({"cost": 0.05, "is_byok": True,
          "cost_details": {"upstream_inference_cost": 1.0}}, 1.05),
        ({"cost": 0, "is_byok": True, "cost_details": {}}, None),
        ({"cost": 0.25, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.25}}, 0.25),
        ({"cost_in_usd_ticks": 1_497_500}, 0.00014975), ({"cost_in_usd_ticks": 0}, None),
        ({"cost": True}, None), ({}, None),
    ],
)  # fmt: skip
def test_the_cost_a_host_tells_is_taken_and_is_never_less_than_all_of_it(
    told: dict[str, Any], total: float | None
) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7, **told}
    chunks = [event({"content": "Hi"}), event({}, "stop"), data({"choices": [], "usage": usage})]

    assert decode(WIRE, [*chunks, DONE]).usage.cost.total == total


# -- reasoning details (OpenRouter) ------------------------------------------------------------


def test_a_signature_that_comes_after_the_text_is_kept() -> None:
    late = {"type": "reasoning.text", "text": None, "signature": "c2ln", "index": 0}
    chunks = [event({"reasoning": "Hm."}), event({"content": "Hi"})]

    message = decode(WIRE, [*chunks, event({"reasoning_details": [late]}), event({}, "stop"), DONE])

    assert (message.thinking, message.text) == ("Hm.", "Hi")
    (kept,) = [
        signature
        for block in message.content
        if (signature := getattr(block, "thinking_signature", None))
    ]
    assert json.loads(kept) == [late]


def test_a_summary_that_comes_in_pieces_is_one_detail() -> None:
    def piece(text: str) -> dict[str, Any]:
        detail = {"type": "reasoning.summary", "summary": text, "index": 0}
        return {"reasoning": text, "reasoning_details": [detail]}

    sealed = {"type": "reasoning.encrypted", "data": "eA==", "index": 0}
    chunks = [
        event(piece("I must ")),
        event(piece("look.")),
        event({"reasoning_details": [sealed]}),
    ]

    message = decode(WIRE, [*chunks, event({"content": "Hi"}), event({}, "stop"), DONE])

    assert message.thinking == "I must look."
    thought = message.content[0]
    assert isinstance(thought, ThinkingContent)
    kept = json.loads(thought.thinking_signature or "")
    assert [d.get("summary") for d in kept] == ["I must look.", None]
