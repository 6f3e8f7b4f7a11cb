"""The tool `find`, with ripgrep and without; globs and ignore files."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tools.calling import call, refusal
from tests.tools.search_trees import ENGINES, MIXED, choose, plant

from loopwright.tools.find import find_tool
from loopwright.tools.globs import BadGlob, compile_glob, wants_hidden
from loopwright.tools.local_workspace import LocalWorkspace
from loopwright.tools.memory_workspace import MemoryWorkspace
from loopwright.tools.walk import walk


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    choose(request.param, monkeypatch)
    return request.param


async def find(root: Path, pattern: str, **args: Any) -> list[str]:
    text = (await call(find_tool(LocalWorkspace(root)), pattern=pattern, **args)).text
    return text.split("\n")


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("pattern", "args", "expected"),
    [
        ("*.log", {}, ["keep.log", "src/special.log", "sub/y.log"]),
        ("?.txt", {}, ["A.txt", "a-b/c.txt", "a.txt", "a/b.txt", "src/p.txt"]),
        ("src/*", {}, ["src/p.txt", "src/special.log"]),
        ("src/**", {}, ["src/p.txt", "src/rooted/a", "src/special.log"]),
        ("./src/*.txt", {}, ["src/p.txt"]),
        ("**/a", {}, ["src/rooted/a"]),
        ("*", {"path": "src"}, ["src/p.txt", "src/rooted/a", "src/special.log"]),
        ("*.{dat,bin}", {}, ["bin.dat", "late.bin"]),
        (".*", {}, [".env", ".gitignore", "src/.gitignore", "sub/.ignore"]),
        (".hidden/*", {}, [".hidden/x.txt"]),
        ("*", {"path": ".hidden"}, [".hidden/x.txt"]),
        ("*", {"path": "build"}, ["build/o.txt"]),
        ("s*/", {}, ["src/", "sub/"]),
        ("rooted/", {}, ["src/rooted/"]),
        ("HEAD", {}, ["No files found"]),
        (".git/*", {}, ["No files found"]),
        ("nope/", {}, ["No folders found"]),
    ],
)
async def test_globs_find_files(
    tmp_path: Path, pattern: str, args: dict[str, str], expected: list[str]
) -> None:
    plant(tmp_path, MIXED)

    assert await find(tmp_path, pattern, **args) == expected


@pytest.mark.usefixtures("engine")
async def test_a_glob_may_begin_with_the_path_of_the_workspace(tmp_path: Path) -> None:
    plant(tmp_path, MIXED)

    assert await find(tmp_path, f"{tmp_path}/src/*.txt") == ["src/p.txt"]


@pytest.mark.usefixtures("engine")
async def test_of_many_the_first_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    plant(tmp_path, {f"f{i:04}": "" for i in range(1300)})

    rows = await find(tmp_path, "f*", limit=2)

    assert rows == ["f0000", "f0001", "", "[The first 2 of 1,300 are shown: "
                    "use a narrower pattern or raise the limit.]"]  # fmt: skip


@pytest.mark.usefixtures("engine")
async def test_names_too_long_for_one_result_are_cut_between_lines(tmp_path: Path) -> None:
    plant(tmp_path, {f"{'x' * 200}{i}": "" for i in range(400)})

    result = await call(find_tool(LocalWorkspace(tmp_path)), pattern="*")

    assert len(result.text.encode()) <= 50 * 1024
    assert "of 400 are shown: use a narrower pattern.]" in result.text
    assert result.details["truncated"]


@pytest.mark.usefixtures("engine")
async def test_a_name_cannot_forge_a_line_or_move_the_cursor(tmp_path: Path) -> None:
    plant(tmp_path, {"a\x1b[2Jb.txt": "", "a\nc.txt": "", os.fsdecode(b"bad\xff.txt"): ""})

    assert await find(tmp_path, "*.txt") == [
        "a\\x0ac.txt",
        "a\\x1b[2Jb.txt",
        "bad\ufffd.txt",
    ]


async def test_a_file_is_no_place_to_look_in(tmp_path: Path) -> None:
    plant(tmp_path, {"a.txt": ""})

    assert "is a file" in await refusal(
        find_tool(LocalWorkspace(tmp_path)), pattern="*", path="a.txt"
    )


async def test_a_workspace_in_memory_is_searched_too() -> None:
    workspace = MemoryWorkspace({".gitignore": "*.log", "src/a.txt": "", "src/b.log": ""})

    assert (await call(find_tool(workspace), pattern="*")).text == "src/a.txt"


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
@pytest.mark.parametrize("path", [".", "src", "a", "sub", "build"])
@pytest.mark.parametrize("pattern", ["*", "**/*.txt", ".*", "*/", "src/**", "[a-k]*"])
async def test_both_engines_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, pattern: str
) -> None:
    plant(tmp_path, MIXED)
    tool = find_tool(LocalWorkspace(tmp_path))

    with_ripgrep = await call(tool, path=path, pattern=pattern)
    choose("worker", monkeypatch)
    without = await call(tool, path=path, pattern=pattern)

    assert without == with_ripgrep


# -- globs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("glob", "matching", "others"),
    [
        ("**/*.py", ["a.py", "a/b/c.py", ".py"], ["a.pyc", "a.py/b"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb", "a/b/c"]),
        ("*.{ts,tsx}", ["a.ts", "b.tsx"], ["a/b.ts", "a.js", "a.ts/x"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "ab"]),
        ("**", ["a", "a/b"], []),
        ("[!a]b", ["bb"], ["ab", "/b"]),
        ("[a-c]", ["b"], ["d", "-"]),
        ("[]]", ["]"], ["["]),
        ("a[", ["a["], ["a"]),
        ("a{b", ["a{b"], ["ab"]),
        ("{a,b{c,d}}", ["a", "bc", "bd"], ["b", "ac"]),
        (r"\*\{", ["*{"], ["a{"]),
        ("f?o*bar*z", ["foo1bar2z", "fxobarz"], ["foobar", "foo/bar/z"]),
        ("**/a/**/b/*.c", ["a/b/x.c", "q/a/w/b/x.c", "a/b/b/x.c"], ["a/x.c"]),
        ("*a*a*b", ["aab", "xaxab"], ["ab"]),
    ],
)
def test_what_a_glob_matches(glob: str, matching: list[str], others: list[str]) -> None:
    matches = compile_glob(glob).match

    assert [path for path in matching if not matches(path)] == []
    assert [path for path in others if matches(path)] == []


@pytest.mark.parametrize("glob", ["", "/", "{" + "a," * 200 + "}"])
def test_a_glob_that_cannot_be_used_is_refused(glob: str) -> None:
    with pytest.raises(BadGlob):
        compile_glob(glob)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*a" * 50 + "b", "a" * 250),
        ("/".join(["**", "a*"] * 20) + "/b", "/".join(["a"] * 200)),
        ("/".join(["**", "*a*a"] * 10) + "b", "/".join(["a" * 200] * 20)),
    ],
)
def test_no_glob_takes_for_ever(glob: str, path: str) -> None:
    started = time.process_time()

    assert compile_glob(glob).match(path) is None

    assert time.process_time() - started < 1


@given(st.text("ab*?/[]!-{},\\.", max_size=12), st.text("ab/.-", max_size=12))
def test_any_text_is_a_glob_or_refused(glob: str, path: str) -> None:
    try:
        compile_glob(glob).match(path)
    except BadGlob:
        pass


def test_a_glob_asks_for_hidden_files_by_naming_a_dot() -> None:
    asking = [".env", "**/.github/*.yml", "{a,.b}", "./.x"]
    not_asking = ["*", "*.py", "./a", "a.b/c", "../x"]

    assert all(map(wants_hidden, asking))
    assert not any(map(wants_hidden, not_asking))


# -- ignore files ----------------------------------------------------------------------------

_NAMES = st.sampled_from(["a", "b", "ab", "a.x", "b.x", "c c"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=3).map("/".join)
_LINES = st.one_of(
    st.builds(
        lambda no, root, path, end: no + root + path + end,
        st.sampled_from(["", "", "!"]),
        st.sampled_from(["", "", "/", "**/"]),
        st.lists(
            st.sampled_from(["a", "b", "*", "*.x", "a*", "?", "[ab]", "[!a]", "**", "c c", "ab"]),
            min_size=1,
            max_size=3,
        ).map("/".join),
        st.sampled_from(["", "", "/", "/**", " ", "  "]),
    ),
    st.sampled_from(["# a", "", "\\!a", "/", "a\\"]),
)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(max_examples=60)
@given(
    st.lists(_PATHS, min_size=1, max_size=8),
    st.lists(_LINES, max_size=4),
    st.dictionaries(st.sampled_from(["a", "b", "a/b"]), st.lists(_LINES, max_size=3), max_size=2),
)
def test_git_leaves_out_the_same_files(
    paths: list[str], lines: list[str], deeper: dict[str, list[str]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(os.path.realpath(name))
        rules = {"": lines, **deeper}
        for path in paths:
            file = root / path
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.touch()
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue
        for folder, content in rules.items():
            if (root / folder).is_dir():
                (root / folder / ".gitignore").write_text("\n".join(content))
        environment = {"PATH": os.environ["PATH"], "HOME": name, "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", "init", "-q", root], check=True, env=environment)
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--others", "--exclude-standard"],
            cwd=root, env=environment, check=True, capture_output=True, text=True,
        ).stdout.split("\0")  # fmt: skip

        found = list(walk(str(root), hidden=True, unreadable=[]))

        assert sorted(found) == sorted(filter(None, listed))


def test_the_walk_is_in_the_order_of_names_and_never_follows_a_link(tmp_path: Path) -> None:
    plant(tmp_path, {"b": "", "a/x": "", "a.txt": "", "a-b/y": "", "Z": ""})
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "b")
    os.mkfifo(tmp_path / "pipe")

    assert list(walk(str(tmp_path), hidden=False, unreadable=[])) == [
        "Z",
        "a/x",
        "a-b/y",
        "a.txt",
        "b",
    ]


def test_a_tree_deeper_than_the_stack_is_walked(tmp_path: Path) -> None:
    plant(tmp_path, {"d/" * 200 + "x": ""})
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)

    try:
        found = list(walk(str(tmp_path), hidden=False, unreadable=[]))
    finally:
        sys.setrecursionlimit(usual)

    assert found == ["d/" * 200 + "x"]


def test_exclude_files_of_the_repository_count(tmp_path: Path) -> None:
    plant(tmp_path, {".git/info/exclude": "*.tmp\n", "a.tmp": "", "b.txt": "", "d/c.tmp": ""})

    assert list(walk(str(tmp_path), hidden=False, unreadable=[])) == ["b.txt"]
