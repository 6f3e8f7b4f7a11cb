"""Docstrings of every style say the same to a model."""

from __future__ import annotations

import warnings

import pytest

from loopwright.loop.docstrings import Documentation, read_docstring
from loopwright.loop.tool import tool

GOOGLE = """Adds.

    Args:
        x (int): first, see note:
            continued here.
        y (float, optional): second.
    Returns:
        float: the sum.
    """

NUMPY = """Adds.

    Parameters
    ----------
    x : int
        first, see note:
        continued here.
    y : float, optional
        second.

    Returns
    -------
    float
        the sum.
    """

REST = """Adds.

    :param int x: first, see note:
        continued here.
    :param y: second.
    :type y: float, optional
    :returns: the sum.
    :rtype: float
    """

EPYDOC = """Adds.

    @param x: first, see note:
        continued here.
    @type x: int
    @param y: second.
    @return: the sum.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST, EPYDOC])
def test_case_045_every_style_gives_the_same_texts(text: str) -> None:
    description, parameters = read_docstring(text)

    assert description == "Adds."
    assert parameters == {"x": "first, see note: continued here.", "y": "second."}


def test_case_045_types_in_the_docstring_do_not_alter_the_schema() -> None:
    @tool
    def f(x: str, y: bool = True) -> None:
        raise NotImplementedError

    f.function.__doc__ = GOOGLE

    assert f.parameters["properties"] == {
        "x": {"type": "string", "description": "first, see note: continued here."},
        "y": {"type": "boolean", "description": "second.", "default": True},
    }
    assert f.spec.description == "Adds."


def test_behaviour_130_summary_and_long_part_are_the_description() -> None:
    text = """Add two numbers.

    Works for integers,
    too.

    Args:
        x: one
    """

    assert read_docstring(text).description == "Add two numbers.\n\nWorks for integers,\ntoo."


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_behaviour_130_no_docstring_is_an_empty_description(text: str | None) -> None:
    assert read_docstring(text) == Documentation()
    assert read_docstring(text).description == ""


def test_several_names_on_one_line_and_stars_are_understood() -> None:
    text = """Join.

    Args:
        left, right: What is joined.
        **options: Handed on.
    """

    assert read_docstring(text).parameters == {
        "left": "What is joined.",
        "right": "What is joined.",
        "options": "Handed on.",
    }


def test_a_broken_section_is_prose() -> None:
    text = "Adds.\n\nArgs:\n    no colon here\n  and odd indentation\n"

    assert "Adds." in read_docstring(text).description


def test_case_045_a_described_name_that_is_no_parameter_gives_a_warning() -> None:
    @tool
    def f(x: int) -> None:
        """Adds.

        Args:
            x: first
            z: nobody
        """

    with pytest.warns(UserWarning, match=r"'f'.*'z'"):
        f.check()


def test_case_045_a_missing_description_is_no_error() -> None:
    @tool
    def f(x: int, y: int) -> None:
        """Adds.

        Args:
            x: first
        """

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f.check()

    assert "description" not in f.parameters["properties"]["y"]
