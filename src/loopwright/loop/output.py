"""A typed answer: the run goes on until the model has given one that fits, a bounded number of times.

Where the vendor can be told a JSON Schema for its reply, the reply's text is the answer. Elsewhere
the model is offered one more tool, `final_answer`, whose arguments are the answer. Either way what
does not fit goes back to the model with what is wrong about it.

Not here: checking arguments (arguments, schema), or what a vendor calls its schema mode (wires).
"""

from __future__ import annotations

import copy
from typing import Any, cast

import msgspec

from ..errors import Misuse
from ..messages import AgentToolResult, AssistantMessage, TextContent, ToolResultMessage
from .agent_tool import AgentTool
from .arguments import ArgumentsRejected
from .run import FINAL_ANSWER
from .schema import Contract, contract_of_type
from .signature import InvalidTool

__all__ = ["Answer", "AnswerFormat"]

_CORRECTIONS = 2
"""How often the model is told what is wrong before the run gives up."""


class AnswerFormat:
    """The type an agent's answers must have. Made once; each run gets an `Answer` from it.

    *output_type* is anything pydantic can check: models, dataclasses, TypedDicts, unions, plain
    types. Raises `InvalidTool` for what has no JSON Schema.
    """

    def __init__(self, output_type: Any) -> None:
        self.output_type = output_type
        self._template = _FinalAnswer(output_type)
        self._template.check()

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of an object that holds the answer."""
        return self._template.parameters

    def begin(self, *, native: bool) -> Answer:
        """For one run. *native*: the vendor is told the schema, so no tool is needed."""
        return Answer(copy.copy(self._template), native=native)


class Answer:
    """The answer that one run is to give."""

    def __init__(self, tool: _FinalAnswer, *, native: bool) -> None:
        self.native = native
        self.tool = tool
        self._left = _CORRECTIONS

    @property
    def given(self) -> bool:
        """A fitting answer was given."""
        return self.tool.given

    @property
    def value(self) -> Any:
        """The answer; None if there is none."""
        return self.tool.value

    def option(self) -> dict[str, Any]:
        """The stream option that tells a vendor the schema."""
        return {"name": FINAL_ANSWER, "schema": self.tool.parameters}

    def refuse_clash(self, names: frozenset[str] | set[str]) -> None:
        """Raise `Misuse` if a tool of the program has the name that is needed here."""
        if FINAL_ANSWER in names and not self.native:
            raise Misuse(
                f"a tool is named {FINAL_ANSWER!r}, the name by which the typed answer is given",
                hint="give that tool another name",
            )

    def take_up(self, reply: AssistantMessage, results: list[ToolResultMessage]) -> None:
        """An earlier process may have been given the answer in *reply*."""
        accepted = {result.tool_call_id for result in results if not result.is_error}
        for call in reply.tool_calls:
            if call.name == FINAL_ANSWER and call.id in accepted:
                try:
                    self.tool.take(self.tool.unwrap(self.tool.bind(call.arguments).params))
                except ArgumentsRejected:  # another output_type by now
                    return
        if not reply.tool_calls and reply.stop_reason == "stop":
            self._read(reply.text)

    def judge(
        self, reply: AssistantMessage, results: list[ToolResultMessage]
    ) -> tuple[bool, str | None]:
        """Whether the run may go on without an answer to this turn, and what to tell the model.

        (True, None): there is an answer, or tools are still at work. (True, text): say *text* and
        ask again. (False, text): it was tried often enough; *text* says why it failed.
        """
        if self.given:
            return True, None
        if reply.tool_calls:
            wrong = [r for r in results if r.tool_name == FINAL_ANSWER and r.is_error]
            if not wrong:
                return True, None
            self._left -= 1
            return (True, None) if self._left >= 0 else (False, wrong[-1].text)
        fault = self._read(reply.text)
        if fault is None:
            return True, None
        self._left -= 1
        return self._left >= 0, fault

    def _read(self, text: str) -> str | None:
        """Take the answer out of a reply's text. Returns what is wrong with it, or None."""
        arguments = _json_object(text)
        if arguments is None:
            if self.tool.is_text and text.strip():
                self.tool.take(text)
                return None
            if self.native:
                return "Your answer is not a JSON object. Reply with JSON that fits the schema."
            return f"Give your final answer by calling the tool {FINAL_ANSWER!r}."
        try:
            self.tool.take(self.tool.unwrap(self.tool.bind(arguments).params))
        except ArgumentsRejected as error:
            return str(error)
        return None


class _FinalAnswer(AgentTool[Any, Any]):
    """Takes the answer. A type that is no object is wrapped in one, under `answer`."""

    name = FINAL_ANSWER
    label = "Final answer"
    replay = "safe"  # it only takes a value
    description = (
        "Give the final answer. Call this once, alone, when everything else is done; "
        "its arguments are the answer."
    )

    def __init__(self, output_type: Any) -> None:
        self.is_text = output_type is str
        self.given = False
        self.value: Any = None
        self._output_type = output_type
        self._wrapped = False

    def _contract(self) -> Contract:
        try:
            return contract_of_type(self._output_type, self.name)
        except InvalidTool:
            from pydantic import create_model

            self._wrapped = True
            wrapper = create_model("Answer", answer=(self._output_type, ...))
            return contract_of_type(wrapper, self.name)

    def unwrap(self, params: Any) -> Any:
        """The answer in what was bound."""
        return params.answer if self._wrapped else params

    def take(self, value: Any) -> None:
        """This is the answer."""
        self.given = True
        self.value = value

    async def execute(self, tool_call_id: str, params: Any) -> AgentToolResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take the answer and end the run."""
        self.take(self.unwrap(params))
        return AgentToolResult([TextContent("The answer was accepted.")], terminate=True)


def _json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that *text* is, a Markdown fence around it forgiven."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text[3:-3].removeprefix("json").strip()
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
