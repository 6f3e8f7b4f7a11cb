"""Thinking levels: what is asked for becomes what the model offers, on every wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.messages import UserMessage
from loopwright.models import Context, Model
from loopwright.models.clients import Clients
from loopwright.models.handoff import sendable
from loopwright.models.provider import Endpoint
from loopwright.models.thinking import LEVELS, nearest_level, vendor_level
from loopwright.models.vendors import vendor_table
from loopwright.models.wires import WireCall, load_wire

maps = st.dictionaries(
    st.sampled_from(LEVELS), st.none() | st.sampled_from(["none", "a", "b", "c"]), max_size=7
)


def model(levels: dict[str, str | None] | None, **fields: Any) -> Model:
    return Model("acme", "m", "openai-chat", thinking_levels=levels, **fields)


@given(st.sampled_from(LEVELS), maps)
def test_any_level_becomes_one_the_model_offers(level: str, levels: dict[str, str | None]) -> None:
    asked = model(levels)

    nearest = nearest_level(asked, level)

    offered = {name for name, word in levels.items() if word and name != "off"}
    if level == "off" and levels.get("off", "") is not None:
        assert nearest == "off"
    elif not offered:
        assert nearest is None
    else:
        assert nearest in offered
        place = LEVELS.index(level)
        lower = [name for name in offered if LEVELS.index(name) <= place]
        expected = max(lower, key=LEVELS.index) if lower else min(offered, key=LEVELS.index)
        assert nearest == expected
    word = vendor_level(asked, level)
    assert word is None or word in levels.values()


@given(st.sampled_from(LEVELS[1:]), maps)
def test_who_offers_a_level_gets_it_as_it_is(level: str, levels: dict[str, str | None]) -> None:
    levels = {**levels, level: "word"}

    assert vendor_level(model(levels), level) == "word"


def test_a_model_of_which_nothing_is_known_offers_low_to_high() -> None:
    asked = model(None)

    assert [vendor_level(asked, level) for level in LEVELS] == [
        None, "low", "low", "medium", "high", "high", "high",
    ]  # fmt: skip


def test_who_cannot_be_switched_off_thinks_as_little_as_it_can() -> None:
    asked = model({"off": None, "low": "low", "high": "high"})

    assert vendor_level(asked, "off") == "low"


def test_off_is_the_models_own_word_if_it_has_one() -> None:
    assert vendor_level(model({"off": "none", "low": "low"}), "off") == "none"
    assert vendor_level(model({"low": "low"}), "off") is None


def test_a_level_nobody_knows_is_named() -> None:
    with pytest.raises(ValueError, match="no thinking level is named 'huge'; there are: off"):
        vendor_level(model({}), "huge")


# -- on the wires ------------------------------------------------------------------------------

LEVEL_MAP: dict[str, str | None] = {"off": None, "low": "low", "high": "high"}

WIRES: dict[str, tuple[str, dict[str, Any]]] = {
    "openai-chat": ("some-model", {}),
    "openai-responses": ("some-model", {}),
    "anthropic-messages": ("claude-opus-5-5", {"adaptive_thinking": True}),
    "google-gemini": ("gemini-4-argon", {}),
    "bedrock-converse": ("anthropic.claude-opus-5-5", {"adaptive_thinking": True}),
    "mistral": ("some-model", {}),
}


def encoded(api: str, id: str, flags: dict[str, Any], level: str | None, **more: Any) -> str:
    asked = Model("acme", id, api, thinking_levels=more.pop("levels", LEVEL_MAP), max_tokens=64_000)
    context = Context("", [UserMessage("Hi", 1)])
    call = WireCall(
        model=asked,
        context=context,
        messages=sendable(context.messages, asked),
        options={"reasoning": level, **more},
        flags=flags,
        endpoint=Endpoint("http://127.0.0.1:1"),
        clients=Clients(),
    )
    return load_wire(api).encode(call).decode().lower()


@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize(
    ("asked", "word"),
    [("off", "low"), ("minimal", "low"), ("medium", "low"), ("xhigh", "high"), ("max", "high")],
)
def test_every_wire_sends_the_nearest_level_that_is_offered(
    api: str, asked: str, word: str
) -> None:
    id, flags = WIRES[api]

    body = encoded(api, id, flags, asked)

    assert f'"{word}"' in body, body
    assert "disabled" not in body
    assert f'"{asked}"' not in body


@pytest.mark.parametrize("api", WIRES)
def test_no_wire_speaks_of_thinking_unasked_or_to_a_model_without(api: str) -> None:
    id, flags = WIRES[api]

    for body in (
        encoded(api, id, flags, None),
        encoded(api, "plain", flags, "high", levels={}),
        encoded(api, "plain", flags, "off", levels={}),
    ):
        for word in ("effort", "thinking", "reasoning_", '"low"', '"high"'):
            assert word not in body.replace("reasoning.encrypted_content", ""), body


@pytest.mark.parametrize(
    ("style", "field"),
    [("deepseek", "thinking"), ("zai", "thinking"), ("qwen", "enable_thinking"),
     ("together", "reasoning")],
)  # fmt: skip
def test_a_host_is_not_told_to_switch_off_what_always_thinks(style: str, field: str) -> None:
    body = json.loads(encoded("openai-chat", "m", {"thinking_format": style}, "off"))

    assert "disabled" not in str(body[field])
    assert body[field] is not False
    assert body[field] != {"enabled": False}


@pytest.mark.parametrize(
    ("api", "id", "flags", "levels"),
    [
        ("anthropic-messages", "claude-haiku-4-5", {}, {"low": "low", "high": "high"}),
        ("google-gemini", "gemini-2.5-pro", {}, {"low": "low", "high": "high"}),
        ("openai-chat", "m", {"thinking_budget_field": "thinking_budget"}, None),
        ("bedrock-converse", "anthropic.claude-haiku-4-5", {}, {"low": "low", "high": "high"}),
    ],
)
def test_budgets_of_the_users_are_sent_where_thinking_has_one(
    api: str, id: str, flags: dict[str, Any], levels: dict[str, str | None] | None
) -> None:
    body = encoded(api, id, flags, "high", levels=levels, thinking_budgets={"high": 5000})

    assert "5000" in body


@pytest.mark.parametrize("api", WIRES)
def test_every_listed_model_can_be_asked_at_every_level(api: str) -> None:
    """Whatever its row says, the wire finds words for it."""
    for vendor in vendor_table().ids():
        provider = vendor_table().get(vendor)
        assert provider is not None
        for listed in provider.known_models():
            if listed.api != api:
                continue
            for level in LEVELS:
                encoded(
                    api, listed.id, dict(provider.flags_for(listed)), level,
                    levels=listed.thinking_levels,
                )  # fmt: skip
