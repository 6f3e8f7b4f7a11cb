"""Session files made to hang or crash whoever reads them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from loopwright.cli.sessions.export import write_whole
from loopwright.errors import SessionDamaged, StoreUnavailable
from loopwright.session.doctor import examine, repair
from loopwright.session.formats.detect import detect
from loopwright.session.formats.lines import MOST_LEVELS, decode_line

DEEP = [
    b"[" * 900 + b"]" * 900,
    b'{"a":' * 900 + b"1" + b"}" * 900,
    b"[" * 100_000,
    b'[{"a":' * 300,
]


@pytest.mark.parametrize("line", DEEP)
def test_case_169_a_line_that_is_nested_too_deep_is_refused_in_words(line: bytes) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        decode_line(line)


def test_case_169_brackets_in_texts_are_not_counted() -> None:
    assert decode_line(b'{"a": "' + b"[" * 900 + b'\\"{"}') == {"a": "[" * 900 + '"{'}
    assert decode_line(b"[" * MOST_LEVELS + b"]" * MOST_LEVELS)
    assert len(decode_line(b"[" + b"[]," * 900 + b"[]]")) == 901


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
async def test_case_169_what_is_no_regular_file_is_refused_before_it_is_opened(
    tmp_path: Path,
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    with pytest.raises(StoreUnavailable, match="neither a file nor a folder"):
        await asyncio.wait_for(examine(pipe), 5)
    with pytest.raises(StoreUnavailable, match="neither a file nor a folder"):
        await asyncio.wait_for(repair(pipe), 5)
    with pytest.raises(SessionDamaged, match="neither a file nor a folder"):
        detect(pipe)


@pytest.mark.parametrize("force", [False, True])
def test_case_169_an_export_is_readable_by_its_owner_only(tmp_path: Path, force: bool) -> None:
    file = tmp_path / "session.html"

    write_whole(file, b"said", force=force)

    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"said", 0o600)
