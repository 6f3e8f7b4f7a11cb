"""`loopwright sessions doctor`: what is wrong with what is kept, and mending it when asked to."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ...errors import SessionError, SessionNotFound
from ...session.doctor import Finding, Repaired, Report, examine, repair
from ...session.entries import now_ms
from ...session.store import SessionStore
from ..exit_codes import ExitCode
from ..options import Mode
from ..places import sessions_file, working_folder
from ..streams import Output, Piece, Style, print_error, print_note
from .choice import find_session, local_time, short_ids
from .standing import standing_of
from .store import reading_sessions

__all__ = ["doctor"]

OPEN = "operation_open"
"""The kind of finding that `examine` has for unfinished work."""
LONG_SECONDS = 3600.0
"""A call that has waited longer for an approval was probably forgotten."""

_STYLES: dict[str, Style] = {"error": "bad", "warning": "call", "note": "quiet"}


def doctor(reference: str | None, *, file: Path | None, mend: bool, mode: Mode) -> ExitCode:
    """Look at the user's database, or at *file*. FAILED while something is broken."""
    if file is None and not sessions_file().exists():
        print_note(f"there are no sessions yet in {sessions_file().parent}")
        return ExitCode.DONE
    return asyncio.run(_doctor(reference, file, mend, mode))


async def _doctor(reference: str | None, file: Path | None, mend: bool, mode: Mode) -> ExitCode:
    target = sessions_file() if file is None else file
    session_id = None
    if reference is not None:
        session_id = reference if file is not None else await _id_of(reference)
    report = await examine(target, session_id=session_id)
    if file is None:
        report.findings = await _with_advice(report.findings)
    output = Output(sys.stdout)
    _show(output, report, mode)
    if not mend:
        if report.mendable and mode == "text":
            print_note("`--repair` mends what can be mended, on a copy first")
        return ExitCode.DONE if report.sound else ExitCode.FAILED
    done = await repair(target, session_id=session_id)
    for one in done:
        _show_repair(output, one, mode)
    after = await examine(target, session_id=session_id)
    if not after.sound:
        print_error("what is left cannot be mended here", hint="nothing else was changed")
        return ExitCode.FAILED
    return ExitCode.DONE


async def _id_of(reference: str) -> str:
    """A damaged database may not be able to tell; then it is taken for an id."""
    try:
        async with reading_sessions() as store:
            return (await find_session(store, reference, str(working_folder()))).id
    except SessionNotFound:
        raise
    except Exception:  # noqa: BLE001 - whatever is wrong with it is what the doctor is asked for
        return reference


async def _with_advice(findings: Sequence[Finding]) -> list[Finding]:
    """*findings*; those about unfinished work say how old it is and what can be done about it, and
    are warnings where nobody is at work, or a call has waited for long."""
    if not any(finding.kind == OPEN for finding in findings):
        return list(findings)
    try:
        async with reading_sessions() as store:
            short = short_ids(await store.list())
            return [
                await _advised(store, finding, short)
                if finding.kind == OPEN and finding.session_id in short
                else finding
                for finding in findings
            ]
    except SessionError:  # the findings say what is wrong with it
        return list(findings)


async def _advised(store: SessionStore, finding: Finding, short: Mapping[str, str]) -> Finding:
    session_id = finding.session_id or ""
    standing = await standing_of(store, session_id)
    advice = standing.advice(short[session_id])
    if advice is None:  # over since it was looked at
        return finding
    if standing.waiting:
        since = min(approval.requested_at for approval in standing.waiting)
        is_late = now_ms() - since > LONG_SECONDS * 1000
    else:
        since = min(operation.started_at for operation in standing.operations)
        is_late = standing.holder is None
    return msgspec.structs.replace(
        finding,
        severity="warning" if is_late else "note",
        message=f"{advice}; since {local_time(since)}",
    )


def _show(output: Output, report: Report, mode: Mode) -> None:
    if mode == "json":
        for finding in report.findings:
            output.write_line_of_bytes(_as_json("finding", finding))
        summary = {
            "type": "report",
            "target": report.target,
            "sessions": report.sessions,
            "entries": report.entries,
            "sound": report.sound,
        }
        output.write_line_of_bytes(msgspec.json.encode(summary))
        return
    output.write_pieces(_finding_pieces(report.findings))
    counts = [
        _counted(number, word)
        for word in ("error", "warning", "note")
        if (number := sum(finding.severity == word for finding in report.findings))
    ]
    sessions, entries = _counted(report.sessions, "session"), report.entries
    looked = f"{sessions}, {entries} entr{'y' if entries == 1 else 'ies'} in {report.target}"
    output.write(f"{looked}: {', '.join(counts) or 'all is well'}\n")


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"


def _finding_pieces(findings: Sequence[Finding]) -> list[Piece]:
    pieces: list[Piece] = []
    for finding in findings:
        session = f"session {finding.session_id}, " if finding.session_id else ""
        pieces += [
            Piece(f"{finding.severity}: ", _STYLES[finding.severity]),
            Piece(f"{session}{finding.where}: {_line(finding.message)}\n"),
        ]
        if finding.remedy is not None:
            pieces.append(Piece(f"  repair: {finding.remedy}\n", "quiet"))
    return pieces


def _show_repair(output: Output, done: Repaired, mode: Mode) -> None:
    if mode == "json":
        data = {
            "type": "repaired",
            "target": str(done.target),
            "actions": done.actions,
            "backup": None if done.backup is None else str(done.backup),
            "removed": None if done.removed is None else str(done.removed),
        }
        output.write_line_of_bytes(msgspec.json.encode(data))
        return
    for action in done.actions:
        output.write_pieces([Piece("repaired: ", "good"), Piece(f"{_line(action)}\n")])
    if done.backup is not None:
        output.write(f"as it was before: {done.backup}\n")
    if done.removed is not None:
        output.write(f"what was taken out or changed: {done.removed}\n")
    if not done.actions:
        output.write("nothing was changed\n")


def _as_json(kind: str, finding: Finding) -> bytes:
    return msgspec.json.encode(
        {
            "type": kind,
            "kind": finding.kind,
            "severity": finding.severity,
            "sessionId": finding.session_id,
            "where": finding.where,
            "message": finding.message,
            "remedy": finding.remedy,
        }
    )


def _line(text: str) -> str:
    return " ".join(text.split())
