"""The tools that the product gives an agent: for coding, from extensions, and `task`.

Not here: the tools themselves (tools/), what they may do (permissions/).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import Agent
from ...errors import ConfigurationError
from ...loop.agent_tool import AgentTool
from ...loop.hooks import TransformContext
from ...permissions.gate import PermissionGate
from ...permissions.policy import Policy
from ...permissions.rules import READING_TOOLS, Rule

if TYPE_CHECKING:
    from ...tools import LocalWorkspace
    from ...tools.process_output import TextFilter
    from ..settings.schema import AgentTable, Settings

__all__ = ["TOOL_NAMES", "give_tools", "only_named"]

TOOL_NAMES = ("read", "bash", "edit", "write", "grep", "find", "ls", "task")

EXPLORE = """\
You look things up in a project for another agent, which cannot see what you see. Answer its \
question with what you found: paths with line numbers, names, short quotations. You change nothing."""

GENERAL = """\
You do one task in a project for another agent, which cannot see what you see. Do it completely, \
check it, and say briefly what you did, where, and what is left."""


def give_tools(
    agent: Agent[str],
    wanted: Sequence[str] | None,
    *,
    settings: Settings,
    more: Sequence[Any],
    policy: Policy,
    gate: PermissionGate,
    folder: Path,
    clean: Callable[[], TextFilter] | None = None,
    transform_context: TransformContext | None = None,
) -> tuple[list[str], LocalWorkspace | None]:
    """Give *agent* the tools named in *wanted* (None: all), and the gate in front of them.

    *more* are those of extensions, *clean* is what the output of commands goes through.
    *transform_context* is what they do to what a model is shown; it holds for children as well.
    Returns the names, and what the coding tools work on. Raises `ConfigurationError` for a name
    that no tool has.
    """
    from ...loop.tool import as_tool

    others = [as_tool(each) for each in more]
    known = [*TOOL_NAMES, *(tool.name for tool in others)]
    names = known if wanted is None else list(dict.fromkeys(wanted))
    if unknown := [name for name in names if name not in known]:
        raise ConfigurationError(
            f"there is no tool {unknown[0]!r}", hint=f"there are {', '.join(known)}"
        )
    agent.before_tool_call = gate
    if not names:
        return [], None
    from ...tools import LocalWorkspace, coding_tools
    from ...tools.output_files import OutputFiles
    from .outside_paths import GateWithDoor

    places = settings.permissions
    workspace = LocalWorkspace(
        folder, allow=_folders(places.writable), readable=_folders(places.readable)
    )
    agent.before_tool_call = GateWithDoor(gate, workspace)
    files = OutputFiles()
    # The model is told of these files, and what they hold it might have been shown.
    policy.rules.append(Rule("allow", "read", files.pattern, "long output of commands"))
    tools = [
        *coding_tools(
            workspace,
            hidden=policy.hides,
            bash_timeout=settings.bash.timeout_seconds,
            files=files,
            clean=clean,
            keep_env=settings.bash.keep_env,
        ),
        *others,
    ]
    chosen = [tool for tool in tools if tool.name in names]
    if "task" in names:
        chosen.append(_task(agent, settings.agents, chosen, transform_context))
    agent.state.tools = chosen
    return [tool.name for tool in chosen], workspace


def only_named(
    tools: Sequence[AgentTool[Any, Any]], names: Sequence[str]
) -> list[AgentTool[Any, Any]]:
    """Those of *tools* that are named. Raises `ConfigurationError` for a name that none has."""
    known = [tool.name for tool in tools]
    if unknown := [name for name in names if name not in known]:
        raise ConfigurationError(
            f"the agent has no tool {unknown[0]!r}", hint=f"it has {', '.join(known) or 'none'}"
        )
    return [tool for tool in tools if tool.name in names]


def _folders(paths: Sequence[str]) -> list[Path]:
    for path in paths:
        if "\0" in path:
            raise ConfigurationError(
                f"{path!r} can be no folder", hint="see permissions.readable and .writable"
            )
    return [Path(path).expanduser() for path in paths]


def _task(
    agent: Agent[str],
    described: dict[str, AgentTable],
    tools: Sequence[AgentTool[Any, Any]],
    transform_context: TransformContext | None,
) -> AgentTool[Any, Any]:
    from ...tools.task import AgentSpec, task_tool

    reading = [tool for tool in tools if tool.name in READING_TOOLS]
    specs = {
        "explore": AgentSpec(
            description="finds things out in the project and changes nothing",
            system_prompt=EXPLORE,
            tools=reading,
        ),
        "general": AgentSpec(
            description="does a task of its own, with all tools",
            system_prompt=GENERAL,
            tools=list(tools),
        ),
    }
    by_name = {tool.name: tool for tool in tools}
    for name, one in described.items():
        if one.tools is not None and (missing := [n for n in one.tools if n not in by_name]):
            raise ConfigurationError(
                f"the agent {name!r} wants a tool {missing[0]!r}, which is not active",
                hint=f"active are {', '.join(by_name)}; see [agents.{name}] in the settings",
            )
        specs[name] = AgentSpec(
            description=one.description,
            system_prompt=one.system_prompt,
            tools=list(tools) if one.tools is None else [by_name[n] for n in one.tools],
            model=one.model,
            thinking_level=one.thinking,
            max_turns=one.max_turns,
            max_tokens=one.max_tokens,
            max_cost_usd=one.max_cost_usd,
            timeout_seconds=one.timeout_seconds,
        )
    if transform_context is not None:
        for spec in specs.values():
            spec.options = {"transform_context": transform_context}
    return task_tool(specs, parent=agent)
