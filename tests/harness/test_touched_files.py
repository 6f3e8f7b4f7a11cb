"""The files a conversation read and changed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.branches import result, says

from loopwright.harness.touched_files import LISTED, TouchedFiles


def call(call_id: str, tool: str, path: Any) -> Any:
    return says("", (call_id, tool), arguments={"path": path})


def test_a_changed_file_is_not_listed_as_read_and_a_failed_call_touched_nothing() -> None:
    files = TouchedFiles()

    files.add_messages([
        call("1", "read", "a.py"), result("1"),
        call("2", "read", "b.py"), result("2"),
        call("3", "edit", "a.py"), result("3"),
        call("4", "write", "no.py"), result("4", failed=True),
        call("5", "read", "unanswered.py"),
    ])  # fmt: skip

    assert files.details() == {"readFiles": ["b.py"], "modifiedFiles": ["a.py"]}


def test_a_path_that_has_the_name_of_another_tool_counts() -> None:
    files = TouchedFiles()

    files.add_messages([says("", ("1", "edit"), arguments={"file_path": "a.py"}), result("1")])

    assert files.modified == ["a.py"]


def test_other_tools_other_shapes_and_calls_of_failed_replies_are_passed_over() -> None:
    files = TouchedFiles()

    files.add_messages([
        call("1", "bash", "a"), result("1"),
        call("2", "read", 7), result("2"),
        call("3", "read", " "), result("3"),
        says("", ("4", "read"), arguments={"path": "x"}, stop="error"), result("4"),
    ])  # fmt: skip

    assert files.details() == {"readFiles": [], "modifiedFiles": []}
    assert files.text() == ""


@pytest.mark.parametrize("details", [None, [], "x", {"readFiles": "x"}, {"readFiles": [1, None]}])
def test_foreign_details_are_passed_over(details: Any) -> None:
    files = TouchedFiles()

    files.add_details(details)

    assert files.read == files.modified == []


def test_the_lists_can_be_taken_off_a_summary_again() -> None:
    files = TouchedFiles()
    files.add_details({"readFiles": ["a<b>.py", "two\nlines"], "modifiedFiles": ["c.py"]})

    text = f"## Goal\nnone <read-files> are named\n\n{files.text()}"

    assert "c.py" in files.text()
    assert TouchedFiles.cut_from(text) == "## Goal\nnone <read-files> are named"
    assert TouchedFiles.cut_from("plain") == "plain"


def test_a_very_long_list_is_shown_in_part_and_kept_whole() -> None:
    files = TouchedFiles()
    files.add_details({"readFiles": [f"f{n}" for n in range(LISTED + 5)]})

    assert "(5 earlier ones are left out)\nf5\n" in files.text()
    assert len(files.details()["readFiles"]) == LISTED + 5
    assert TouchedFiles.cut_from(f"x\n\n{files.text()}") == "x"
