"""All that is in a store, as plain JSON data, so that another process can compare it.

Not here: comparing (comparison).
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...messages import Usage
from ...records import to_jsonable
from ...session.store import SessionStore

__all__ = ["snapshot_of"]


async def snapshot_of(store: SessionStore) -> dict[str, Any]:
    """Every session of *store*, by its id."""
    return {info.id: await _session(store, info.id) for info in await store.list()}


async def _session(store: SessionStore, session_id: str) -> dict[str, Any]:
    state = await store.state(session_id)
    ledger = await store.usage(session_id)
    total = Usage()
    for row in ledger:
        total += row.usage
    return {
        "entries": [
            {
                "id": row.id,
                "parent": row.parent_id,
                "type": row.type,
                "customType": row.custom_type,
                "payload": msgspec.json.decode(row.payload),
            }
            for row in await store.entries(session_id)
        ],
        "lanes": {lane.name: lane.leaf_id for lane in state.lanes},
        "open": [lane.operation_id for lane in state.lanes if lane.operation_id is not None],
        "operations": to_jsonable(await store.operations(session_id)),
        "intents": to_jsonable(state.intents),
        "inbox": to_jsonable(state.inbox),
        "approvals": to_jsonable(await store.approvals(session_id)),
        "facts": to_jsonable(state.facts),
        "ledger": to_jsonable(ledger),
        "total": to_jsonable(state.info.usage),
        "sum": to_jsonable(total),
    }
