"""Paths as models write them never lead out of the workspace, however they are put together."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.errors import ToolError
from loopwright.tools import LocalWorkspace, MemoryWorkspace
from loopwright.tools.paths import is_within, shown, spellings

names = st.sampled_from(
    ["..", ".", "", "a", "b", "out", "up", "loop", "@a", "~", "in", "abs", "caf\u00e9", "a\u00a0b",
     "work", "outside", "secret", "new"]
)  # fmt: skip
paths = st.builds(
    lambda start, parts: start + "/".join(parts),
    st.sampled_from(["", "/", "@", "~/", "./"]),
    st.lists(names, min_size=1, max_size=7),
)

LINKS = {
    "out": "../outside",
    "up": "..",
    "loop": "loop",
    "in": "a/b",
    "a/out": "../../outside",
    "a/b/up": "../..",
    "a/secret": "../out/secret",
    "new": "../outside/new",
}


def test_a_folder_whose_name_begins_alike_is_not_inside() -> None:
    assert is_within("/w/a", "/w/a")
    assert is_within("/w/a/b", "/w/a")
    assert is_within("/w", "/")
    assert not is_within("/w/ab", "/w/a")
    assert not is_within("/w", "/w/a")


def test_paths_are_shown_relative_to_the_root_where_they_are_in_it() -> None:
    assert shown("/w/a/b", "/w") == "a/b"
    assert shown("/w", "/w") == "."
    assert shown("/wide/x", "/w") == "/wide/x"
    assert shown("/etc/x", "/") == "etc/x"


def test_the_path_as_given_comes_first_and_the_plain_one_second() -> None:
    assert spellings("@~/a\u202fb", "/srv/me", guess=False) == ["@~/a\u202fb", "/srv/me/a b"]
    assert spellings("~x", "/srv/me", guess=False) == ["~x", "~x"]
    assert spellings("@", "/srv/me", guess=False) == ["@", "."]


@settings(max_examples=60)
@given(st.lists(paths, min_size=1, max_size=20))
def test_no_path_leads_out_on_disk_and_both_workspaces_agree(given_paths: list[str]) -> None:
    with tempfile.TemporaryDirectory() as made:
        top = os.path.realpath(made)
        root = f"{top}/work"
        Path(root, "a", "b").mkdir(parents=True)
        Path(top, "outside").mkdir()
        Path(top, "outside", "secret").write_bytes(b"secret")
        for name, target in LINKS.items():
            Path(root, name).symlink_to(target)
        Path(root, "abs").symlink_to(f"{top}/outside")
        local = LocalWorkspace(root)
        local._home = "/srv/user"
        memory = MemoryWorkspace(
            {"a/b/": "", f"{top}/outside/secret": b"secret"},
            links={**LINKS, "abs": f"{top}/outside"},
            root=root,
        )

        async def attempt(workspace: LocalWorkspace | MemoryWorkspace, path: str) -> str:
            try:
                real = await workspace.resolve(path, must_exist=False, writing=True)
            except ToolError as refused:
                return type(refused).__name__
            assert is_within(real, root)
            try:
                await workspace.write(real, b"mine")
            except ToolError:
                return "not written"
            return real

        async def scene() -> None:
            for path in given_paths:
                on_disk, in_memory = await attempt(local, path), await attempt(memory, path)
                if "loop" not in path:  # systems differ about what is behind a circle
                    assert on_disk == in_memory

        asyncio.run(scene())

        assert os.listdir(f"{top}/outside") == ["secret"]
        assert Path(top, "outside", "secret").read_bytes() == b"secret"
        assert sorted(os.listdir(top)) == ["outside", "work"]


@given(st.text(min_size=1, max_size=40))
def test_any_text_is_a_path_inside_or_an_error_in_words(path: str) -> None:
    async def scene() -> None:
        with tempfile.TemporaryDirectory() as made:
            workspace = LocalWorkspace(made)
            try:
                real = await workspace.resolve(path)
                assert is_within(real, workspace.root)
                await workspace.stat(real)
            except ToolError:
                pass

    asyncio.run(scene())
