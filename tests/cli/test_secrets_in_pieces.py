"""Keys in what tools say: whole, in other spellings, and in output that comes piece by piece."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.cli.bench.secrets import Secrets
from loopwright.loop.tool import ToolContext
from loopwright.tools.bash import bash_tool
from loopwright.tools.local_workspace import LocalWorkspace
from loopwright.tools.output_files import OutputFiles

KEY = "sk-toy-api03-Zx81kQ9vW2mN7pL4rT6yU0i"
OTHER = "AIzaToy+Secret/0123456789=="
SHORT = "sk-toy-api03-"  # also a key, and the beginning of another
SECRETS = Secrets([("KEY", KEY), ("OTHER", OTHER), ("SHORT", SHORT)])
PIECES = st.lists(
    st.sampled_from([KEY, OTHER, SHORT, KEY[:9], KEY[9:], OTHER[:3], "s", "sk-", "\n", "A", "plain text "]),
    max_size=8,
)  # fmt: skip


LONG = "sk-toy-api03-" + "Qx7Lm2Wd9" * 10
BROKEN = Secrets([("LONG", LONG)])


def wrapped(text: str, width: int, between: str = "\n") -> str:
    return between.join(text[at : at + width] for at in range(0, len(text), width))


def unbroken(text: str) -> str:
    return "".join(text.split())


def in_base64(before: str = "") -> str:
    return base64.b64encode(f"{before}{LONG}\nMORE=1\n".encode()).decode()


def in_pieces(text: str, sizes: list[int], secrets: Secrets = SECRETS) -> str:
    keep_out = secrets.filter()
    told: list[str] = []
    at = turn = 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        told.append(keep_out(text[at : at + size]))
        at += size
        turn += 1
    return "".join([*told, keep_out("", final=True)])


@given(PIECES, st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_however_output_is_cut_no_key_is_in_it(parts: list[str], sizes: list[int]) -> None:
    text = "".join(parts)

    told = in_pieces(text, sizes)

    assert KEY not in unbroken(told)
    assert OTHER not in unbroken(told)
    if "\n" not in text:  # else some letters before a line break are told early
        assert told == in_pieces(text, [len(text) + 1])


def test_a_key_that_ends_as_another_begins_is_hidden_at_once() -> None:
    keep_out = Secrets([("KEY", KEY), ("FIRST", "9876543210-sk-toy")]).filter()

    assert keep_out("it is 9876543210-sk-toy") == "it is [FIRST, not shown]"
    assert keep_out(" and sk-toy") == " and "


@given(st.text(alphabet="abksAI-\n", max_size=200), st.lists(st.integers(1, 9), min_size=1))
def test_what_holds_no_key_is_left_as_it_is(text: str, sizes: list[int]) -> None:
    assert in_pieces(text, sizes) == text


def test_the_beginning_of_a_key_is_held_back_and_nothing_else() -> None:
    keep_out = SECRETS.filter()

    assert keep_out("password: ") == "password: "
    assert keep_out("ends with sk-to") == "ends with "
    assert keep_out("ast") == "sk-toast"


@pytest.mark.parametrize("before", ["", "u", "us", "user:", "Bearer "])
@pytest.mark.parametrize("key", [KEY, OTHER])
def test_a_key_in_base64_is_hidden_wherever_it_begins(before: str, key: str) -> None:
    told = base64.b64encode(f"{before}{key}:x".encode()).decode()

    hidden = SECRETS.hide(f"Authorization: Basic {told}")

    assert "not shown]" in hidden
    assert told[8:-8] not in hidden
    assert len(hidden) < len("Authorization: Basic ") + 40


@pytest.mark.parametrize("before", ["", "u", "us", "DEBUG=1\nTOY_API_KEY=" + "x" * 40])
@pytest.mark.parametrize("between", ["\n", "\r\n", "\n      ", "\n\n\t"])
def test_base64_in_lines_is_hidden(before: str, between: str) -> None:
    told = wrapped(in_base64(before), 76, between)

    for hidden in (
        BROKEN.hide(told),
        in_pieces(told, [7], BROKEN),
        in_pieces(told, [4096], BROKEN),
    ):
        rest = unbroken(hidden).replace("[LONG,notshown]", "")
        assert rest != unbroken(hidden)
        assert LONG[6:30].encode() not in base64.b64decode(rest[: len(rest) // 4 * 4])
        assert len(rest) < len(in_base64(before)) - len(LONG)
        assert rest.endswith(in_base64(before)[-8:])


@given(
    st.integers(0, 90),
    st.integers(1, 90),
    st.integers(0, 9),
    st.lists(st.integers(1, 200), min_size=1),
)
def test_however_lines_and_pieces_are_cut_no_key_is_in_them(
    before: int, width: int, indent: int, sizes: list[int]
) -> None:
    between = "\n" + " " * (indent if width > 8 else 0)
    told = wrapped(f"{'x' * before}{LONG}yyyy", width, between)

    hidden = in_pieces(told, sizes, BROKEN)

    left = unbroken(hidden)
    assert left.count("[LONG,notshown]") == 1
    rest = left.replace("[LONG,notshown]", "")
    assert re.fullmatch("x*s?k?-?yyyy", rest), "no more than what ordinary lines end with"


def test_a_line_that_ends_as_a_key_begins_is_told_at_once() -> None:
    keep_out = BROKEN.filter()

    assert keep_out("two tasks\n") == "two tasks\n"
    assert keep_out("k-toys\n") == "k-toys\n"
    assert keep_out("done: sk-\n") == "done: sk-\n"
    assert keep_out(f"{LONG[3:]}!\n") == "[LONG, not shown]!\n"
    assert keep_out("sk-toy\n") == ""
    assert keep_out("is a toy") == "sk-toy\nis a toy"
    assert keep_out("bus\n") == "bus\n"
    assert keep_out("k-toy") == ""
    assert keep_out(" shop") == "k-toy shop"


def test_a_part_of_a_key_in_lines_is_hidden_where_output_was_cut() -> None:
    first, last = wrapped(LONG[:80], 60), wrapped(LONG[-80:], 60)

    assert BROKEN.hide(f"{first}\n[more is left out]") == "[LONG, not shown]\n[more is left out]"
    assert BROKEN.hide(f"[cut]\n{last}\nend") == "[cut]\n[LONG, not shown]\nend"


def test_what_is_around_a_key_in_lines_stays() -> None:
    text = f"a\n\n  b {wrapped(LONG, 60)}\n\n  c\n{LONG}\nd\n"

    assert BROKEN.hide(text) == "a\n\n  b [LONG, not shown]\n\n  c\n[LONG, not shown]\nd\n"


def test_blanks_are_no_line_breaks_and_short_keys_are_not_sought_over_any() -> None:
    words = Secrets([("WORDS", "thereisnokeyinhere"), ("SHORT", "passwordtoo")])
    short = Secrets([("SHORT", "pass-word-too")])

    for secrets, text in (
        (words, "there is no key in here, there\nis no key in here"),
        (short, "pass-\nword-too"),
        (short, "pass-word\n-too"),
    ):
        assert secrets.hide(text) == text
        assert in_pieces(text, [3], secrets) == text
    assert short.hide("is pass-word-too\n") == "is [SHORT, not shown]\n"
    assert in_pieces("is pass-word-too\n", [3], short) == "is [SHORT, not shown]\n"


@pytest.mark.parametrize(
    "command",
    [
        "base64 .env",
        "printf %s $TOY_KEY | base64",
        "env | grep ^TOY_KEY | base64",
        "fold -w 60 .env",
    ],
)
async def test_commands_that_break_lines_do_not_show_a_key(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_KEY", LONG)
    (tmp_path / ".env").write_text(f"DEBUG=1\nTOY_KEY={LONG}\n")
    bash = bash_tool(LocalWorkspace(tmp_path), clean=BROKEN.filter)

    result = await bash.invoke(bash.bind({"command": command}), ToolContext("1"))

    assert "[LONG, not shown]" in result.text
    assert len(result.text) < 60


def test_a_key_that_has_line_breaks_itself_is_hidden() -> None:
    lines = "-----BEGIN-----\nAbCdEfGhIjKlMnOp\nQrStUvWx\n-----END-----\n"

    assert Secrets([("PEM", lines)]).hide(f"it is {lines}.") == "it is [PEM, not shown]\n."


def test_a_key_as_a_url_spells_it_is_hidden() -> None:
    assert SECRETS.hide(f"/v1?key={quote(OTHER, safe='')}&x=1") == "/v1?key=[OTHER, not shown]&x=1"


async def test_a_key_is_neither_in_what_a_command_shows_nor_in_its_file(tmp_path: Path) -> None:
    bash = bash_tool(
        LocalWorkspace(tmp_path), files=OutputFiles(tmp_path / "out"), clean=SECRETS.filter
    )
    script = f"for i in $(seq 3000); do printf 'line %s {KEY[:11]}' $i; echo {KEY[11:]}; done"

    result = await bash.invoke(bash.bind({"command": script}), ToolContext("1"))

    kept = Path(result.details["fullOutputPath"]).read_text()
    assert kept.count("[KEY, not shown]") == 3000
    assert KEY not in kept
    assert KEY[11:] not in result.text


@pytest.mark.parametrize("key", ["tok-9f3a77", "abc123", "k1-k2-k3-k4"])
def test_case_112_a_short_key_is_hidden_too_as_it_is_and_in_base64(key: str) -> None:
    secrets = Secrets([("KEY", key)])
    coded = base64.b64encode(key.encode()).decode()

    assert secrets.hide(f"Bearer {key}.") == "Bearer [KEY, not shown]."
    assert key not in secrets.hide(f"x{key}x")
    assert coded.rstrip("=")[:-1] not in secrets.hide(coded)


@pytest.mark.parametrize("word", ["ollama", "dummy", "x1", "12345", ""])
def test_case_112_what_may_be_a_word_is_left_alone(word: str) -> None:
    assert Secrets([("KEY", word)]).hide(f"with {word} there") == f"with {word} there"
