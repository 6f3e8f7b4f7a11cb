"""`loopwright sessions export | import`: sessions as files, for people and for other programs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import LoopwrightError, SessionExists
from ..exit_codes import ExitCode
from ..options import ExportFormat
from ..places import working_folder
from ..streams import Output, print_error, print_note
from .choice import last_or_found, session_title
from .command import open_to_read
from .export import ENDINGS, export_bytes, form_of, has_known_ending, write_whole
from .store import reading_sessions, writing_sessions

if TYPE_CHECKING:
    from ...session.formats.importing import ImportedSession

__all__ = ["export_session", "import_sessions"]


def export_session(
    reference: str | None,
    *,
    form: ExportFormat | None,
    output: Path | None,
    lane: str,
    tree: bool,
    force: bool,
) -> ExitCode:
    """Write a session, the last one without a *reference*, to a file or to standard output. Without
    a *form* the file's ending says which."""
    if output is not None and output.is_dir():
        print_error(f"{output} is a folder", hint=f"name a file in it: -o {output / 'talk.html'}")
        return ExitCode.USAGE
    if form is None:
        if output is not None and not has_known_ending(output):
            print_error(
                f"no format has the ending {output.suffix}",
                hint=f"--format says which is meant; endings that do: {', '.join(ENDINGS)}",
            )
            return ExitCode.USAGE
        form = form_of(output)
    if tree and form == "md":
        print_error("Markdown shows one branch", hint="--format html has all of them")
        return ExitCode.USAGE
    if output is not None and not force and os.path.lexists(output):
        print_error(f"there is a file {output} already", hint="--force puts it in its place")
        return ExitCode.USAGE
    return asyncio.run(_export(reference, form, output, lane, tree, force))


async def _export(
    reference: str | None,
    form: ExportFormat,
    output: Path | None,
    lane: str,
    tree: bool,
    force: bool,
) -> ExitCode:
    async with reading_sessions() as store:
        info = await last_or_found(store, reference, str(working_folder()))
        session = await open_to_read(store, info.id, lane)
        data = await export_bytes(store, session, form, tree=tree)
    if output is None:
        _print(data)
        return ExitCode.DONE
    try:
        write_whole(output, data, force=force)
    except OSError as error:
        print_error(
            f"{output} cannot be written: {error.strerror or error}",
            hint="choose another place; nothing was left there",
        )
        return ExitCode.FAILED
    print_note(f"{output}: {session_title(info, 60)} as {form}, {len(data):,} bytes")
    return ExitCode.DONE


def _print(data: bytes) -> None:
    output = Output(sys.stdout)
    if output.is_terminal:  # where control characters must not be obeyed
        output.write(data.decode("utf-8", "replace"))
    else:
        output.write_bytes(data)


# -- import ----------------------------------------------------------------------------------


def import_sessions(files: Sequence[Path], *, new_ids: bool, lenient: bool) -> ExitCode:
    """Take over what is in *files*. One that is refused does not hold up the others."""
    if not files:
        print_error("there is nothing to import", hint="loopwright sessions import FILE...")
        return ExitCode.USAGE
    return asyncio.run(_import(files, new_ids, lenient))


async def _import(files: Sequence[Path], new_ids: bool, lenient: bool) -> ExitCode:
    from ...session.entries import new_id
    from ...session.formats.importing import store_imported

    failed = 0
    output = Output(sys.stdout)
    async with writing_sessions() as store:
        for file in files:
            try:
                imported = await asyncio.to_thread(_read, file, lenient)
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
                count = f"{info.entries} {'entry' if info.entries == 1 else 'entries'}"
                output.write(f"{info.id}  {count}{where}: {session_title(info, 60)}\n")
    return ExitCode.FAILED if failed else ExitCode.DONE


def _read(file: Path, lenient: bool) -> ImportedSession:
    from ...session.formats.importing import read_session
    from .our_json import is_our_json, read_our_json

    if is_our_json(file):  # its first line looks like one of pi's
        return read_our_json(file)
    return read_session(file, lenient=lenient)


def _hint(error: LoopwrightError) -> str | None:
    """In words of the command line."""
    if error.hint is not None and error.hint.startswith("import it leniently"):
        return "--lenient leaves out what cannot be read; the file is not touched"
    return error.hint
