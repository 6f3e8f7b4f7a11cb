"""Which format a file is in, and what is said of files that are in none."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from loopwright.errors import SessionDamaged, SessionNotFound, SessionTooNew
from loopwright.session.formats.detect import Detected, detect, detect_header


def line(**data: Any) -> bytes:
    return json.dumps(data).encode() + b"\n"


@pytest.mark.parametrize(
    ("first", "found"),
    [
        (line(type="session", id="a"), Detected("pi-legacy", 1)),
        (line(type="session", version=2), Detected("pi-legacy", 2)),
        (line(type="session", version=3), Detected("pi-legacy", 3)),
        (line(kind="header", version=4, id="a"), Detected("pi-v4", 4)),
        (line(kind="header", v=4, id="a"), Detected("pi-v4-spec", 4)),
        (b"\xef\xbb\xbf" + line(kind="header", v=4), Detected("pi-v4-spec", 4)),
        (line(type="session", version=3)[:-1] + b"\r\n", Detected("pi-legacy", 3)),
    ],
)
def test_the_first_line_tells_the_format(tmp_path: Path, first: bytes, found: Detected) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(first + b"what follows does not matter here\xff")

    assert detect(path) == found
    assert detect(str(path)) == found


def test_a_folder_of_commits_is_known_by_its_main_file(tmp_path: Path) -> None:
    (tmp_path / "main.jsonl").write_bytes(line(format=1, type="commit", seq=1, writes=[]))

    assert detect(tmp_path) == Detected("durable", 1)
    with pytest.raises(SessionDamaged, match=r"one file of a session that is a folder") as refused:
        detect(tmp_path / "main.jsonl")
    assert refused.value.hint == f"import {tmp_path}"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the first line is empty"),
        (b"\n" + line(type="session"), "the first line is empty"),
        (b"# Notes\n", "'# Notes'"),
        (b"[1]\n", "not an object"),
        (b'{"type":"message"}\n', "no header that is known"),
        (b"\xff\xfe{\x00", "not UTF-8"),
        (b"\x89PNG\r\n", "not UTF-8"),
        (b'{"type":"session"', "not JSON"),
        (line(type="session", version="3"), "session '3'"),
        (line(type="session", version=0), "session 0"),
        (line(kind="header", version=3), "header version 3"),
        (line(kind="header", v=True), "header v True"),
    ],
)
def test_anything_else_is_refused_by_name_with_what_was_found(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(content)

    with pytest.raises(SessionDamaged) as refused:
        detect(path)

    assert words in refused.value.message
    assert str(path) in refused.value.where


def test_newer_versions_are_told_from_damage() -> None:
    for header in (
        line(type="session", version=4),
        line(kind="header", version=5),
        line(kind="header", v=5),
        line(type="commit", format=2),
    ):
        with pytest.raises(SessionTooNew):
            detect_header(header)


def test_a_database_is_pointed_to_its_own_door(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    database = sqlite3.connect(path)
    database.execute("create table t (a)")
    database.commit()
    database.close()

    with pytest.raises(SessionDamaged, match="SqliteStore"):
        detect(path)


def test_what_is_not_there_or_has_no_session_is_said(tmp_path: Path) -> None:
    with pytest.raises(SessionNotFound, match="nowhere"):
        detect(tmp_path / "nowhere.jsonl")
    with pytest.raises(SessionDamaged, match=r"without a main\.jsonl"):
        detect(tmp_path)
    (tmp_path / "main.jsonl").write_bytes(line(type="session", version=3))
    with pytest.raises(SessionDamaged, match="pi-legacy"):
        detect(tmp_path)


def test_a_first_line_of_many_megabytes_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    path.write_bytes(b"x" * 20_000_000)

    with pytest.raises(SessionDamaged) as refused:
        detect(path)

    assert len(str(refused.value)) < 1000
