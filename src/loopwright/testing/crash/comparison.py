"""What the lives of a scenario left, against what one undisturbed life left. Pure.

Not here: getting either (worker, snapshot).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

import msgspec

__all__ = ["Comparison", "compare", "compare_effects"]

Json = dict[str, Any]

_INTERRUPTED = "was interrupted: the program ended while it was running"
"""Part of what a call is answered that may or may not have run (harness.journal)."""

_VOLATILE = {
    "message": ("timestamp", "usage", "diagnostics", "responseId"),
    "compaction": ("usage", "firstKeptId", "tokensBefore"),
    "branch_summary": ("usage", "fromId"),
    "custom": (),
}
"""What differs between two runs of the same script, by type of entry."""


class Comparison(msgspec.Struct):
    """What was found."""

    faults: list[str] = []
    interrupted: int = 0
    """Results that say that nobody knows what came of the call, where the reference has one."""


def compare(
    reference: dict[str, Json], found: dict[str, Json], diary: Sequence[Json], *, strict: bool
) -> Comparison:
    """*reference* and *found* are snapshots; *diary* is of all lives that led to *found*.

    If not *strict*, what follows an interrupted call on its branch may differ: a model that is told
    of it may well do something else.
    """
    result = Comparison()
    if set(reference) != set(found):
        result.faults.append(
            f"the sessions are {sorted(found)}, not {sorted(reference)}; give them names of your own"
        )
    for session_id in sorted(set(reference) & set(found)):
        _Session(session_id, reference[session_id], found[session_id], strict, result).compare()
    result.faults += [line["fault"] for line in diary if "fault" in line]
    result.faults += _unkept(found, diary)
    return result


def compare_effects(
    reference: Sequence[Json], diary: Sequence[Json], interrupted: int, *, strict: bool
) -> list[str]:
    """Effects that are not safe happened once, or not at all if their call was interrupted."""
    expected = Counter(line["effect"] for line in reference if "effect" in line)
    happened = Counter(line["effect"] for line in diary if "effect" in line)
    unsafe = {
        line["effect"] for line in (*reference, *diary) if "effect" in line and not line["safe"]
    }
    faults = [
        f"the effect {name!r} happened {count} times; it is not safe to repeat"
        for name, count in sorted(happened.items())
        if name in unsafe and count > max(1, expected[name])
    ]
    if strict:
        missing = sorted(name for name in expected if happened[name] < expected[name])
        lost = [name for name in missing if name in unsafe]
        if len(lost) > interrupted:
            faults.append(f"effects that never happened, and nobody was told: {lost}")
        faults += [f"the effect {name!r} never happened" for name in missing if name not in unsafe]
        faults += [
            f"an effect from nowhere: {name!r}" for name in sorted(set(happened) - set(expected))
        ]
    return faults


class _Session:
    """One session against the same one of the reference."""

    def __init__(
        self, name: str, reference: Json, found: Json, strict: bool, result: Comparison
    ) -> None:
        self.name, self.reference, self.found = name, reference, found
        self.strict, self.result = strict, result
        self.diverged = False

    def fault(self, text: str) -> None:
        self.result.faults.append(f"session {self.name}: {text}")

    def compare(self) -> None:
        reference, found = self.reference, self.found
        if set(reference["lanes"]) != set(found["lanes"]):
            self.fault(f"the lanes are {sorted(found['lanes'])}")
        for lane in sorted(set(reference["lanes"]) & set(found["lanes"])):
            self.compare_lane(lane)
        if not self.diverged:
            self.same("entries in all", len(reference["entries"]), len(found["entries"]))
            self.same("operations", _operations(reference), _operations(found))
            self.same("approvals", _approvals(reference), _approvals(found))
        self.same("what waits in the inbox", _inbox(reference), _inbox(found))
        self.same("facts", _facts(reference), _facts(found))
        self.same("operations left open", reference["open"] != [], found["open"] != [])
        if not reference["open"] and found["intents"]:
            self.fault(f"calls were left unsettled: {[i['toolName'] for i in found['intents']]}")
        if found["total"] != found["sum"]:
            self.fault(f"the ledger's total is {found['total']}, its rows make {found['sum']}")
        paid = Counter(row.get("entryId") for row in found["ledger"] if row["cause"] == "assistant")
        for entry in found["entries"]:
            if _role(entry) == "assistant" and paid[entry["id"]] != 1:
                self.fault(f"a reply stands {paid[entry['id']]} times in the ledger")

    def same(self, what: str, expected: Any, got: Any) -> None:
        if expected != got:
            self.fault(f"{what}: expected {_brief(expected)}, found {_brief(got)}")

    def compare_lane(self, lane: str) -> None:
        expected = [_shape(e) for e in _branch(self.reference, self.reference["lanes"][lane])]
        got = [_shape(e) for e in _branch(self.found, self.found["lanes"][lane])]
        for place, (theirs, ours) in enumerate(zip(expected, got, strict=False)):
            if theirs == ours:
                continue
            if _is_interrupted(theirs, ours):
                self.result.interrupted += 1
                if not self.strict:
                    self.diverged = True
                    return
                continue
            self.fault(
                f"lane {lane}, entry {place + 1}: expected {_brief(theirs)}, found {_brief(ours)}"
            )
            self.diverged = True  # what follows would only say the same once more
            return
        if len(expected) > len(got):
            self.fault(f"lane {lane}: lost {_brief(expected[len(got) :])}")
            self.diverged = True
        elif len(got) > len(expected):
            self.fault(f"lane {lane}: too much: {_brief(got[len(expected) :])}")
            self.diverged = True


def _branch(session: Json, leaf: str | None) -> list[Json]:
    """Oldest first. A parent that is missing ends it, and so shows in the comparison."""
    by_id = {entry["id"]: entry for entry in session["entries"]}
    found: list[Json] = []
    while leaf is not None and leaf in by_id:
        entry = by_id.pop(leaf)
        found.append(entry)
        leaf = entry["parent"]
    return found[::-1]


def _shape(entry: Json) -> Json:
    payload = dict(entry["payload"])
    volatile = _VOLATILE[entry["type"]]
    if "message" in payload:
        message = cast("Json", payload["message"])
        payload["message"] = {k: v for k, v in message.items() if k not in volatile}
    shape = {k: v for k, v in payload.items() if k not in volatile}
    return {"type": entry["type"], "customType": entry["customType"], **shape}


def _is_interrupted(expected: Json, got: Json) -> bool:
    """Both answer the same call, and the second says that nobody knows what came of it."""
    theirs, ours = expected.get("message", {}), got.get("message", {})
    if theirs.get("role") != "toolResult" or ours.get("role") != "toolResult":
        return False
    if (theirs["toolCallId"], theirs["toolName"]) != (ours["toolCallId"], ours["toolName"]):
        return False
    return bool(ours.get("isError")) and _INTERRUPTED in str(ours["content"])


def _role(entry: Json) -> str | None:
    return entry["payload"].get("message", {}).get("role")


def _operations(session: Json) -> list[Any]:
    keys = ("lane", "kind", "status", "requestId", "stopReason", "stoppedBy", "errorMessage")
    return [[operation.get(key) for key in keys] for operation in session["operations"]]


def _approvals(session: Json) -> list[Any]:
    keys = ("toolCallId", "toolName", "arguments", "status", "reason")
    return [[approval.get(key) for key in keys] for approval in session["approvals"]]


def _inbox(session: Json) -> list[Any]:
    texts = [item.get("message", {}).get("content") for item in session["inbox"]]
    return [[item["queue"], text] for item, text in zip(session["inbox"], texts, strict=True)]


def _facts(session: Json) -> list[str]:
    """Labels hang on entries, whose ids differ."""
    return sorted(
        str([f["namespace"], "" if f["namespace"] == "label" else f.get("key"), f.get("value")])
        for f in session["facts"]
    )


def _unkept(found: dict[str, Json], diary: Sequence[Json]) -> list[str]:
    """What was announced as finished and is not in the store."""
    kept = [
        entry["payload"]["message"]
        for session in found.values()
        for entry in session["entries"]
        if "message" in entry["payload"]
    ]
    results = [(m["toolCallId"], m["content"]) for m in kept if m["role"] == "toolResult"]
    faults: list[str] = []
    for line in diary:
        if "heard" in line and line["heard"] not in kept:
            faults.append(f"announced in life {line['life']} and lost: {_brief(line['heard'])}")
        if "ended" in line and (line["ended"], line["content"]) not in results:
            faults.append(
                f"the outcome of {line['ended']} was announced in life {line['life']} and lost: "
                f"{_brief(line['content'])}"
            )
    return faults


def _brief(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 400 else f"{text[:400]}…"
