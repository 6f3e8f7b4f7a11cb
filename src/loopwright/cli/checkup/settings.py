"""Settings: which files there are, whether they can be read, and what they mean.

Not here: keys and models (checkup/models.py).
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator

from ...permissions.policy import Mode
from ..places import project_settings_file, shown_path, trust_file, user_settings_file
from .lines import Checked, Learned

__all__ = ["check_extensions", "check_permissions", "check_settings", "check_trust"]

_MEANING: dict[Mode, str] = {
    "ask": "reading in this folder is allowed, all else is asked for",
    "auto-edit": "reading and changing files in this folder is allowed, commands are asked for",
    "yolo": "everything is done without asking",
    "read-only": "nothing but reading is allowed, and nobody is asked",
}


def check_trust(learned: Learned) -> Iterator[Checked]:
    """Whether the folder is trusted. Raises `TrustFileUnsafe` where that cannot be told."""
    from ...permissions.trust import TrustFile

    if learned.folder is None:
        return
    learned.trusted = TrustFile(trust_file()).is_trusted(learned.folder)
    if learned.trusted:
        yield Checked("settings", "ok", "this folder is trusted")


def check_settings(learned: Learned) -> Iterator[Checked]:
    """The files that can be read, what is odd about them, and what is passed over."""
    from ..settings.files import load_settings

    folder = learned.folder
    if folder is None:
        return
    loaded = learned.settings = load_settings(folder, trusted=learned.trusted)
    user, project = user_settings_file(), project_settings_file(folder)
    read = [shown_path(user)] if user.exists() else []
    if learned.trusted and project.exists():
        read.append(str(project.relative_to(folder)))
    if read:
        yield Checked("settings", "ok", f"read: {', '.join(read)}")
    else:
        yield Checked("settings", "ok", f"there are none; {shown_path(user)} would be read")
    for note in loaded.notes:
        message, _, hint = note.partition("; ")
        yield Checked("settings", "note", message, hint or None)


def check_permissions(learned: Learned) -> Iterator[Checked]:
    """What tools may do."""
    settings = learned.settings
    if settings is None:
        return
    mode = settings.settings.permissions.mode
    source = settings.source_of("permissions.mode")
    yield Checked(
        "permissions",
        "warning" if mode == "yolo" else "ok",
        f"{mode} ({source}): {_MEANING[mode]}",
        'set permissions.mode to "ask", or work in a container' if mode == "yolo" else None,
    )
    if settings.rules:
        counts = Counter(rule.effect for rule in settings.rules)
        said = ", ".join(f"{count} {effect}" for effect, count in sorted(counts.items()))
        yield Checked("permissions", "ok", f"rules: {said}", None)


def check_extensions(learned: Learned) -> Iterator[Checked]:
    """Those that loaded, and those that did not. Loading them runs their code, as every run does."""
    from ...extensions import load_extensions
    from ..bench.command_names import COMMAND_NAMES
    from ..bench.product_tools import TOOL_NAMES

    settings, folder = learned.settings, learned.folder
    if settings is None or folder is None:
        return
    said = settings.settings.extensions
    with contextlib.redirect_stdout(sys.stderr):  # ours is for the lines
        loaded = learned.extensions = load_extensions(
            disabled=said.disabled,
            extra=said.load,
            project=folder if learned.trusted else None,
            folder=folder,
            reserved=COMMAND_NAMES,
            reserved_tools=TOOL_NAMES,
        )
    for one in loaded.extensions:
        version = f" {one.version}" if one.version else ""
        source = loaded.sources.get(one.name)
        came = f" ({source})" if source else ""
        yield Checked("extensions", "ok", f"{one.name}{version}{came}")
    for fault in loaded.faults:
        yield Checked(
            "extensions",
            "problem",
            fault,
            "mend it, or name it in `extensions.disabled` of your settings.toml",
        )
    if said.disabled:
        yield Checked("extensions", "note", f"switched off: {', '.join(said.disabled)}")
    if not loaded.extensions and not loaded.faults:
        yield Checked("extensions", "ok", "none")
