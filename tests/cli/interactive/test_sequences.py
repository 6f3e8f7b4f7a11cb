"""What a terminal sends beside letters: keys in newer forms, and reports that are no keys."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

from loopwright.cli.interactive import inline, sequences
from loopwright.cli.interactive.paste_input import read_pastes_at_once

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no sequences")


def keys_from(*reads: str) -> list[str]:
    """The keys of *reads*; between two of them, and at the end, nothing comes for a while."""
    from prompt_toolkit.input.vt100 import Vt100Input

    with open("/dev/null", encoding="utf-8") as nothing:
        terminal = Vt100Input(nothing)
        read_pastes_at_once(terminal)
        pressed: list[KeyPress] = []
        terminal.vt100_parser.feed_key_callback = pressed.append
        for read in reads:
            terminal.vt100_parser.feed(read)
        terminal.vt100_parser.flush()
    return [press.key.value if isinstance(press.key, Keys) else press.key for press in pressed]


@pytest.mark.parametrize("modifiers", [2, 3, 4, 5, 6, 7, 8, 66])
@pytest.mark.parametrize(
    "form", ["\x1b[13;{}u", "\x1b[13;{}:1u", "\x1b[27;{};13~", "\x1b[57414;{}u"]
)
def test_case_113_enter_with_a_modifier_is_a_new_line(form: str, modifiers: int) -> None:
    assert keys_from(f"a{form.format(modifiers)}b") == ["a", "c-j", "b"]


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("\x1b[13u", ["c-m"]),
        ("\x1b[13;129u", ["c-m"]),
        ("\x1b[99;5u", ["c-c"]),
        ("\x1b[27;5;99~", ["c-c"]),
        ("\x1b[27u", ["escape"]),
        ("\x1b[9u", ["c-i"]),
        ("\x1b[9;2u", ["s-tab"]),
        ("\x1b[127u", ["c-h"]),
        ("\x1b[98;3u", ["escape", "b"]),
        ("\x1b[97;2u", ["A"]),
        ("\x1b[228;1u", ["ä"]),
        ("\x1b[1;1:2A", ["up"]),
        ("\x1b[1;5:1D", ["c-left"]),
        ("\x1b[13;2:3u", []),
        ("\x1b[1;1:3A", []),
        ("\x1b[99;5:3u", []),
        ("\x1b[99;9u", []),
        ("\x1b[57358u", []),
        ("\x1b[1114112u", []),
        ("\r", ["c-m"]),
        ("\x1b\r", ["escape", "c-m"]),
        ("\x1b\x1b[A", ["escape", "up"]),
        ("\x1b", ["escape"]),
        ("\x1b[3~", ["delete"]),
        ("\x1bOP", ["f1"]),
        ("\x1b[[A", ["f1"]),
    ],
)
def test_case_113_a_key_in_a_newer_form_is_the_key(sent: str, keys: list[str]) -> None:
    assert keys_from("a", sent) == ["a", *keys]


REPORTS = [
    "\x1b[I",
    "\x1b[O",
    "\x1b]11;rgb:1e1e/1e1e/2e2e\x07",
    "\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\",
    "\x1bP>|XTerm(390)\x1b\\",
    "\x1b_Gi=1;OK\x1b\\",
    "\x1b^private\x1b\\",
    "\x1bXstring\x1b\\",
    "\x1b[?62;22c",
    "\x1b[12;40R",
    "\x1b[<0;12;7M",
    "\x1b[M !!",
    "\x1b[?2026;2$y",
    "\x1b[201~",
    "\x1bOz",
]


@pytest.mark.parametrize("report", REPORTS, ids=repr)
def test_case_114_a_report_of_the_terminal_is_no_key(report: str) -> None:
    for cut in range(1, len(report)):
        assert keys_from("a" + report[:cut], report[cut:] + "b") == ["a", "b"]


PRINTABLE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=30)
LETTERS = st.text("abcxyz", max_size=5)
STRINGS = st.builds(
    lambda kind, body, end: f"\x1b{kind}{body}{end}",
    st.sampled_from("]PX^_"),
    PRINTABLE,
    st.sampled_from(["\x07", "\x1b\\"]),
)
PRIVATE = st.builds(
    lambda mark, body, final: f"\x1b[{mark}{body}{final}",
    st.sampled_from("<=>?"),
    st.text("0123456789:;", max_size=12),
    st.characters(min_codepoint=0x40, max_codepoint=0x7E),
)


@given(LETTERS, st.sampled_from(REPORTS) | STRINGS | PRIVATE, LETTERS, st.data())
def test_case_114_a_sequence_cut_anywhere_leaves_the_letters_around_it(
    before: str, sequence: str, after: str, data: st.DataObject
) -> None:
    sent = before + sequence + after
    cuts = sorted(data.draw(st.sets(st.integers(0, len(sent)), max_size=4)))
    reads = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]

    assert keys_from(*reads) == [*before, *after]


def test_case_114_a_sequence_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert keys_from("\x1b]" + "x" * (sequences.LONGEST - 1) + "ab") == ["a", "b"]
    assert keys_from("\x1b]11;", "\x03a") == ["c-c", "a"]
    monkeypatch.setattr(sequences, "GIVE_UP_SECONDS", -1.0)
    assert keys_from("\x1b]", "ab") == ["a", "b"]


def test_case_114_a_paste_is_still_one_piece() -> None:
    assert keys_from("a\x1b[200", "~\x1b[I\x1b]x", "\x1b[201~b") == ["a", "<bracketed-paste>", "b"]


def test_case_115_over_ssh_a_key_may_come_in_parts_and_esc_still_acts_soon() -> None:
    assert 0.1 < inline.ESCAPE_SECONDS_OVER_SSH < 0.15
