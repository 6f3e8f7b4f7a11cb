"""Which files a conversation read and changed, as far as its calls tell.                    (pure)

A summary ends with these lists, and they are kept as data in its `details`, so that they grow over
one summary after another without a model having to copy them.

Not here: the summary itself (summary).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

from ..messages import AgentMessage, AssistantMessage, ToolCall, ToolResultMessage
from .token_estimate import is_failed

__all__ = ["TouchedFiles"]

READING = frozenset({"read"})
CHANGING = frozenset({"write", "edit"})

LISTED = 100
"""So many of each kind are shown to the model, the last ones touched; `details` has them all."""

_LISTS = re.compile(r"\s*<(read-files|modified-files)>\n[^<]*\n</\1>(?=\s*(?:<modified-files>|\Z))")


class TouchedFiles:
    """Paths in the order in which they were first touched. One that was changed counts as that."""

    def __init__(self) -> None:
        self._paths: dict[str, bool] = {}  # path -> whether it was changed

    @property
    def read(self) -> list[str]:
        """Read, and not changed."""
        return [path for path, changed in self._paths.items() if not changed]

    @property
    def modified(self) -> list[str]:
        """Written or edited."""
        return [path for path, changed in self._paths.items() if changed]

    def add_details(self, details: Any) -> None:
        """Add what an earlier summary knew. Foreign details are passed over."""
        if not isinstance(details, dict):
            return
        for key, changed in (("readFiles", False), ("modifiedFiles", True)):
            paths = cast("dict[str, Any]", details).get(key)
            if isinstance(paths, list):
                for path in cast("list[Any]", paths):
                    self._touch(path, changed)

    def add_messages(self, messages: Iterable[AgentMessage]) -> None:
        """Add the files of the calls that were answered, and did not fail."""
        asked: dict[str, ToolCall] = {}
        for message in messages:
            if isinstance(message, AssistantMessage) and not is_failed(message):
                asked = {call.id: call for call in message.tool_calls}
            elif isinstance(message, ToolResultMessage):
                call = asked.pop(message.tool_call_id, None)
                if call is not None and not message.is_error:
                    self._add_call(call)

    def _add_call(self, call: ToolCall) -> None:
        if call.name in READING or call.name in CHANGING:
            from ..tools.argument_names import in_our_words  # its package brings all the tools

            arguments = in_our_words(call.name, call.arguments)
            self._touch(arguments.get("path"), call.name in CHANGING)

    def _touch(self, path: Any, changed: bool) -> None:
        if isinstance(path, str) and path.strip():
            self._paths[path] = self._paths.get(path, False) or changed

    def details(self) -> dict[str, list[str]]:
        """As they are kept; the keys are those of pi's files."""
        return {"readFiles": self.read, "modifiedFiles": self.modified}

    def text(self) -> str:
        """The lists as a summary ends with them; empty if there are none."""
        parts = [_listed("read-files", self.read), _listed("modified-files", self.modified)]
        return "\n\n".join([part for part in parts if part])

    @staticmethod
    def cut_from(summary: str) -> str:
        """*summary* without the lists at its end."""
        return _LISTS.sub("", summary).rstrip()


def _listed(tag: str, paths: list[str]) -> str:
    if not paths:
        return ""
    shown = [path.replace("\n", " ").replace("<", "‹") for path in paths[-LISTED:]]
    if len(shown) < len(paths):
        shown.insert(0, f"({len(paths) - len(shown)} earlier ones are left out)")
    return "\n".join([f"<{tag}>", *shown, f"</{tag}>"])
