"""`--mode json`: every event of a run as one line of JSON.                                (pure)

Keys are camelCase, as in stored sessions. The first line of a run that a session keeps tells which
one; then come the events, the first of which carries `version`, the version of this format; it
grows when a reader of the old one would misunderstand the new one. Every event can be read back
with `loopwright.events.event_from_dict`. Updates hold what was added, never the whole message, so
that the size of the output stays linear.

docs/json-mode.md is the same for people, docs/schemas/json-mode.schema.json for programs.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import msgspec

from ..events import AgentEvent, AgentStart
from ..records import to_jsonable
from ..session.rows import SessionInfo

__all__ = ["FORMAT_VERSION", "SessionLine", "json_line", "session_line"]

FORMAT_VERSION = 1


class SessionLine(msgspec.Struct, rename="camel", tag_field="type", tag="session", frozen=True):
    """Which session the events that follow belong to."""

    type: ClassVar[str] = "session"
    version: int
    id: str
    created_at: int
    """Milliseconds since 1970."""
    cwd: str | None
    """The folder the work is about."""
    name: str | None
    parent_id: str | None
    """The session this one was forked from."""
    entries: int
    """How many it has now."""

    @classmethod
    def of(cls, info: SessionInfo) -> Self:
        """The line for the session that *info* is about."""
        return cls(
            FORMAT_VERSION,
            info.id,
            info.created_at,
            info.cwd,
            info.name,
            info.parent_id,
            info.entries,
        )


def session_line(info: SessionInfo) -> bytes:
    """Which session a run belongs to, as UTF-8 JSON without a line break."""
    return msgspec.json.encode(to_jsonable(SessionLine.of(info)))


def json_line(event: AgentEvent) -> bytes:
    """*event* as UTF-8 JSON without a line break."""
    data: dict[str, Any] = event.to_dict(camel=True)
    if isinstance(event, AgentStart):
        data["version"] = FORMAT_VERSION
    return msgspec.json.encode(data)
