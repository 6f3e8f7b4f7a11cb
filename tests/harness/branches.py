"""Branches of entries for tests: written by hand, or drawn by hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from loopwright.harness.compaction import CompactionPlan
from loopwright.messages import (
    AgentMessage,
    AssistantMessage,
    CustomMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from loopwright.models.model import Model
from loopwright.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    MessageEntry,
)

ASKED = Model("acme", "large", "scripted", context_window=200_000, max_tokens=32_000)


class Remark(CustomMessage, tag="branches-remark"):
    text: str


class Branch:
    """Grows entry by entry, each the child of the one before."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    @property
    def leaf(self) -> str | None:
        return self.entries[-1].id if self.entries else None

    def add(self, *messages: AgentMessage) -> Branch:
        for message in messages:
            self.put(MessageEntry(parent_id=self.leaf, message=message))
        return self

    def put(self, entry: Entry) -> Branch:
        self.entries.append(entry)
        return self

    def note(self, data: Any = None) -> Branch:
        return self.put(CustomEntry(parent_id=self.leaf, custom_type="test", data=data))

    def side_summary(self, text: str, details: Any = None) -> Branch:
        return self.put(
            BranchSummaryEntry(
                parent_id=self.leaf, from_id="elsewhere", summary=text, details=details
            )
        )

    def compact(self, plan: CompactionPlan, summary: str = "SUMMARY") -> Branch:
        return self.put(
            CompactionEntry(
                parent_id=self.leaf,
                summary=summary,
                first_kept_id=plan.first_kept_id,
                retained_tail=plan.retained_tail,
                tokens_before=plan.tokens_before,
                details=plan.details,
            )
        )


def user(text: str = "u") -> UserMessage:
    return UserMessage(text)


def says(
    text: str = "", *calls: tuple[str, str] | str, used: int | None = None, **more: Any
) -> AssistantMessage:
    """A reply of `acme/large` with calls (id, or id and tool), and what it used all in all."""
    asked = [(call, "bash") if isinstance(call, str) else call for call in calls]
    content: list[Any] = [TextContent(text)] if text else []
    content += [ToolCall(call_id, name, more.get("arguments") or {}) for call_id, name in asked]
    usage = Usage() if used is None else Usage(input=used - 10, output=10, total_tokens=used)
    return AssistantMessage(
        content,
        "scripted",
        more.get("provider", "acme"),
        more.get("model", "large"),
        usage=more.get("usage", usage),
        stop_reason=more.get("stop", "toolUse" if calls else "stop"),
        error_message=more.get("error"),
    )


def result(call_id: str, text: str = "r", *, tool: str = "bash", failed: bool = False) -> Any:
    return ToolResultMessage(call_id, tool, [TextContent(text)], is_error=failed)


# -- drawn ---------------------------------------------------------------------------------------

_LENGTHS = st.sampled_from([0, 1, 7, 40, 300, 4_000, 40_000])


@st.composite
def histories(draw: st.DrawFn, first: int = 0) -> list[AgentMessage]:
    """What may stand in a transcript, the odd things as well. Each text is unlike all others, and
    unlike those of a history with another *first* number."""
    messages: list[AgentMessage] = []
    numbers = iter(range(first, first + 1_000))

    def text() -> str:
        return f"{next(numbers)}:" + "x" * draw(_LENGTHS)

    for _ in range(draw(st.integers(0, 7))):
        kind = draw(st.sampled_from(["user", "answer", "calls", "failed", "remark", "orphan"]))
        if kind == "user":
            messages.append(user(text()))
        elif kind == "answer":
            messages.append(says(text()))
        elif kind == "failed":
            failed = says(
                text(), f"f{next(numbers)}", stop=draw(st.sampled_from(["error", "aborted"]))
            )
            messages.append(failed)
        elif kind == "remark":
            messages.append(Remark(text=text()))
        elif kind == "orphan":
            messages.append(result(f"nobody{next(numbers)}", text()))
        else:
            # Ids may come again in a later reply, as some vendors number them anew.
            ids = [f"c{n}" for n in range(draw(st.integers(1, 3)))]
            messages.append(says(text(), *ids))
            answered = draw(st.sampled_from([len(ids)] * 4 + list(range(len(ids)))))
            for call_id in draw(st.permutations(ids))[:answered]:
                if draw(st.integers(0, 5)) == 0:
                    messages.append(user(text()))
                messages.append(result(call_id, text()))
    return messages
