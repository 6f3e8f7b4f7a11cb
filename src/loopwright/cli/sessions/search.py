"""`loopwright sessions search`: where something was said.

Not here: the looking itself (loopwright.session.search).
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import msgspec

from ..exit_codes import ExitCode
from ..options import Mode
from ..places import working_folder
from ..streams import Output, Piece, print_error, print_note
from .choice import age_text, local_time, session_title, short_ids
from .store import reading_sessions

if TYPE_CHECKING:
    from ...session.search import SearchHit

__all__ = ["search"]

TITLE_CELLS = 60
"""Of how a session is called, in a pipe."""


def search(text: str, *, every: bool, limit: int, mode: Mode) -> ExitCode:
    """Print where *text* was said. FAILED if that is nowhere, as grep has it."""
    if not text.strip() or limit < 1:
        print_error(
            "there is nothing to look for" if not text.strip() else f"a limit of {limit} places",
            hint='loopwright sessions search "some words"',
        )
        return ExitCode.USAGE
    return asyncio.run(_search(text, every, limit, mode))


async def _search(text: str, every: bool, limit: int, mode: Mode) -> ExitCode:
    from ...session.search import search_sessions

    folder = str(working_folder())
    async with reading_sessions() as store:
        hits = await search_sessions(store, text, cwd=None if every else folder, limit=limit + 1)
        short = short_ids(await store.list())
    if not hits:
        where = "in any session" if every else "in the sessions of this folder; --all looks further"
        print_note(f"{text!r} was not found {where}")
        return ExitCode.FAILED
    output = Output(sys.stdout)
    for hit in hits[:limit]:
        if mode == "json":
            output.write_line_of_bytes(_hit_as_json(hit))
        else:
            output.write_pieces(_found(hit, short.get(hit.session.id, hit.session.id), output))
    if len(hits) > limit and mode == "text":
        print_note("it stands in more places; --limit shows more of them")
    return ExitCode.DONE


def _found(hit: SearchHit, short: str, output: Output) -> list[Piece]:
    """A place: in which session, when and by whom, then the words. A pipe has lines that stay the
    same tomorrow."""
    if output.is_terminal:
        head = f"{short}  {age_text(hit.timestamp)}  {hit.kind}  "
        room = max(20, output.width - len(head))
    else:
        head, room = f"{hit.session.id}  {local_time(hit.timestamp)}  {hit.kind}  ", TITLE_CELLS
    title = session_title(hit.session, room)
    return [
        Piece(f"{head}{title}\n", "quiet"),
        Piece(f"  {hit.excerpt[: hit.start]}"),
        Piece(hit.excerpt[hit.start : hit.end], "speech"),
        Piece(f"{hit.excerpt[hit.end :]}\n"),
    ]


def _hit_as_json(hit: SearchHit) -> bytes:
    return msgspec.json.encode(
        {
            "session": hit.session.id,
            "entry": hit.entry_id,
            "kind": hit.kind,
            "timestamp": hit.timestamp,
            "excerpt": hit.excerpt,
            "start": hit.start,
            "end": hit.end,
        }
    )
