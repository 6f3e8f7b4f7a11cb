"""`task`: a tool by which an agent gives work to a child agent and gets its answer.

The child sees nothing of its parent's transcript but the prompt; its parent sees nothing of the
child's but the last reply. Its requests go through the parent's stream function, and so count in
the parent's budgets; its tools pass the parent's gate (`before_tool_call`).

Not here: running the child (subagent.py).
"""

from __future__ import annotations

import asyncio
import inspect
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

import msgspec

from ..errors import Misuse, ToolError
from ..loop.agent import Agent
from ..loop.budget import Budget
from ..loop.run import StreamFn
from ..loop.tool import AgentTool, ToolContext
from ..messages import AgentMessage
from ..models.model import Model, ThinkingLevel
from .subagent import Caller, Child, Outcome, calling, result_of, run_child
from .subagent_events import SubagentName

__all__ = ["AgentSpec", "MakeAgent", "SaveTranscript", "TaskRequest", "task_tool"]

MAX_DEPTH = 3
MAX_PARALLEL = 4
MAX_RESULT_BYTES = 32 * 1024

DESCRIPTION = """\
Give a task to another agent, which works on its own and answers when it is done. It knows nothing \
of this conversation: the prompt must say all it needs, and what it should answer. Only its last \
reply comes back. Several calls in one reply run side by side."""


class AgentSpec(msgspec.Struct, kw_only=True):
    """A kind of child. What is None is its parent's."""

    description: str = ""
    """What it is good for, told to the parent's model."""
    system_prompt: str = ""
    tools: Sequence[Any] = ()
    model: Model | str | None = None
    thinking_level: ThinkingLevel | None = None
    stream_fn: StreamFn | None = None
    """One of its own is outside of the parent's budgets."""
    delegates: bool = False
    """It is given this tool, too, unless it is nested too deep already."""
    max_turns: int | None = None
    max_tokens: int | None = None
    """Of all its requests, those of its own children included. See `Budget`."""
    max_cost_usd: float | None = None
    timeout_seconds: float | None = None
    options: dict[str, Any] = {}
    """More options of `Agent`; they come before what is the parent's."""


class TaskRequest(msgspec.Struct, frozen=True):
    """What a function that makes agents is told."""

    agent: str
    description: str
    prompt: str
    depth: int
    parent: Agent[Any] | None
    """Who calls. Only requests through its `stream_fn` count in its budgets."""
    tool: AgentTool[Any, Any]
    """This tool, to be given to a child that may have children itself."""


MakeAgent = Callable[[TaskRequest], "Agent[Any] | Awaitable[Agent[Any]]"]
SaveTranscript = Callable[
    [SubagentName, "list[AgentMessage]"], "str | Awaitable[str | None] | None"
]
"""Keeps a child's messages somewhere and returns a reference to them, which the result's details
show as `transcript`. Called once for each child that ended, not for one whose call was cancelled."""


def task_tool(
    agents: Mapping[str, AgentSpec] | MakeAgent,
    *,
    parent: Agent[Any] | None = None,
    max_depth: int = MAX_DEPTH,
    max_parallel: int = MAX_PARALLEL,
    max_result_bytes: int = MAX_RESULT_BYTES,
    save_transcript: SaveTranscript | None = None,
    name: str = "task",
) -> AgentTool[dict[str, Any], Any]:
    """The tool. *agents* are the children there are, by name, or a function that makes one.

    *parent* is the agent that is given the tool; children take from it what their spec leaves
    open. At most *max_parallel* children of one agent run at a time, others wait; children are
    nested at most *max_depth* deep. Raises `Misuse` for a spec that nobody could run.
    """
    for option, value in (("max_depth", max_depth), ("max_parallel", max_parallel)):
        if value < 1:
            raise Misuse(f"{option} is at least 1, not {value!r}")
    make: MakeAgent | None = None
    specs: Mapping[str, AgentSpec] = {}
    if isinstance(agents, Mapping):
        specs = cast("Mapping[str, AgentSpec]", agents)
        _check(specs, parent)
    else:
        make = agents
    task = _Task(specs, make, parent, max_depth, max_parallel, max_result_bytes, save_transcript)
    task.tool = AgentTool.from_schema(
        name=name,
        label="Task",
        description=_describe(specs),
        parameters=_parameters(specs),
        execute=task.run,
        replay="never",
    )
    return task.tool


class _Task:
    """What one `task_tool` knows."""

    tool: AgentTool[dict[str, Any], Any]

    def __init__(
        self,
        specs: Mapping[str, AgentSpec],
        make: MakeAgent | None,
        parent: Agent[Any] | None,
        max_depth: int,
        max_parallel: int,
        max_result_bytes: int,
        save_transcript: SaveTranscript | None,
    ) -> None:
        self._specs = specs
        self._make_agent = make
        self._parent = parent
        self._max_depth = max_depth
        self._max_parallel = max_parallel
        self._max_result_bytes = max_result_bytes
        self._save_transcript = save_transcript
        self._slots: weakref.WeakKeyDictionary[Any, asyncio.Semaphore] = weakref.WeakKeyDictionary()

    async def run(self, args: dict[str, Any], ctx: ToolContext) -> Any:
        """One call of the tool."""
        caller = calling.get()
        depth = 1 if caller is None else caller.name.depth + 1
        if depth > self._max_depth:
            raise ToolError(
                f"The task was not given away: agents may be nested {self._max_depth} deep, and "
                "this one is at the end. Do it yourself."
            )
        async with self._slots_of(caller):
            child = await self._make(args, caller, depth, ctx)
            outcome = await run_child(
                child,
                args["prompt"],
                signal=ctx.signal,
                tell=ctx.update,
                max_parallel=self._max_parallel,
            )
            transcript = await self._save(child, outcome)
            return result_of(child, outcome, self._max_result_bytes, transcript)

    def _slots_of(self, caller: Caller | None) -> asyncio.Semaphore:
        if caller is not None:
            return caller.slots
        return self._slots.setdefault(
            asyncio.get_running_loop(), asyncio.Semaphore(self._max_parallel)
        )

    async def _save(self, child: Child, outcome: Outcome) -> str | None:
        if self._save_transcript is None or outcome.cancelled:
            return None
        reference: Any = self._save_transcript(child.name, list(child.agent.state.messages))
        return await reference if inspect.isawaitable(reference) else reference

    # -- making the child ---------------------------------------------------------------------

    async def _make(
        self, args: dict[str, Any], caller: Caller | None, depth: int, ctx: ToolContext
    ) -> Child:
        specs, make = self._specs, self._make_agent
        kind: str = args.get("agent") or next(iter(specs), "agent")
        parent = self._parent if caller is None else caller.agent
        above = None if caller is None else caller.name.id
        name = SubagentName(uuid4().hex[:12], kind, depth, above)
        if make is None:
            agent = self._from_spec(specs[kind], parent, depth, ctx)
        else:
            request = TaskRequest(
                kind, args["description"], args["prompt"], depth, parent, self.tool
            )
            made: Any = make(request)
            agent = await made if inspect.isawaitable(made) else made
            if not isinstance(agent, Agent):
                raise TypeError(f"the function made a {type(agent).__name__}, not an Agent")
            agent = cast("Agent[Any]", agent)
        return Child(agent, name, args["description"])

    def _from_spec(
        self, spec: AgentSpec, parent: Agent[Any] | None, depth: int, ctx: ToolContext
    ) -> Agent[Any]:
        options = {**_inherited(parent), "deps": ctx.deps, **spec.options}
        tools = list(spec.tools)
        if spec.delegates and depth < self._max_depth:
            tools.append(self.tool)
        stream_fn = spec.stream_fn or (None if parent is None else parent.stream_fn)
        model = spec.model or (None if parent is None else parent.model)
        assert model is not None
        if spec.thinking_level is not None:
            options["thinking_level"] = spec.thinking_level
        elif isinstance(model, str):
            options.pop("thinking_level", None)  # the name may have one
        agent: Agent[Any] = Agent(
            model,
            stream_fn=stream_fn,
            system_prompt=spec.system_prompt,
            tools=tools,
            max_turns=spec.max_turns,
            run_timeout=spec.timeout_seconds,
            **options,
        )
        if spec.max_tokens is not None or spec.max_cost_usd is not None:
            own = Budget(
                max_tokens=spec.max_tokens, max_cost_usd=spec.max_cost_usd, name="subagent"
            )
            agent.stream_fn = own.stream_fn(agent.stream_fn)
        return agent


_INHERITED = (
    "thinking_level",
    "get_api_key",
    "before_tool_call",
    "after_tool_call",
    "thinking_budgets",
    "stream_options",
    "idle_timeout",
    "tool_execution",
    "on_error",
)


def _inherited(parent: Agent[Any] | None) -> dict[str, Any]:
    if parent is None:
        return {}
    return {option: getattr(parent, option) for option in _INHERITED}


def _check(agents: Mapping[str, AgentSpec], parent: Agent[Any] | None) -> None:
    if not agents:
        raise Misuse("task_tool was given no agents", hint='agents={"explore": AgentSpec(...)}')
    for name, spec in agents.items():
        if spec.model is None and parent is None:
            raise Misuse(
                f"the agent {name!r} has no model, and no parent to take one from",
                hint=f'task_tool(agents, parent=agent), or "{name}": AgentSpec(model=...)',
            )
        Budget(max_turns=spec.max_turns, max_tokens=spec.max_tokens, max_cost_usd=spec.max_cost_usd)


def _describe(specs: Mapping[str, AgentSpec]) -> str:
    lines = [f"- {name}: {spec.description}" for name, spec in specs.items() if spec.description]
    return "\n".join([DESCRIPTION, "", "Agents:", *lines]) if lines else DESCRIPTION


def _parameters(specs: Mapping[str, AgentSpec]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "description": {"type": "string", "description": "The task in three to eight words."},
        "prompt": {
            "type": "string",
            "minLength": 1,
            "description": "All the agent needs to know, and what it should answer.",
        },
    }
    required = ["description", "prompt"]
    if not specs:
        properties["agent"] = {"type": "string", "description": "Which agent."}
    elif len(specs) > 1:
        properties["agent"] = {"enum": list(specs), "description": "Which agent."}
        required.append("agent")
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
