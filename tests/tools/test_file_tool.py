"""Calls as models write them after other tools' manners come to the file that is meant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.calling import call, refusal

from loopwright import Agent
from loopwright.messages import ToolResultMessage
from loopwright.permissions import Policy, parse_rule
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.tools import (
    LocalWorkspace,
    MemoryWorkspace,
    coding_tools,
    edit_tool,
    find_tool,
    grep_tool,
    ls_tool,
    read_tool,
    write_tool,
)
from loopwright.tools.file_tool import cleaned_path
from loopwright.tools.workspace import Workspace

on_posix = pytest.mark.skipif(os.sep != "/", reason="a backslash is a separator there")


def bound(tool: Any, **args: Any) -> dict[str, Any]:
    """The arguments that hooks, permissions and the tool see."""
    return tool.bind(args).args


# -- names of arguments ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["file_path", "filePath", "filename", "file", "absolute_path"])
async def test_the_path_may_have_the_name_it_has_elsewhere(name: str) -> None:
    workspace = MemoryWorkspace({"f": "text"})
    given_path = {name: "f"}

    assert (await call(read_tool(workspace), **given_path)).text == "text"
    await call(edit_tool(workspace), **given_path, old_string="text", new_string="new")
    assert workspace.files["f"] == b"new"
    await call(write_tool(workspace), **given_path, contents="all")
    assert workspace.files["f"] == b"all"


def test_our_own_name_wins_and_what_is_left_over_is_told() -> None:
    call_bound = read_tool(MemoryWorkspace()).bind({"path": "a", "file_path": "b"})

    assert call_bound.args == {"path": "a"}
    assert "ignored file_path" in call_bound.notes[0]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"start_line": 3}, {"offset": 3}),
        ({"start_line": 3, "end_line": 5}, {"offset": 3, "limit": 3}),
        ({"startLine": "3", "endLine": "3"}, {"offset": 3, "limit": 1}),
        ({"end_line": 4}, {"limit": 4}),
        ({"offset": 0, "end_line": 4}, {"offset": 0, "limit": 4}),
    ],
)
def test_part_of_a_file_may_be_given_by_its_last_line(
    args: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert bound(read_tool(MemoryWorkspace()), path="f", **args) == {"path": "f", **expected}


async def test_a_last_line_before_the_first_is_no_part_of_a_file() -> None:
    tool = read_tool(MemoryWorkspace({"f": "a\nb\n"}))

    assert tool.bind({"path": "f", "offset": 2, "end_line": 1}).notes
    assert tool.bind({"path": "f", "end_line": "soon"}).notes


def test_searches_take_the_names_of_other_searches() -> None:
    workspace = MemoryWorkspace()

    assert bound(grep_tool(workspace), regex="x", include="*.py", **{"-i": True, "-C": 2}) == {
        "pattern": "x", "glob": "*.py", "ignoreCase": True, "context": 2
    }  # fmt: skip
    assert bound(find_tool(workspace), glob="*.py", directory="src", max_results="5") == {
        "pattern": "*.py", "path": "src", "limit": 5
    }  # fmt: skip
    assert bound(ls_tool(workspace), dir="src") == {"path": "src"}
    assert bound(find_tool(workspace), filename="a.py") == {"pattern": "a.py"}
    assert bound(find_tool(workspace), pattern="*.py", filename="src")["path"] == "src"


@pytest.mark.parametrize("tool", coding_tools(MemoryWorkspace()), ids=lambda tool: tool.name)
def test_the_schema_shows_only_our_own_names(tool: Any) -> None:
    properties = tool.parameters["properties"]

    assert not {"file_path", "old_string", "include", "start_line", "contents"} & set(properties)


async def test_a_json_file_may_be_written_as_what_is_in_it() -> None:
    workspace = MemoryWorkspace()

    await call(write_tool(workspace), path="a.json", content={"name": "caf\u00e9", "on": [True]})
    await call(write_tool(workspace), path="b.json", content=[])

    assert workspace.files["a.json"].decode() == (
        '{\n  "name": "caf\u00e9",\n  "on": [\n    true\n  ]\n}\n'
    )
    assert workspace.files["b.json"] == b"[]\n"


# -- paths -------------------------------------------------------------------------------------

SPELLINGS = [
    '"src/a b.py"', "'src/a b.py'", "`src/a b.py`", " src/a b.py ", "src/a b.py\n", "\tsrc/a b.py",
    ' "src/a b.py" ', "file://{root}/src/a%20b.py", "file://localhost{root}/src/a%20b.py",
    "\u202asrc/a b.py", "src/a b.py\u200b", "src/a b.py:12", "src/a b.py:12:4", "src/a b.py:3-9",
    "src/a b.py#L7", "src/a b.py#L7-L9", "src/a b.py:12:", '"src/a b.py:12"',
]  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_what_only_surrounds_a_path_is_taken_off(tmp_path: Path, spelling: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a b.py").write_text("here")
    workspace = LocalWorkspace(tmp_path)
    path = spelling.replace("{root}", str(tmp_path))

    assert (await call(read_tool(workspace), path=path)).text == "here"
    await call(edit_tool(workspace), path=path, oldText="here", newText="there")
    assert (tmp_path / "src" / "a b.py").read_text() == "there"


@on_posix
@pytest.mark.parametrize("path", ["src\\a b.py", ".\\src\\a b.py", "src/a\\ b.py", "src\\\\a b.py"])
async def test_backslashes_part_folders_or_guard_blanks(tmp_path: Path, path: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a b.py").write_text("here")

    assert (await call(read_tool(LocalWorkspace(tmp_path)), path=path)).text == "here"


@on_posix
@pytest.mark.parametrize(
    "name", ['"f"', "f ", " f", "f\n", "a\\b", "f:12", "`f`", "a\\ b", "f#L3", "'f'"]
)
async def test_a_file_that_really_has_such_a_name_is_the_one(tmp_path: Path, name: str) -> None:
    for each in {"f", "b", "ab", name}:
        (tmp_path / each).write_text("plain")
    (tmp_path / name).write_text("odd")
    workspace = LocalWorkspace(tmp_path)

    assert (await call(read_tool(workspace), path=name)).text == "odd"
    await call(write_tool(workspace), path=name, content="new")
    assert (tmp_path / name).read_text() == "new"
    assert (tmp_path / "f").read_text() == "plain"


@on_posix
@pytest.mark.parametrize("name", ["notes:2024", "notes#L5", "notes:1-2"])
async def test_a_new_file_never_takes_the_place_of_one_that_is_called_almost_so(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "notes").write_text("old")
    write = write_tool(LocalWorkspace(tmp_path))

    await call(write, path=f"'{name}'", content="new")

    assert (tmp_path / name).read_text() == "new"
    assert (tmp_path / "notes").read_text() == "old"


@pytest.mark.parametrize(
    ("path", "made"),
    [
        ("n.txt\n", "n.txt"), ("'n.txt'", "n.txt"), ("d/n.txt ", "d/n.txt"), ("n:12", "n:12"),
        ("file:///workspace/d/n%20x.txt", "d/n x.txt"),
    ],
)  # fmt: skip
async def test_a_new_file_gets_the_name_that_is_meant(path: str, made: str) -> None:
    workspace = MemoryWorkspace()

    await call(write_tool(workspace), path=path, content="x")

    assert workspace.files == {made: b"x"}


@on_posix
async def test_a_new_file_is_not_named_after_a_path_of_windows(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    write = write_tool(workspace)

    await call(write, path="src\\new.py", content="x")

    assert (tmp_path / "src" / "new.py").read_text() == "x"
    for path in ("C:\\work\\a.txt", "c:/made/a.txt", "\\\\host\\share\\a.txt"):
        assert "is a path of Windows" in await refusal(write, path=path, content="x")
    assert os.listdir(tmp_path) == ["src"]


async def test_a_path_that_ends_in_a_slash_makes_no_file() -> None:
    workspace = MemoryWorkspace()

    assert "names a folder" in await refusal(write_tool(workspace), path="new/", content="x")
    assert workspace.files == {}


@given(
    path=st.lists(
        st.sampled_from(['"', "'", "`", " ", "\n", "\\", "/", "a", ".", ":1", "#L2", "file://",
                         "%20", "\u202a", "~", "@", "C:"]),
        max_size=12,
    ).map("".join)
)  # fmt: skip
def test_cleaning_a_path_again_changes_nothing(path: str, workspace_with_names: Workspace) -> None:
    """Else what the permissions judged would not be what the tool opens."""
    for workspace in (MemoryWorkspace(), workspace_with_names):
        clean = cleaned_path(path, workspace)

        assert cleaned_path(clean, workspace) == clean


@pytest.fixture(scope="module")
def workspace_with_names(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    folder = tmp_path_factory.mktemp("names")
    for name in ("a", "a:1", '"a"', "a.a", "a#L2") if os.sep == "/" else ("a", "a.a"):
        (folder / name).touch()
    return LocalWorkspace(folder)


def test_a_path_of_any_length_is_cleaned_in_no_time() -> None:
    assert cleaned_path(" " * 1_000_000 + "a", MemoryWorkspace()).endswith("a")
    assert cleaned_path('"' * 8000, MemoryWorkspace())


@pytest.mark.parametrize(
    "args",
    [
        {"path": '"secret.txt"'}, {"path": "secret.txt:1"}, {"path": "secret.txt\n"},
        {"file_path": "secret.txt"}, {"path": "file://{root}/secret.txt"}, {"path": "./secret.txt "},
        {"filename": "`'secret.txt'`"},
        pytest.param({"path": ".\\secret.txt"}, marks=on_posix),
    ],
)  # fmt: skip
def test_permissions_see_the_path_that_the_tool_will_open(
    tmp_path: Path, args: dict[str, str]
) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    policy = Policy("yolo", [parse_rule("deny", "read(secret.txt)")], tmp_path)
    args = {name: value.replace("{root}", str(tmp_path)) for name, value in args.items()}
    workspace = LocalWorkspace(tmp_path)

    assert policy.decide("read", bound(read_tool(workspace), **args)).effect == "deny"
    assert policy.decide("ls", bound(ls_tool(workspace), **args)).effect == "deny"
    judged = bound(grep_tool(workspace), pattern="x", **args)
    assert policy.decide("grep", judged).effect == "deny"


# -- what is not there -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["/src/pkg/a.py", "/workspace/src/pkg/a.py", "project/src/pkg/a.py", "/a/b/src/pkg/a.py"],
)
async def test_a_path_from_another_root_is_answered_with_the_one_here(
    tmp_path: Path, path: str
) -> None:
    (tmp_path / "src" / "pkg").mkdir(parents=True)
    (tmp_path / "src" / "pkg" / "a.py").write_text("")

    told = await refusal(read_tool(LocalWorkspace(tmp_path)), path=path)

    assert "did you mean 'src/pkg/a.py'?" in told


async def test_a_hint_never_tells_what_is_outside(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.txt").write_text("")
    read = read_tool(LocalWorkspace(tmp_path / "in"))

    for path in (
        "../secret.txt",
        "x/../../secret.txt",
        str(tmp_path / "secret.txt"),
        "/secret.txt",
    ):
        assert "did you mean" not in await refusal(read, path=path)


async def test_a_link_that_leads_nowhere_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "notes.md").symlink_to("gone.md")

    told = await refusal(read_tool(LocalWorkspace(tmp_path)), path="notes.md")

    assert "no file or folder 'gone.md'" in told
    assert "That is what 'notes.md' leads to." in told


async def test_an_agent_edits_with_the_arguments_of_another_tool(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    wanted = {"file_path": "./a.py", "old_string": "x = 1", "new_string": "x = 2"}
    model = ScriptedModel([Reply(calls=[Call("edit", wanted)]), Reply("Done.")])
    tools = [edit_tool(LocalWorkspace(tmp_path))]

    result = await Agent(model.model, stream_fn=model.stream_fn, tools=tools).prompt("Change it.")

    (told,) = [each for each in result.messages if isinstance(each, ToolResultMessage)]
    assert not told.is_error
    assert (tmp_path / "a.py").read_text() == "x = 2\n"
