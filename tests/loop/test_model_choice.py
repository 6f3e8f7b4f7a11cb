"""Names of models and thinking levels, by every route to a request."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from loopwright.loop.agent import Agent
from loopwright.loop.hooks import TurnUpdate
from loopwright.loop.stream_function import set_default_stream_fn
from loopwright.messages import UserMessage
from loopwright.models.clients import Clients
from loopwright.models.handoff import sendable
from loopwright.models.model import Context, Model
from loopwright.models.models import Models, default_models
from loopwright.models.provider import Endpoint, Provider
from loopwright.models.wires import WireCall, load_wire
from loopwright.testing import Call, Reply, ScriptedModel


@pytest.fixture
def own() -> Models:
    """Vendors of a program, one of which has the name of a built-in one."""
    rows = [Model("openai", "gpt-5.2", "openai-chat", context_window=1_234)]
    return Models(
        [
            Provider.openai_compatible("acme", base_url="http://127.0.0.1:1/v1", models=["m", "n"]),
            Provider(id="openai", base_url="http://127.0.0.1:1/v1", models=tuple(rows)),
        ]
    )


@pytest.fixture(params=["method", "fallback", "fallback method", "partial"])
def stream_fn(request: pytest.FixtureRequest, own: Models) -> Any:
    fallback = own.with_fallback(["acme/n"])
    return {
        "method": own.stream,
        "fallback": fallback,
        "fallback method": fallback.stream,
        "partial": functools.partial(functools.partial(own.stream, temperature=0), top_p=1),
    }[request.param]


def test_case_091_a_name_is_looked_up_in_the_models_that_will_be_asked(stream_fn: Any) -> None:
    agent = Agent("acme/m", stream_fn=stream_fn)

    agent.state.model = "acme/n:low"
    assert (agent.model.id, agent.thinking_level) == ("n", "low")
    agent.model = "openai/gpt-5.2"
    assert agent.model.context_window == 1_234


@pytest.fixture
def as_default(own: Models) -> Iterator[None]:
    set_default_stream_fn(own.stream)
    yield
    set_default_stream_fn(None)


@pytest.mark.usefixtures("as_default")
def test_case_091_the_default_function_of_the_program_counts_too() -> None:
    assert Agent("acme/m").model.provider == "acme"


async def test_case_091_the_update_of_a_turn_names_a_model_of_the_same_list() -> None:
    scripted = ScriptedModel([Reply(calls=[Call("echo", {})]), Reply("Done.")])
    models = Models([scripted.provider])

    def echo() -> str:
        return "x"

    agent = Agent(scripted.model, stream_fn=models.stream, tools=[echo])
    agent.prepare_next_turn = lambda turn: TurnUpdate(model="scripted/scripted")

    assert (await agent.prompt("go")).text == "Done."


def by_option(agent: Agent[Any], level: Any) -> None:
    agent.thinking_level = level


def by_state(agent: Agent[Any], level: Any) -> None:
    agent.state.thinking_level = level


def by_name(agent: Agent[Any], level: Any) -> None:
    agent.model = f"scripted/scripted:{level}"


def by_stream_options(agent: Agent[Any], level: Any) -> None:
    agent.stream_options = {"reasoning": level}


@pytest.mark.parametrize("level", ["off", "low"])
@pytest.mark.parametrize("say", [by_option, by_state, by_name, by_stream_options])
async def test_case_086_a_level_reaches_the_request_by_every_route(
    say: Callable[[Agent[Any], Any], None], level: str
) -> None:
    scripted = ScriptedModel([Reply("Hi.")])
    agent = Agent(scripted.model, stream_fn=Models([scripted.provider]).stream)

    say(agent, level)
    await agent.prompt("go")

    assert scripted.requests[0].options["reasoning"] == level


async def test_case_086_nothing_said_sends_nothing() -> None:
    scripted = ScriptedModel([Reply("Hi.")])

    await Agent(scripted.model, stream_fn=scripted.stream_fn).prompt("go")

    assert "reasoning" not in scripted.requests[0].options


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("google/gemini-2.5-flash", b'"thinkingBudget":0'),
        ("deepseek/deepseek-v4-pro", b'"thinking":{"type":"disabled"}'),
    ],
)
def test_case_086_off_is_said_in_the_words_of_the_vendor(name: str, sent: bytes) -> None:
    models = default_models()
    model = models.resolve(name)
    provider = models.provider_of(model)

    def body(**options: Any) -> bytes:
        context = Context("", [UserMessage("hi")])
        call = WireCall(
            model=model,
            context=context,
            messages=sendable(context.messages, model),
            options=options,
            flags=provider.flags_for(model),
            endpoint=Endpoint("http://127.0.0.1:1"),
            clients=Clients(),
        )
        return msgspec.json.encode(msgspec.json.decode(load_wire(model.api).encode(call)))

    assert sent in body(reasoning="off")
    assert b"hinking" not in body()
