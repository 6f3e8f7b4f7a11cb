"""Import of a v4 file as pp-agent-core ships it, or as our own `JsonlStore` wrote it.

The lines are replayed as the store does it; then what they amount to is taken out. What pi keeps
in its tree and we beside it (model, thinking level, tools) becomes the configuration of the lanes,
and what was said and not heard yet becomes our inbox. Operations are not taken over: the transcript
tells what an open one still owes.

Not here: the lines (pi_v4_lines), messages (pi_v4_messages), the live store (session.jsonl).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast, get_args

import msgspec

from ...errors import DecodeError, SessionDamaged
from ...models.model import ThinkingLevel
from ..entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    EntryRow,
    MessageEntry,
)
from ..jsonl_log import SessionLog
from ..rows import InboxItem, InboxQueue, Lane, LaneConfig
from .importing import ImportedSession
from .pi_messages import read_message
from .pi_v4_lines import RecordLine, decode_header
from .pi_v4_messages import OUR_USAGE

__all__ = ["read_pi_v4"]

_BOM = b"\xef\xbb\xbf"
_QUEUES: tuple[str, ...] = get_args(InboxQueue)
_THINKING: tuple[str, ...] = get_args(ThinkingLevel)


def read_pi_v4(lines: Iterable[bytes]) -> ImportedSession:
    """The session in *lines*. A torn end is left out, the whole commit it belongs to, with a
    warning. Raises `SessionDamaged` naming the line, and `SessionTooNew`.
    """
    data = b"".join(lines).removeprefix(_BOM)
    first, _, rest = data.partition(b"\n")
    log = SessionLog(decode_header(first), header_bytes=len(first) + 1)
    log.feed(rest)
    return _Import(log).result()


class _Import:
    """A replayed file on its way to an `ImportedSession`."""

    def __init__(self, log: SessionLog) -> None:
        self.log = log
        self.rest: dict[str, dict[str, Any]] = {}
        self.warnings: list[str] = []

    def result(self) -> ImportedSession:
        log, rows = self.log, self.log.rows
        if log.torn is not None and log.torn.reason != "blank lines":
            self.warnings.append(f"line {log.torn.line}: {log.torn.reason}; left out")
        entries = [self._entry(row) for row in rows.entries]
        times = [entry.timestamp for entry in entries]
        return ImportedSession(
            info=rows.summary(log.header, max([log.header.created_at, *times])),
            entries=entries,
            lanes=[self._lane(lane) for lane in rows.lane_list()],
            facts=rows.fact_list(),
            usage=rows.usage_list(),
            inbox=[*rows.pending(), *self._waiting()],
            rest=self.rest,
            warnings=self.warnings,
        )

    def _entry(self, row: EntryRow) -> Entry:
        try:
            entry = row.entry()
        except SessionDamaged as error:
            self.warnings.append(f"{error}; kept as a custom entry, no model is shown it")
            payload: Any = msgspec.json.decode(row.payload)
            said = row.type == "message" and isinstance(payload, dict) and "message" in payload
            return CustomEntry(
                id=row.id,
                parent_id=row.parent_id,
                custom_type="pi.message" if said else f"pi.{row.type}",
                data=payload["message"] if said else payload,
                timestamp=row.timestamp,
            )
        if not isinstance(entry, CustomEntry):
            self._keep_rest(row, entry)
        return entry

    def _keep_rest(
        self, row: EntryRow, entry: MessageEntry | CompactionEntry | BranchSummaryEntry
    ) -> None:
        """Remember what of pi's messages our classes have no field for."""
        payload = cast("dict[str, Any]", msgspec.json.decode(row.payload))
        kept: dict[str, Any] = {}
        if isinstance(entry, MessageEntry):
            _, missing = read_message(payload["message"], timestamp=row.timestamp)
            kept = {"message": missing} if missing else {}
            if payload.get("terminate") is False:  # pi says so where we say nothing
                kept["terminate"] = False
        usage = cast("dict[str, Any]", payload.get("usage") or {})
        if more := {name: usage[name] for name in usage if name not in OUR_USAGE}:
            kept["usage"] = more
        tails = cast("list[Any]", payload.get("retainedTail") or [])
        both = enumerate(read_message(message, timestamp=row.timestamp) for message in tails)
        if found := {str(index): missing for index, (_, missing) in both if missing}:
            kept["retainedTail"] = found
        if kept:
            self.rest[row.id] = kept

    # -- lanes --------------------------------------------------------------------------------

    def _lane(self, lane: Lane) -> Lane:
        config = lane.config or self._config(lane.name)
        return Lane(name=lane.name, leaf_id=lane.leaf_id, config=config)

    def _config(self, lane: str) -> LaneConfig | None:
        """What pi would go on with: the newest of each on the branch; a reply names its model."""
        found: dict[str, Any] = {}
        here = self.log.pi_leaf(lane)
        while here is not None:
            if (line := self.log.configs.get(here)) is not None:
                for name in ("provider", "modelId", "thinkingLevel", "activeToolNames"):
                    if name in line.data:
                        found.setdefault(name, line.data[name])
                here = line.parent_id
            elif (row := self.log.rows.entry_of.get(here)) is not None:
                if row.type == "message" and "provider" not in found:
                    found |= _model_of(row)
                here = self.log.pi_parent(row)
            else:
                break
        if "provider" not in found:
            return None
        tools = found.get("activeToolNames")
        named = cast("list[Any]", tools) if isinstance(tools, list) else []
        thinking = found.get("thinkingLevel")
        return LaneConfig(
            provider=str(found["provider"]),
            model_id=str(found.get("modelId", "")),
            thinking_level=cast(
                "ThinkingLevel | None", thinking if thinking in _THINKING else None
            ),
            active_tools=[tool for tool in named if isinstance(tool, str)],
        )

    # -- what waits ---------------------------------------------------------------------------

    def _waiting(self) -> list[InboxItem]:
        """What was accepted by pi and stands neither in the tree nor was taken back."""
        waiting: dict[str, InboxItem] = {}
        for record in self.log.records:
            data = record.data
            match record.type:
                case "queue_enqueued" | "write_deferred":
                    queue = data.get("queue") if record.type == "queue_enqueued" else "nextRun"
                    self._add(waiting, record, data.get("target"), str(queue))
                case "queue_cancelled":
                    waiting.pop(str(data.get("entryId")), None)
                case "operation_started":
                    intent = data.get("intent")
                    started = cast("dict[str, Any]", intent) if isinstance(intent, dict) else {}
                    for target in cast("list[Any]", started.get("initialMessages") or []):
                        self._add(waiting, record, target, "nextRun")
                case _:
                    pass
        return list(waiting.values())

    def _add(
        self, waiting: dict[str, InboxItem], record: RecordLine, target: Any, queue: str
    ) -> None:
        entry = cast("dict[str, Any]", target) if isinstance(target, dict) else {}
        entry_id = entry.get("id")
        if not isinstance(entry_id, str) or self.log.pi_knows_id(entry_id):
            return  # it was placed
        when = int(record.data["timestamp"])
        try:
            if entry.get("type") != "message" or queue not in _QUEUES:
                raise DecodeError(f"a {entry.get('type')} in the queue {queue!r}")
            message, _ = read_message(entry.get("message"), timestamp=when)
        except DecodeError as error:
            self.warnings.append(f"{entry_id} waited for its turn and is left out: {error}")
            return
        waiting[entry_id] = InboxItem(
            id=entry_id,
            lane=record.lane,
            queue=cast("InboxQueue", queue),
            message=message,
            created_at=when,
        )


def _model_of(row: EntryRow) -> dict[str, Any]:
    message = cast("dict[str, Any]", msgspec.json.decode(row.payload)).get("message", {})
    if message.get("role") != "assistant" or not message.get("provider"):
        return {}
    return {"provider": message["provider"], "modelId": message.get("model", "")}
