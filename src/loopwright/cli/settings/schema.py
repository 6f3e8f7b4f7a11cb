"""What can be set in settings.toml: every key, its type and its default.

    model = "anthropic/claude-sonnet-5:high"

    [permissions]
    mode = "auto-edit"
    allow = ["bash(git status:*)"]

A key that is not set has its default; None is "not set", which TOML cannot say otherwise.

Not here: which file says what (settings/files.py), or what is told about a wrong one
(settings/check.py).
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ...models.model import ThinkingLevel
from ...permissions.policy import Mode

__all__ = [
    "AgentTable",
    "BashTable",
    "BudgetCaps",
    "BudgetTable",
    "CompactionTable",
    "EditingName",
    "ExtensionsTable",
    "PathsTable",
    "PermissionsTable",
    "Settings",
    "ThemeName",
]

ThemeName = Literal["auto", "dark", "light"]
EditingName = Literal["emacs", "vi"]

_Text = Annotated[str, Meta(min_length=1)]
_Count = Annotated[int, Meta(ge=0)]
_Dollars = Annotated[float, Meta(ge=0)]
LONGEST_SECONDS = 2_147_483
"""What fits into 31 bits of milliseconds: the longest wait every event loop can do."""
_Seconds = Annotated[float, Meta(gt=0, le=LONGEST_SECONDS)]


class PermissionsTable(msgspec.Struct, frozen=True, kw_only=True):
    """What tools may do; docs/permissions.md says how rules are written."""

    mode: Mode = "ask"
    allow: list[_Text] = []
    ask: list[_Text] = []
    deny: list[_Text] = []
    """These three are added up over all files; `LoadedSettings.rules` has them parsed."""
    readable: list[_Text] = []
    """Folders outside of the workspace that may be read: absolute paths when loaded."""
    writable: list[_Text] = []
    """Folders outside of the workspace that may be read and changed."""


class BudgetCaps(msgspec.Struct, frozen=True, kw_only=True):
    """What may be used at most; see `loopwright.loop.budget.Budget`. None is no limit."""

    max_turns: _Count | None = None
    max_tokens: _Count | None = None
    max_cost_usd: _Dollars | None = None
    allow_unknown_prices: bool = False


class BudgetTable(msgspec.Struct, frozen=True, kw_only=True):
    """Caps for each run, and for all runs of a session."""

    run: BudgetCaps = msgspec.field(default_factory=BudgetCaps)
    session: BudgetCaps = msgspec.field(default_factory=BudgetCaps)


class CompactionTable(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `loopwright.harness.CompactionSettings`. All numbers are tokens."""

    enabled: bool = True
    reserve_tokens: _Count = 16_384
    keep_recent_tokens: _Count = 20_000


class BashTable(msgspec.Struct, frozen=True, kw_only=True):
    """The tool `bash`."""

    timeout_seconds: _Seconds = 600.0
    """For calls that name none."""
    keep_env: list[_Text] = []
    """Variables with keys or tokens that commands get all the same."""


class PathsTable(msgspec.Struct, frozen=True, kw_only=True):
    """Where to look beside the usual places."""

    paths: list[_Text] = []
    """Absolute when loaded."""


class ExtensionsTable(msgspec.Struct, frozen=True, kw_only=True):
    """Which extensions there are, beside those that are installed."""

    disabled: list[_Text] = []
    """Their names."""
    load: list[_Text] = []
    """`module:variable`, or the path of a .py file, which is absolute when loaded."""


class AgentTable(msgspec.Struct, frozen=True, kw_only=True):
    """A child that the tool `task` offers; see `loopwright.tools.task.AgentSpec`. What is not set
    is its parent's."""

    description: str = ""
    system_prompt: str = ""
    tools: list[_Text] | None = None
    """Names. None: those of its parent."""
    model: _Text | None = None
    thinking: ThinkingLevel | None = None
    max_turns: _Count | None = None
    max_tokens: _Count | None = None
    max_cost_usd: _Dollars | None = None
    timeout_seconds: _Seconds | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set."""

    model: _Text | None = None
    """PROVIDER/MODEL[:THINKING]"""
    thinking: ThinkingLevel | None = None
    theme: ThemeName = "auto"
    editing: EditingName = "emacs"
    """The keys that edit the prompt."""
    show_thinking: bool = False
    tools: list[_Text] | None = None
    """Names. None: all."""
    permissions: PermissionsTable = msgspec.field(default_factory=PermissionsTable)
    budget: BudgetTable = msgspec.field(default_factory=BudgetTable)
    compaction: CompactionTable = msgspec.field(default_factory=CompactionTable)
    bash: BashTable = msgspec.field(default_factory=BashTable)
    skills: PathsTable = msgspec.field(default_factory=PathsTable)
    templates: PathsTable = msgspec.field(default_factory=PathsTable)
    extensions: ExtensionsTable = msgspec.field(default_factory=ExtensionsTable)
    agents: dict[str, AgentTable] = {}
