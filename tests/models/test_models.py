"""Vendors, names, options and the one stream function."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from loopwright import Agent
from loopwright.errors import ConfigurationError, ModelNotFound, Overloaded, RateLimited
from loopwright.messages import AssistantMessage, Cost, TextContent, ToolCall, Usage, UserMessage
from loopwright.models import Context, Model, Models, Provider, default_models
from loopwright.models.costs import priced
from loopwright.models.directory import ProviderSource
from loopwright.models.handoff import MessageView, sendable
from loopwright.models.provider import Dialect
from loopwright.models.retry import RetryPolicy
from loopwright.signals import AbortController
from loopwright.stream import (
    AssistantMessageEvent,
    AssistantStream,
    Done,
    Error,
    Retry,
    Start,
    TextDelta,
    TextStart,
)
from loopwright.testing import Reply, ScriptedModel, forbid_model_requests

CONTEXT = Context("", [UserMessage("Hi", 1)])
LARGE = Model("acme", "large-2", "openai-chat", context_window=1000)
TAGGED = Model("acme", "org/small:7b", "openai-chat")
ACME = Provider(
    id="acme", base_url="http://127.0.0.1:9/v1", models=(LARGE, TAGGED), needs_key=False
)
OLLAMA = Provider.openai_compatible("ollama", base_url="http://127.0.0.1:11434/v1", models=["qwen"])


@pytest.fixture
def models() -> Models:
    return Models([ACME, OLLAMA])


# -- vendors -----------------------------------------------------------------------------------


def test_a_compatible_server_is_one_line() -> None:
    added = Models().add(Provider.openai_compatible("ollama", base_url="http://127.0.0.1:11434/v1"))

    model = added.get_model("ollama", "qwen3:0.6b")

    assert model is not None
    assert (model.provider, model.id, model.api) == ("ollama", "qwen3:0.6b", "openai-chat")


def test_set_provider_is_the_same_as_add(models: Models) -> None:
    models.set_provider(Provider(id="acme", models=(TAGGED,)))

    assert models.get_model("acme", "large-2") is None
    assert models.provider_ids() == ["acme", "ollama"]


def test_get_model_knows_what_there_is(models: Models) -> None:
    assert models.get_model("acme", "large-2") is LARGE
    assert models.get_model("acme", "nothing") is None
    assert models.get_model("nobody", "large-2") is None


def test_a_table_of_vendors_is_read_only_when_asked(models: Models) -> None:
    class Table:
        def __init__(self) -> None:
            self.read: list[str] = []

        def ids(self) -> Iterable[str]:
            return ["far", "acme"]

        def get(self, provider_id: str) -> Provider | None:
            self.read.append(provider_id)
            return Provider(id="far", models=(Model("far", "m", "openai-chat"),)) \
                if provider_id == "far" else None  # fmt: skip

    table = Table()
    source: ProviderSource = table
    models.add_source(source)

    assert models.provider_ids() == ["acme", "ollama", "far"]
    assert models.resolve("acme/large-2") is LARGE
    assert table.read == []
    assert models.resolve("far/m").provider == "far"
    assert table.read == ["far"]


def test_a_vendor_may_speak_several_wires() -> None:
    other = Dialect("anthropic-messages", "http://127.0.0.1/anthropic", {"x": 1})
    provider = Provider(
        id="p", base_url="http://127.0.0.1/v1", flags={"y": 2}, other_dialects=(other,)
    )

    assert provider.dialect("openai-chat").base_url == "http://127.0.0.1/v1"
    assert provider.dialect("anthropic-messages") is other
    assert provider.dialect("something-else") == Dialect("something-else")


def test_a_providers_id_must_be_one_word() -> None:
    with pytest.raises(ValueError, match="letters"):
        Provider(id="my provider")


def test_a_row_never_shows_its_key() -> None:
    row = Provider.openai_compatible("x", base_url="http://127.0.0.1", api_key="sk-secret",
                                     headers={"Authorization": "Bearer sk-secret"})  # fmt: skip

    assert "sk-secret" not in repr(row)


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "model_id", "level"),
    [
        ("acme/large-2", "large-2", None),
        ("acme:large-2", "large-2", None),
        ("acme/large-2:high", "large-2", "high"),
        ("acme:large-2:off", "large-2", "off"),
        ("acme/org/small:7b", "org/small:7b", None),
        ("acme/org/small:7b:max", "org/small:7b", "max"),
        ("ollama/qwen3:0.6b", "qwen3:0.6b", None),
        ("ollama:qwen3:0.6b:low", "qwen3:0.6b", "low"),
        ("large-2", "large-2", None),
        ("large-2:xhigh", "large-2", "xhigh"),
        ("acme", "large-2", None),
        ("ollama", "qwen", None),
    ],
)
def test_a_name_gives_a_model_and_perhaps_a_level(
    models: Models, reference: str, model_id: str, level: str | None
) -> None:
    model, found = models.resolve_with_level(reference)

    assert (model.id, found) == (model_id, level)
    assert models.resolve(reference) == model


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (
            "acme/larg-2",
            "no model named 'larg-2' at provider 'acme'\nhint: did you mean 'acme/large-2'",
        ),
        ("acme/large-2:extreme", "did you mean 'acme/large-2'"),
        ("acne/large-2", "no provider is named 'acne'"),
        ("acne/large-2", "did you mean 'acme'"),
        ("larg-2", "'large-2'"),
        ("what", "known providers: acme, ollama"),
    ],
)
def test_a_name_that_means_nothing_is_answered_with_near_ones(
    models: Models, reference: str, said: str
) -> None:
    with pytest.raises(ModelNotFound) as caught:
        models.resolve(reference)

    assert said in str(caught.value)


def test_a_model_id_of_two_vendors_must_be_told_apart(models: Models) -> None:
    models.add(Provider(id="copy", models=(Model("copy", "large-2", "openai-chat"),)))

    with pytest.raises(ModelNotFound, match="acme/large-2, copy/large-2"):
        models.resolve("large-2")


def test_what_could_never_be_sent_can_be_asked_beforehand(models: Models) -> None:
    models.require(LARGE)
    models.require(Model("anywhere", "m", "openai-chat", base_url="http://127.0.0.1"))
    with pytest.raises(ModelNotFound):
        models.require(Model("nobody", "m", "openai-chat"))
    with pytest.raises(ConfigurationError, match="morse"):
        models.require(Model("acme", "m", "morse"))


# -- the defaults ------------------------------------------------------------------------------


def test_the_default_models_have_the_local_one_and_are_made_once() -> None:
    models = default_models()

    assert default_models() is models
    assert models.resolve("local").id == "smollm2-135m-instruct"
    assert models.has_key("local")


def test_a_key_in_the_environment_opens_a_vendor(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not default_models().has_key("openai")

    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")

    assert default_models().has_key("openai")


async def test_a_missing_key_says_what_to_set() -> None:
    message = await default_models().complete("openai/gpt-4o", CONTEXT)

    assert message.stop_reason == "error"
    assert "OPENAI_API_KEY" in (message.error_message or "")
    assert "'local'" in (message.error_message or "")


def test_importing_the_layer_loads_nothing_slow() -> None:
    script = (
        "import sys, loopwright.models as m; m.Models([m.Provider(id='x')]); m.default_models();"
        "print([n for n in ('openai', 'httpx2', 'pydantic', 'xllamacpp') if n in sys.modules])"
    )

    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert finished.stdout.strip() == "[]"


# -- asking ------------------------------------------------------------------------------------


def scripted_models(script: ScriptedModel, slept: list[float] | None = None) -> Models:
    async def sleep(seconds: float) -> None:
        if slept is not None:
            slept.append(seconds)
        await asyncio.sleep(0)

    return Models([script.provider], sleep=sleep, random=lambda: 0.0)


async def test_stream_complete_and_stream_simple_have_one_shape() -> None:
    script = ScriptedModel([Reply("a"), Reply("b"), Reply("c")])
    models = scripted_models(script)

    events = [event async for event in models.stream(script.model, CONTEXT)]
    simple = await models.stream_simple(script.model, CONTEXT, temperature=0).result()
    whole = await models.complete("scripted", CONTEXT)

    assert isinstance(events[-1], Done)
    assert (simple.text, whole.text) == ("b", "c")
    assert script.requests[1].options == {"temperature": 0}


async def test_a_level_in_the_name_is_the_reasoning_option() -> None:
    script = ScriptedModel([Reply("a"), Reply("b")])
    models = scripted_models(script)

    await models.complete("scripted/scripted:high", CONTEXT)
    await models.complete("scripted/scripted:high", CONTEXT, reasoning="low")

    assert [request.options["reasoning"] for request in script.requests] == ["high", "low"]


async def test_an_option_nobody_knows_is_named_in_the_error(models: Models) -> None:
    message = await models.complete(LARGE, CONTEXT, temprature=0)

    assert message.stop_reason == "error"
    assert "'temprature'" in (message.error_message or "")


async def test_an_unknown_vendor_or_wire_is_an_error_in_band(models: Models) -> None:
    nobody = await models.complete(Model("nobody", "m", "openai-chat"), CONTEXT)
    morse = await models.complete(Model("acme", "m", "morse"), CONTEXT)

    assert "no provider or model is named 'nobody'" in (nobody.error_message or "")
    assert "no wire is named 'morse'" in (morse.error_message or "")


async def test_retries_come_before_the_start_and_tell_attempt_delay_and_usage() -> None:
    spent = Usage(input=5, output=1, total_tokens=6)
    script = ScriptedModel([
        Reply(error="overloaded", usage=spent),
        Reply(error=RateLimited("slow", retry_after_seconds=7)),
        Reply("x"),
    ])  # fmt: skip
    slept: list[float] = []

    events = [e async for e in scripted_models(script, slept).stream(script.model, CONTEXT)]

    first, second, start = events[:3]
    assert isinstance(first, Retry)
    assert isinstance(second, Retry)
    assert isinstance(start, Start)
    assert (first.attempt, first.max_attempts, first.usage) == (2, 4, spent)
    assert (second.attempt, second.delay_seconds) == (3, 7)
    assert slept == [0.5, 7]


async def test_after_content_it_is_tried_again_only_if_the_caller_allows_that() -> None:
    """The reader sees a `Retry`, then a `Start` with which the reply begins anew."""
    script = ScriptedModel([Reply("Par", error=Overloaded("busy")), Reply("Paris")])
    models = scripted_models(script, [])

    stream = models.stream(script.model, CONTEXT, retry_after_content=True)
    kinds = [event.type async for event in stream]

    assert kinds == [
        *("start", "text_start", "text_delta", "text_end", "retry"),
        *("start", "text_start", "text_delta", "text_end", "done"),
    ]
    assert (await stream.result()).text == "Paris"


async def test_an_agent_that_allows_it_keeps_only_the_reply_that_began_anew() -> None:
    script = ScriptedModel([Reply("Par", error=Overloaded("busy")), Reply("Paris")])
    agent = Agent(
        script.model,
        stream_fn=scripted_models(script, []).stream_simple,
        stream_options={"retry_after_content": True},
    )
    kinds: list[str] = []
    agent.subscribe(lambda event: kinds.append(event.type))

    result = await agent.prompt("?")

    assert (result.text, result.stop_reason) == ("Paris", "stop")
    assert kinds.count("retry") == 1
    assert kinds.count("message_start") == kinds.count("message_end") == 2


async def test_nothing_is_tried_again_once_text_was_handed_on() -> None:
    script = ScriptedModel([Reply("Par", error=Overloaded("busy")), Reply("x")])

    events = [e async for e in scripted_models(script).stream(script.model, CONTEXT)]

    assert not any(isinstance(event, Retry) for event in events)
    assert isinstance(events[-1], Error)
    assert events[-1].error.text == "Par"
    assert len(script.requests) == 1


async def test_a_hopeless_failure_is_not_tried_again() -> None:
    script = ScriptedModel([Reply(error="you did it wrong"), Reply("x")])

    assert (await scripted_models(script).complete(script.model, CONTEXT)).stop_reason == "error"


@pytest.mark.parametrize(
    ("failed", "asked", "chance", "expected"),
    [(1, None, 0, 0.5), (2, None, 0, 1), (3, None, 0, 2), (9, None, 0, 8), (1, None, 1, 0.375),
     (1, 3.0, 1, 3.0)],
)  # fmt: skip
def test_the_wait_doubles_up_to_a_limit_unless_the_vendor_says(
    failed: int, asked: float | None, chance: float, expected: float
) -> None:
    assert RetryPolicy().delay_seconds(failed, asked, chance) == expected


async def test_a_stream_function_of_ones_own_can_be_a_vendor() -> None:
    async def own(model: Model, context: Context, /, **options: Any) -> AssistantStream:
        async def events() -> AsyncIterator[AssistantMessageEvent]:
            yield TextStart(0)
            yield TextDelta(0, "mine")
            yield Done("stop", AssistantMessage([TextContent("mine")]))

        return AssistantStream.from_events(events())

    model = Model("own", "m", "own")
    models = Models([Provider(id="own", api="own", models=(model,), stream=own)])
    models.require(model)

    assert (await models.complete("own", CONTEXT)).text == "mine"


async def test_an_abort_reaches_a_scripted_vendor_behind_models() -> None:
    controller = AbortController()
    script = ScriptedModel([Reply("never", delay=3600)])
    reply = scripted_models(script).stream(script.model, CONTEXT, signal=controller.signal)

    asyncio.get_running_loop().call_later(0.01, controller.abort)
    message = await asyncio.wait_for(reply.result(), 5)

    assert message.stop_reason == "aborted"
    assert controller.signal._callbacks == {}, "the signal is let go of"


async def test_the_context_is_not_made_sendable_twice(models: Models) -> None:
    view = sendable([UserMessage("Hi"), AssistantMessage([ToolCall("c", "x", {})])], LARGE)

    assert isinstance(view, MessageView)
    assert sendable(view, LARGE) is view


# -- forbidding --------------------------------------------------------------------------------


async def test_real_requests_can_be_forbidden(models: Models) -> None:
    with forbid_model_requests():
        refused = await models.complete(LARGE, CONTEXT, max_retries=0)
        local = await default_models().complete("local", CONTEXT)

    assert "forbidden" in (refused.error_message or "")
    assert "forbidden" in (local.error_message or "")


async def test_scripted_models_work_where_real_ones_are_forbidden() -> None:
    script = ScriptedModel([Reply("x")])

    with forbid_model_requests():
        assert (await scripted_models(script).complete(script.model, CONTEXT)).text == "x"


async def test_loopback_can_be_let_through() -> None:
    here = Provider.openai_compatible("here", base_url="http://127.0.0.1:9/v1")
    there = Provider.openai_compatible("there", base_url="https://api.example.com/v1")
    models = Models([here, there])

    with forbid_model_requests(allow_loopback=True):
        tried = await models.complete("here/m", CONTEXT, max_retries=0)
        refused = await models.complete("there/m", CONTEXT, max_retries=0)

    assert "connection failed" in (tried.error_message or "")
    assert "forbidden" in (refused.error_message or "")


@pytest.mark.parametrize(("value", "forbidden"), [("1", True), ("0", False), ("remote", False)])
async def test_the_environment_can_forbid_them_for_a_whole_process(
    models: Models, monkeypatch: pytest.MonkeyPatch, value: str, forbidden: bool
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_FORBID_MODEL_REQUESTS", value)

    message = await models.complete(LARGE, CONTEXT, max_retries=0)

    assert ("forbidden" in (message.error_message or "")) is forbidden


# -- costs -------------------------------------------------------------------------------------


def test_case_042_the_cost_counts_cached_tokens_at_their_own_price() -> None:
    rates = Cost(input=1.0, output=2.0, cache_read=0.1)

    cost = priced(Usage(input=200, cache_read=9_800), rates).cost

    assert cost.total == pytest.approx(0.00118)


def test_a_price_not_known_is_never_zero() -> None:
    assert priced(Usage(input=10), None).cost.total is None
    assert priced(Usage(input=10, output=1), Cost(input=1.0)).cost.total is None
    assert priced(Usage(input=10, known=False), Cost(input=1.0)).cost.total is None


def test_what_the_vendor_says_it_cost_wins() -> None:
    reported = Usage(input=10, cost=Cost(total=5.0))

    assert priced(reported, Cost(1.0, 1.0, 1.0, 1.0)).cost.total == 5.0
