"""A fallback model: the next one is asked only if the first cannot answer now, and unseen."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopwright import Agent
from loopwright.errors import Misuse, ModelNotFound
from loopwright.events import Retry as RetryOfARun
from loopwright.messages import AssistantMessage, Usage, UserMessage
from loopwright.models import Context, Model, Models, Provider
from loopwright.signals import AbortController
from loopwright.stream import AssistantMessageEvent, Done, Error, Retry, Start, TextDelta
from loopwright.testing import Reply, ScriptedModel

from .fault_server import answer, serving, text_reply

CONTEXT = Context("", [UserMessage("Hi", 1)])
BUSY = Reply(error="overloaded")
SPENT = Usage(input=7, total_tokens=7)


def script(name: str, *replies: Any) -> ScriptedModel:
    return ScriptedModel(replies, model=Model(name, "m", "scripted", thinking_levels={}))


def models_of(*scripts: ScriptedModel, slept: list[float] | None = None) -> Models:
    async def sleep(seconds: float) -> None:
        if slept is not None:
            slept.append(seconds)

    return Models([one.provider for one in scripts], sleep=sleep, random=lambda: 0.0)


async def events_of(stream: Any) -> list[AssistantMessageEvent]:
    return [event async for event in stream]


async def test_the_first_one_answers_if_it_can() -> None:
    a, b = script("a", Reply("A")), script("b", Reply("B"))

    message = await models_of(a, b).with_fallback(["b/m"]).complete("a/m", CONTEXT)

    assert (message.text, message.provider) == ("A", "a")
    assert b.requests == []


async def test_the_next_one_answers_without_a_wait_and_the_message_says_so() -> None:
    a, b, c = (
        script("a", Reply(error="overloaded", usage=SPENT)),
        script("b", BUSY),
        script("c", Reply("C")),
    )
    slept: list[float] = []
    models = models_of(a, b, c, slept=slept)

    events = await events_of(models.with_fallback(["b/m", "c/m"]).stream("a/m", CONTEXT))

    retries = [event for event in events if isinstance(event, Retry)]
    assert [(r.attempt, r.max_attempts, r.delay_seconds) for r in retries] == [
        (2, 6, 0.0), (3, 6, 0.0),
    ]  # fmt: skip
    assert retries[0].error == "overloaded"
    assert retries[0].usage == SPENT, "what the failed attempt spent is counted"
    assert [type(event) for event in events].count(Start) == 1
    assert slept == [0.0, 0.0]
    closing = events[-1]
    assert isinstance(closing, Done)
    assert (closing.message.text, closing.message.provider) == ("C", "c")


async def test_only_the_last_one_is_tried_again() -> None:
    a, b = script("a", BUSY), script("b", BUSY, BUSY, Reply("B"))
    slept: list[float] = []

    message = await models_of(a, b, slept=slept).with_fallback(["b/m"]).complete("a/m", CONTEXT)

    assert message.text == "B"
    assert slept == [0.0, 0.5, 1.0]
    assert (len(a.requests), len(b.requests)) == (1, 3)


async def test_if_all_fail_the_last_failure_is_told_and_the_ones_before_it() -> None:
    a = script("a", Reply(error="overloaded: the first"))
    b = script("b", Reply(error="overloaded: the second"))
    models = models_of(a, b)

    events = await events_of(models.with_fallback(["b/m"]).stream("a/m", CONTEXT, max_retries=0))

    closing = events[-1]
    assert isinstance(closing, Error)
    assert closing.retryable
    assert closing.error.error_message == (
        "overloaded: the second\nBefore that, overloaded: the first"
    )
    assert closing.error.provider == "b"


async def test_a_failure_that_will_not_pass_ends_it() -> None:
    a, b = script("a", Reply(error="invalid key")), script("b", Reply("B"))

    message = await models_of(a, b).with_fallback(["b/m"]).complete("a/m", CONTEXT)

    assert (message.stop_reason, message.error_message) == ("error", "invalid key")
    assert b.requests == []


@pytest.mark.parametrize(
    "reply", [Reply("Par", error="overloaded"), Reply(thinking="Par", error="overloaded")]
)
async def test_nothing_is_asked_anew_once_something_was_said(reply: Reply) -> None:
    a, b = script("a", reply), script("b", Reply("B"))

    events = await events_of(models_of(a, b).with_fallback(["b/m"]).stream("a/m", CONTEXT))

    closing = events[-1]
    assert isinstance(closing, Error)
    assert closing.error.text + closing.error.thinking == "Par"
    assert b.requests == []


async def test_none_is_asked_twice_and_the_one_asked_for_comes_first() -> None:
    a, b, c = script("a", BUSY), script("b", BUSY), script("c", Reply("C"))
    fallback = models_of(a, b, c).with_fallback(["a/m", "b/m", "c/m"])

    message = await fallback.complete("b/m", CONTEXT)

    assert message.text == "C"
    assert [len(one.requests) for one in (a, b, c)] == [1, 1, 1]
    assert [model.provider for model in fallback.models] == ["a", "b", "c"]


async def test_a_thinking_level_in_a_name_holds_for_that_model() -> None:
    a, b, c = script("a", BUSY), script("b", BUSY), script("c", Reply("C"))
    fallback = models_of(a, b, c).with_fallback(["b/m:low", "c/m"])

    await fallback.complete("a/m:high", CONTEXT)

    assert [one.requests[0].options["reasoning"] for one in (a, b, c)] == ["high", "low", "high"]


async def test_an_abort_ends_all() -> None:
    controller = AbortController()

    def busy(context: Context) -> Reply:
        controller.abort()
        return BUSY

    a, b = script("a", busy), script("b", Reply("B"))

    message = (
        await models_of(a, b)
        .with_fallback(["b/m"])
        .complete("a/m", CONTEXT, signal=controller.signal)
    )

    assert message.stop_reason == "aborted"
    assert b.requests == []


async def test_an_abort_while_the_next_one_speaks_ends_it_with_what_came() -> None:
    controller = AbortController()
    a, b = script("a", BUSY), script("b", Reply("Partial", chunk_size=3, delay=0.01))
    stream = models_of(a, b).with_fallback(["b/m"]).stream("a/m", CONTEXT, signal=controller.signal)

    async for event in stream:
        if isinstance(event, TextDelta):
            controller.abort()

    message = await stream.result()
    assert (message.stop_reason, message.text, message.provider) == ("aborted", "Par", "b")


async def test_leaving_early_closes_what_is_asked() -> None:
    left = asyncio.Event()

    async def forever(context: Context) -> Reply:
        try:
            await asyncio.sleep(3600)
        finally:
            left.set()
        return Reply("")

    a, b = script("a", BUSY), script("b", forever)
    async with models_of(a, b).with_fallback(["b/m"]).stream("a/m", CONTEXT) as stream:
        assert isinstance((await stream.next_batch() or [None])[-1], Retry | None)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                while True:
                    await stream.next_batch()

    assert left.is_set()


def test_names_that_mean_nothing_are_refused_at_once() -> None:
    models = models_of(script("a"))

    with pytest.raises(ModelNotFound):
        models.with_fallback(["a/m", "nobody/m"])
    with pytest.raises(ModelNotFound):
        models.with_fallback([Model("nobody", "m", "openai-chat")])
    with pytest.raises(Misuse, match="at least one"):
        models.with_fallback([])
    with pytest.raises(Misuse, match="a list of models"):
        models.with_fallback("a/m")
    with pytest.raises(ModelNotFound):
        models.with_fallback(["a/m"]).stream("nobody/m", CONTEXT)


@pytest.mark.parametrize("how", ["itself", "its stream"])
async def test_an_agent_takes_it_as_its_stream_function(how: str) -> None:
    a, b = script("a", BUSY, Reply("A again")), script("b", Reply("B"))
    fallback = models_of(a, b).with_fallback(["b/m"])
    agent = Agent(a.model, stream_fn=fallback if how == "itself" else fallback.stream)
    retries: list[RetryOfARun] = []
    agent.subscribe(lambda e, _: retries.append(e) if isinstance(e, RetryOfARun) else None)

    first, second = await agent.prompt("Hi"), await agent.prompt("Hi again")

    assert (first.text, second.text) == ("B", "A again")
    assert len(retries) == 1
    replies = [m for m in agent.state.messages if isinstance(m, AssistantMessage)]
    assert [reply.provider for reply in replies] == ["b", "a"]


async def test_each_is_asked_at_its_own_host_with_its_own_key() -> None:
    async with serving(answer(529, {"error": "x"})) as first, serving(text_reply("B")) as second:
        rows = [
            Provider.openai_compatible("a", base_url=first.base_url, api_key="sk-of-a"),
            Provider.openai_compatible("b", base_url=second.base_url, api_key="sk-of-b"),
        ]
        async with Models(rows) as models:
            message = await models.with_fallback(["b/m"]).complete("a/m", CONTEXT)

    assert (message.text, message.provider) == ("B", "b")
    assert first.requests[0].headers["authorization"] == "Bearer sk-of-a"
    assert second.requests[0].headers["authorization"] == "Bearer sk-of-b"
