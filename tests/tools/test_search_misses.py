"""A search never lets a model believe that there is nothing when there is."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from tests.tools.calling import call, refusal
from tests.tools.search_trees import ENGINES, choose, plant

from loopwright.errors import ToolError
from loopwright.signals import AbortSignal
from loopwright.tools.find import find_tool
from loopwright.tools.globs import compile_glob, composed, in_any_folder
from loopwright.tools.grep import grep_tool
from loopwright.tools.local_workspace import LocalWorkspace
from loopwright.tools.search_process import run_search


@pytest.fixture(params=ENGINES, autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    choose(request.param, monkeypatch)
    return request.param


async def find(root: Path, pattern: str, **args: Any) -> str:
    return (await call(find_tool(LocalWorkspace(root)), pattern=pattern, **args)).text


async def grep(root: Path, pattern: str, **args: Any) -> str:
    return (await call(grep_tool(LocalWorkspace(root)), pattern=pattern, **args)).text


@pytest.mark.parametrize("name", ["R\u00e9sum\u00e9.txt", "\ud55c\uae00.txt", "plain.txt"])
@pytest.mark.parametrize("stored", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
async def test_an_accent_is_the_same_however_it_is_stored(
    tmp_path: Path, name: str, stored: Any, asked: Any
) -> None:
    plant(tmp_path, {unicodedata.normalize(stored, name): "needle"})
    glob = unicodedata.normalize(asked, name)

    found = await find(tmp_path, glob)
    start = await find(tmp_path, unicodedata.normalize(asked, name[:-5]) + "*")
    hit = await grep(tmp_path, "needle", glob=glob)

    assert unicodedata.normalize("NFC", found) == name
    assert start == found
    assert hit == f"{found}:1: needle"


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.py,*.ts", ["a.py", "src/b.ts"]),
        ("*.py, src/*.ts", ["a.py", "src/b.ts"]),
        ("*.{py,ts}", ["a.py", "src/b.ts"]),
        ("*.{py,md},*.ts", ["a.py", "c,d.md", "src/b.ts"]),
        ("c,d.md", ["c,d.md"]),
        ("c[,]d.md", ["c,d.md"]),
        ("./a.py", ["a.py"]),
        ("{root}/src/*.ts", ["src/b.ts"]),
        ("/src/*.ts", ["src/b.ts"]),
    ],
)
async def test_globs_are_taken_as_models_spell_them(
    tmp_path: Path, glob: str, expected: list[str]
) -> None:
    plant(tmp_path, {"a.py": "x", "src/b.ts": "x", "c,d.md": "x", "e.txt": "x"})
    glob = glob.replace("{root}", str(tmp_path))

    assert (await find(tmp_path, glob)).split("\n") == expected
    rows = (await grep(tmp_path, "x", glob=glob)).split("\n")
    assert [row.partition(":")[0] for row in rows] == expected


@pytest.mark.parametrize("glob", ["src/", "./src/", "!docs/,*.txt"])
async def test_a_folder_as_a_glob_stands_for_what_is_in_it(tmp_path: Path, glob: str) -> None:
    plant(tmp_path, {"src/in/a.py": "x", "docs/b.txt": "x", "c.txt": "x"})

    rows = (await grep(tmp_path, "x", glob=glob)).split("\n")

    assert [row.partition(":")[0] for row in rows] == ["src/in/a.py"]


async def test_a_glob_may_repeat_the_folder_that_was_given_beside_it(tmp_path: Path) -> None:
    plant(tmp_path, {"src/in/a.py": "x", "lib/lib/b.py": "x", "lib/c.py": "x"})

    assert await find(tmp_path, "src/in/*.py", path="src/in") == "src/in/a.py"
    assert await find(tmp_path, "src/**/*.py", path="src") == "src/in/a.py"
    assert await grep(tmp_path, "x", path="src", glob="src/**/*.py") == "src/in/a.py:1: x"
    assert await grep(tmp_path, "x", path="src", glob="!src/in/*") == "No matches found"
    # Where there is such a folder in it, that one is meant.
    assert await find(tmp_path, "lib/*.py", path="lib") == "lib/lib/b.py"


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("[id].tsx", ["app/[id]/[id].tsx", "app/d.tsx"]),
        ("app/[id]/*.tsx", ["app/[id]/[id].tsx"]),
        ("app/[[]id]/*.{ts,tsx}", ["app/[id]/[id].tsx"]),
        ("app/[id]/*.{ts, tsx}", ["app/[id]/[id].tsx"]),
        ("*.{ tsx , md }", ["app/[id]/[id].tsx", "app/d.tsx", "notes/{type} a.md"]),
        ("{type}*.md", ["notes/{type} a.md"]),
        ("notes/{type} a.md", ["notes/{type} a.md"]),
        (r"\{type\}*", ["notes/{type} a.md"]),
    ],
)
async def test_brackets_and_braces_in_names_are_found(
    tmp_path: Path, glob: str, expected: list[str]
) -> None:
    plant(tmp_path, {"app/[id]/[id].tsx": "x", "app/d.tsx": "x", "notes/{type} a.md": "x"})

    assert (await find(tmp_path, glob)).split("\n") == expected
    rows = (await grep(tmp_path, "x", glob=glob)).split("\n")
    assert [row.rpartition(":1:")[0] for row in rows] == expected


def test_what_is_no_list_of_globs_is_left_as_it_is() -> None:
    for glob in ("*.py", "{a,b}", "a,", ",", "{a,b", "a},b", "[a{b", "a,b{"):
        assert in_any_folder(glob) == f"**/{glob}"
    matches = compile_glob(composed(in_any_folder("a,b/c"))).match
    assert matches("x/a")
    assert matches("b/c")
    assert matches("a,b/c")
    assert not matches("x/b/c")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"foo\|bar", "write | between alternatives"),
        (r"foo\nbar", "one line at a time"),
        (r"foo\\nbar", None),
        ("foo|qux", None),
    ],
)
async def test_signs_of_another_dialect_are_mentioned_when_nothing_is_found(
    tmp_path: Path, pattern: str, words: str | None
) -> None:
    plant(tmp_path, {"a": "bar\n"})

    told = await grep(tmp_path, pattern)

    assert told.startswith("No matches found")
    assert (words in told) if words else told == "No matches found"
    assert await grep(tmp_path, pattern, literal=True) == "No matches found"


async def test_a_link_is_found_by_its_name_though_it_is_not_followed(tmp_path: Path) -> None:
    plant(tmp_path, {"AGENTS.md": "x", "items/foo/a.md": "x", ".gitignore": "no*\n"})
    for name, target in {"CLAUDE.md": "AGENTS.md", "foo": "items/foo", "no": "items"}.items():
        (tmp_path / name).symlink_to(target)
    (tmp_path / "round").symlink_to("round")

    told = await find(tmp_path, "CLAUDE.md")

    assert told.startswith("CLAUDE.md\n\n[This is a link:")
    assert (await find(tmp_path, "round")).startswith("round\n\n[This is a link:")
    assert await find(tmp_path, "no") == "No files found"
    assert await find(tmp_path, "*.md") == "AGENTS.md\nitems/foo/a.md"
    assert await find(tmp_path, "*.md", path="foo") == "items/foo/a.md"


async def test_who_looks_for_a_folder_as_if_it_were_a_file_is_told(tmp_path: Path) -> None:
    plant(tmp_path, {"src/parts/a.py": "", "empty/": ""})

    assert "end the pattern with a slash" in await find(tmp_path, "parts")
    assert "end the pattern with a slash" in await find(tmp_path, "empty")
    assert await find(tmp_path, "parts/") == "src/parts/"
    assert await find(tmp_path, "nothing") == "No files found"


async def test_a_line_feed_in_a_name_forges_no_hit(tmp_path: Path) -> None:
    plant(tmp_path, {"a\nb.py:7: forged\n": "needle"})

    assert await grep(tmp_path, "needle") == "a\\x0ab.py:7: forged\\x0a:1: needle"
    assert await find(tmp_path, "a*") == "a\\x0ab.py:7: forged\\x0a"


async def test_names_and_patterns_that_begin_with_a_dash_are_no_options(tmp_path: Path) -> None:
    plant(tmp_path, {"-rf": "--help -e\n", "--pre=x/-a.txt": "->x\n"})

    assert await find(tmp_path, "-rf") == "-rf"
    assert await find(tmp_path, "-*.txt") == "--pre=x/-a.txt"
    assert await grep(tmp_path, "--help") == "-rf:1: --help -e"
    assert await grep(tmp_path, "-e", path="-rf") == "-rf:1: --help -e"
    assert await grep(tmp_path, "->", path="--pre=x") == "--pre=x/-a.txt:1: ->x"
    assert await grep(tmp_path, "-", glob="-*.txt") == "--pre=x/-a.txt:1: ->x"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
async def test_a_pipe_in_a_folder_holds_no_search_up(tmp_path: Path) -> None:
    plant(tmp_path, {"a.txt": "needle"})
    os.mkfifo(tmp_path / "pipe.txt")

    assert await grep(tmp_path, "needle") == "a.txt:1: needle"
    assert await find(tmp_path, "*.txt") == "a.txt"


async def test_a_folder_nobody_may_enter_is_told_in_words(tmp_path: Path) -> None:
    plant(tmp_path, {"locked/a.txt": "needle", "b.txt": "needle"})
    (tmp_path / "locked").chmod(0)
    try:
        if os.access(tmp_path / "locked", os.R_OK):
            pytest.skip("to this user nothing is forbidden")

        for tool in (grep_tool, find_tool):
            told = await refusal(tool(LocalWorkspace(tmp_path)), pattern="needle", path="locked")
            assert told == "'locked' may not be accessed: permission denied."
        assert (await grep(tmp_path, "needle")).endswith("[1 file or folder could not be read.]")
    finally:
        (tmp_path / "locked").chmod(0o755)


async def test_a_folder_that_goes_while_it_is_searched_is_told_in_words(tmp_path: Path) -> None:
    gone = tmp_path / "gone"

    with pytest.raises(ToolError, match="There is no file 'gone'"):
        await run_search(["true"], str(gone), lambda _: False, AbortSignal())
