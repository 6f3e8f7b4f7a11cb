"""Keys in what tools say: whole, in other spellings, and in output that comes piece by piece."""

from __future__ import annotations

import base64
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


def in_pieces(text: str, sizes: list[int]) -> str:
    keep_out = SECRETS.filter()
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

    assert KEY not in told
    assert OTHER not in told
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
