"""A session as a file: which format is meant, and the bytes of it.

Not here: the formats themselves (session/export), `loopwright sessions export` (sessions/files.py).
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ...session.entries import Entry
from ...session.session import Session
from ...session.store import SessionStore
from ..json_mode import session_line
from ..options import ExportFormat

__all__ = ["ENDINGS", "export_bytes", "form_of", "has_known_ending", "labels_of", "write_whole"]

_FORMS: dict[str, ExportFormat] = {
    ".md": "md",
    ".html": "html",
    ".htm": "html",
    ".json": "json",
    ".jsonl": "pi",
}
ENDINGS = tuple(_FORMS)
"""Those of files that ask for a format."""


def form_of(path: Path | None) -> ExportFormat:
    """The format that the ending of *path* asks for; Markdown where it asks for none."""
    return _FORMS.get("" if path is None else path.suffix.lower(), "md")


def has_known_ending(path: Path) -> bool:
    """Whether *path* asks for a format, or for none: it has no ending, or that of a text."""
    return path.suffix.lower() in (*ENDINGS, "", ".markdown", ".txt")


async def export_bytes(
    store: SessionStore, session: Session, form: ExportFormat, *, tree: bool = False
) -> bytes:
    """The branch of *session*, or the whole *tree*, which Markdown cannot show."""
    if form == "pi":
        return await _as_pi(store, session.id)
    if form == "json":
        return await _as_json(session, tree)
    return (await _as_document(session, form, tree)).encode("utf-8", "replace")


def labels_of(session: Session) -> dict[str, str]:
    """The labels of entries, by their ids."""
    return {
        fact.key: str(fact.value)
        for fact in session.facts
        if fact.namespace == "label" and not fact.deleted and fact.value is not None
    }


async def _as_document(session: Session, form: ExportFormat, tree: bool) -> str:
    if form == "md":
        from ...session.export.markdown import to_markdown

        return to_markdown(session.info, await session.history(), labels=labels_of(session))
    from ...session.export.html import to_html

    entries: Sequence[Entry]
    entries = [row.entry() for row in await session.rows()] if tree else await session.history()
    return to_html(
        session.info,
        entries,
        leaf_id=session.leaf_id,
        whole_tree=tree,
        labels=labels_of(session),
    )


async def _as_json(session: Session, tree: bool) -> bytes:
    """The session, then of a *tree* its lanes, then its entries, one a line."""
    lines = [session_line(session.info)]
    entries: Sequence[Entry]
    if tree:
        import msgspec

        entries = [row.entry() for row in await session.rows()]
        lines += [
            msgspec.json.encode({"type": "lane", "name": lane.name, "leafId": lane.leaf_id})
            for lane in session.lanes.values()
        ]
    else:
        entries = await session.history()
    return b"\n".join([*lines, *(entry.to_json() for entry in entries)]) + b"\n"


async def _as_pi(store: SessionStore, session_id: str) -> bytes:
    from ...session.export.pi_v4 import export_pi_v4

    with tempfile.TemporaryDirectory(prefix="loopwright-export-") as folder:
        made = await export_pi_v4(store, session_id, Path(folder) / "session.jsonl")
        return made.read_bytes()


def _private(path: str, flags: int) -> int:
    """A new file that only the user may read: a session may hold anything."""
    return os.open(path, flags, 0o600)


def write_whole(path: Path, data: bytes, *, force: bool) -> None:
    """Put *data* there; with *force*, in the place of what is there, whole or not at all.

    Raises FileExistsError without *force*, OSError if it cannot be written.
    """
    written = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp") if force else path
    with open(written, "xb", opener=_private) as file:
        try:
            file.write(data)
            file.flush()
            if force:
                os.replace(written, path)
        except BaseException:
            written.unlink(missing_ok=True)
            raise
