"""Patterns of paths."""

from __future__ import annotations

import fnmatch
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.permissions.globs import fits


def split(path: str) -> list[str]:
    return [name for name in path.split("/") if name]


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("src/**", "src/a/b.py", True),
        ("src/**", "src", True),
        ("src/**", "srcx/a", False),
        ("src/*", "src/a", True),
        ("src/*", "src/a/b", False),
        ("src/**/*.py", "src/b.py", True),
        ("src/**/*.py", "src/x/y/b.py", True),
        ("src/**/*.py", "src/x/y/b.pyc", False),
        ("**/x/**/y", "a/x/b/x/y", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("[id]", "i", False),
        ("[id]", "[id]", True),
        ("*", "", False),
        ("**", "", True),
    ],
)
def test_a_pattern_fits(pattern: str, path: str, expected: bool) -> None:
    assert fits(split(pattern), split(path)) is expected


def test_a_ban_on_a_folder_covers_what_is_in_it() -> None:
    assert fits(["secrets"], ["secrets", "a", "b"], below=True)
    assert not fits(["secrets"], ["secrets", "a", "b"])


@given(st.text("ab*?", max_size=8), st.text("ab", min_size=1, max_size=8))
def test_within_one_name_it_is_the_usual_matching(pattern: str, name: str) -> None:
    if "**" in pattern or not pattern:
        return

    assert fits([pattern], [name]) is fnmatch.fnmatchcase(name, pattern)


def test_no_pattern_makes_it_hang() -> None:
    start = time.perf_counter()

    assert not fits(["*a" * 60 + "b"], ["a" * 250])
    assert not fits(["**", "a"] * 60 + ["b"], ["a"] * 1000)

    assert time.perf_counter() - start < 2
