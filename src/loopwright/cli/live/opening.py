"""From the options to a session in which something can be said."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable
from pathlib import Path

from ..bench.setting_up import set_up
from ..options import RunOptions
from ..places import working_folder
from ..sessions.choice import KnownSession, choose_session, session_title
from ..streams import Output, print_note
from .session import LiveSession

__all__ = ["greeting", "open_known", "open_live", "tell_of_start"]


async def open_live(
    options: RunOptions, *, note: Callable[[str], object] = print_note
) -> LiveSession:
    """The session that the options, the environment and the user's files ask for.

    *note* is told what went wrong without stopping anything. Raises `ConfigurationError`,
    `SessionError`, and `NothingPicked`.
    """
    folder = working_folder()
    known = await choose_session(options.sessions, str(folder))
    return await open_known(options, folder, known, note=note)


async def open_known(
    options: RunOptions,
    folder: Path,
    known: KnownSession | None,
    *,
    note: Callable[[str], object] = print_note,
) -> LiveSession:
    """`open_live`, once it is settled which session is meant."""
    is_fork = options.sessions.fork is not None
    started = None
    if known is not None and not is_fork:
        started = datetime.datetime.fromtimestamp(known.info.created_at / 1000).astimezone()
    bench = await set_up(
        options,
        folder,
        last=None if known is None else known.config,
        started=started,
        note=note,
    )
    return await LiveSession.start(
        bench,
        session_id=None if known is None else known.info.id,
        fork=is_fork,
        keep=options.sessions.keep,
        name=options.sessions.name,
    )


def greeting(live: LiveSession, *, forked: bool) -> str | None:
    """What is gone on with, for a person; None for a new session."""
    info = live.info
    if info is None:
        return None
    verb = "a fork, going on as" if forked else "going on with"
    return f"{verb} {session_title(info, 60)} ({info.entries} entries, {info.id})"


def tell_of_start(live: LiveSession) -> None:
    """Say that bringing up the model may take a while, where a person waits."""
    model = live.agent.model
    provider = live.bench.models.get_provider(model.provider)
    if provider is not None and provider.prepare is not None and Output(sys.stderr).is_terminal:
        print_note(f"starting {model.name or model.id} ...")
