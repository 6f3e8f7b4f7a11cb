"""Markdown that comes in chunks: the same leaves however it is chunked, nothing lost or said twice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopwright.cli.interactive.markdown_blocks import PIECE_CHARACTERS, Leaf, MarkdownBlocks
from loopwright.cli.interactive.markdown_view import MarkdownView
from loopwright.cli.interactive.paint import SEQUENCE, Painter, Run, cells
from loopwright.cli.interactive.theme import theme_named

COLORED = theme_named("dark", {"TERM": "xterm-256color"})
PLAIN = theme_named("dark", {"NO_COLOR": "1"})


def leaves(text: str, cuts: Sequence[int] = ()) -> list[Leaf]:
    """All leaves of *text*, which comes cut at *cuts*; each chunk is looked at, finished and open."""
    blocks = MarkdownBlocks()
    found: list[Leaf] = []
    places = sorted({cut % (len(text) + 1) for cut in cuts})
    for start, end in zip([0, *places], [*places, len(text)], strict=True):
        blocks.feed(text[start:end])
        blocks.open()
        found += blocks.take()
    return found + blocks.close()


def shown(text: str, width: int = 60, *, colored: bool = False) -> list[str]:
    """The rows of *text*."""
    view = MarkdownView(Painter(COLORED if colored else PLAIN))
    return [row for leaf in leaves(text) for row in view.draw(leaf, width)]


def kinds(text: str) -> list[str]:
    return [leaf.kind for leaf in leaves(text)]


# -- what any text keeps -----------------------------------------------------------------------

MARKUP = st.sampled_from(
    ["\n", "\n\n", "- ", "* ", "1. ", "12) ", "> ", "# ", "```", "```py\n", "~~~\n", "    ", "\t",
     "**", "*", "_", "`", "|", "\n|---|---|\n", "---\n", "===\n", "[a](b)", "![i](u)", "\\", "&amp;",
     "<b>", "\r\n", "\r", " ", "  \n", "def f(x):", "日本語", "👩‍👩‍👧", "e\u0301", "\u202e", "\x1b[31m",
     "\x9b2J", "&#27;", "&#x202e;", "\x00", "\ud800", "word", "x" * 30]
)  # fmt: skip
TEXTS = st.lists(MARKUP | st.text(max_size=8), max_size=60).map("".join)
LONG_TEXTS = st.builds(
    lambda pieces, times: "".join(pieces) * times,
    st.lists(MARKUP, min_size=1, max_size=8),
    st.integers(1, 400),
)
CUTS = st.lists(st.integers(0, 100_000), max_size=40)


@given(TEXTS | LONG_TEXTS, CUTS)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_chunking_gives_the_same_leaves_as_one_chunk(text: str, cuts: list[int]) -> None:
    assert leaves(text, cuts) == leaves(text)


@given(st.text(alphabet="ab -*#>`|1.\n\t\r", max_size=120))
def test_coming_character_by_character_changes_nothing(text: str) -> None:
    assert leaves(text, range(len(text))) == leaves(text)


WORDS = st.text("abcdefghij", min_size=1, max_size=30)
AROUND = st.sampled_from(
    ["{}", "{}\n", "{}\n\n", "# {}\n", "- {}\n", "  - {}\n", "1. {}\n", "> {}\n", "> - {}\n", "**{}** ",
     "`{}` ", "*{}* ", "```\n{}\n```\n", "~~~\n{}\n", "| {} | x |\n|---|---|\n", "| {} |\n", "    {}\n",
     "[{}](x) ", "{} ", "{}\n---\n", "<x>{}</x> ", "[{}]: q\n", "-\n{}\n", "\t{}\n", "****{} ", "{}\\\n"]
)  # fmt: skip


@given(st.lists(st.tuples(WORDS, AROUND), max_size=60), st.sampled_from([8, 20, 80]))
@settings(deadline=None)
def test_every_word_is_shown_once_and_in_order(pieces: list[tuple[str, str]], width: int) -> None:
    text = "".join([around.format(word) for word, around in pieces])

    rows = shown(text, width)

    seen, said = _letters("".join(rows)), _letters("".join([word for word, _ in pieces]))
    if "|" in text:  # the lines of two cells stand side by side
        seen, said = "".join(sorted(seen)), "".join(sorted(said))
    assert seen == said


def _letters(text: str) -> str:
    return re.sub(r"[^a-j]", "", text)


@pytest.mark.parametrize("between", [" ", "  ", "", "\n", ", ", " **b** ", " *a "])
@pytest.mark.parametrize("seed", range(5))
def test_a_long_paragraph_is_broken_as_if_it_had_not_come_in_pieces(
    between: str, seed: int
) -> None:
    random = Random(seed)
    words = ["".join(random.choices("abcdefghij", k=random.randrange(1, 12))) for _ in range(600)]
    text = between.join(words)

    rows = shown(text, 50)

    assert len(leaves(text)) > 1
    assert _letters("".join(rows)) == _letters(text)
    if not between.strip(" "):
        assert rows == Painter(PLAIN).rows([Run(text)], 50)


@given(TEXTS | LONG_TEXTS, st.sampled_from([1, 7, 20, 80]))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_nothing_but_our_own_colours_reaches_the_terminal(text: str, width: int) -> None:
    for row in shown(text, width, colored=True):
        bare = SEQUENCE.sub("", row)
        assert not re.search(
            "[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]", bare
        )
        assert max(width, 2) >= cells(bare) or width == 1


@pytest.mark.parametrize(
    "line", ["word " * 40, "x" * 200, "- item\n", "a | b\n", "code()\n", "> quote\n", "日本", "**b** ", "[[[["]
)  # fmt: skip
@pytest.mark.parametrize("begin", ["", "```python\n", "| a | b |\n|---|---|\n", "- ", "> "])
def test_what_is_drawn_is_linear_in_the_length_of_the_text(line: str, begin: str) -> None:
    """Of a text that comes in small chunks, counted in characters given to whoever draws."""

    def drawn(length: int) -> tuple[int, int]:
        blocks = MarkdownBlocks()
        blocks.feed(begin)
        text = (line * (length // len(line) + 1))[:length]
        taken = looked_at = 0
        for start in range(0, length, 50):
            blocks.feed(text[start : start + 50])
            taken += sum([len(leaf.text) + len(leaf.before) for leaf in blocks.take()])
            looked_at = max(looked_at, sum([len(leaf.text) for leaf in blocks.open()]))
        taken += sum([len(leaf.text) + len(leaf.before) for leaf in blocks.close()])
        return taken, looked_at

    taken, looked_at = drawn(60_000)

    assert taken <= 2.2 * 60_000 + 1_000
    assert looked_at <= 6 * PIECE_CHARACTERS


# -- what blocks there are ---------------------------------------------------------------------


def test_a_paragraph_is_finished_by_an_empty_line() -> None:
    blocks = MarkdownBlocks()

    blocks.feed("one\ntwo\n")

    assert blocks.take() == []
    assert [leaf.text for leaf in blocks.open()] == ["one\ntwo"]
    blocks.feed("\n")
    assert [leaf.text for leaf in blocks.take()] == ["one\ntwo"]
    assert blocks.open() == []


def test_items_of_a_list_are_finished_one_by_one() -> None:
    blocks = MarkdownBlocks()

    blocks.feed("- one\n- two\n- three\n- fo")

    assert [leaf.text for leaf in blocks.take()] == ["one", "two"]
    assert [leaf.text for leaf in blocks.open()] == ["three", "fo"]


def test_long_code_is_given_out_while_its_fence_is_open() -> None:
    blocks = MarkdownBlocks()

    blocks.feed("```python\n" + "line\n" * 50)
    taken = blocks.take()

    assert [leaf.text.count("line") for leaf in taken] == [20, 20]
    assert [leaf.language for leaf in taken] == ["python", "python"]
    assert [leaf.first for leaf in taken] == [True, False]
    assert taken[1].before == taken[0].text


def test_headings_of_both_kinds() -> None:
    found = leaves("# one #\n\ntwo\n===\nthree\n---\n####### none\n#none\n##")

    assert [(leaf.kind, leaf.level, leaf.text) for leaf in found] == [
        ("heading", 1, "one"),
        ("heading", 1, "two"),
        ("heading", 2, "three"),
        ("paragraph", 0, "####### none\n#none"),
        ("heading", 2, ""),
    ]


def test_a_table_needs_as_many_delimiters_as_headers() -> None:
    assert kinds("| a | b |\n|---|---|\n| 1 | 2 |\n") == ["table"]
    assert kinds("| a | b |\n|---|\n| 1 | 2 |\n") == ["paragraph"]
    assert kinds("text\n---|---\n") == ["paragraph"]


def test_a_year_at_the_beginning_of_a_line_begins_no_list() -> None:
    assert [leaf.containers for leaf in leaves("It was in\n1984. Big brother.")] == [()]


def test_a_rule_is_no_list_and_an_underline_is_no_rule() -> None:
    assert kinds("* * *\n\n- - -\ntext\n\n___") == ["rule", "rule", "paragraph", "rule"]


def test_code_inside_of_items_and_quotes_loses_their_margins() -> None:
    found = leaves("- a\n\n  ```\n  x\n    y\n  ```\n> ```\n> z\n\nend")

    assert [(leaf.kind, leaf.text) for leaf in found] == [
        ("paragraph", "a"), ("code", "x\n  y"), ("code", "z"), ("paragraph", "end"),
    ]  # fmt: skip


def test_a_line_that_only_goes_on_belongs_to_the_paragraph_above() -> None:
    found = leaves("> quoted\ngoes on\n\n- item\ngoes on")

    assert [leaf.text for leaf in found] == ["quoted\ngoes on", "item\ngoes on"]
    assert [leaf.containers[0].kind for leaf in found] == ["quote", "item"]


def test_lists_are_written_without_empty_lines_between_items() -> None:
    rows = shown("Text:\n\n- a\n\n- b\n  1. c\n  2. d\n\nEnd.\n* other")

    assert rows == ["Text:", "", "• a", "• b", "  1. c", "  2. d", "", "End.", "", "• other"]


def test_an_item_with_nothing_in_it_is_seen() -> None:
    assert shown("- a\n-\n- c") == ["• a", "•", "• c"]


def test_deep_nesting_costs_no_more_than_it_shows() -> None:
    found = leaves("> " * 5_000 + "x\n" + "- " * 5_000 + "y\n" + "\n" * 1_000)

    assert max([len(leaf.containers) for leaf in found]) <= 20


# -- how it looks ------------------------------------------------------------------------------


def test_markup_becomes_style_and_its_signs_vanish() -> None:
    assert shown("a **b** *c* `d*` ~~e~~ \\*f\\*") == ["a b c d* e *f*"]


def test_links_show_where_they_lead_unless_their_text_says_it() -> None:
    rows = shown(
        "[text](https://a.example/x) <https://b.example> [https://good.example](https://evil.example)"
    )

    assert " ".join(rows) == (
        "text (https://a.example/x) https://b.example https://good.example (https://evil.example)"
    )  # fmt: skip


def test_html_and_references_stay_text() -> None:
    assert shown("<script>x</script>\n\n[a][1]\n\n[1]: https://x.example") == [
        "<script>x</script>", "", "[a][1]", "", "[1]: https://x.example",
    ]  # fmt: skip


def test_a_table_fits_its_columns_into_the_width() -> None:
    rows = shown(
        "| name | n | text |\n|:--|--:|---|\n| a | 1 | one two three four |\n| b \\| c | 22 |", 24
    )

    assert rows == [
        "name    n  text",
        "─────  ──  ─────────────",
        "a       1  one two three",
        "           four",
        "b | c  22",
    ]


def test_more_columns_than_fit_are_shown_as_they_were_written() -> None:
    row = "|".join("abcdefghij")

    rows = shown(f"{row}\n{'|'.join(['-'] * 10)}\n{row}", 20)

    assert rows[0] == row


def test_a_long_table_keeps_its_columns_over_its_pieces() -> None:
    rows = shown("| a | b |\n|---|---|\n" + "| x | y |\n" * 100)

    assert len(rows) == 102
    assert set(rows[2:]) == {"x  y"}


def test_code_keeps_its_indentation_and_is_coloured() -> None:
    text = "```python\nif x:\n\treturn 'a'\n```"

    assert shown(text) == ["  if x:", "      return 'a'"]
    assert any("\x1b[" in row for row in shown(text, colored=True))


def test_a_string_that_began_in_an_earlier_piece_is_coloured_on() -> None:
    text = '```python\n"""doc\n' + "text here\n" * 25 + '"""\n```'

    rows = shown(text, colored=True)

    assert rows[23] == rows[10]
    assert "\x1b[" in rows[23]


def test_code_in_a_language_that_nobody_knows_is_plain() -> None:
    assert shown("```nonesuch-lang x=1\na <b>\n```", colored=True) == ["  a <b>"]


def test_wide_characters_are_broken_between_any_two() -> None:
    assert shown("日本語日本語日本語", 8) == ["日本語日", "本語日本", "語"]


def test_a_very_long_word_is_folded() -> None:
    assert shown("see " + "x" * 25, 20) == ["see", "x" * 20, "x" * 5]


def test_where_margins_leave_no_room_the_text_stands_without_them() -> None:
    rows = shown("- " * 9 + "text of some words", 20)

    assert "".join(rows).replace(" ", "") == "•" * 9 + "textofsomewords"
    assert all(cells(row) <= 20 for row in rows)
