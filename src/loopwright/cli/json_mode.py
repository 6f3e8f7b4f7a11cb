"""`--mode json`: every event of a run as one line of JSON.                                (pure)

Keys are camelCase, as in stored sessions. The first line of a run that a session keeps tells which
one; then come the events, the first of which carries `version`, the version of this format; it
grows when a reader of the old one would misunderstand the new one. Every event can be read back
with `loopwright.events.event_from_dict`. Updates hold what was added, never the whole message, so
that the size of the output stays linear.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..events import AgentEvent, AgentStart
from ..session.rows import SessionInfo

__all__ = ["FORMAT_VERSION", "json_line", "session_line"]

FORMAT_VERSION = 1


def session_line(info: SessionInfo) -> bytes:
    """Which session a run belongs to, as UTF-8 JSON without a line break."""
    data: dict[str, Any] = {
        "type": "session",
        "version": FORMAT_VERSION,
        "id": info.id,
        "createdAt": info.created_at,
        "cwd": info.cwd,
        "name": info.name,
        "parentId": info.parent_id,
        "entries": info.entries,
    }
    return msgspec.json.encode(data)


def json_line(event: AgentEvent) -> bytes:
    """*event* as UTF-8 JSON without a line break."""
    data: dict[str, Any] = event.to_dict(camel=True)
    if isinstance(event, AgentStart):
        data["version"] = FORMAT_VERSION
    return msgspec.json.encode(data)
