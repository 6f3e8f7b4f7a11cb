"""`/resume`, `/new`, `/name`, `/session`, `/compact`, `/copy` and `/export`: the session as a whole.

Not here: its branches (branch_commands.py).
"""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ...messages import AssistantMessage
from ..options import ExportFormat
from ..sessions.choice import local_time, session_title
from .command import no_such_choice
from .screen import PickItem, Screen

if TYPE_CHECKING:
    from ...session.rows import SessionInfo
    from ..live.session import LiveSession

__all__ = [
    "age",
    "compact",
    "copy",
    "export",
    "name_session",
    "new_session",
    "resume",
    "show_session",
]

MOST_OFFERED = 200
"""Sessions in the list; older ones are named by their id."""

_ENDINGS: dict[ExportFormat, str] = {"md": ".md", "html": ".html", "json": ".json", "pi": ".jsonl"}
_KNOWN_ENDINGS = (".md", ".markdown", ".html", ".htm", ".json", ".jsonl")


# -- /resume -----------------------------------------------------------------------------------


async def resume(argument: str, live: LiveSession, screen: Screen) -> None:
    """Go on in another session: the one that *argument* names, or one that is picked."""
    reference = argument or await _pick_session(live, screen)
    if not reference:
        return
    before = live.info
    info = await live.open(reference)
    if before is not None and before.id == info.id:
        if live.unfinished is None:
            screen.note("you are in that session already")
        await screen.settle_unfinished()
        return
    screen.redraw()
    screen.note(f"going on with {session_title(info, 60)} ({info.entries} entries, {info.id})")
    if info.cwd and info.cwd != str(live.folder):
        screen.note(f"it is about {info.cwd}; tools go on working in {live.folder}")
    await screen.settle_unfinished()


async def _pick_session(live: LiveSession, screen: Screen) -> str | None:
    everywhere = False
    while True:
        found = await live.sessions(everywhere=everywhere, limit=MOST_OFFERED)
        here = None if live.info is None else live.info.id
        items = [_session_item(info, here, with_folder=everywhere) for info in found]
        other = "only those of this folder" if everywhere else "those of all folders"
        items.append(PickItem(f"… {other}", value=None, pinned=True))
        title = "sessions of all folders" if everywhere else "sessions of this folder"
        first = next((i for i, info in enumerate(found) if info.id != here), 0)
        picked = await screen.pick(title, items, selected=first)
        if picked is None:
            return None
        if picked.value is not None:
            return str(picked.value)
        everywhere = not everywhere


def _session_item(info: SessionInfo, here: str | None, *, with_folder: bool) -> PickItem:
    words = [age(info.modified_at), f"{info.entries} entries"]
    if info.id == here:
        words.append("this one")
    elif info.locked_by:
        words.append("open elsewhere")
    if with_folder and info.cwd:
        words.append(info.cwd)
    return PickItem(session_title(info, 60), ", ".join(words), value=info.id)


def age(milliseconds: int, now: float | None = None) -> str:
    """How long ago a time (milliseconds since 1970) was; the date if that is more than a week.
    *now* is in seconds."""
    seconds = (time.time() if now is None else now) - milliseconds / 1000
    for unit, length, most in (("min", 60, 60), ("h", 3600, 24), ("d", 86400, 7)):
        if 0 <= seconds < length * most:
            count = int(seconds // length)
            return f"{count} {unit} ago" if count else "just now"
    return local_time(milliseconds)


# -- /new, /name -------------------------------------------------------------------------------


async def new_session(argument: str, live: LiveSession, screen: Screen) -> None:
    """Go on in a new session."""
    before = live.info
    await live.new()
    screen.redraw()
    left = f"; the last one is {before.id}, /resume goes back" if before is not None else ""
    screen.note(f"a new session{left}")


async def name_session(argument: str, live: LiveSession, screen: Screen) -> None:
    """Give the session a name. An empty answer takes it away."""
    name: str | None = argument
    if not name:
        name = await screen.ask_text("name of the session", live.name or "")
        if name is None:
            return
    name = " ".join(name.split())
    await live.rename(name or None)
    screen.note(f"the session is called {name!r}" if name else "the session has no name now")


# -- /session ----------------------------------------------------------------------------------


async def show_session(argument: str, live: LiveSession, screen: Screen) -> None:
    """Tell what is known of the session."""
    from ..places import sessions_file

    info, meter, model = live.info, live.meter(), live.agent.model
    usage = meter.usage
    rows: list[tuple[str, str]] = []
    if info is None:
        rows.append(("session", "new; it is kept from the first prompt on"))
    else:
        rows.append(("session", info.id))
    if live.name:
        rows.append(("name", live.name))
    rows.append(("folder", str(live.folder)))
    kept = str(sessions_file()) if live.keeps else "nowhere: nothing is kept (--no-session)"
    rows.append(("file", kept))
    if info is not None:
        rows.append(("entries", str(info.entries)))
        rows.append(("begun", local_time(info.created_at)))
        if info.parent_id:
            rows.append(("copy of", info.parent_id))
    cached = f" ({usage.cache_read:,} of them cached)" if usage.cache_read else ""
    taken = usage.input + usage.cache_read + usage.cache_write
    rows.append(("tokens", f"{taken:,} in{cached}, {usage.output:,} out"))
    cost = usage.cost.total
    spent = "nothing yet" if usage.is_empty and usage.known else "not known"
    rows.append(("cost", spent if cost is None else f"${cost:.4f}"))
    rows.append(("context", _context(meter.context_tokens, meter.context_window)))
    rows.append(
        ("model", f"{model.provider}/{model.id}, thinking {live.thinking_level or 'default'}")
    )
    rows.append(("permissions", live.permission_mode))
    screen.note("\n".join([f"{name:<12}{' '.join(value.split())}" for name, value in rows]))


def _context(tokens: int | None, window: int | None) -> str:
    from ..models.command import tokens_text

    if tokens is None:
        return f"empty, room for {tokens_text(window)}" if window else "empty"
    if not window:
        return f"{tokens_text(tokens)} tokens; how many the model takes is not known"
    return f"{tokens_text(tokens)} of {tokens_text(window)} tokens ({tokens * 100 // window} %)"


# -- /compact ----------------------------------------------------------------------------------


async def compact(argument: str, live: LiveSession, screen: Screen) -> None:
    """Replace what is old by a summary; *argument* says what it shall heed."""
    if live.info is None:
        screen.note("there is nothing to compact yet")
        return
    screen.note("compacting; esc interrupts")
    entry = await live.compact(argument or None)
    if entry is None:
        screen.note("there is nothing to compact: all of it is recent")
        return
    after = live.meter().context_tokens
    to = "" if after is None else f" to about {after:,}"
    screen.note(f"compacted from {entry.tokens_before:,} tokens{to}; /tree still has all of it")


# -- /copy -------------------------------------------------------------------------------------


async def copy(argument: str, live: LiveSession, screen: Screen) -> None:
    """Put the model's last words on the clipboard."""
    replies = (said for said in reversed(live.happened()) if isinstance(said, AssistantMessage))
    text = next((reply.text for reply in replies if reply.text.strip()), "").strip()
    if not text:
        screen.note("there is no reply to copy yet")
        return
    screen.copy(text)
    screen.note(
        f"the last reply, {len(text):,} characters, is on the clipboard if the terminal lets "
        "programs write there (OSC 52)"
    )


# -- /export -----------------------------------------------------------------------------------


async def export(argument: str, live: LiveSession, screen: Screen) -> None:
    """Write the session to a file, whose ending says the format. Asks before one is replaced."""
    info = live.info
    if info is None:
        screen.error("there is nothing to export yet", "say something first")
        return
    form: ExportFormat | None = next((form for form in _ENDINGS if form == argument), None)
    path = Path(_unquoted(argument)) if argument and form is None else None
    target = _target(live.folder, path, _file_name(info) + _ENDINGS[form or "html"])
    if target.suffix.lower() not in _KNOWN_ENDINGS:
        raise no_such_choice("format with the ending", target.suffix or target.name, _KNOWN_ENDINGS)
    exists = _is_taken(target)
    if exists and not await screen.confirm(f"{target} is there already; replace it?"):
        screen.note("nothing was exported")
        return
    try:
        made = await live.export(target, form, force=exists)
    except (OSError, ValueError) as error:  # ValueError: a name that no system takes
        why = getattr(error, "strerror", None) or error
        screen.error(f"{target} cannot be written: {why}", "choose another place")
        return
    screen.note(f"exported to {made}")


def _target(folder: Path, path: Path | None, default_name: str) -> Path:
    if path is None:
        return folder / default_name
    target = folder / os.path.expanduser(path)
    return target / default_name if target.is_dir() else target


def _is_taken(path: Path) -> bool:
    return os.path.lexists(path)


def _file_name(info: SessionInfo) -> str:
    """Of letters, digits and hyphens, from the session's name or its first words."""
    words = re.findall(r"\w+", info.name or info.preview or "")
    name = "-".join(words)[:50].strip("-_")
    return name or f"session-{info.id}"


def _unquoted(text: str) -> str:
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text
