"""What the doctor says: findings, and what a repair did."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

__all__ = ["Finding", "Repaired", "Report", "Severity"]

Severity = Literal["error", "warning", "note"]
"""A warning is lived with; a note is no fault at all, only good to know."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was noticed."""

    kind: str
    """A short name for programs."""
    severity: Severity
    session_id: str | None = None
    where: str
    """`entry <id>`, `lane <name>`, `line <number>`, `file`, ..."""
    message: str
    """What is so, for a person."""
    remedy: str | None = None
    """What a repair does about it; None: it is left as it is."""


class Report(msgspec.Struct, kw_only=True):
    """What was found in one place."""

    target: str
    """A path, or the kind of store."""
    sessions: int = 0
    entries: int = 0
    findings: list[Finding] = []

    @property
    def sound(self) -> bool:
        """Nothing is broken. Warnings and notes are lived with."""
        return not any(finding.severity == "error" for finding in self.findings)

    @property
    def mendable(self) -> list[Finding]:
        """What a repair would change."""
        return [finding for finding in self.findings if finding.remedy is not None]


class Repaired(msgspec.Struct, kw_only=True):
    """What a repair of one file did."""

    target: Path
    actions: list[str] = []
    """Each change in a sentence; none: nothing was changed, and nothing was made."""
    backup: Path | None = None
    """The file as it was before."""
    removed: Path | None = None
    """Where that is kept which was taken out or changed, one JSON object a line; None: nothing."""
    left: list[Finding] = []
    """What is still to be said of it."""
