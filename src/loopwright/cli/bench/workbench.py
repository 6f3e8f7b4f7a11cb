"""What the options, the settings, the trusted files and the extensions make: an agent at work.

One for the whole run of the program, however often the session is changed.

Not here: making it (bench/setting_up.py), the session (live/session.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import Agent
from ...errors import ConfigurationError
from ...extensions import LoadedExtensions
from ...harness.compaction import CompactionSettings
from ...harness.resources import Resources
from ...loop.budget import Budget
from ...loop.budget_stream import limit
from ...messages import ImageContent
from ...models import Model, Models
from ...permissions.gate import PermissionGate
from ...permissions.policy import Policy
from ...tools import LocalWorkspace
from ..models.choice import choose_model
from ..models.usable import models_with_key
from ..places import user_models_file
from ..settings.files import LoadedSettings
from .secrets import Secrets

if TYPE_CHECKING:
    from ...session.session import Session

__all__ = ["Notes", "Workbench"]


class Notes:
    """Tells the user what stops nothing; where that goes may be changed."""

    def __init__(self, to: Callable[[str], object]) -> None:
        self.to = to
        self.told: list[str] = []
        """All of it, for whoever comes later."""

    def __call__(self, text: str) -> None:
        self.told.append(text)
        self.to(text)


@dataclass(eq=False)
class Workbench:
    """Made by `set_up`."""

    agent: Agent[str]
    models: Models
    folder: Path
    settings: LoadedSettings
    policy: Policy
    gate: PermissionGate
    """Its `ask` is set by whoever can ask."""
    resources: Resources
    extensions: LoadedExtensions
    compaction: CompactionSettings
    workspace: LocalWorkspace | None
    """What the coding tools work on; None where there are none of ours."""
    typed: Callable[[str], str]
    """Templates and skills called by name, in what the user types."""
    note: Notes
    """Tells the user something that stops nothing."""
    secrets: Secrets
    """Kept out of what tools say."""
    asks_itself: bool
    """The agent is the user's and asks its model with a function of its own."""
    without_tools: bool
    """No tools were given, since the model is too small for them."""
    caps: tuple[dict[str, Any], dict[str, Any]]
    """What a run may use, and what a session may; arguments of `Budget`."""
    _session_budget: Budget | None = None
    _remove_budget: Callable[[], None] | None = None

    async def expand(self, text: str) -> tuple[str, list[ImageContent]]:
        """What *text* means that a user typed: templates, skills and `@files` are expanded."""
        from .prompt_message import message_parts

        if "@" not in text:
            return self.typed(text), []
        said = await message_parts(
            text,
            self.workspace or self.folder,
            model=self.agent.model,
            hidden=self.policy.hides,
        )
        for told in said.notes:
            self.note(told)
        return self.typed(said.typed) + self.secrets.hide(said.attached), said.images

    async def bring_up(self) -> None:
        """Start what serves the model, where something must be started; what is missing for that
        is then an error of the set-up and not of the run. Raises `ConfigurationError`."""
        provider = self.models.get_provider(self.agent.model.provider)
        if provider is not None and provider.prepare is not None:
            await provider.prepare()

    # -- the model -----------------------------------------------------------------------------

    def choose_model(self, reference: str) -> Model:
        """Ask another model from the next request on. Raises `ConfigurationError`."""
        if self.asks_itself:
            raise ConfigurationError(
                f"this agent asks {self.agent.model.id} with a function of its own, which may "
                "know no other model",
                hint=f"start it with another one: --model {reference}",
            )
        chosen = choose_model(
            self.models,
            option=reference,
            environment=None,
            default=None,
            user_file=user_models_file(),
        )
        self.agent.model = chosen.model
        if chosen.thinking_level is not None:
            self.agent.thinking_level = chosen.thinking_level
        if self.without_tools and chosen.model.provider != "local":
            self.note(
                "it is given no tools here, since the model before was too small for them; start "
                f"anew with --model {reference} to have them"
            )
        return chosen.model

    def known_models(self) -> list[Model]:
        """Those of providers that could be asked now."""
        if self.asks_itself:
            return [self.agent.model]
        return list(models_with_key(self.models))

    # -- budgets -------------------------------------------------------------------------------

    def start_budget(self) -> None:
        """Begin anew what counts for one session; the caps are those of the settings."""
        if self._remove_budget is not None:
            self._remove_budget()
            self._remove_budget = None
        of_run, of_session = self.caps
        run = Budget(**of_run, name="run") if of_run else None
        session = Budget(**of_session, name="session") if of_session else None
        self._session_budget = session
        if run is not None or session is not None:
            self._remove_budget = limit(self.agent, run=run, session=session)

    async def count_session(self, session: Session) -> None:
        """Count what the session has used before."""
        if self._session_budget is not None:
            from ...harness.session_budget import count_session

            await count_session(self._session_budget, session)
