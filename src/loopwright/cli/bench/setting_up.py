"""Making the workbench: from options, settings, trusted files and extensions to an agent at work.

Not here: reading the files (settings/files.py, bench/resources.py), the tools (bench/product_tools.py).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import Agent
from ...errors import ConfigurationError, LoopwrightError
from ...extensions import Hooks, LoadedExtensions, combine_hooks, load_extensions
from ...harness.compaction import CompactionSettings
from ...harness.resources import Resources
from ...models import Models, default_models
from ...permissions.gate import PermissionGate, permission_gate
from ...permissions.policy import Policy
from ...permissions.rules import Rule
from ...session.rows import LaneConfig
from ...tools import LocalWorkspace
from ..models.choice import Chosen, choose_model
from ..models.known import add_known
from ..options import Caps, RunOptions
from ..places import model_from_environment, user_models_file
from ..settings.files import LoadedSettings, load_settings
from ..streams import print_note
from .command_names import COMMAND_NAMES
from .product_tools import TOOL_NAMES, give_tools, only_named
from .resources import prepare_resources
from .secrets import Secrets, known_secrets
from .workbench import Notes, Workbench

if TYPE_CHECKING:
    from ..settings.schema import BudgetTable

__all__ = ["set_up"]

_CAPS = ("max_turns", "max_tokens", "max_cost_usd")


class _Ground(NamedTuple):
    """What an agent is set up on, whoever made it."""

    options: RunOptions
    folder: Path
    settings: LoadedSettings
    extensions: LoadedExtensions
    models: Models
    default_model: str | None
    """Of models.toml."""
    policy: Policy
    tell: Notes


class _Manned(NamedTuple):
    """An agent, and what its making brought to light."""

    agent: Agent[Any]
    tools: list[str]
    workspace: LocalWorkspace | None = None
    asks_itself: bool = False
    without_tools: bool = False


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

    *models* are those there are before files and extensions add to them. *last* is what the
    session's last run worked with, *started* when the session began. Raises `ConfigurationError`.
    """
    ground = _ground(options, folder, models or default_models(), Notes(note))
    own = None
    if options.agent is not None:
        from .own_agent import load_agent

        own = await load_agent(options.agent, folder)
    known = [ground.models, *_models_of(own)]
    secrets = known_secrets(known)
    hooks = _hooks(own, ground.extensions, secrets, ground.tell)
    gate = permission_gate(
        ground.policy, then=hooks.before_tool_call, on_granted=_keeper(folder, ground.tell)
    )
    if own is not None:
        manned = _own_agent(own, ground, gate)
    else:
        manned = _product_agent(ground, gate, hooks, secrets, last)
    agent = manned.agent
    agent.after_tool_call = hooks.after_tool_call
    agent.prepare_request = hooks.prepare_request
    agent.finish_turn = hooks.finish_turn
    agent.transform_context = hooks.transform_context
    if hooks.on_event is not None:
        agent.subscribe(hooks.on_event)
    today = (started or datetime.datetime.now().astimezone()).date()
    said = ground.settings.settings
    prepared = prepare_resources(
        folder,
        today=today,
        note=ground.tell,
        tools=manned.tools,
        skill_paths=[*said.skills.paths, *options.skills, *_paths(ground.extensions, "skills")],
        template_paths=[*said.templates.paths, *_paths(ground.extensions, "templates")],
        find_skills=options.find_skills,
        find_context_files=options.find_context_files,
    )
    agent.state.system_prompt = (
        _own_prompt(options, agent)
        if own is not None
        else _system_prompt(ground, prepared.resources, manned.tools, today)
    )
    bench = Workbench(
        agent=agent,
        models=next(iter(_models_of(agent)), ground.models),
        folder=folder,
        settings=ground.settings,
        policy=ground.policy,
        gate=gate,
        resources=prepared.resources,
        extensions=ground.extensions,
        compaction=_compaction(ground.settings),
        workspace=manned.workspace,
        typed=prepared.expand,
        note=ground.tell,
        secrets=secrets,
        asks_itself=manned.asks_itself,
        without_tools=manned.without_tools,
        caps=_caps(said.budget, options.caps),
    )
    bench.start_budget()
    return bench


def _ground(options: RunOptions, folder: Path, models: Models, tell: Notes) -> _Ground:
    """Read the files and load the extensions. What is wrong is told at once: it may be the reason
    for what fails later."""
    from ..settings.trust import is_trusted

    trusted = is_trusted(folder)
    settings = load_settings(folder, trusted=trusted)
    extensions = _extensions(options, settings, folder, trusted=trusted)
    for told in (*settings.notes, *extensions.faults):
        tell(told)
    for extension in extensions.extensions:
        for provider in extension.providers:
            models.add(provider)
    default = add_known(models, trusted=trusted, tell=tell).default
    policy = Policy(
        options.permission_mode or settings.settings.permissions.mode,
        settings.rules,
        folder,
        readable=settings.settings.permissions.readable,
        writable=settings.settings.permissions.writable,
        searches_skip_denied=True,
    )
    return _Ground(options, folder, settings, extensions, models, default, policy, tell)


# -- the agent -----------------------------------------------------------------------------------


def _product_agent(
    ground: _Ground,
    gate: PermissionGate,
    hooks: Hooks,
    secrets: Secrets,
    last: LaneConfig | None,
) -> _Manned:
    """An agent with the tools of this program."""
    options, said = ground.options, ground.settings.settings
    chosen = _choose(ground, last)
    agent = Agent(
        chosen.model,
        stream_fn=ground.models.stream_simple,
        thinking_level=options.thinking or chosen.thinking_level or said.thinking,
        on_error=_tell_of_fault(ground.tell),
    )
    wanted = options.tools if options.tools is not None else said.tools
    # It calls them at random, and reading their descriptions takes it a minute.
    too_small = wanted is None and agent.model.provider == "local"
    tools, workspace = give_tools(
        agent,
        [] if too_small else wanted,
        settings=said,
        more=[tool for one in ground.extensions.extensions for tool in one.tools],
        policy=ground.policy,
        gate=gate,
        folder=ground.folder,
        clean=secrets.filter,
        transform_context=hooks.transform_context,
    )
    return _Manned(agent, tools, workspace, without_tools=too_small)


def _own_agent(agent: Agent[Any], ground: _Ground, gate: PermissionGate) -> _Manned:
    """An agent of the user's: its tools, prompt and model are its own, as far as no option says
    otherwise."""
    options = ground.options
    if options.model is not None:
        chosen = _choose(ground, None)
        agent.stream_fn = ground.models.stream_simple
        agent.model = chosen.model
        if chosen.thinking_level is not None:
            agent.thinking_level = chosen.thinking_level
    if options.thinking is not None:
        agent.thinking_level = options.thinking
    if options.tools is not None:
        agent.state.tools = only_named(agent.state.tools, options.tools)
    agent.before_tool_call = gate
    tools = [tool.name for tool in agent.state.tools]
    return _Manned(agent, tools, asks_itself=not _models_of(agent))


def _models_of(agent: Agent[Any] | None) -> list[Models]:
    """Those that *agent* asks through, if it asks through any."""
    owner = None if agent is None else getattr(agent.stream_fn, "__self__", None)
    return [owner] if isinstance(owner, Models) else []


def _choose(ground: _Ground, last: LaneConfig | None) -> Chosen:
    """The model that the option names, else the session's last one, else what environment and
    settings say."""
    options, models, user_file = ground.options, ground.models, user_models_file()
    if options.model is None and last is not None:
        reference = f"{last.provider}/{last.model_id}"
        try:
            chosen = choose_model(
                models, option=reference, environment=None, default=None, user_file=user_file
            )
        except ConfigurationError as error:
            error.hint = (
                f"{error.hint or ''}\nthe session's last model was {reference}; "
                "`--model` chooses another; if it was begun with --agent, say that again"
            ).strip()
            raise
        return Chosen(chosen.model, last.thinking_level)
    return choose_model(
        models,
        option=options.model,
        environment=model_from_environment(),
        default=ground.settings.settings.model or ground.default_model,
        user_file=user_file,
    )


# -- extensions and hooks ------------------------------------------------------------------------


def _extensions(
    options: RunOptions, settings: LoadedSettings, folder: Path, *, trusted: bool
) -> LoadedExtensions:
    for reference in options.extensions:
        path, is_file, _ = reference.partition(".py")
        if is_file and not (folder / Path(f"{path}.py").expanduser()).exists():
            raise ConfigurationError(
                f"there is no file {path}.py to load an extension from",
                hint="--extension FILE.py, or MODULE:VARIABLE",
            )
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
        from ..settings.grants import add_grant

        try:
            add_grant(folder, rule)
        except (LoopwrightError, OSError) as error:
            note(f"the rule {str(rule)!r} holds until the program ends: {error}")

    return keep


# -- what the model is told ------------------------------------------------------------------------


def _own_prompt(options: RunOptions, agent: Agent[Any]) -> str:
    """The agent's own, or what the option puts in its place; and what options append."""
    parts = [options.system_prompt or agent.state.system_prompt, *options.append_system_prompt]
    return "\n\n".join(part for part in parts if part.strip())


def _system_prompt(
    ground: _Ground, resources: Resources, tools: Sequence[str], today: datetime.date
) -> str:
    options = ground.options
    said = [one.system_prompt for one in ground.extensions.extensions]
    appended = [*(text for text in said if text.strip()), *options.append_system_prompt]
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


# -- limits ----


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
