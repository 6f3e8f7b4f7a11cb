"""How full the context is, and what a session has used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ... import Agent
from ...messages import Usage

if TYPE_CHECKING:
    from ...session.session import Session

__all__ = ["Meter", "meter_of"]


class Meter(msgspec.Struct, frozen=True):
    """How full the context is, and what the session has used."""

    context_tokens: int | None
    """Of the next request, as the vendor counted the last one; estimated where it did not. None
    while there is nothing."""
    context_window: int | None
    usage: Usage
    """Of the whole session: all branches, summaries, children."""


def meter_of(agent: Agent[str], session: Session | None) -> Meter:
    """The meter of *agent* in *session*; None for a new one. Counts the context."""
    from ...harness.token_estimate import context_tokens, estimate_fixed

    model = agent.model
    if session is None:
        return Meter(None, model.context_window, Usage())
    fixed = estimate_fixed(agent.state.system_prompt, [tool.spec for tool in agent.state.tools])
    tokens = context_tokens(session.entries(), fixed=fixed, model=(model.provider, model.id))
    return Meter(tokens, model.context_window, session.usage)
