"""Every numbered behaviour and case has a test that carries its number, or a written reason.

The numbers of behaviours are those of docs/behaviours.md; the cases are listed below. A test may hold several: its name
then lists them, as in `test_behaviour_031_033_...`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
DOCS = TESTS.parent / "docs"

BEHAVIOURS = set(range(1, 151))

# Faults that people reported of software like this one, which must not happen here.
CASES = {
    1: "a tool without parameters is called with empty argument text",
    2: "arguments are JSON but no object",
    3: "nested values arrive encoded twice",
    4: "a reply is cut in the middle of its arguments",
    5: "an illegal escape sequence stands in the arguments",
    9: "the finish reason says stop although tools were called",
    10: "the finish reason says tool calls but there are none",
    22: "an abort falls between a call and its result",
    23: "finished results of a parallel batch are lost on abort",
    24: "tasks are left running after a parallel batch breaks",
    25: "one failing tool discards the results of the others",
    26: "a hook around a tool raises",
    27: "a tool ignores the abort signal",
    28: "steering arrives just as the run ends",
    29: "the model calls a tool that does not exist",
    30: "a compaction would part a call from its result",
    31: "a compaction that cannot help is made again and again",
    32: "old numbers of usage trigger a second compaction",
    33: "a session's file ends in half a record",
    34: "two processes take up one session",
    35: "an edit meets CRLF line ends or a byte order mark",
    36: "an edit meets a file that is not UTF-8",
    37: "one file is edited twice in one turn",
    38: "a background child keeps writing to the pipe it inherited",
    39: "a command waits for input",
    40: "the output has one enormous line",
    41: "a link in the workspace leads out of it",
    44: "a tool's schema has $ref and $defs",
    45: "a docstring has types, several arguments and a return section",
    46: "one client is used on a second event loop",
    161: "python -m loopwright runs files of the working folder",
    163: "a model id leaves its place in the URL",
    165: "auto-edit writes files that other programs obey",
    86: "thinking that was switched off still happens",
    91: "a model's name is looked up in the wrong list",
    147: "a tool's description changes when it is looked at",
    87: "one image that the vendor refuses makes every later request fail",
    88: "an image of a type that the vendor does not take is sent",
    89: "a document is sent as an image, or left out with an untrue reason",
    146: "a request without any message is sent",
    94: "a dict in an output type is sent as an object that may hold nothing",
    95: "strict mode is claimed for schemas that the vendor refuses",
    96: "a tool's schema has a combinator at its top",
    141: "a plain function that answers permission questions is not accepted",
    142: "a hook that decides has no time limit, blocks the loop or ends the program",
    143: "before_tool_call is asked about tools that do not exist",
    155: "a blank behind the dashes of a header, or a name in lower case, loses a skill",
    164: "files that give orders are outside the trust question",
    167: "vendors' keys are in the environment of commands",
    168: "the Markdown export holds live remote images",
    170: "an approved call runs although the mode became read-only",
    112: "a key that is shorter than 12 characters is shown",
    113: "Shift+Enter types junk or sends",
    114: "reports of the terminal are taken for typing",
    115: "a key that arrives in two parts over ssh",
    139: "an edit of a hard-linked file leaves its other name with the old content",
    169: "a session file hangs or crashes its reader",
    157: "a line ends within a substitution while a here-document is pending",
    158: "an assignment to a locale changes how bash reads the next line",
    97: "a forked child waits for a thread of its parent",
    98: "sync tools that call agents take every thread",
    102: "another process commits between two statements that belong together",
    92: "summaries are asked of another host than the agent's",
    105: "a file that is mounted by itself cannot be written",
    83: "a later usage object with zeros takes away what was counted",
    78: "the model without a key answers at random and without an end",
    148: "slips of newcomers get no help, or a wrong one",
    99: "a group of exceptions that a tool raises ends the run, or hides what failed",
    84: "usage of a reply that was cut off is that of its beginning, or a known 0",
    75: "pieces of one call change their id or their index",
    76: "arguments are sent whole once more at the end",
    79: "every chunk repeats all arguments so far",
    80: "a tool's name comes in several pieces",
    136: "data that JSON cannot say is changed in silence",
    154: "the answer goes to a closed output and the exit code is 0",
    77: "a context overflow said in words that no list has is a bad request",
    159: "a redirection through /proc/self/cwd is judged from another folder",
    160: "a builtin sets a variable by an argument",
    166: "an option makes a reading program write",
    81: "a wait that the vendor says in words is not kept",
    82: "words about quota and billing are read where they mean something else",
}


def test_names() -> Iterator[str]:
    """The name of every test under tests/, class and file names included where they carry one."""
    for file in sorted(TESTS.rglob("test_*.py")):
        if file == Path(__file__):
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if (
                    name.startswith("test_")
                ):
                    yield name
                case _:
                    pass


test_names.__test__ = False  # pyright: ignore[reportFunctionMemberAccess]


def numbers(kind: str) -> set[int]:
    """All numbers that follow `behaviour_` (or `case_`) in the name of a test."""
    pattern = re.compile(rf"{kind}s?_(\d{{3}}(?:_(?:and_)?\d{{3}})*)(?!\d)")
    return {
        int(number)
        for name in test_names()
        for group in pattern.findall(name)
        for number in re.findall(r"\d{3}", group)
    }


def rows() -> dict[int, str]:
    """The last column of docs/behaviours.md by number; empty where a test holds the statement."""
    text = (DOCS / "behaviours.md").read_text("utf-8")
    return {
        int(number): difference.strip()
        for number, difference in re.findall(r"^\| (\d+) \|.*\|([^|]*)\|$", text, re.MULTILINE)
    }


def test_every_behaviour_has_a_row() -> None:
    assert set(rows()) == BEHAVIOURS


def test_every_behaviour_has_a_test_or_a_reason_why_it_has_none() -> None:
    """`not here:` or `elsewhere:` in the last column of the row is the reason."""
    excused = {n for n, said in rows().items() if said.startswith(("not here:", "elsewhere:"))}

    assert sorted(BEHAVIOURS - numbers("behaviour") - excused) == []


def test_every_case_of_this_release_has_a_test() -> None:
    assert sorted(CASES.keys() - numbers("case")) == []


def test_no_test_carries_a_number_that_does_not_exist() -> None:
    assert sorted(numbers("behaviour") - BEHAVIOURS) == []
