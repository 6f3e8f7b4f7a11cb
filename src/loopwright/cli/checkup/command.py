"""`loopwright doctor`: whether everything is there that a run needs, and what to do if not.

Files of this machine are read, and nothing is changed. Nobody else is asked, but with `--ask` the
model. Each check stands alone: one that fails is a line, and the others go on.

Not here: damage in what is kept (sessions/doctor.py).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator

import msgspec

from ..exit_codes import ExitCode
from ..options import Mode
from ..streams import Output, Piece, Style, visible
from .lines import Check, Checked, Learned, Level, checked

__all__ = ["checkup"]

_STYLES: dict[Level, Style] = {
    "ok": "good",
    "note": "quiet",
    "warning": "call",
    "problem": "bad",
}
_LEVEL_CELLS = len("warning") + 2
_AREA_CELLS = len("permissions") + 2


def checkup(*, ask: bool, mode: Mode) -> ExitCode:
    """Look at everything and print a line for each thing; FAILED if there is a problem.

    *ask* also asks the model a tiny question, which costs a few tokens. Raises only OSError, if
    the output cannot be written.
    """
    output = Output(sys.stdout)
    counts: Counter[Level] = Counter()
    for one in checked("doctor", _everything, Learned(ask)):
        counts[one.level] += 1
        _show(output, one, mode)
    if mode == "json":
        summary = {
            "type": "report",
            "ok": not counts["problem"],
            "problems": counts["problem"],
            "warnings": counts["warning"],
        }
        output.write_line_of_bytes(msgspec.json.encode(summary))
    else:
        output.write(f"{_counted(counts)}\n")
    return ExitCode.FAILED if counts["problem"] else ExitCode.DONE


def _everything(learned: Learned) -> Iterator[Checked]:
    """In the order in which they need each other."""
    from . import (
        install,
        models,
        sandbox,
        settings,
        store,
        tools,
    )

    checks: list[tuple[str, Check]] = [
        ("python", install.check_python),
        ("packages", install.check_packages),
        ("folder", _check_folder),
        ("settings", settings.check_trust),
        ("settings", settings.check_settings),
        ("permissions", settings.check_permissions),
        ("extensions", settings.check_extensions),
        ("models", models.check_models_files),
        ("keys", models.check_keys),
        ("model", models.check_model),
        ("model", models.check_asking),
        ("tools", tools.check_tools),
        ("terminal", tools.check_terminal),
        ("sessions", store.check_store),
        ("sessions", store.check_sessions),
        ("sandbox", sandbox.check_folders),
        ("sandbox", sandbox.check_user),
        ("sandbox", sandbox.check_processes),
    ]
    for area, check in checks:
        yield from checked(area, check, learned)


def _check_folder(learned: Learned) -> Iterator[Checked]:
    from ..places import working_folder

    learned.folder = working_folder()
    yield from ()


# -- showing ---------------------------------------------------------------------------------


def _show(output: Output, one: Checked, mode: Mode) -> None:
    if mode == "json":
        data = {"type": "check", **one._asdict()}
        output.write_line_of_bytes(msgspec.json.encode(data))
        return
    room = max(30, output.width - _LEVEL_CELLS - _AREA_CELLS - 1) if output.is_terminal else None
    first, *more = _lines(one.message, room)
    pieces = [
        Piece(f"{one.level:<{_LEVEL_CELLS}}", _STYLES[one.level]),
        Piece(f"{one.area:<{_AREA_CELLS}}", "quiet"),
        Piece(f"{first}\n"),
    ]
    indent = " " * (_LEVEL_CELLS + _AREA_CELLS)
    pieces += [Piece(f"{indent}{line}\n") for line in more]
    for hint in (one.hint or "").splitlines():
        pieces += [Piece(f"{indent}{line}\n", "quiet") for line in _lines(f"hint: {hint}", room)]
    output.write_pieces(pieces)


def _lines(text: str, room: int | None) -> list[str]:
    """*text* on one line, or broken between words so that each has at most *room* characters."""
    whole = " ".join(visible(text).split())
    if room is None:
        return [whole]
    import textwrap

    return textwrap.wrap(whole, room, break_long_words=False, break_on_hyphens=False) or [""]


def _counted(counts: Counter[Level]) -> str:
    parts = [
        f"{number} {word}{'s' * (number != 1)}"
        for word in ("problem", "warning")
        if (number := counts[word])
    ]
    return ", ".join(parts) or "all is well"
