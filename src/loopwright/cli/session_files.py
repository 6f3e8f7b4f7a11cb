"""`loopwright sessions export | import`: sessions as files, for people and for other programs."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..errors import LoopwrightError, SessionExists
from ..session.entries import Entry
from ..session.session import Session
from ..session.store import SessionStore
from .exit_codes import ExitCode
from .json_mode import session_line
from .options import ExportFormat
from .session_choice import find_session, session_title
from .session_store import reading_sessions, writing_sessions
from .sessions_command import labels_of, open_to_read
from .settings import working_folder
from .streams import Output, print_error, print_note

__all__ = ["export_session", "import_sessions"]


_FORMS: dict[str, ExportFormat] = {
    ".html": "html",
    ".htm": "html",
    ".json": "json",
    ".jsonl": "pi",
}


def export_session(
    reference: str,
    *,
    form: ExportFormat | None,
    output: Path | None,
    lane: str,
    tree: bool,
    force: bool,
) -> ExitCode:
    """Write a session to a file or to standard output. Without a *form* the file's ending says
    which."""
    if form is None:
        form = _FORMS.get("" if output is None else output.suffix.lower(), "md")
    if tree and form == "md":
        print_error("Markdown shows one branch", hint="--format html has all of them")
        return ExitCode.USAGE
    if output is not None and not force and os.path.lexists(output):
        print_error(f"there is a file {output} already", hint="--force puts it in its place")
        return ExitCode.USAGE
    return asyncio.run(_export(reference, form, output, lane, tree, force))


async def _export(
    reference: str,
    form: ExportFormat,
    output: Path | None,
    lane: str,
    tree: bool,
    force: bool,
) -> ExitCode:
    async with reading_sessions() as store:
        info = await find_session(store, reference, str(working_folder()))
        session = await open_to_read(store, info.id, lane)
        if form == "pi":
            data = await _as_pi(store, info.id)
        elif form == "json":
            data = await _as_json(session, tree)
        else:
            data = (await _as_document(session, form, tree)).encode("utf-8", "replace")
    if output is None:
        _print(data)
        return ExitCode.DONE
    try:
        _write(output, data, force)
    except OSError as error:
        print_error(
            f"{output} cannot be written: {error.strerror or error}",
            hint="choose another place; nothing was left there",
        )
        return ExitCode.FAILED
    print_note(f"{output}: {session_title(info, 60)} as {form}, {len(data):,} bytes")
    return ExitCode.DONE


async def _as_document(session: Session, form: ExportFormat, tree: bool) -> str:
    if form == "md":
        from ..session.export.markdown import to_markdown

        return to_markdown(session.info, await session.history(), labels=labels_of(session))
    from ..session.export.html import to_html

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
    from ..session.export.pi_v4 import export_pi_v4

    with tempfile.TemporaryDirectory(prefix="loopwright-export-") as folder:
        made = await export_pi_v4(store, session_id, Path(folder) / "session.jsonl")
        return made.read_bytes()


def _print(data: bytes) -> None:
    output = Output(sys.stdout)
    if output.is_terminal:  # where control characters must not be obeyed
        output.write(data.decode("utf-8", "replace"))
    else:
        output.write_bytes(data)


def _write(path: Path, data: bytes, force: bool) -> None:
    """Put *data* there; with *force*, in the place of what is there, whole or not at all."""
    written = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp") if force else path
    with written.open("xb") as file:
        try:
            file.write(data)
            file.flush()
            if force:
                os.replace(written, path)
        except BaseException:
            written.unlink(missing_ok=True)
            raise


# -- import ----------------------------------------------------------------------------------


def import_sessions(files: Sequence[Path], *, new_ids: bool, lenient: bool) -> ExitCode:
    """Take over what is in *files*. One that is refused does not hold up the others."""
    if not files:
        print_error("there is nothing to import", hint="loopwright sessions import FILE...")
        return ExitCode.USAGE
    return asyncio.run(_import(files, new_ids, lenient))


async def _import(files: Sequence[Path], new_ids: bool, lenient: bool) -> ExitCode:
    from ..session.entries import new_id
    from ..session.formats.importing import read_session, store_imported

    failed = 0
    output = Output(sys.stdout)
    async with writing_sessions() as store:
        for file in files:
            try:
                imported = await asyncio.to_thread(read_session, file, lenient=lenient)
                for warning in imported.warnings:
                    print_note(f"{file}: {warning}")
                info = await store_imported(
                    store, imported, session_id=new_id() if new_ids else None
                )
            except SessionExists as error:
                failed += 1
                print_error(
                    f"{file}: {error.message}",
                    hint="--new-id imports it once more, under another id",
                )
            except LoopwrightError as error:
                failed += 1
                prefix = "" if str(file) in error.message else f"{file}: "
                print_error(f"{prefix}{error.message}", hint=_hint(error))
            else:
                where = f" about {info.cwd}" if info.cwd else ""
                output.write(
                    f"{info.id}  {info.entries} entries{where}: {session_title(info, 60)}\n"
                )
    return ExitCode.FAILED if failed else ExitCode.DONE


def _hint(error: LoopwrightError) -> str | None:
    """In words of the command line."""
    if error.hint is not None and error.hint.startswith("import it leniently"):
        return "--lenient leaves out what cannot be read; the file is not touched"
    return error.hint
