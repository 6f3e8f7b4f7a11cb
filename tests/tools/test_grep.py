"""The tool `grep`, with ripgrep and without."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from tests.tools.calling import call, refusal
from tests.tools.search_trees import ENGINES, MIXED, choose, plant
from tests.tools.started_processes import needs_proc, until, working_in, zombies

from loopwright.errors import ToolError
from loopwright.loop.tool import ToolContext
from loopwright.signals import AbortController, AbortSignal
from loopwright.tools.grep import grep_tool
from loopwright.tools.local_workspace import LocalWorkspace
from loopwright.tools.memory_workspace import MemoryWorkspace
from loopwright.tools.search_process import SearchRequest, run_search, worker


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    choose(request.param, monkeypatch)
    return request.param


async def grep(root: Path, pattern: str, **args: Any) -> str:
    return (await call(grep_tool(LocalWorkspace(root)), pattern=pattern, **args)).text


@pytest.mark.usefixtures("engine")
async def test_hits_come_in_the_order_of_names_and_lines(tmp_path: Path) -> None:
    plant(tmp_path, {"b.txt": "needle", "a/z.txt": "x\nneedle 1\nneedle 2\r\n", "a.txt": "needle"})

    text = await grep(tmp_path, "needle")

    assert text == "a/z.txt:2: needle 1\na/z.txt:3: needle 2\na.txt:1: needle\nb.txt:1: needle"


@pytest.mark.usefixtures("engine")
async def test_nothing_found_is_no_error(tmp_path: Path) -> None:
    result = await call(grep_tool(LocalWorkspace(tmp_path)), pattern="needle")

    assert result.text == "No matches found"
    assert not result.is_error
    assert result.details == {"matches": 0, "truncated": False}


@pytest.mark.usefixtures("engine")
async def test_ignored_hidden_and_binary_files_are_left_out(tmp_path: Path) -> None:
    plant(tmp_path, MIXED)

    text = await grep(tmp_path, "needle")

    found = list(dict.fromkeys(row.partition(":")[0] for row in text.split("\n\n")[0].split("\n")))
    assert found == [
        "A.txt",
        "a/b.txt",
        "a-b/c.txt",
        "a.txt",
        "bom.txt",
        "colour.txt",
        "context.txt",
        "keep.log",
        "latin.txt",
        "long.txt",
        "src/p.txt",
        "src/rooted/a",
        "src/special.log",
        "sub/y.log",
        "utf16.txt",
    ]
    assert "colour.txt:1: needle\n" in text
    assert "utf16.txt:1: needle é\n" in text
    assert "bom.txt:1: needle bom\n" in text


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"path": "src"}, "src/p.txt:1: needle\nsrc/rooted/a:1: needle\nsrc/special.log:1: needle"),
        ({"path": "build"}, "build/o.txt:1: needle"),
        ({"path": "x.log"}, "x.log:1: needle"),
        ({"path": ".hidden"}, ".hidden/x.txt:1: needle"),
        ({"path": "src", "glob": "*.txt"}, "src/p.txt:1: needle"),
        ({"glob": "src/**/a"}, "src/rooted/a:1: needle"),
        ({"glob": "*.log"}, "keep.log:1: needle\nsrc/special.log:1: needle\nsub/y.log:1: needle"),
        ({"glob": ".env"}, ".env:1: needle"),
        ({"glob": "!*.*"}, "src/rooted/a:1: needle"),
        ({"glob": "{A,p}.txt"}, "A.txt:1: needle\nsrc/p.txt:1: needle"),
        ({"glob": "*.dat"}, "No matches found"),
    ],
)
async def test_where_to_look_can_be_narrowed(
    tmp_path: Path, args: dict[str, str], expected: str
) -> None:
    plant(tmp_path, MIXED)

    assert await grep(tmp_path, "needle", **args) == expected


@pytest.mark.usefixtures("engine")
async def test_a_binary_file_that_is_named_is_said_to_be_one(tmp_path: Path) -> None:
    plant(tmp_path, MIXED)

    text = await grep(tmp_path, "needle", path="bin.dat")

    assert text == "No matches found\n\n[The file is binary and was not searched.]"


@pytest.mark.usefixtures("engine")
async def test_context_is_shown_once_and_gaps_are_marked(tmp_path: Path) -> None:
    plant(tmp_path, MIXED)

    text = await grep(tmp_path, "needle", glob="context.txt", context=1)

    assert text.split("\n") == [
        "context.txt-5- l4",
        "context.txt:6: l5needle",
        "context.txt-7- l6",
        "context.txt:8: l7needle",
        "context.txt-9- l8",
        "--",
        "context.txt-20- l19",
        "context.txt:21: l20needle",
        "context.txt-22- l21",
    ]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_a_limit_ends_after_the_context_of_the_last_hit(tmp_path: Path, limit: int) -> None:
    plant(tmp_path, MIXED)

    text = await grep(tmp_path, "needle", glob="context.txt", context=1, limit=limit)

    body, _, notice = text.partition("\n\n")
    last = {1: "context.txt-7- l6", 2: "context.txt-9- l8", 3: "context.txt-22- l21"}
    assert body.split("\n")[-1] == last[limit]
    assert bool(notice) is (limit < 3)


@pytest.mark.usefixtures("engine")
async def test_more_hits_than_the_limit_are_mentioned(tmp_path: Path) -> None:
    plant(tmp_path, {"a.txt": "needle\n" * 101})

    result = await call(grep_tool(LocalWorkspace(tmp_path)), pattern="needle")

    assert result.text.count("needle") == 100
    assert "[There are more than these 100: search for less, or raise the limit.]" in result.text
    assert result.details == {"matches": 100, "truncated": True}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("args", "lines"),
    [
        ({"pattern": "needle (one|two)$"}, ["1", "4"]),
        ({"pattern": "needle", "ignoreCase": True}, ["1", "4", "5"]),
        ({"pattern": "needle.", "literal": True}, []),
        ({"pattern": r"^\w$"}, ["2", "3"]),
        ({"pattern": "[[:upper:]]{6}"}, ["5"]),
        ({"pattern": "needle(?= two)"}, ["4"]),  # ripgrep alone has no looking ahead
        ({"pattern": "interface{}"}, []),  # an error to ripgrep alone
    ],
)
async def test_patterns_mean_the_same_with_either_engine(
    tmp_path: Path, args: dict[str, Any], lines: list[str]
) -> None:
    plant(tmp_path, MIXED)

    text = await grep(tmp_path, path="a.txt", **args)

    assert [row.split(":")[1] for row in text.split("\n") if ":" in row] == lines


@pytest.mark.usefixtures("engine")
async def test_what_is_no_regular_expression_is_explained(tmp_path: Path) -> None:
    told = await refusal(grep_tool(LocalWorkspace(tmp_path)), pattern="foo(")

    assert told.startswith("The pattern 'foo(' is no valid regular expression: missing )")
    assert "set literal to true" in told


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"pattern": ""}, "empty"),
        ({"pattern": "a\nb"}, "one line at a time"),
        ({"pattern": "a", "limit": 0}, "at least 1"),
        ({"pattern": "a", "context": -1}, "0 to 100"),
        ({"pattern": "a", "path": "nope"}, "There is no file or folder 'nope'"),
        ({"pattern": "a", "path": ".."}, "leads out"),
        ({"pattern": "a", "glob": "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"}, "more than 100"),
    ],
)
async def test_arguments_that_make_no_sense_are_refused(
    tmp_path: Path, args: dict[str, Any], words: str
) -> None:
    assert words in await refusal(grep_tool(LocalWorkspace(tmp_path)), **args)


@pytest.mark.usefixtures("engine")
async def test_much_output_is_cut_to_whole_lines(tmp_path: Path) -> None:
    plant(tmp_path, {"a.txt": f"needle {'x' * 400}\n" * 1000})

    text = await grep(tmp_path, "needle", limit=1000)

    rows, _, notice = text.partition("\n\n")
    assert len(text.encode()) <= 50 * 1024
    assert all(row.endswith("x" * 400) for row in rows.split("\n"))
    assert notice.startswith("[50 KiB are shown, there is more")


async def test_a_workspace_in_memory_is_searched_too() -> None:
    workspace = MemoryWorkspace(
        {".gitignore": "*.log", "src/a.txt": "needle", "src/b.log": "needle"}
    )

    assert (await call(grep_tool(workspace), pattern="needle")).text == "src/a.txt:1: needle"
    assert (await call(grep_tool(workspace), pattern="needle", path="src")).text == (
        "src/a.txt:1: needle"
    )


@pytest.mark.skipif(shutil.which("rg") is None, reason="ripgrep is not installed")
@pytest.mark.parametrize("path", [".", "src", "a", "sub", "build"])
@pytest.mark.parametrize(
    "args",
    [
        {"pattern": "needle"},
        {"pattern": "e", "limit": 7},
        {"pattern": "needle", "context": 2},
        {"pattern": "NEEDLE", "ignoreCase": True, "glob": "*.t*"},
        {"pattern": "^$"},
        {"pattern": r"\d+", "glob": "!*.log"},
        {"pattern": "needle", "glob": ".*"},
    ],
)
async def test_both_engines_give_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, args: dict[str, Any]
) -> None:
    plant(tmp_path, MIXED)
    tool = grep_tool(LocalWorkspace(tmp_path))

    with_ripgrep = await call(tool, path=path, **args)
    choose("worker", monkeypatch)
    without = await call(tool, path=path, **args)

    assert without == with_ripgrep


# -- expressions that take for ever --------------------------------------------------------------

ENDLESS = "(a+)+$"


@needs_proc
async def test_an_endless_expression_is_ended_by_an_abort(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose("worker", monkeypatch)
    plant(tmp_path, {"a.txt": "a" * 100 + "b\n"})
    controller = AbortController()
    tool = grep_tool(LocalWorkspace(tmp_path))
    context = ToolContext("1", controller.signal)
    running = asyncio.ensure_future(tool.invoke(tool.bind({"pattern": ENDLESS}), context))
    await until(lambda: working_in(tmp_path))

    controller.abort()

    with pytest.raises(ToolError, match="Operation aborted"):
        await running
    assert not working_in(tmp_path)


@needs_proc
async def test_an_endless_expression_is_ended_by_a_cancellation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose("worker", monkeypatch)
    plant(tmp_path, {"a.txt": "a" * 100 + "b\n"})
    running = asyncio.ensure_future(call(grep_tool(LocalWorkspace(tmp_path)), pattern=ENDLESS))
    await until(lambda: working_in(tmp_path))

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: not working_in(tmp_path) and not zombies(), seconds=2)


async def test_an_endless_expression_is_ended_by_the_clock_and_never_blocks_the_loop(
    tmp_path: Path,
) -> None:
    plant(tmp_path, {"a.txt": "a" * 100 + "b\n"})
    request = SearchRequest(str(tmp_path), pattern=ENDLESS)
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    beating = asyncio.ensure_future(beat())
    started = time.monotonic()
    end = await run_search(
        worker(request), str(tmp_path), lambda output: not output.read(), AbortSignal(), 1.0
    )
    beating.cancel()

    assert end.timed_out
    assert end.exit_code < 0
    assert time.monotonic() - started < 5
    assert beats > 20


@needs_proc
async def test_searches_leave_neither_descriptors_nor_processes(tmp_path: Path) -> None:
    plant(tmp_path, {"a.txt": "needle\n" * 1000})
    await grep(tmp_path, "needle", limit=3)
    before = len(os.listdir("/proc/self/fd"))

    await asyncio.gather(*(grep(tmp_path, "needle", limit=3) for _ in range(10)))

    assert len(os.listdir("/proc/self/fd")) == before
    assert not working_in(tmp_path)
    assert not zombies()
