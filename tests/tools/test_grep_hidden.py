"""What may not be read is not shown by `grep` either, with ripgrep and without."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tools.calling import call
from tests.tools.search_trees import ENGINES, choose, plant

from loopwright import AgentToolResult
from loopwright.permissions import Policy, Rule
from loopwright.tools import LocalWorkspace, MemoryWorkspace, coding_tools, grep_tool


@pytest.fixture(params=ENGINES, autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    choose(request.param, monkeypatch)
    return request.param


async def grep(
    root: Path, hidden: Callable[[str], bool], pattern: str = "needle", **args: Any
) -> AgentToolResult:
    return await call(grep_tool(LocalWorkspace(root), hidden=hidden), pattern=pattern, **args)


def named(*names: str) -> Callable[[str], bool]:
    return lambda path: os.path.basename(path) in names


async def test_lines_of_a_hidden_file_are_left_out(tmp_path: Path) -> None:
    plant(tmp_path, {"a.txt": "needle a", "secret.txt": "needle s", "z.txt": "needle z"})

    result = await grep(tmp_path, named("secret.txt"))

    assert result.text == "a.txt:1: needle a\nz.txt:1: needle z"
    assert result.details == {"matches": 2, "truncated": False}


async def test_the_lines_around_a_hit_in_a_hidden_file_are_left_out(tmp_path: Path) -> None:
    plant(tmp_path, {"b/secret.txt": "before\nneedle\nafter\n", "z.txt": "1\nneedle\n3\n"})

    result = await grep(tmp_path, named("secret.txt"), context=1)

    assert result.text == "z.txt-1- 1\nz.txt:2: needle\nz.txt-3- 3"


async def test_whether_a_hidden_file_has_a_hit_cannot_be_told(tmp_path: Path) -> None:
    plant(tmp_path, {"secret.txt": "password = hunter2\n" * 300 + "x" * 9000 + "hunter2\n"})
    hidden = named("secret.txt")

    right = await grep(tmp_path, hidden, "hunter2", limit=1)
    wrong = await grep(tmp_path, hidden, "hunter3", limit=1)

    assert right.text == wrong.text == "No matches found"
    assert right.details == wrong.details


async def test_hits_in_a_hidden_file_do_not_use_up_the_limit(tmp_path: Path) -> None:
    plant(tmp_path, {"secret.txt": "needle\n" * 50, "z.txt": "needle z"})

    result = await grep(tmp_path, named("secret.txt"), limit=1)

    assert result.text == "z.txt:1: needle z"


async def test_a_hidden_file_that_is_named_is_not_searched_either(tmp_path: Path) -> None:
    plant(tmp_path, {"secret.txt": "needle", "secret.bin": b"needle\0"})
    hidden = named("secret.txt", "secret.bin")

    text = await grep(tmp_path, hidden, path="secret.txt")
    binary = await grep(tmp_path, hidden, path="secret.bin")

    assert text.text == binary.text == "No matches found"


async def test_a_glob_does_not_bring_a_hidden_file_back(tmp_path: Path) -> None:
    plant(tmp_path, {".env": "needle", "a.env": "needle"})

    result = await grep(tmp_path, named(".env"), glob="*.env")
    dotted = await grep(tmp_path, named(".env"), glob=".env")

    assert result.text == "a.env:1: needle"
    assert dotted.text == "No matches found"


async def test_it_is_asked_with_absolute_paths_also_below_a_folder(tmp_path: Path) -> None:
    asked: list[str] = []
    plant(tmp_path, {"src/deep/a.txt": "needle", "src/b.txt": "nothing"})

    await grep(tmp_path, lambda path: asked.append(path) is not None, path="src")

    assert asked == [str(tmp_path.resolve() / "src" / "deep" / "a.txt")]


async def test_a_workspace_in_memory_is_asked_about_by_its_own_paths() -> None:
    asked: list[str] = []
    workspace = MemoryWorkspace({"src/a.txt": "needle", "src/b.txt": "needle"})

    def hidden(path: str) -> bool:
        asked.append(path)
        return path.endswith("/a.txt")

    result = await call(grep_tool(workspace, hidden=hidden), pattern="needle", path="src")

    assert result.text == "src/b.txt:1: needle"
    assert asked == [f"{workspace.root.rstrip('/')}/src/{name}.txt" for name in "ab"]


async def test_a_question_that_fails_shows_nothing(tmp_path: Path) -> None:
    plant(tmp_path, {"a.txt": "needle"})

    def broken(path: str) -> bool:
        raise RuntimeError("no answer")

    with pytest.raises(RuntimeError, match="no answer"):
        await grep(tmp_path, broken)


async def test_a_policy_that_denies_reading_decides_what_the_coding_tools_search(
    tmp_path: Path,
) -> None:
    plant(
        tmp_path,
        {
            "app.py": "token = load()",
            ".env": "token = 1",
            "keys/a/prod.pem": "token",
            "Keys.md": "token",
        },
    )
    rules = [Rule("deny", "read", ".env"), Rule("deny", "read", "keys/**")]
    policy = Policy("ask", rules, tmp_path, searches_skip_denied=True)
    tools = {
        tool.name: tool for tool in coding_tools(LocalWorkspace(tmp_path), hidden=policy.hides)
    }

    decision = policy.decide("grep", {"pattern": "token", "path": "."})
    result = await call(tools["grep"], pattern="token", glob="{*,.*}")
    found = await call(tools["find"], pattern="*.pem")

    assert decision.effect == "allow"
    assert result.text == "Keys.md:1: token\napp.py:1: token = load()"
    assert found.text == "keys/a/prod.pem"


async def test_a_rule_that_comes_later_counts_for_the_next_search(tmp_path: Path) -> None:
    plant(tmp_path, {"a.txt": "needle"})
    policy = Policy("ask", [], tmp_path, searches_skip_denied=True)
    before = await grep(tmp_path, policy.hides)

    policy.rules.append(Rule("deny", "read", "a.txt"))

    assert before.text == "a.txt:1: needle"
    assert (await grep(tmp_path, policy.hides)).text == "No matches found"


def test_the_model_is_told_that_files_may_be_left_out(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)

    assert "may not be read" in grep_tool(workspace, hidden=named("x")).description
    assert "may not be read" not in grep_tool(workspace).description


async def test_the_timeout_of_commands_is_that_of_the_coding_tools(tmp_path: Path) -> None:
    tools = {tool.name: tool for tool in coding_tools(LocalWorkspace(tmp_path), bash_timeout=0.2)}

    result = await call(tools["bash"], command="while :; do :; done")

    assert result.is_error
    assert "its timeout is 0.2" in result.text
