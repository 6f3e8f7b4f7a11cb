"""`loopwright sessions ...`: the commands and their options; what they do is in sessions/command.py,
sessions/search.py, sessions/unfinished.py, sessions/files.py and sessions/doctor.py, imported when
asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from ..exit_codes import ExitCode
from ..options import ExportFormat, Mode

__all__ = ["sessions_app"]


def sessions_app() -> App:
    """The commands below `sessions`."""
    app = App(
        name="sessions",
        help="What was said, kept on this machine: list, show, search, export, import, mend.",
        help_epilogue="A session is named by its id, the beginning of it, or its name.",
    )
    commands = (
        (_list, "list"),
        (_show, "show"),
        (_search, "search"),
        (_export, "export"),
        (_import, "import"),
        (_approvals, "approvals"),
        (_approve, "approve"),
        (_deny, "deny"),
        (_stop, "stop"),
        (_fork, "fork"),
        (_rename, "rename"),
        (_delete, "delete"),
        (_doctor, "doctor"),
    )
    for place, (command, name) in enumerate(commands):
        app.command(command, name=name, sort_key=place)
    return app


def _list(
    *,
    every: Annotated[bool, Parameter(name="--all")] = False,
    limit: int | None = None,
    mode: Mode = "text",
) -> ExitCode:
    """List the sessions of this folder, the last one first.

    Parameters
    ----------
    every
        Those of all folders.
    limit
        At most so many; without it a terminal is shown the last 20, a pipe all.
    mode
        "json" prints one session a line as JSON.
    """
    from .command import list_sessions

    return list_sessions(every=every, limit=limit, mode=mode)


def _show(
    session: str | None = None,
    /,
    *,
    lane: str = "main",
    tree: bool = False,
    mode: Mode = "text",
) -> ExitCode:
    """Show what was said.

    Parameters
    ----------
    session
        Its id, the beginning of it, or its name; without, the last one of this folder.
    lane
        The branch of this lane.
    tree
        An outline of all branches instead.
    mode
        "json" prints one entry a line as JSON.
    """
    from .command import show_session

    return show_session(session, lane=lane, tree=tree, mode=mode)


def _search(
    *text: str,
    every: Annotated[bool, Parameter(name="--all")] = False,
    limit: int = 20,
    mode: Mode = "text",
) -> ExitCode:
    """Find where something was said in the sessions of this folder.

    Parameters
    ----------
    text
        What to look for; capital letters do not matter.
    every
        In the sessions of all folders.
    limit
        At most so many places.
    mode
        "json" prints one place a line as JSON.
    """
    from .search import search

    return search(" ".join(text), every=every, limit=limit, mode=mode)


def _export(
    session: str | None = None,
    /,
    *,
    form: Annotated[ExportFormat | None, Parameter(name="--format")] = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    lane: str = "main",
    tree: bool = False,
    force: bool = False,
) -> ExitCode:
    """Write a session as a document or a file for other programs.

    Parameters
    ----------
    session
        Its id, the beginning of it, or its name; without, the last one of this folder.
    form
        md and html are for people, pi is pi's JSON lines, json ours; else the file's ending says.
    output
        The file to write; standard output without.
    lane
        The branch of this lane; pi always gets all.
    tree
        All branches; for html and json.
    force
        Put it in the place of a file that is there.
    """
    from .files import export_session

    return export_session(session, form=form, output=output, lane=lane, tree=tree, force=force)


def _import(*files: Path, new_id: bool = False, lenient: bool = False) -> ExitCode:
    """Take sessions over from exports (pi, json), and from files of pi and its kin, of any version.

    Parameters
    ----------
    files
        Session files, or folders that are a session.
    new_id
        Give each an id of its own, so that one that is here already is imported once more.
    lenient
        Leave out lines that cannot be read, instead of refusing the file.
    """
    from .files import import_sessions

    return import_sessions(files, new_ids=new_id, lenient=lenient)


def _approvals(
    session: str | None = None,
    /,
    *,
    every: Annotated[bool, Parameter(name="--all")] = False,
    mode: Mode = "text",
) -> ExitCode:
    """List the calls that wait for an approval.

    Parameters
    ----------
    session
        Only those of this one; without, those of this folder.
    every
        Those of all folders.
    mode
        "json" prints one call a line as JSON.
    """
    from .unfinished import list_approvals

    return list_approvals(session, every=every, mode=mode)


def _approve(session: str, call: str | None = None, /) -> ExitCode:
    """Let a call run that waits for it; going on with the session then runs it.

    Parameters
    ----------
    session
        Its id, the beginning of it, or its name.
    call
        The id of the call, if several wait.
    """
    from .unfinished import approve

    return approve(session, call)


def _deny(session: str, call: str | None = None, /, *, reason: str | None = None) -> ExitCode:
    """Do not let a call run that waits for an approval.

    Parameters
    ----------
    session
        Its id, the beginning of it, or its name.
    call
        The id of the call, if several wait.
    reason
        What the model is told about it.
    """
    from .unfinished import deny

    return deny(session, call, reason=reason)


def _stop(session: str, /, *, reason: str | None = None) -> ExitCode:
    """Give up what is unfinished, or stop what goes on in another process.

    Parameters
    ----------
    session
        Its id, the beginning of it, or its name.
    reason
        Why; kept in the session.
    """
    from .unfinished import stop

    return stop(session, reason=reason)


def _fork(
    session: str,
    /,
    *,
    at: str | None = None,
    lane: str = "main",
    tree: bool = False,
    name: str | None = None,
) -> ExitCode:
    """Copy a session into a new one, and print its id.

    Parameters
    ----------
    session
        Its id, the beginning of it, or its name.
    at
        Up to and with this entry; `show --tree` has their ids.
    lane
        The branch of this lane.
    tree
        All branches.
    name
        The name of the copy.
    """
    from .command import fork

    return fork(session, at=at, lane=lane, tree=tree, name=name)


def _rename(session: str, name: str, /) -> ExitCode:
    """Give a session a name; an empty one takes it away.

    Parameters
    ----------
    session
        Its id, the beginning of it, or its name.
    name
        How it shall be called.
    """
    from .command import rename

    return rename(session, name)


def _delete(session: str, /, *others: str, yes: bool = False) -> ExitCode:
    """Forget sessions for good. On a terminal, asks before; elsewhere it needs --yes.

    Parameters
    ----------
    session
        Its id, the beginning of it, or its name.
    others
        More of them.
    yes
        Do not ask.
    """
    from .command import delete

    return delete([session, *others], yes=yes)


def _doctor(
    session: str | None = None,
    /,
    *,
    file: Path | None = None,
    repair: bool = False,
    mode: Mode = "text",
) -> ExitCode:
    """Look for damage in what is kept, explain it, and repair it if asked to.

    Parameters
    ----------
    session
        Only this one: its id.
    file
        Look at this database, session file or folder of such, not at the one in use.
    repair
        Mend what can be mended; a backup is made before, and what is taken out is kept beside.
    mode
        "json" prints one finding a line as JSON.
    """
    from .doctor import doctor

    return doctor(session, file=file, mend=repair, mode=mode)
