"""Server-sent events come out the same, however the network cuts the bytes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from loopwright.models.sse import SseSplitter


def split(*chunks: bytes) -> list[bytes]:
    splitter = SseSplitter()
    events = [event for chunk in chunks for event in splitter.feed(chunk)]
    return events + splitter.finish()


def one_by_one(body: bytes) -> list[bytes]:
    return split(*(body[i : i + 1] for i in range(len(body))))


def test_plain_blocks_give_their_data() -> None:
    assert split(b'data: {"a":1}\n\ndata: {"b":2}\n\n') == [b'{"a":1}', b'{"b":2}']


def test_a_space_behind_the_colon_is_optional_and_only_one_is_taken() -> None:
    assert split(b"data:a\n\ndata:  b\n\n") == [b"a", b" b"]


def test_several_data_lines_are_joined_by_a_newline() -> None:
    assert split(b"data: a\ndata: b\n\n") == [b"a\nb"]


def test_names_ids_and_retry_times_vanish() -> None:
    assert split(b"event: x\nid: 7\nretry: 10\ndata: a\n\n") == [b"a"]


def test_a_last_event_without_a_blank_line_counts() -> None:
    assert split(b"data: a\n\ndata: b") == [b"a", b"b"]
    assert split(b"data: a\n\ndata: b\n") == [b"a", b"b"]


def test_a_byte_order_mark_at_the_start_is_ignored() -> None:
    assert split(b"\xef\xbb\xbfdata: a\n\n") == [b"a"]


CASE_015 = (
    b'id: 7\ndata: {"choices":[]}\n\n: still working\n\nretry: 10\n\ndata:\n\ndata: \n\n'
    b": before\ndata: [DONE]\n: inside\n\n"
)


def test_case_015_comments_and_empty_blocks_give_nothing_in_all_line_ends() -> None:
    for newline in (b"\n", b"\r\n", b"\r"):
        body = CASE_015.replace(b"\n", newline)

        assert split(body) == [b'{"choices":[]}', b"[DONE]"]
        assert one_by_one(body) == [b'{"choices":[]}', b"[DONE]"]


def test_a_carriage_return_at_the_end_of_a_read_ends_the_event_at_once() -> None:
    splitter = SseSplitter()

    first = splitter.feed(b"data: a\r\r")
    second = splitter.feed(b"\ndata: b\r\n\r")

    assert (first, second) == ([b"a"], [b"b"])


def test_an_empty_read_between_the_halves_of_a_line_end_changes_nothing() -> None:
    assert split(b"data: a\r", b"", b"\ndata: b\r\n\r\n") == [b"a\nb"]


lines = st.sampled_from(
    [b"data: one", b"data:two", b"data", b"data: ", b": note", b"event: e", b"", b"", b"junk"]
)


@given(st.lists(lines), st.data())
def test_any_chunking_gives_the_same_events(parts: list[bytes], data: st.DataObject) -> None:
    newline = data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    body = newline.join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    edges = [0, *cuts, len(body)]

    chunks = [body[a:b] for a, b in pairwise(edges)]

    assert split(*chunks) == split(body.replace(newline, b"\n")) == one_by_one(body)


def test_one_enormous_event_in_small_reads_is_joined_only_once() -> None:
    """Counted, not timed: while an event is incomplete its pieces are kept apart."""
    splitter = SseSplitter()
    piece = b"x" * 100

    for _ in range(2_000):
        assert splitter.feed(piece) == []

    pieces = splitter._pieces
    assert len(pieces) == 2_000
    assert all(kept is piece for kept in pieces)
