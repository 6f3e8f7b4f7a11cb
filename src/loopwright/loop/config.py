"""Every option of a run, once. `Agent` shows the same ones as attributes of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from ..errors import Misuse
from ..models.model import Model, ThinkingLevel
from . import hooks
from .hook_calls import verdict_hook
from .hooks import default_convert_to_llm, with_signal

if TYPE_CHECKING:
    from .agent import Agent
    from .output import Answer, AnswerFormat

__all__ = ["AgentLoopConfig", "Option"]

T = TypeVar("T")

_TAKE_SIGNAL = {
    "transform_context": 1,
    "before_tool_call": 1,
    "after_tool_call": 1,
    "prepare_request": 1,
    "prepare_next_turn": 1,
    "finish_turn": 1,
    "should_stop_after_turn": 1,
}
_NUMBERS = frozenset({"max_turns", "run_timeout", "idle_timeout"})
_FUNCTIONS = frozenset({
    "convert_to_llm", "get_api_key", "invoke_tool", "on_error", "get_steering_messages",
    "get_follow_up_messages", "on_undelivered",
})  # fmt: skip
_CHOICES = {
    "thinking_level": (None, "off", "minimal", "low", "medium", "high", "xhigh", "max"),
    "tool_execution": ("parallel", "sequential"),
    "steering_mode": ("one-at-a-time", "all"),
    "follow_up_mode": ("one-at-a-time", "all"),
}


class AgentLoopConfig:
    """How a run behaves. Hooks and modes are read live; the model and thinking level at its start.

    Times are in seconds, None means no limit. `stream_options` go to the stream function as they
    are; `session_id` and `thinking_budgets` fill those options unless set there. The two
    `get_..._messages` feed steering and follow-up messages to the low-level loop; `on_undelivered`
    is given messages that were fetched from them when the run ended before they could be said.
    """

    __slots__ = (
        "_answer_format",
        "_calls",
        "after_tool_call",
        "before_tool_call",
        "convert_to_llm",
        "deps",
        "finish_turn",
        "follow_up_mode",
        "get_api_key",
        "get_follow_up_messages",
        "get_steering_messages",
        "idle_timeout",
        "invoke_tool",
        "max_turns",
        "model",
        "on_error",
        "on_undelivered",
        "output_type",
        "prepare_next_turn",
        "prepare_request",
        "run_timeout",
        "session_id",
        "should_stop_after_turn",
        "steering_mode",
        "stream_options",
        "thinking_budgets",
        "thinking_level",
        "tool_execution",
        "transform_context",
    )

    def __init__(
        self,
        model: Model,
        *,
        thinking_level: ThinkingLevel | None = None,
        output_type: Any = None,
        deps: Any = None,
        convert_to_llm: hooks.ConvertToLlm = default_convert_to_llm,
        transform_context: hooks.TransformContext | None = None,
        get_api_key: hooks.GetApiKey | None = None,
        before_tool_call: hooks.BeforeToolCallHook | None = None,
        after_tool_call: hooks.AfterToolCallHook | None = None,
        prepare_request: hooks.PrepareRequest | None = None,
        prepare_next_turn: hooks.PrepareNextTurn | None = None,
        finish_turn: hooks.FinishTurnHook | None = None,
        should_stop_after_turn: hooks.ShouldStop | None = None,
        max_turns: int | None = None,
        run_timeout: float | None = None,
        idle_timeout: float | None = None,
        steering_mode: Literal["one-at-a-time", "all"] = "one-at-a-time",
        follow_up_mode: Literal["one-at-a-time", "all"] = "one-at-a-time",
        tool_execution: Literal["parallel", "sequential"] = "parallel",
        session_id: str | None = None,
        thinking_budgets: dict[str, int] | None = None,
        stream_options: dict[str, Any] | None = None,
        on_error: hooks.OnError | None = None,
        get_steering_messages: hooks.GetMessages | None = None,
        get_follow_up_messages: hooks.GetMessages | None = None,
        on_undelivered: hooks.Hook | None = None,
    ) -> None:
        self._calls: dict[str, hooks.Hook] | None = None
        self._answer_format: AnswerFormat | None = None
        self.invoke_tool: hooks.Hook | None = None
        """`(tool, bound, context)`: runs a tool in place of `tool.invoke`; for telemetry."""
        self.model = model
        self.thinking_level: ThinkingLevel | None = thinking_level
        """None: nothing is said about thinking, and the vendor decides. "off" switches it off."""
        self.output_type = output_type
        self.deps = deps
        self.convert_to_llm = convert_to_llm
        self.transform_context = transform_context
        self.get_api_key = get_api_key
        self.before_tool_call = before_tool_call
        self.after_tool_call = after_tool_call
        self.prepare_request = prepare_request
        self.prepare_next_turn = prepare_next_turn
        self.finish_turn = finish_turn
        self.should_stop_after_turn = should_stop_after_turn
        self.max_turns = max_turns
        self.run_timeout = run_timeout
        self.idle_timeout = idle_timeout
        self.steering_mode: Literal["one-at-a-time", "all"] = steering_mode
        self.follow_up_mode: Literal["one-at-a-time", "all"] = follow_up_mode
        self.tool_execution: Literal["parallel", "sequential"] = tool_execution
        self.session_id = session_id
        self.thinking_budgets = thinking_budgets
        self.stream_options = stream_options
        self.on_error = on_error
        self.get_steering_messages = get_steering_messages
        self.get_follow_up_messages = get_follow_up_messages
        self.on_undelivered = on_undelivered

    def __setattr__(self, name: str, value: Any) -> None:
        """Check what can be checked, and settle once whether a hook takes the signal."""
        if name in _TAKE_SIGNAL:
            self._set_hook(name, value)
        elif name in _CHOICES and value not in _CHOICES[name]:
            raise Misuse(f"{name} is {' or '.join(map(repr, _CHOICES[name]))}, not {value!r}")
        elif name in _NUMBERS and value is not None and not isinstance(value, int | float):
            raise Misuse(f"{name} is a number or None, not {type(value).__name__}")
        elif name == "max_turns" and value is not None and value < 1:
            raise Misuse(f"max_turns is at least 1, or None for no limit; got {value!r}")
        elif name in ("run_timeout", "idle_timeout") and value is not None and value <= 0:
            raise Misuse(f"{name} is a number of seconds above 0, or None; got {value!r}")
        elif name == "output_type":
            self._set_output_type(value)
        elif name == "convert_to_llm" and value is None:
            value = default_convert_to_llm
        elif name in _FUNCTIONS and value is not None and not callable(value):
            raise Misuse(f"{name} is a function, not {type(value).__name__}")
        elif name == "model" and not isinstance(value, Model):
            raise Misuse(
                f"model is a Model, not {type(value).__name__}",
                hint="Agent takes names; here, default_models().resolve(name) gives the Model",
            )
        object.__setattr__(self, name, value)

    def _set_output_type(self, value: Any) -> None:
        if value is None:
            self._answer_format = None
            return
        from .output import AnswerFormat

        self._answer_format = AnswerFormat(value)

    def _set_hook(self, name: str, value: Any) -> None:
        calls = dict(self._calls or {})
        calls.pop(name, None)
        if value is not None:
            if not callable(value):
                raise Misuse(f"{name} is a function or None, not {type(value).__name__}")
            gates = name == "before_tool_call"
            calls[name] = verdict_hook(value) if gates else with_signal(value, _TAKE_SIGNAL[name])
        self._calls = calls or None

    def begin_answer(self, stream_fn: Any) -> Answer | None:
        """What one run over *stream_fn* needs to give a typed answer, if it is to give one."""
        if self._answer_format is None:
            return None
        models: Any = getattr(stream_fn, "__self__", stream_fn)  # a method of `Models`, or like one
        takes_schema = getattr(models, "takes_output_schema", None)
        can_tell = getattr(models, "can_tell", None)
        schema = self._answer_format.schema
        native = bool(takes_schema is not None and takes_schema(self.model)) and (
            can_tell is None or can_tell(self.model, schema)
        )
        return self._answer_format.begin(native=native)

    def hook(self, name: str) -> hooks.Hook | None:
        """The hook called *name* as a function that takes the signal last, or None."""
        return None if self._calls is None else self._calls.get(name)


class Option(Generic[T]):
    """One option of a config, shown as an attribute of the agent that has it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, agent: None, owner: type) -> Option[T]: ...
    @overload
    def __get__(self, agent: Agent[Any], owner: type) -> T: ...
    def __get__(self, agent: Agent[Any] | None, owner: type) -> T | Option[T]:
        if agent is None:
            return self
        return getattr(agent._config, self._name)  # pyright: ignore[reportPrivateUsage]

    def __set__(self, agent: Agent[Any], value: T) -> None:
        setattr(agent._config, self._name, value)  # pyright: ignore[reportPrivateUsage]
