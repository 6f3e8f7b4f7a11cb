"""The tool `edit` replaces exactly what it was told to, or nothing at all."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.tools.calling import call, refusal

from loopwright.tools import LocalWorkspace, MemoryWorkspace, edit_tool, write_tool
from loopwright.tools.edit_diff import diff_of
from loopwright.tools.edit_matching import EditRefused, Replacement, apply_edits

BOM = b"\xef\xbb\xbf"


def edited(content: bytes, *edits: tuple[str, str]) -> bytes:
    return apply_edits(content, [Replacement(*edit) for edit in edits]).content


def refused(content: bytes, *edits: tuple[str, str]) -> str:
    with pytest.raises(EditRefused) as caught:
        edited(content, *edits)
    return str(caught.value)


async def test_the_result_says_how_many_where_and_what() -> None:
    workspace = MemoryWorkspace({"src/f.py": "a\nb\nc\nd\ne\nf\ng\n"})

    result = await call(
        edit_tool(workspace),
        path="src/f.py",
        edits=[{"oldText": "f\n", "newText": "F\nF2\n"}, {"oldText": "b", "newText": "B"}],
    )

    assert workspace.files["src/f.py"] == b"a\nB\nc\nd\ne\nF\nF2\ng\n"
    assert result.text == "Made 2 edits in src/f.py; the first changed line is 2."
    assert json.loads(json.dumps(result.details)) == result.details
    assert result.details["edits"] == 2
    assert result.details["firstChangedLine"] == 2
    assert result.details["inexact"] == []
    assert result.details["diff"].split("\n") == [
        " 1 a", "-2 b", "+2 B", " 3 c", " 4 d", " 5 e", "-6 f", "+6 F", "+7 F2", " 8 g",
    ]  # fmt: skip
    assert result.details["patch"].startswith("--- a/src/f.py\n+++ b/src/f.py\n@@ -1,7 +1,8 @@\n")


def test_the_schema_is_the_one_models_know() -> None:
    schema = edit_tool(MemoryWorkspace()).parameters

    assert schema["required"] == ["path", "edits"]
    items = schema["properties"]["edits"]["items"]
    assert items["required"] == ["oldText", "newText"]


@pytest.mark.parametrize(
    "args",
    [
        {"oldText": "a", "newText": "b"},
        {"edits": '[{"oldText": "a", "newText": "b"}]'},
        {"edits": {"oldText": "a", "newText": "b"}},
        {"edits": '{"oldText": "a", "newText": "b"}'},
        {"edits": [], "oldText": "a", "newText": "b"},
        {"edits": [{"oldText": "a", "newText": "b"}], "oldText": "", "newText": ""},
        {"edits": ['{"oldText": "a", "newText": "b"}']},
        {"old_string": "a", "new_string": "b"},
        {"oldString": "a", "newString": "b"},
        {"old_str": "a", "new_str": "b"},
        {"edits": [{"old_text": "a", "new_text": "b"}]},
        {"edits": '[{"old_string": "a", "new_string": "b"}]'},
    ],
)
async def test_older_forms_of_the_arguments_are_taken(args: dict[str, Any]) -> None:
    workspace = MemoryWorkspace({"f": "a"})

    await call(edit_tool(workspace), path="f", **args)

    assert workspace.files["f"] == b"b"


async def test_edits_as_text_may_have_bare_line_breaks() -> None:
    workspace = MemoryWorkspace({"f": "a\nb"})

    await call(edit_tool(workspace), path="f", edits='[{"oldText": "a\nb", "newText": "c\td"}]')

    assert workspace.files["f"] == b"c\td"


async def test_an_empty_old_text_for_a_file_that_is_not_there_points_to_write() -> None:
    edit = edit_tool(MemoryWorkspace())

    assert "use write to make a file" in await refusal(edit, path="new", oldText="", newText="x")
    assert "leads out" in await refusal(edit, path="../new", oldText="", newText="x")


@pytest.mark.parametrize(
    "args",
    [{}, {"edits": "not json"}, {"edits": [{"oldText": "a"}]}, {"oldText": "a"}, {"edits": []}],
)
async def test_arguments_that_say_no_edit_are_refused(args: dict[str, Any]) -> None:
    workspace = MemoryWorkspace({"f": "a"})

    await refusal(edit_tool(workspace), path="f", **args)

    assert workspace.files["f"] == b"a"


# -- which text is meant -----------------------------------------------------------------------


def test_exact_text_is_counted_exactly() -> None:
    """Its typographic twin elsewhere makes it no less unique."""
    content = 'say \u201chi\u201d\nsay "hi"\n'.encode()

    assert edited(content, ('"hi"', '"ho"')) == 'say \u201chi\u201d\nsay "ho"\n'.encode()


def test_text_that_occurs_more_than_once_is_refused_with_its_lines() -> None:
    assert "occurs 3 times, on lines 1, 3, 4" in refused(b"x\ny\nx\nx\n", ("x", "z"))
    assert "more than 5 times" in refused(b"x\n" * 100, ("x", "z"))


def test_occurrences_that_overlap_are_two() -> None:
    assert "occurs 2 times" in refused(b"aXaXa", ("aXa", "b"))


def test_all_edits_match_the_original() -> None:
    assert edited(b"one two", ("one", "two"), ("two", "one")) == b"two one"
    assert "not found" in refused(b"one", ("one", "two"), ("two", "three"))


def test_edits_may_touch_but_not_overlap() -> None:
    assert edited(b"abcd", ("cd", "2"), ("ab", "1")) == b"12"
    assert "edits[0] and edits[1] overlap" in refused(b"abcd", ("bc", "1"), ("cd", "2"))
    assert "overlap" in refused(b"abcd", ("bc", "1"), ("bc", "2"))


def test_every_fault_is_told_at_once_and_nothing_is_changed() -> None:
    told = refused(b"a\nb\nb\nc\n", ("a", "1"), ("b", "2"), ("x", "3"), ("", "4"), ("c", "c"))

    assert told.startswith("Nothing was changed.\n")
    assert "edits[0]" not in told
    for fault in (
        "edits[1]: oldText occurs 2 times",
        "edits[2]: oldText was not found",
        "edits[3]: oldText is empty",
        "edits[4]: no change",
    ):
        assert fault in told


def test_who_repeats_an_edit_is_told_that_it_was_made() -> None:
    assert "was this edit made already?" in refused(b"limit = 600\n", ("limit = 5", "limit = 600"))


def test_where_only_the_beginning_matches_the_line_that_differs_is_shown() -> None:
    told = refused(b"def f():\n    z\ndef f():\n    x\n    w\n", ("def f():\n    x\n    y", "y"))

    assert "Its first line is on line 3" in told
    assert "line 5 is '    w', not '    y'" in told


@pytest.mark.parametrize(
    ("file", "old", "words"),
    [
        ("a\n\tx = 1\n", "    x = 1", "line 2 is '\\tx = 1', not '    x = 1'"),
        ("f(a,  b)\n", "f(a, b)", "line 1 is 'f(a,  b)'"),
        ("if x:\n  y\n\nz\n", "if x:\n    y\n\nz\n", "line 2 is '  y'"),
        ("\tx\n  x\n", "    x", "occurs more than once"),
        ("a\n\tb\n", "a\\n\\tb", "It has escapes"),
        ('say "hi"\n', 'say \\"hi\\"', "It has escapes"),
        ("def f():\n    x\n", "1\tdef f():\n2\t    x", "begin with numbers"),
        ("def f():\n    x\n", "  1  def f():\n  2      x", "begin with numbers"),
        ("def f():\n    x\n", "10: def f():\n11:     x", "begin with numbers"),
        ("def f():\n    x\n", "   10\u2192def f():\n   11\u2192    x\n", "begin with numbers"),
        ("def f():\n    x\n", "7 | def f():\n8 |     x", "begin with numbers"),
        ("def f():\n    x\n", "a.py:10: def f():\na.py-11-     x", "begin with numbers"),
        ("a\nb", "a\nb\nc\n", "the file ends before line 3"),
        ("b\nc\n", "\nb\n", "Without the empty lines around it, it is on line 1"),
        ("a\rb\rc\r", "a\nb", "carriage return alone"),
    ],
)
def test_the_usual_slips_are_named_and_nothing_is_changed(file: str, old: str, words: str) -> None:
    assert words in refused(file.encode(), (old, "new"))


def test_text_that_really_has_numbers_and_backslashes_is_found_as_it_is() -> None:
    assert edited(b"1: a\n2: b\n", ("1: a\n2: b", "x")) == b"x\n"
    assert edited(b"print('a\\n')\n", ("'a\\n'", "'b\\n'")) == b"print('b\\n')\n"


def test_signs_that_mean_something_elsewhere_are_put_in_as_they_are() -> None:
    new = "$& $1 $$ $` $' \\1 \\g<0> \\n %s {0}"

    assert edited(b"a x b", ("x", new)) == f"a {new} b".encode()


def test_a_line_feed_that_the_last_line_lacks_is_neither_asked_for_nor_added() -> None:
    assert edited(b"a\nlast", ("last\n", "LAST\n")) == b"a\nLAST"
    assert edited(b"a\r\nlast", ("a\nlast\n", "b\nLAST\n")) == b"b\r\nLAST"
    assert edited(b"a\nlast", ("last\n", "LAST")) == b"a\nLAST"
    assert "no change" in refused(b"a\nlast", ("last\n", "last"))
    assert "not found" in refused(b"a\nlast\n", ("last\n\n", "x"))


# -- forgiving ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "old"),
    [
        ("it\u2019s", "it's"),
        ("\u201cq\u201d", '"q"'),
        ("a \u2013 b \u2014 c \u2212 d", "a - b - c - d"),
        ("a\u00a0b\u2009c\u3000d", "a b c d"),
        ("\uff21\u2460\ufb01", "A1fi"),
        ("cafe\u0301", "caf\u00e9"),
        ("foo  \t\nbar", "foo\nbar"),
        ("a\u200bb", "ab"),
        ("so\u00adft", "soft"),
        ("warn \u26a0\ufe0f now", "warn \u26a0 now"),
        ("warn \u26a0 now", "warn \u26a0\ufe0f now"),
        ("foo\nbar", "foo  \nbar"),
        ("it's", "it\u2019s"),
        (unicodedata.normalize("NFD", "\ud55c\uae00"), "\ud55c\uae00"),
        ("\u09c7\u09be \u2019", "\u09cb '"),
        ("\ud55c\uae00", unicodedata.normalize("NFD", "\ud55c\uae00")),
    ],
)
def test_typographic_differences_are_forgiven_if_nothing_matches(file: str, old: str) -> None:
    content = f"x = {file};\u00a0\u201ckeep\u201d  \n"

    applied = apply_edits(content.encode(), [Replacement(old, "NEW")])

    assert applied.content.decode() == content.replace(file, "NEW")
    assert not applied.spans[0].exact


def test_a_forgiving_edit_replaces_only_what_matched() -> None:
    content = "\ufb01 \u201ca\u201d it\u2019s \ufb02  \n\u2014 next \n"

    after = edited(content.encode(), ("it's", "it is"))

    assert after.decode() == "\ufb01 \u201ca\u201d it is \ufb02  \n\u2014 next \n"


def test_blanks_at_the_ends_of_the_match_stay() -> None:
    assert edited("a\u00a0b  \nc".encode(), ("a b", "X")) == b"X  \nc"
    assert edited("z  \na\u00a0b".encode(), ("\na b", "\nX")) == b"z  \nX"


def test_one_forgiven_edit_does_not_make_the_others_forgiving() -> None:
    content = 'it\u2019s\n\u201cb\u201d\n"b"\n'.encode()

    after = edited(content, ("it's", "it is"), ('"b"', '"B"'))

    assert after == 'it is\n\u201cb\u201d\n"B"\n'.encode()


def test_forgiven_text_must_be_unique_too() -> None:
    told = refused("it\u2019s\nit\u2018s\n".encode(), ("it's", "x"))

    assert "occurs 2 times, on lines 1, 2" in told


def test_half_a_ligature_is_no_match() -> None:
    assert "not found" in refused("\ufb01le".encode(), ("ile", "x"))


def test_blanks_at_the_end_of_old_text_mean_the_end_of_the_line() -> None:
    assert "not found" in refused(b"x = 10\n", ("x = 1  ", "y"))
    assert edited(b"x = 1\t\n", ("x = 1  ", "y")) == b"y\n"


def test_blank_text_matches_nothing_forgivingly() -> None:
    assert "not found" in refused("a\u00a0b\n".encode(), ("\u2003\u2003", "x"))


def test_a_forgiven_edit_that_changes_nothing_is_refused() -> None:
    assert "no change" in refused("it\u2019s".encode(), ("it's", "it\u2019s"))


# -- line ends and encodings -------------------------------------------------------------------


def test_mixed_line_ends_stay_where_they_are() -> None:
    content = b"a\r\nb\nc\r\nd\ne"

    assert edited(content, ("b\nc\nd", "B\nc\nD")) == b"a\r\nB\nc\r\nD\ne"
    assert edited(content, ("e", "e\nf")) == b"a\r\nb\nc\r\nd\ne\r\nf"
    assert edited(content, ("a\nb", "a\nx\ny\nb")) == b"a\r\nx\r\ny\r\nb\nc\r\nd\ne"
    assert edited(content, ("b\n", "")) == b"a\r\nc\r\nd\ne"


def test_carriage_returns_that_end_no_line_are_text() -> None:
    assert edited(b"a\rb\r\r\nc", ("a\rb", "X")) == b"X\r\r\nc"
    assert edited(b"a\r\r\nb", ("b", "c")) == b"a\r\r\nc"


def test_new_text_with_crlf_takes_the_line_ends_of_the_file() -> None:
    assert edited(b"a\nb\n", ("a", "x\r\ny")) == b"x\ny\nb\n"
    assert edited(b"a\r\nb\r\n", ("a", "x\ny")) == b"x\r\ny\r\nb\r\n"


def test_a_byte_order_mark_in_the_edit_is_that_of_the_file() -> None:
    assert edited(BOM + b"one\n", ("\ufeffone", "\ufefftwo")) == BOM + b"two\n"


def test_ascii_goes_into_a_file_of_any_encoding_and_other_text_does_not() -> None:
    content = "caf\u00e9 = 1\n".encode("latin-1")

    assert edited(content, ("= 1", "= 2")) == "caf\u00e9 = 2\n".encode("latin-1")
    assert "not valid UTF-8" in refused(content, ("= 1", "= \u00e9"))
    assert "U+FFFD" in refused(content, ("caf\ufffd", "cafe"))


def test_half_a_character_of_another_encoding_is_no_match() -> None:
    content = b"\x81A = 1\n"  # GBK: one character whose second byte looks like an A

    assert "half of a character" in refused(content, ("A = 1", "B = 1"))
    assert edited(content, ("= 1", "= 2")) == b"\x81A = 2\n"


async def test_a_binary_file_is_refused_as_read_refuses_it() -> None:
    workspace = MemoryWorkspace({"f": b"a\0b", "u": "a".encode("utf-16")})

    assert "binary" in await refusal(edit_tool(workspace), path="f", oldText="a", newText="c")
    assert "UTF-16" in await refusal(edit_tool(workspace), path="u", oldText="a", newText="c")


async def test_a_file_that_is_not_there_is_named_with_near_ones() -> None:
    workspace = MemoryWorkspace({"src/main.py": "a"})

    told = await refusal(edit_tool(workspace), path="src/mian.py", oldText="a", newText="b")

    assert "did you mean 'src/main.py'?" in told
    assert "is a folder" in await refusal(
        edit_tool(workspace), path="src", oldText="a", newText="b"
    )


# -- properties --------------------------------------------------------------------------------

pieces = st.text(st.sampled_from("ab \t\n\r'\u2019\u00a0\u00e9\ufb01e\u0301"), max_size=8)


@given(
    st.lists(st.tuples(pieces, pieces), min_size=1, max_size=4),
    pieces,
    st.sampled_from([b"\n", b"\r\n"]),
    st.booleans(),
)
def test_edits_do_what_cutting_by_hand_does(
    parts: list[tuple[str, str]], rest: str, ending: bytes, marked: bool
) -> None:
    """Old texts between numbered fences are unique; the reference puts the new ones there."""
    text = new = ""
    edits: list[tuple[str, str]] = []
    for index, (old, replacement) in enumerate(parts):
        old, replacement = old.replace("\r", ""), replacement.replace("\r", "")
        assume(old != replacement)
        text += f"<{index}{old}{index}>\n"
        new += f"<{index}{replacement}{index}>\n"
        edits.append((f"<{index}{old}{index}>", f"<{index}{replacement}{index}>"))
    mark = BOM if marked else b""
    content = mark + (text + rest.replace("\r", "")).encode().replace(b"\n", ending)

    after = edited(content, *reversed(edits))

    assert after == mark + (new + rest.replace("\r", "")).encode().replace(b"\n", ending)


@given(st.binary(max_size=60), pieces.filter(bool), pieces)
def test_bytes_around_an_edit_are_never_touched(content: bytes, old: str, new: str) -> None:
    content = b"head " + content + b" <" + old.encode() + b"> tail"
    try:
        applied = apply_edits(content, [Replacement(old, new)])
    except EditRefused:
        return
    (span,) = applied.spans

    assert applied.content == content[: span.start] + span.new + content[span.end :]
    assert span.new.replace(b"\r\n", b"\n") == new.encode().replace(b"\r\n", b"\n")
    if span.exact:
        found = content[span.start : span.end].replace(b"\r\n", b"\n")
        assert found == old.encode().replace(b"\r\n", b"\n")


@given(st.text(st.sampled_from("ab \n\u2019'\u00a0\ufb01fi\u0301e-\u2014"), max_size=30), pieces)
def test_a_forgiven_match_is_alike_once_differences_are_taken_away(text: str, old: str) -> None:
    def alike(part: str) -> str:
        lines = (
            part.replace("\u2019", "'").replace("\u00a0", " ").replace("\u2014", "-").split("\n")
        )
        return "\n".join(unicodedata.normalize("NFKC", line).rstrip(" \t\r") for line in lines)

    try:
        (span,) = apply_edits(text.encode(), [Replacement(old, "#NEW#")]).spans
    except EditRefused:
        return

    found = text.encode()[span.start : span.end].decode()
    assert alike(found) == alike(old.replace("\r\n", "\n"))


@given(
    st.lists(st.sampled_from(["a", "b", "c", "", "d\r"]), max_size=30),
    st.data(),
    st.booleans(),
)
def test_the_patch_carried_out_gives_the_new_file(
    lines: list[str], data: st.DataObject, final: bool
) -> None:
    tagged = [f"{index}:{line}" for index, line in enumerate(lines)]
    text = "\n".join(tagged) + ("\n" if final else "")
    chosen = data.draw(st.lists(st.sampled_from(range(len(lines))), unique=True, max_size=3)) if (
        lines
    ) else []  # fmt: skip
    assume(chosen)
    edits = [
        Replacement(f"{index}:", data.draw(st.sampled_from(["x", "x\ny", "\n\n", "zz:"])))
        for index in chosen
    ]
    content = text.encode()
    try:
        applied = apply_edits(content, edits)
    except EditRefused:  # `1:` is also the end of `11:`
        assume(False)
        raise
    diff = diff_of(content, applied, "f")

    assert patched(content, diff.patch) == applied.content
    changed = applied.content.split(b"\n")
    before = content.split(b"\n")
    first = next(
        index for index in range(len(changed)) if changed[: index + 1] != before[: index + 1]
    )
    assert diff.first_changed_line == first + 1


def patched(content: bytes, patch: str) -> bytes:
    """What a unified diff says, carried out; checks that context and counts are true."""
    old = re.findall(rb"[^\n]*\n|[^\n]+", content)
    out: list[bytes] = []
    at = 0
    lines = patch.encode().split(b"\n")[2:-1]
    for line, after in zip(lines, [*lines[1:], b""], strict=True):
        mark, text = line[:1], line[1:] + (b"" if after.startswith(b"\\") else b"\n")
        if mark == b"@":
            old_range = line.split()[1].lstrip(b"-").split(b",")
            begin = int(old_range[0]) - (old_range[1:] != [b"0"])
            out += old[at:begin]
            at = begin
        if mark in (b" ", b"-"):
            assert old[at] == text
            at += 1
        if mark in (b" ", b"+"):
            out.append(text)
    return b"".join([*out, *old[at:]])


def test_git_takes_the_patch(tmp_path: Path) -> None:
    content = b"".join(b"line %d\r\n" % n for n in range(40)) + b"last"
    applied = apply_edits(
        content,
        [Replacement("line 3\n", ""), Replacement("line 30", "x\ny"), Replacement("last", "L")],
    )
    (tmp_path / "f").write_bytes(content)

    subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        input=diff_of(content, applied, "f").patch.encode(),
        cwd=tmp_path,
        check=True,
    )

    assert (tmp_path / "f").read_bytes() == applied.content


# -- size --------------------------------------------------------------------------------------


async def test_an_edit_of_a_large_file_lets_the_loop_run(tmp_path: Path) -> None:
    line = b"some line of a log that goes on and on, with words in it\r\n"
    (tmp_path / "big").write_bytes(line * 400_000 + b"the end\r\n")  # about 23 MB
    tool = edit_tool(LocalWorkspace(tmp_path))
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before)

    watcher = asyncio.create_task(watch())
    result = await call(tool, path="big", oldText="the end", newText="The End")
    watcher.cancel()

    assert result.details["firstChangedLine"] == 400_001
    assert (tmp_path / "big").read_bytes()[-9:] == b"The End\r\n"
    assert longest < 2


def test_a_large_replacement_is_diffed_in_reasonable_time() -> None:
    old = "".join(f"{n}\n" for n in range(3000))
    new = "".join(f"{n}!\n" for n in range(3000))
    content = ("top\n" * 5 + old + "bottom\n" * 5).encode()
    applied = apply_edits(content, [Replacement(old, new)])
    before = time.perf_counter()

    diff = diff_of(content, applied, "f")

    assert time.perf_counter() - before < 2
    assert patched(content, diff.patch) == applied.content


@pytest.mark.parametrize("tool", ["edit", "write"])
async def test_case_139_all_names_of_a_file_have_the_new_content(tmp_path: Path, tool: str) -> None:
    source, deployed = tmp_path / "source.md", tmp_path / "deployed.md"
    source.write_text("line 1\n")
    source.chmod(0o640)
    deployed.hardlink_to(source)
    workspace = LocalWorkspace(tmp_path)

    if tool == "edit":
        await call(edit_tool(workspace), path="source.md", oldText="line 1", newText="new")
    else:
        await call(write_tool(workspace), path="source.md", content="new\n")

    assert deployed.read_text() == source.read_text() == "new\n"
    assert deployed.samefile(source)
    assert source.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["deployed.md", "source.md"]
