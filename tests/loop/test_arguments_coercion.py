"""The coercion table, row by row; it is used only where a value does not fit as it is."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.loop.tool import AgentTool, ArgumentsRejected, as_tool

REFUSED = object()


def taking(hint: Any, *, optional: bool = False) -> AgentTool[Any, Any]:
    def f(value) -> None:
        raise NotImplementedError

    def g(value=7) -> None:
        raise NotImplementedError

    chosen = g if optional else f
    chosen.__annotations__ = {"value": hint}
    return as_tool(chosen)


@pytest.mark.parametrize(
    ("hint", "given", "expected"),
    [
        # numeric text -> number
        (float, "1.5", 1.5),
        (float, " 2e3 ", 2000.0),
        (float, "-0.5", -0.5),
        (float, 3, 3.0),
        (float, "three", REFUSED),
        (float, "0x10", REFUSED),
        (float, "1_000", REFUSED),
        (float, "", REFUSED),
        (float, True, REFUSED),
        # integral text and integral floats -> int
        (int, "42", 42),
        (int, "-7", -7),
        (int, "3.0", 3),
        (int, 3.0, 3),
        (int, 3.5, REFUSED),
        (int, "3.5", REFUSED),
        (int, "9" * 5000, REFUSED),
        (int, True, REFUSED),
        (int, False, REFUSED),
        (int, None, REFUSED),
        # true, false, 0 and 1 -> bool
        (bool, "true", True),
        (bool, "false", False),
        (bool, 1, True),
        (bool, 0, False),
        (bool, 2, REFUSED),
        (bool, "yes", REFUSED),
        (bool, "1", REFUSED),
        (bool, None, REFUSED),
        # numbers and booleans -> text
        (str, 5, "5"),
        (str, 1.5, "1.5"),
        (str, True, "true"),
        (str, False, "false"),
        (str, "true", "true"),
        (str, None, REFUSED),
        (str, ["a"], REFUSED),
        # unions: unchanged if any branch takes it, else the first that takes it coerced
        (int | str, "5", "5"),
        (int | str, 5, 5),
        (int | str, 1.5, "1.5"),
        (int | str, True, "true"),
        (bool | int, 1, 1),
        (int | None, "5", 5),
        (int | None, None, None),
        (list[int] | None, "[1, 2]", [1, 2]),
        (list[int] | str, "[1, 2]", "[1, 2]"),
        (int | list[str], [1], ["1"]),
        # choices
        (Literal["1", "2"], 1, "1"),
        (Literal[1, 2], "2", 2),
        (Literal["a"], "b", REFUSED),
        # inside containers
        (list[int], ["1", 2.0, 3], [1, 2, 3]),
        (list[int], ["a"], REFUSED),
        (dict[str, bool], {"a": "true", "b": 0}, {"a": True, "b": False}),
        (tuple[int, str], ["1", 2], (1, "2")),
        (tuple[int, str], '["1", 2]', (1, "2")),
        (dict[str, int], '{"a": "1"}', {"a": 1}),
        (dict[str, int], "[]", REFUSED),
    ],
)
def test_behaviour_146_the_coercion_table(hint: Any, given: Any, expected: Any) -> None:
    tool = taking(hint)

    if expected is REFUSED:
        with pytest.raises(ArgumentsRejected, match="value"):
            tool.bind({"value": given})
    else:
        got = tool.bind({"value": given}).params["value"]
        assert got == expected
        assert type(got) is type(expected)


def test_behaviour_146_null_for_what_is_optional_but_not_nullable_means_not_given() -> None:
    assert taking(int, optional=True).bind({"value": None}).params == {}
    assert taking(int | None, optional=True).bind({"value": None}).params == {"value": None}
    assert taking(Any, optional=True).bind({"value": None}).params == {"value": None}


def test_behaviour_134_true_is_no_integer_and_one_is_a_boolean_only_by_the_table() -> None:
    with pytest.raises(ArgumentsRejected):
        taking(int).bind({"value": True})
    assert taking(int).bind({"value": 1}).params["value"] == 1
    assert taking(int | bool).bind({"value": True}).params["value"] is True


def test_behaviour_146_nothing_is_coerced_where_everything_fits() -> None:
    def f(a: str, b: list[str], c: Any) -> None:
        raise NotImplementedError

    given = {"a": "1", "b": ["[1]", "true"], "c": {"x": "1", "y": "[]"}}

    assert as_tool(f).bind(given).args == given


@given(st.integers())
def test_every_integer_survives_the_way_through_text(number: int) -> None:
    if abs(number) < 10**4000:
        assert taking_int.bind({"value": str(number)}).params["value"] == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_float_survives_the_way_through_text(number: float) -> None:
    assert taking_float.bind({"value": repr(number)}).params["value"] == number


taking_int = taking(int)
taking_float = taking(float)
