"""Trees of files to search, and the two engines that can search them.

Not here: what they are to find.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

ENGINES = ["worker", "ripgrep"]


def choose(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the tools use *engine*: what is not on the PATH is not used."""
    if engine == "worker":
        monkeypatch.setenv("PATH", os.path.join(os.sep, "nonexistent"))
    elif shutil.which("rg") is None:
        pytest.skip("ripgrep is not installed")


def plant(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Make *files* in *folder*; a name that ends in a slash is an empty folder."""
    for name, content in files.items():
        path = folder / name
        if name.endswith("/"):
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


MIXED: dict[str, str | bytes] = {
    ".git/HEAD": "needle",
    ".gitignore": "*.log\nbuild/\n!keep.log\n/rooted\nfoo/**\n\\#hash\ntrailing \n**/deep/x\n",
    "A.txt": "needle",
    "a.txt": "needle one\nx\ny\nneedle two\r\nNEEDLE\n",
    "a/b.txt": "x\nneedle\n",
    "a-b/c.txt": "needle",
    "x.log": "needle",
    "keep.log": "needle",
    "build/o.txt": "needle",
    "src/build/o.txt": "needle",
    "src/.gitignore": "o.txt\n!special.log\n",
    "src/o.txt": "needle",
    "src/special.log": "needle",
    "src/p.txt": "needle",
    "rooted/a": "needle",
    "src/rooted/a": "needle",
    "foo/a": "needle",
    "#hash": "needle",
    "trailing": "needle",
    "q/deep/x": "needle",
    ".hidden/x.txt": "needle",
    ".env": "needle",
    "bin.dat": b"needle\n\0needle\n",
    "late.bin": b"needle\n" * 30_000 + b"\0\n",
    "utf16.txt": b"\xff\xfe" + "needle é\r\nb\r\n".encode("utf-16-le"),
    "bom.txt": b"\xef\xbb\xbfneedle bom\n",
    "latin.txt": b"caf\xe9 needle\n",
    "colour.txt": "\x1b[31mneedle\x1b[0m\x07\n",
    "sub/.git/HEAD": "x",
    "sub/.ignore": "z.txt\n",
    "sub/z.txt": "needle",
    "sub/y.log": "needle",
    "e/empty.txt": "",
    "long.txt": "ä" * 600 + "needle" + "ö" * 600 + "\n",
    "context.txt": "".join(f"l{i}{'needle' if i in (5, 7, 20) else ''}\n" for i in range(30)),
}
"""Everything at once, in a repository."""
