"""Cuts keep whole lines and characters, and stay under both limits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loopwright.tools.text_limits import (
    byte_size,
    count_lines,
    first_bytes,
    head,
    last_bytes,
    show_size,
    tail,
)

texts = st.text(st.sampled_from("ab\n\u00e9\u20ac\U0001f600"), max_size=60)
limits = st.integers(1, 12)


@given(texts, limits, limits)
def test_a_head_is_the_beginning_in_whole_lines(text: str, lines: int, size: int) -> None:
    cut = head(text, lines, size)

    assert text.startswith(cut.text)
    assert byte_size(cut.text) <= size
    assert cut.lines <= lines
    assert (cut.total_lines, cut.total_bytes) == (count_lines(text), byte_size(text))
    if cut.by is None:
        assert cut.text in (text, text.removesuffix("\n"))
    elif cut.partial:
        assert "\n" not in cut.text
        assert byte_size(text.split("\n")[0]) > size
    else:
        shown = text.split("\n")[: cut.lines]
        assert cut.text == "\n".join(shown)
        next_line = text.split("\n")[cut.lines]
        assert cut.lines == lines or byte_size("\n".join([*shown, next_line])) > size


@given(texts, limits, limits)
def test_a_tail_is_the_end_in_whole_lines(text: str, lines: int, size: int) -> None:
    cut = tail(text, lines, size)

    whole = text.removesuffix("\n")
    assert byte_size(cut.text) <= size
    assert cut.lines <= lines
    if cut.by is None:
        assert cut.text in (text, text.removesuffix("\n"))
    elif cut.partial:
        assert whole.endswith(cut.text)
        assert "\n" not in cut.text
        assert byte_size(whole.split("\n")[-1]) > size
    else:
        every = whole.split("\n")
        shown = every[len(every) - cut.lines :]
        assert cut.text == "\n".join(shown)
        before = every[len(every) - cut.lines - 1]
        assert cut.lines == lines or byte_size("\n".join([before, *shown])) > size


@given(texts, st.integers(0, 20))
def test_bytes_are_cut_between_characters_and_no_room_is_wasted(text: str, most: int) -> None:
    first, last = first_bytes(text, most), last_bytes(text, most)

    assert text.startswith(first)
    assert text.endswith(last)
    for part, following in (
        (first, text[len(first) :][:1]),
        (last, text[: -len(last) or None][-1:]),
    ):
        assert byte_size(part) <= most
        assert not following or part == text or byte_size(part + following) > most


def test_sizes_are_bytes_of_utf_8_and_a_final_line_feed_is_no_line() -> None:
    assert byte_size("\u20ac") == 3
    assert [count_lines(text) for text in ("", "a", "a\n", "\n", "a\nb", "a\n\n")] == [
        0, 1, 1, 1, 2, 2,
    ]  # fmt: skip


def test_exactly_the_limit_is_not_cut() -> None:
    assert head("ab\ncd\n", 2, 6).by is None
    assert tail("ab\ncd\n", 2, 6).by is None
    assert head("ab\ncd\n", 1, 6).by == "lines"
    assert head("ab\ncd\n", 2, 5).by is tail("ab\ncd\n", 2, 5).by is None
    assert head("ab\ncd\n", 2, 4).by == tail("ab\ncd\n", 2, 4).by == "bytes"


def test_sizes_are_shown_in_the_unit_that_reads_best() -> None:
    assert [show_size(size) for size in (1, 1023, 1024, 12_000_000, 5 << 40)] == [
        "1 byte",
        "1,023 bytes",
        "1.0 KiB",
        "11.4 MiB",
        "5,120.0 GiB",
    ]
