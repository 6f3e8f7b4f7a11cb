"""The header of a Markdown file is read strictly, cheaply, and as nothing but data."""

from __future__ import annotations

import json
import string
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from loopwright.harness.frontmatter import Document, FrontmatterInvalid, parse_frontmatter


def test_a_header_and_a_body_are_parted() -> None:
    document = parse_frontmatter("---\nname: x\ntags: [a, b]\n---\nHello\n---\nthere\n")

    assert document.fields == {"name": "x", "tags": ["a", "b"]}
    assert document.body == "Hello\n---\nthere\n"


@pytest.mark.parametrize("text", ["", "Hello", "\n---\na: 1\n---\n", " ---\na: 1\n---\n"])
def test_a_file_that_does_not_start_with_the_fence_has_no_header(text: str) -> None:
    document = parse_frontmatter(text)

    assert document.fields is None
    assert document.body == text


@pytest.mark.parametrize("fence", ["----", " ---", "---x", "--"])
def test_only_exactly_three_dashes_are_a_fence(fence: str) -> None:
    opening = parse_frontmatter(f"{fence}\na: 1\n---\n")
    assert opening.fields is None

    with pytest.raises(FrontmatterInvalid, match="not closed"):
        parse_frontmatter(f"---\na: 1\n{fence}\nbody")


def test_a_line_that_begins_like_a_fence_does_not_close_the_header() -> None:
    document = parse_frontmatter("---\na: |\n  x\n  ---\nb: 2\n---\nbody")

    assert document.fields == {"a": "x\n---\n", "b": 2}
    assert document.body == "body"


def test_a_byte_order_mark_and_windows_line_ends_change_nothing() -> None:
    plain = parse_frontmatter("---\na: 1\nb: x\n---\none\ntwo\n")

    assert parse_frontmatter("\ufeff---\r\na: 1\r\nb: x\r\n---\r\none\r\ntwo\r\n") == plain


@pytest.mark.parametrize("header", ["", "\n", "# only a comment\n", "null\n"])
def test_an_empty_header_is_an_empty_mapping(header: str) -> None:
    assert parse_frontmatter(f"---\n{header}---\nbody").fields == {}


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("- a\n- b\n", "a list, not a mapping"),
        ("[a]\n", "a list, not a mapping"),
        ("just words\n", "a single value, not a mapping"),
        ("42\n", "a single value, not a mapping"),
        ("a: 1\nb: 2\na: 3\n", r"line 4: the key 'a' stands there twice"),
        ("m: {x: 1, x: 2}\n", r"the key 'x' stands there twice"),
        ("a: 1\n...\nb: 2\n", "document|no YAML"),
        ("a: 1\n  b: 2\n", "line 3: no YAML"),
        ("a: Use when: asked\n", r"(?s)line 2: no YAML.*hint: .*in quotes"),
        ("a: [1\n", "no YAML"),
        ("\ta: 1\n", "no YAML"),
        ("a: \x07\n", "no YAML"),
        ("[a]: 1\n", "a key is no text"),
        ("{b: 1}: 1\n", "a key is no text"),
        (": 1\n", "a key is no text|no YAML"),
        ("a: !!python/object/apply:os.system ['true']\n", "tags"),
        ("a: !!binary aGVsbG8=\n", "tags"),
        ("!x {a: 1}\n", "tags"),
        ("a: &x [1]\nb: *x\n", "line 3: aliases"),
        ("a: &x {<<: *x}\n", "aliases"),
        ("a: *not-bold*\n", "(?s)hint: .*in quotes"),
        ("%YAML 1.1\na: 1\n", "no YAML"),
    ],
)
def test_whatever_is_not_a_plain_mapping_is_refused_with_its_reason(header: str, said: str) -> None:
    with pytest.raises(FrontmatterInvalid, match=said):
        parse_frontmatter(f"---\n{header}---\nbody")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        ("12", 12), ("-3", -3), ("0", 0), ("1.5", 1.5), ("2e3", 2000.0),
        ("yes", "yes"), ("no", "no"), ("on", "on"), ("007", "007"), ("0x1F", "0x1F"),
        ("2024-02-31", "2024-02-31"), ("1:30", "1:30"), (".inf", ".inf"), ("1_000", "1_000"),
        ("9" * 5000, "9" * 5000), ("1e999", "1e999"), ("'12'", "12"), ('"true"', "true"),
        ("=", "="), ("<<", "<<"), ("|\n  a\n  b", "a\nb\n"), (">\n  a\n  b", "a b\n"),
    ],
)  # fmt: skip
def test_values_are_text_unless_json_has_them(written: str, value: object) -> None:
    found = parse_frontmatter(f"---\nkey: {written}\n---\n").fields

    assert found is not None
    assert found == {"key": value}
    assert type(found["key"]) is type(value)


def test_keys_are_text_whatever_they_look_like() -> None:
    assert parse_frontmatter("---\n1: a\ntrue: b\n'': c\n---\n").fields == {
        "1": "a",
        "true": "b",
        "": "c",
    }


def test_a_value_may_be_taken_as_it_is_written() -> None:
    header = "argument-hint: [file] [focus: x]\ndescription: d\nnested:\n  argument-hint: [a]\n"

    fields = parse_frontmatter(f"---\n{header}---\n", verbatim=["argument-hint"]).fields

    assert fields == {
        "argument-hint": "[file] [focus: x]",
        "description": "d",
        "nested": {"argument-hint": ["a"]},
    }


@pytest.mark.parametrize("written", ['"[a] b"', "'[a] b'", "|\n  [a] b", ""])
def test_a_verbatim_key_may_still_be_written_as_yaml(written: str) -> None:
    fields = parse_frontmatter(f"---\nhint: {written}\n---\n", verbatim=["hint"]).fields

    assert fields is not None
    assert (fields["hint"] or "[a] b").strip() == "[a] b"


@pytest.mark.parametrize("c_parser", [True, False])
@pytest.mark.parametrize(
    "header",
    [
        # Ten times ten times ten ...: 10^9 elements if it were followed.
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n"
            for old, new in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "a: &a {x: 1}\nb: &b {<<: [*a, *a]}\nc: {<<: [*b, *b]}\n",
        "[" * 30_000 + "\n",
        "{a: " * 10_000 + "\n",
        "- " * 30_000 + "\n",
        "? " * 30_000 + "\n",
        "a: " + "[" * 40 + "]" * 40 + "\n",
        "x: " + "a" * 70_000 + "\n",
        "x: y\n" * 13_000,
    ],
    ids=["bomb", "merge", "brackets", "braces", "dashes", "keys", "deep", "long", "twice"],
)
def test_a_hostile_header_costs_next_to_nothing(
    header: str, c_parser: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not c_parser:
        monkeypatch.delattr(yaml, "CBaseLoader", raising=False)
    started = time.process_time()

    with pytest.raises(FrontmatterInvalid):
        parse_frontmatter(f"---\n{header}---\nbody")

    assert time.process_time() - started < 2


def test_half_a_surrogate_pair_does_no_harm() -> None:
    assert parse_frontmatter('---\na: "\ud800"\n---\n').fields == {"a": "\ufffd"}


WORDS = st.text(
    string.ascii_letters + string.digits + " -_:#'\"äß漢😀*&!%@`,[]{}|>?.\\", max_size=12
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(WORDS, PLAIN, max_size=4), st.text(max_size=40))
def test_json_as_a_header_reads_as_json(fields: dict[str, Any], body: str) -> None:
    """YAML contains JSON; block style as other programs write it is covered by the next one."""
    body = body.replace("\r\n", "\n").replace("\r", "\n")
    text = f"---\n{json.dumps(fields, ensure_ascii=False)}\n---\n{body}"

    document = parse_frontmatter(text)

    assert document.fields == fields
    assert document.body == body


@given(st.dictionaries(WORDS, PLAIN, max_size=4))
def test_what_a_yaml_writer_wrote_reads_as_it_was(fields: dict[str, Any]) -> None:
    class Writer(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    written = yaml.dump(fields, Dumper=Writer, allow_unicode=True, width=30)

    assert parse_frontmatter(f"---\n{written}---\n").fields == fields


@given(st.text(st.sampled_from("-\n\r ab:[]{}&*!|>\"'#\ufeff\t1"), max_size=60))
def test_any_text_is_read_or_refused_with_words(text: str) -> None:
    try:
        document = parse_frontmatter(text)
    except FrontmatterInvalid:
        return

    assert document.fields is None or isinstance(document.fields, dict)
    assert text.replace("\r\n", "\n").replace("\r", "\n").endswith(document.body)


@pytest.mark.parametrize("fence", ["---", "--- ", "---\t", "---  \t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_case_155_blanks_line_ends_and_marks_decide_nothing(
    fence: str, end: str, start: str
) -> None:
    text = start + end.join([fence, "description: it works", fence, "body", ""])

    assert parse_frontmatter(text) == Document({"description": "it works"}, "body\n")
