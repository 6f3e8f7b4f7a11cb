"""What the options, the settings, the trusted files and the extensions make: an agent at work.

One for the whole run of the program, however often the session is changed.

Not here: the session (live_session.py), reading the files (settings_files.py, resources.py).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import Agent
from ..errors import ConfigurationError, LoopwrightError
from ..extensions import Hooks, LoadedExtensions, combine_hooks, load_extensions
from ..harness.compaction import CompactionSettings
from ..harness.resources import Resources
from ..loop.budget import Budget
from ..loop.budget_stream import limit
from ..messages import ImageContent
from ..models import Model, Models, default_models
from ..models.auth import has_key
from ..permissions.gate import PermissionGate, permission_gate
from ..permissions.policy import Policy
from ..permissions.rules import Rule
from ..session.rows import LaneConfig
from ..tools import LocalWorkspace
from .command_names import COMMAND_NAMES
from .known_models import add_known
from .options import Caps, RunOptions
from .product_tools import TOOL_NAMES, give_tools
from .resources import prepare_resources
from .secrets import Secrets, known_secrets
from .settings import model_from_environment, user_models_file
from .settings_files import LoadedSettings, load_settings
from .streams import print_note
from .which_model import Chosen, choose_model

if TYPE_CHECKING:
    from ..session.session import Session
    from .settings_schema import BudgetTable

__all__ = ["Workbench", "set_up"]

_CAPS = ("max_turns", "max_tokens", "max_cost_usd")


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
    _caps: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    """Of one run, and of a session."""
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
        return self.typed(said.typed) + said.attached, said.images

    async def bring_up(self) -> None:
        """Start what serves the model, where something must be started; what is missing for that
        is then an error of the set-up and not of the run. Raises `ConfigurationError`."""
        provider = self.models.get_provider(self.agent.model.provider)
        if provider is not None and provider.prepare is not None:
            await provider.prepare()

    # -- the model -----------------------------------------------------------------------------

    def choose_model(self, reference: str) -> Model:
        """Ask another model from the next request on. Raises `ConfigurationError`."""
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
        return chosen.model

    def known_models(self) -> list[Model]:
        """Those of providers that could be asked now."""
        found: list[Model] = []
        for provider_id in self.models.provider_ids():
            provider = self.models.get_provider(provider_id)
            if provider is None or provider.retired:
                continue
            ready = provider.ready is None or provider.ready()
            if ready and has_key(provider):
                listed = {} if provider.listed is None else dict(provider.listed())
                listed.update({model.id: model for model in provider.models})
                found += [model for model in listed.values() if model.deprecated_on is None]
        return found

    # -- budgets -------------------------------------------------------------------------------

    def start_budget(self) -> None:
        """Begin anew what counts for one session; the caps are those of the settings."""
        if self._remove_budget is not None:
            self._remove_budget()
            self._remove_budget = None
        of_run, of_session = self._caps
        run = Budget(**of_run, name="run") if of_run else None
        session = Budget(**of_session, name="session") if of_session else None
        self._session_budget = session
        if run is not None or session is not None:
            self._remove_budget = limit(self.agent, run=run, session=session)

    async def count_session(self, session: Session) -> None:
        """Count what the session has used before."""
        if self._session_budget is not None:
            from ..harness.session_budget import count_session

            await count_session(self._session_budget, session)


def _caps(budgets: BudgetTable, options: Caps) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is said of the budgets of a run and a session; nothing where there is no cap."""
    run, session = (
        {name: cap for name in _CAPS if (cap := getattr(one, name)) is not None}
        for one in (budgets.run, budgets.session)
    )
    run |= {name: cap for name in _CAPS if (cap := getattr(options, name)) is not None}
    for said, one in ((run, budgets.run), (session, budgets.session)):
        if said and one.allow_unknown_prices:
            said["allow_unknown_prices"] = True
    return run, session


async def set_up(
    options: RunOptions,
    folder: Path,
    *,
    last: LaneConfig | None = None,
    started: datetime.datetime | None = None,
    note: Callable[[str], object] = print_note,
    models: Models | None = None,
) -> Workbench:
    """The workbench for work in *folder*.

    *models* are those there are before files and extensions add to them. *last* is what the session's last run worked with, *started* when the session began. Raises
    `ConfigurationError`.
    """
    from .trust_command import is_trusted

    trusted = is_trusted(folder)
    settings = load_settings(folder, trusted=trusted)
    tell = Notes(note)  # at once: it may be the reason for what fails below
    for told in settings.notes:
        tell(told)
    extensions = _extensions(options, settings, folder, trusted=trusted)
    for told in extensions.faults:
        tell(told)
    models = models or default_models()
    for extension in extensions.extensions:
        for provider in extension.providers:
            models.add(provider)
    said = settings.settings
    policy = Policy(
        options.permission_mode or said.permissions.mode,
        settings.rules,
        folder,
        searches_skip_denied=True,
    )
    own: Agent[Any] | None = None
    if options.agent is not None:
        from .own_agent import load_agent

        own = await load_agent(options.agent, folder)
    chosen = (
        None
        if own is not None and options.model is None
        else _choose(models, options, settings, last, trusted, tell)
    )
    secrets = known_secrets(models)
    hooks = _hooks(own, extensions, secrets, tell)
    gate = permission_gate(policy, then=hooks.before_tool_call, on_granted=_keeper(folder, tell))
    today = (started or datetime.datetime.now().astimezone()).date()
    if own is not None:
        agent, workspace = own, None
        if chosen is not None:
            agent.model = chosen.model
            agent.stream_fn = models.stream_simple
        agent.before_tool_call = gate
        tools = [tool.name for tool in agent.state.tools]
    else:
        assert chosen is not None
        agent = Agent(
            chosen.model,
            stream_fn=models.stream_simple,
            thinking_level=options.thinking or chosen.thinking_level or said.thinking,
            on_error=_tell_of_fault(tell),
        )
        tools, workspace = _give_tools(agent, options, settings, extensions, policy, gate, folder)
    prepared = prepare_resources(
        folder,
        today=today,
        note=tell,
        tools=tools,
        skill_paths=[*said.skills.paths, *options.skills, *_paths(extensions, "skills")],
        template_paths=[*said.templates.paths, *_paths(extensions, "templates")],
        find_skills=options.find_skills,
        find_context_files=options.find_context_files,
    )
    if own is None:
        agent.state.system_prompt = _system_prompt(
            options, prepared.resources, extensions, tools, today
        )
    elif options.system_prompt:
        agent.state.system_prompt = options.system_prompt
    agent.after_tool_call = hooks.after_tool_call
    agent.prepare_request = hooks.prepare_request
    agent.finish_turn = hooks.finish_turn
    agent.transform_context = hooks.transform_context
    if hooks.on_event is not None:
        agent.subscribe(hooks.on_event)
    bench = Workbench(
        agent=agent,
        models=models,
        folder=folder,
        settings=settings,
        policy=policy,
        gate=gate,
        resources=prepared.resources,
        extensions=extensions,
        compaction=_compaction(settings),
        workspace=workspace,
        typed=prepared.expand,
        note=tell,
        secrets=secrets,
        _caps=_caps(said.budget, options.caps),
    )
    bench.start_budget()
    return bench


def _extensions(
    options: RunOptions, settings: LoadedSettings, folder: Path, *, trusted: bool
) -> LoadedExtensions:
    if not options.find_extensions:
        return LoadedExtensions()
    said = settings.settings.extensions
    return load_extensions(
        disabled=said.disabled,
        extra=[*said.load, *options.extensions],
        project=folder if trusted else None,
        folder=folder,
        reserved=COMMAND_NAMES,
        reserved_tools=TOOL_NAMES,
    )


def _paths(extensions: LoadedExtensions, kind: str) -> list[str]:
    return [str(path) for one in extensions.extensions for path in getattr(one, kind)]


def _choose(
    models: Models,
    options: RunOptions,
    settings: LoadedSettings,
    last: LaneConfig | None,
    trusted: bool,
    note: Callable[[str], object],
) -> Chosen:
    user_file = user_models_file()
    default = add_known(models, trusted=trusted, tell=note).default
    if options.model is None and last is not None:
        reference = f"{last.provider}/{last.model_id}"
        try:
            chosen = choose_model(
                models, option=reference, environment=None, default=None, user_file=user_file
            )
        except ConfigurationError as error:
            error.hint = (
                f"{error.hint or ''}\nthe session's last model was {reference}; "
                "`--model` chooses another"
            ).strip()
            raise
        return Chosen(chosen.model, last.thinking_level)
    return choose_model(
        models,
        option=options.model,
        environment=model_from_environment(),
        default=settings.settings.model or default,
        user_file=user_file,
    )


# -- tools and hooks -----------------------------------------------------------------------------


def _give_tools(
    agent: Agent[str],
    options: RunOptions,
    settings: LoadedSettings,
    extensions: LoadedExtensions,
    policy: Policy,
    gate: PermissionGate,
    folder: Path,
) -> tuple[list[str], LocalWorkspace | None]:
    """Give *agent* the tools that are wanted. Returns their names, and what they work on."""
    wanted = options.tools if options.tools is not None else settings.settings.tools
    if wanted is None and agent.model.provider == "local" and options.tools is None:
        wanted = []  # it calls them at random, and reading their descriptions takes it a minute
    return give_tools(
        agent,
        wanted,
        settings=settings.settings,
        more=[tool for one in extensions.extensions for tool in one.tools],
        policy=policy,
        gate=gate,
        folder=folder,
    )


def _hooks(
    own: Agent[Any] | None,
    extensions: LoadedExtensions,
    secrets: Secrets,
    note: Callable[[str], object],
) -> Hooks:
    """The agent's own hooks first, then the extensions', and last what keeps keys out."""
    parts: list[tuple[str, Hooks]] = []
    if own is not None:
        brought = Hooks(
            before_tool_call=own.before_tool_call,
            after_tool_call=own.after_tool_call,
            prepare_request=own.prepare_request,
            finish_turn=own.finish_turn,
            transform_context=own.transform_context,
        )
        parts.append(("the agent", brought))
    parts += [(one.name, one.hooks) for one in extensions.extensions]
    parts.append(("loopwright", Hooks(after_tool_call=secrets.after_tool_call)))
    return combine_hooks(parts, on_error=lambda error, where: note(f"{where}: {error}"))


def _keeper(folder: Path, note: Callable[[str], object]) -> Callable[[Rule], object]:
    """Writes down what was granted "always"; that it could not be is no reason to stop a run."""

    def keep(rule: Rule) -> None:
        from .grants import add_grant

        try:
            add_grant(folder, rule)
        except (LoopwrightError, OSError) as error:
            note(f"the rule {str(rule)!r} holds until the program ends: {error}")

    return keep


# -- what the model is told ------------------------------------------------------------------------


def _system_prompt(
    options: RunOptions,
    resources: Resources,
    extensions: LoadedExtensions,
    tools: Sequence[str],
    today: datetime.date,
) -> str:
    said = [one.system_prompt for one in extensions.extensions if one.system_prompt.strip()]
    appended = [*said, *options.append_system_prompt]
    if tools or resources.context_files:
        base = options.system_prompt or None
        if not tools and base is None and resources.system is None:
            base = ""  # ours speaks of files and commands
        return resources.system_prompt(date=today, tools=tools, base=base, appended=appended)
    # Without tools and files, a folder and a date would only confuse a small model.
    base = options.system_prompt or (resources.system.text if resources.system else "")
    found = [resources.append_system.text] if resources.append_system is not None else []
    parts = [base, *found, *appended]
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _compaction(settings: LoadedSettings) -> CompactionSettings:
    said = settings.settings.compaction
    return CompactionSettings(
        enabled=said.enabled,
        reserve_tokens=said.reserve_tokens,
        keep_recent_tokens=said.keep_recent_tokens,
    )


def _tell_of_fault(note: Callable[[str], object]) -> Callable[[BaseException, str], object]:
    """In a line, where a program would find a traceback in its log."""

    def tell(error: BaseException, where: str) -> None:
        if not isinstance(error, LoopwrightError):  # else the run ends with it, and tells it then
            note(f"{where} raised {type(error).__name__}: {error}")

    return tell
