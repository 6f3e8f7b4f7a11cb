"""Which format a file of sessions is in, told by its first line. What is read is never changed.

    type=session                         pi-legacy     versions 1 to 3
    kind=header, version=4               pi-v4         as shipped; our own `JsonlStore` writes it
    kind=header, v=4                     pi-v4-spec    one line a commit
    a folder with main.jsonl of commits  durable

Not here: the reading of any of them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, cast

import msgspec

from ...errors import SessionDamaged, SessionNotFound, SessionTooNew, StoreUnavailable
from .lines import decode_line

__all__ = ["Detected", "SessionFormat", "detect", "detect_header"]

SessionFormat = Literal["pi-legacy", "pi-v4", "pi-v4-spec", "durable"]

_SHOWN = 80
_HEADER_LIMIT = 1 << 20
"""A header is a few hundred bytes. A longer first line is read no further than this."""
_KNOWN = "known are pi's JSONL, versions 1 to 4, and folders with a main.jsonl of commits"


class Detected(msgspec.Struct, frozen=True):
    """What a file is, and the version it says it has."""

    format: SessionFormat
    version: int


def detect(path: str | os.PathLike[str]) -> Detected:
    """The format of the file or folder *path*.

    Raises `SessionNotFound` if there is nothing, `SessionDamaged` saying what was found instead of
    a session, `SessionTooNew` for a version that is not known yet, `StoreUnavailable` if the file
    cannot be read.
    """
    place = Path(path)
    where = str(place)
    try:
        if place.is_dir():
            main = place / "main.jsonl"
            if not main.is_file():
                raise SessionDamaged(
                    "no session: a folder without a main.jsonl", where=where, hint=_KNOWN
                )
            found = detect_header(_first_line(main), where=str(main))
            if found.format != "durable":
                raise SessionDamaged(
                    f"main.jsonl has no commits but is {found.format}",
                    where=where,
                    hint=f"import {main} instead",
                )
            return found
        if not place.exists():
            raise SessionNotFound(f"there is no file {where}")
        if not place.is_file():
            raise SessionDamaged("no session: neither a file nor a folder", where=where)
        found = detect_header(_first_line(place), where=where)
    except OSError as error:
        raise StoreUnavailable(f"{where} cannot be read: {error.strerror or error}") from error
    if found.format == "durable":
        raise SessionDamaged(
            "one file of a session that is a folder", where=where, hint=f"import {place.parent}"
        )
    return found


def _first_line(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.readline(_HEADER_LIMIT)


def detect_header(line: bytes, *, where: str = "") -> Detected:
    """The format of a file that begins with *line*. Raises as `detect` does."""
    at = f"{where}, line 1" if where else "line 1"
    if line.startswith(b"SQLite format 3\x00"):
        raise SessionDamaged(
            "this is a database, not a file of one session",
            where=where,
            hint="open it with SqliteStore instead of importing it",
        )
    text = line.removeprefix(b"\xef\xbb\xbf")
    if not text.strip():
        raise SessionDamaged("no session: the first line is empty", where=at, hint=_KNOWN)
    try:
        value: Any = decode_line(text)
    except ValueError as error:
        raise SessionDamaged(
            f"no session: the first line is {_shown(text)}: {error}", where=at, hint=_KNOWN
        ) from error
    if not isinstance(value, dict):
        raise SessionDamaged(
            f"no session: the first line is {_shown(text)}, not an object", where=at, hint=_KNOWN
        )
    header = cast("dict[str, Any]", value)
    if header.get("type") == "session":
        version = header.get("version", 1)
        return Detected("pi-legacy", _version(version, (1, 2, 3), "session", at))
    if header.get("kind") == "header" and "version" in header:
        return Detected("pi-v4", _version(header["version"], (4,), "header version", at))
    if header.get("kind") == "header" and "v" in header:
        return Detected("pi-v4-spec", _version(header["v"], (4,), "header v", at))
    if header.get("type") == "commit" and "format" in header:
        return Detected("durable", _version(header["format"], (1,), "commit format", at))
    raise SessionDamaged(
        f"no session: the first line is {_shown(text)}, no header that is known",
        where=at,
        hint=_KNOWN,
    )


def _version(found: Any, known: tuple[int, ...], what: str, at: str) -> int:
    if type(found) is int and found in known:
        return found
    if type(found) is int and found > known[-1]:
        raise SessionTooNew(
            f"{at}: {what} {found} is newer than the newest known, {known[-1]}",
            hint="update loopwright, or export the session again as an older version",
        )
    raise SessionDamaged(
        f"{what} {found!r} is none of {', '.join(map(str, known))}", where=at, hint=_KNOWN
    )


def _shown(text: bytes) -> str:
    beginning = text[:_SHOWN].decode("utf-8", "replace").strip()
    return repr(beginning + "…" if len(text) > _SHOWN else beginning)
