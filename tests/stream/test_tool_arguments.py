"""The text of a call's arguments is read once and strictly; only slips in strings are mended."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.stream.tool_arguments import (
    MAX_DEPTH,
    ParsedArguments,
    parse_arguments,
    parse_partial_arguments,
)

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
)
json_objects = st.dictionaries(st.text(), json_values)


@pytest.mark.parametrize("text", [None, "", "   ", "\n\t", "null", " null "])
def test_behaviour_140_case_001_nothing_blanks_and_null_are_no_arguments(text: str | None) -> None:
    assert parse_arguments(text) == ParsedArguments({}, None, None)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('["notes.md"]', "an array"),
        ('"notes.md"', "a string"),
        ("17", "a number"),
        ("1.5", "a number"),
        ("true", "a boolean"),
    ],
)
def test_behaviour_141_case_002_what_is_no_object_is_refused_with_its_type(
    text: str, kind: str
) -> None:
    parsed = parse_arguments(text)

    assert parsed.arguments == {}
    assert parsed.raw_arguments == text
    assert parsed.arguments_error is not None
    assert kind in parsed.arguments_error
    assert "object" in parsed.arguments_error


def test_behaviour_141_broken_json_is_refused_with_place_shape_and_the_first_200_characters() -> (
    None
):
    text = '{"path": "a.md", "content": ' + "x" * 500

    error = parse_arguments(text).arguments_error

    assert error is not None
    assert "offset 28" in error
    for word in ("double quotes", "no comments", "no trailing commas", "no raw newlines", "{"):
        assert word in error
    assert text[:200] in error
    assert text[:201] not in error


@pytest.mark.parametrize(
    "text", ['{"path":"a.md","content":"# Ti', '{"cmd":"rm -r build', '{"a":1']
)
def test_case_004_a_truncated_document_is_never_completed(text: str) -> None:
    parsed = parse_arguments(text)

    assert parsed.arguments == {}
    assert parsed.arguments_error is not None
    assert "end of the text" in parsed.arguments_error or "Unterminated" in parsed.arguments_error


@given(json_objects, st.data())
def test_case_004_no_proper_prefix_of_an_object_is_accepted(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(value)
    cut = data.draw(st.integers(min_value=1, max_value=len(text) - 1))

    assert parse_arguments(text[:cut]).arguments_error is not None


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (
            '{"message":"first \\로 second","to":"team"}',
            {"message": "first \\로 second", "to": "team"},
        ),
        (r'{"re":"\d+"}', {"re": r"\d+"}),
        (r'{"a":"\u12"}', {"a": r"\u12"}),
        (r'{"a":"\u00e9\x"}', {"a": "é\\x"}),
        ('{"a":"one\ntwo\ttabs\x00"}', {"a": "one\ntwo\ttabs\x00"}),
        ('{"a\n":1}', {"a\n": 1}),
    ],
)
def test_case_005_slips_inside_strings_are_mended_and_the_raw_text_kept(
    text: str, meant: dict[str, Any]
) -> None:
    assert parse_arguments(text) == ParsedArguments(meant, text, None)


def test_case_005_a_backslash_outside_a_string_is_refused_with_its_offset() -> None:
    parsed = parse_arguments('{"a":1}\\n')

    assert parsed.arguments == {}
    assert parsed.arguments_error is not None
    assert "offset 7" in parsed.arguments_error


def test_case_005_the_offset_is_that_of_the_original_text_also_after_mending() -> None:
    text = '{"a":"x\n\n\n\\d", "b":}'

    error = parse_arguments(text).arguments_error

    assert error is not None
    assert f"offset {text.index('}')}" in error


@pytest.mark.parametrize(
    "text",
    ['{"a":NaN}', '{"a":Infinity}', '{"a":-Infinity}', '{"a":1e400}', '{"a":' + "9" * 5000 + "}"],
)
def test_behaviour_146_numbers_json_does_not_have_are_refused(text: str) -> None:
    parsed = parse_arguments(text)

    assert parsed.arguments == {}
    assert parsed.arguments_error is not None
    assert "at offset 5" in parsed.arguments_error


def test_a_long_integer_stays_exact() -> None:
    assert parse_arguments('{"a":123456789012345678901234567890}').arguments == {
        "a": 123456789012345678901234567890
    }


def test_case_021_lone_surrogates_become_the_replacement_character_and_pairs_stay() -> None:
    text = r'{"a":"done \ud83d","b":"\ud83d\ude42","\udce9":["\udce9"]}'

    assert parse_arguments(text).arguments == {
        "a": "done \ufffd",
        "b": "🙂",
        "\ufffd": ["\ufffd"],
    }
    assert parse_arguments('{"a":"raw \ud83d"}').arguments == {"a": "raw \ufffd"}


def test_of_repeated_keys_the_last_one_counts_and_a_byte_order_mark_is_ignored() -> None:
    assert parse_arguments('{"a":1,"a":2}').arguments == {"a": 2}
    assert parse_arguments('\ufeff{"a":1}').arguments == {"a": 1}


def test_nesting_is_refused_beyond_what_everything_behind_can_walk() -> None:
    def nested(levels: int) -> str:
        return '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"

    assert parse_arguments(nested(MAX_DEPTH)).arguments_error is None
    for levels in (MAX_DEPTH + 1, 900, 100_000):
        error = parse_arguments(nested(levels)).arguments_error
        assert error is not None
        assert "nested" in error


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * 50_000,
        '{"a":"' + "\n" * 100_000 + '"}',
        '{"a":"' + "\\" * 100_001,
        "[" * 100_000,
        '"' * 100_001,
        '{"a":[' + "[]," * 30_000 + "1]}",
        '{"a":"' + "x" * 1_000_000 + '"}',
    ],
    ids=["escaped quotes", "newlines", "backslashes", "brackets", "quotes", "wide", "plain"],
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    started = time.perf_counter()

    parse_arguments(text)
    parse_partial_arguments(text)

    assert time.perf_counter() - started < 5  # hundredths; a quadratic reader would take minutes


@given(json_objects)
def test_what_json_writes_is_read_back_unchanged(value: dict[str, Any]) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert parse_arguments(text) == ParsedArguments(value, None, None)


@given(json_objects)
def test_raw_control_characters_are_mended_to_what_was_meant(value: dict[str, Any]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    raw = text.replace("\\n", "\n").replace("\\t", "\t") if "\\\\" not in text else text

    assert parse_arguments(raw).arguments == value


@given(st.text())
def test_no_text_makes_it_raise(text: str) -> None:
    for candidate in (text, "{" + text, '{"' + text, '{"a":"' + text + '"}'):
        parsed = parse_arguments(candidate)
        json.dumps(parsed.arguments, allow_nan=False).encode()
        (parsed.arguments_error or "").encode()
        assert (parsed.arguments_error is None) or parsed.arguments == {}
        json.dumps(parse_partial_arguments(candidate))


@given(json_objects, st.data())
def test_partial_arguments_are_a_dict_at_every_cut(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(value, ensure_ascii=False)
    cut = data.draw(st.integers(min_value=0, max_value=len(text)))

    partial = parse_partial_arguments(text[:cut])

    assert partial.keys() <= value.keys()
    assert parse_partial_arguments(text).keys() == value.keys()


def test_partial_arguments_show_strings_as_far_as_they_came() -> None:
    assert parse_partial_arguments('{"path": "a.md", "content": "# Ti') == {
        "path": "a.md",
        "content": "# Ti",
    }
    assert parse_partial_arguments('{"content": "one\ntw') == {"content": "one\ntw"}
    assert parse_partial_arguments("[1, 2") == {}
    assert parse_partial_arguments("") == {}
