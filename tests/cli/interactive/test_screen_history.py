"""What was typed before, in its file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from loopwright.cli.interactive.history import KEPT, LONGEST_FILE_BYTES, PromptHistory


def loaded(file: Path | None) -> list[str]:
    return list(PromptHistory(file).load_history_strings())


def test_prompts_come_back_newest_first_whatever_is_in_them(tmp_path: Path) -> None:
    file = tmp_path / "new" / "history.jsonl"
    history = PromptHistory(file)

    for prompt in ("first", "two\nlines", "ümläut \ud800 and \x1b[31m"):
        history.append_string(prompt)

    assert loaded(file) == ["ümläut \ud800 and \x1b[31m", "two\nlines", "first"]


def test_nobody_else_can_read_it(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text('"before"\n')
    file.chmod(0o644)

    PromptHistory(file).append_string("secret plans")

    assert file.stat().st_mode & 0o777 == 0o600
    assert loaded(file) == ["secret plans", "before"]


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("untouched")
    file = tmp_path / "history.jsonl"
    file.symlink_to(target)

    PromptHistory(file).append_string("x")

    assert target.read_text() == "untouched"
    assert loaded(file) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_in_its_place_hangs_nothing(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    os.mkfifo(file)

    PromptHistory(file).append_string("x")

    assert loaded(file) == []


def test_the_same_again_and_nothing_at_all_are_not_kept_twice(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    history = PromptHistory(file)

    for prompt in ("same", "same", "  ", "other", "same"):
        history.append_string(prompt)

    assert loaded(file) == ["same", "other", "same"]


def test_lines_that_are_no_prompts_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_bytes(b'"good"\nnot json\n{"a": 1}\n\xff\xfe\n""\n"torn')

    assert loaded(file) == ["good"]


def test_a_file_that_grew_too_long_is_cut_to_its_newest_part(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    lines = [json.dumps(f"{number} {'x' * 1000}") for number in range(4_000)]
    file.write_text("\n".join(lines) + "\n")

    found = loaded(file)

    assert len(found) == KEPT
    assert found[0].startswith("3999 ")
    assert file.stat().st_size < LONGEST_FILE_BYTES
    assert loaded(file) == found
    assert os.listdir(tmp_path) == ["history.jsonl"]


def test_a_pasted_file_is_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"

    PromptHistory(file).append_string("x" * 100_000)

    assert not file.exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    PromptHistory(tmp_path / "history.jsonl").append_string("x")

    assert loaded(tmp_path / "history.jsonl") == []


def test_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    history = PromptHistory(None)

    history.append_string("x")

    assert history.get_strings() == ["x"]
    assert os.listdir(tmp_path) == []
