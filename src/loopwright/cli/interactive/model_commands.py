"""`/model`, `/thinking` and `/permissions`: what is asked, how hard it thinks, what it may do.

All of them count from the next request or the next call on, also in the middle of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from ...models import Model, ThinkingLevel
from ...permissions.policy import MODES, Mode
from .command import no_such_choice
from .screen import PickItem, Screen

if TYPE_CHECKING:
    from ..live.session import LiveSession

__all__ = [
    "choose_model",
    "choose_permissions",
    "choose_thinking",
    "levels_of",
    "mode_words",
    "model_words",
    "thinking_words",
]

LEVELS: tuple[ThinkingLevel, ...] = ("off", "minimal", "low", "medium", "high", "xhigh", "max")

MODE_MEANINGS: dict[Mode, str] = {
    "ask": "reads in the workspace; you are asked before anything else",
    "auto-edit": "changes files in the workspace as well; you are asked before the rest",
    "yolo": "does everything without asking",
    "read-only": "reads in the workspace and does nothing else; you are never asked",
}


# -- /model ------------------------------------------------------------------------------------


async def choose_model(argument: str, live: LiveSession, screen: Screen) -> None:
    """Ask another model from the next request on; the user picks one unless *argument* names it."""
    reference = argument
    if not reference:
        models = live.known_models()
        if not models:
            screen.error(
                "no vendor has a key",
                "set one with `loopwright keys set VENDOR`, or name a model: /model vendor/id",
            )
            return
        current = live.agent.model
        here = [(model.provider, model.id) for model in models]
        at = (current.provider, current.id)
        items = [
            PickItem(_reference(model), _described(model), value=_reference(model))
            for model in models
        ]
        if not live.bench.asks_itself:
            items.append(PickItem("… of other vendors", "which need a key", pinned=True))
        picked = await screen.pick("model", items, selected=here.index(at) if at in here else 0)
        if picked is None:
            return
        if picked.value is None:
            screen.note(
                "`loopwright keys set VENDOR` keeps a key, and `loopwright models` lists all that "
                "can be asked with one"
            )
            return
        reference = str(picked.value)
    model = live.choose_model(reference)
    when = " from its next request on" if live.working else ""
    screen.note(f"asking {_reference(model)}{when}, thinking {live.thinking_level or 'default'}")


def model_words(live: LiveSession) -> Sequence[tuple[str, str]]:
    """Every model that could be asked."""
    return [(_reference(model), _described(model)) for model in live.known_models()]


def _reference(model: Model) -> str:
    return f"{model.provider}/{model.id}"


def _described(model: Model) -> str:
    from ..models.command import price_text, tokens_text

    words: list[str] = []
    if model.context_window is not None:
        words.append(f"{tokens_text(model.context_window)} context")
    price = price_text(model.cost)
    if price != "?":
        words.append(price if price == "free" else f"{price} per million")
    if model.thinking_levels:
        words.append("thinking")
    if "image" in model.input:
        words.append("images")
    return ", ".join(words)


# -- /thinking ---------------------------------------------------------------------------------


def levels_of(model: Model) -> list[ThinkingLevel]:
    """The levels that *model* offers; the usual ones if nothing is known of it."""
    known = model.thinking_levels
    if known is None:
        return ["off", "low", "medium", "high"]
    can_be_off = known.get("off", "") is not None
    return [level for level in LEVELS if (can_be_off if level == "off" else known.get(level))]


async def choose_thinking(argument: str, live: LiveSession, screen: Screen) -> None:
    """Choose how hard the model shall think."""
    levels = levels_of(live.agent.model)
    if argument:
        if argument.lower() not in levels:
            raise no_such_choice(f"thinking level of {live.agent.model.id}", argument, levels)
        level = cast("ThinkingLevel", argument.lower())
    else:
        at = live.thinking_level
        picked = await screen.pick(
            f"thinking of {live.agent.model.id}",
            [PickItem(level, value=level) for level in levels],
            selected=levels.index(at) if at in levels else 0,
        )
        if picked is None:
            return
        level = picked.value
    live.set_thinking(level)
    when = " from the next request on" if live.working else ""
    screen.note(f"thinking {level}{when}")


def thinking_words(live: LiveSession) -> Sequence[tuple[str, str]]:
    """The levels of the model that is asked now."""
    return [(level, "") for level in levels_of(live.agent.model)]


# -- /permissions ------------------------------------------------------------------------------


async def choose_permissions(argument: str, live: LiveSession, screen: Screen) -> None:
    """Choose what the model may do without asking."""
    if argument:
        if argument.lower() not in MODES:
            raise no_such_choice("permission mode", argument, MODES)
        mode = cast("Mode", argument.lower())
    else:
        picked = await screen.pick(
            "permissions",
            [PickItem(mode, MODE_MEANINGS[mode], value=mode) for mode in MODES],
            selected=MODES.index(live.permission_mode),
        )
        if picked is None:
            return
        mode = picked.value
    live.permission_mode = mode
    screen.note(f"permissions {mode}: {MODE_MEANINGS[mode]}; your rules count as before")


def mode_words(live: LiveSession) -> Sequence[tuple[str, str]]:
    """The modes."""
    return [(mode, MODE_MEANINGS[mode]) for mode in MODES]
