"""What the documents claim is true: their code runs, their links lead somewhere, and nothing in the
tree speaks of one particular machine."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import loopwright

ROOT = Path(__file__).parent.parent
NOT_OURS = {"build", "dist", "node_modules"}
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *ROOT.glob("benchmarks/**/*.md"),
    ]
)
FENCE = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*?) -->\n)?"
    r"^```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass
class Block:
    """One fenced block of a document, with the comment on the line before it."""

    document: Path
    line: int
    language: str
    body: str
    note: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT).as_posix()}:{self.line}"


def blocks(document: Path) -> list[Block]:
    text = document.read_text("utf-8")
    return [
        Block(
            document=document,
            line=text.count("\n", 0, found.start()) + 1,
            language=found["language"],
            body=found["body"],
            note=found["note"] or "",
        )
        for found in FENCE.finditer(text)
    ]


def python_blocks() -> list[tuple[Block, str | None]]:
    """Each python block with the output that the next block promises, if that one is marked so.

    `<!-- not run: why -->` before a block leaves it out, `<!-- prints -->` marks an output.
    """
    found: list[tuple[Block, str | None]] = []
    for document in DOCUMENTS:
        here = blocks(document)
        for block, following in itertools.zip_longest(here, here[1:]):
            if block.language == "python" and not block.note.startswith("not run:"):
                promised = following.body if following and following.note == "prints" else None
                found.append((block, promised))
    return found


def our_text_files() -> list[Path]:
    """Every file of the tree that people wrote, without what tools left in it."""
    found: list[Path] = []
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = [
            name
            for name in subfolders
            if name == ".ci"
            or not (name.startswith((".", "__")) or name in NOT_OURS or name.endswith(".egg-info"))
        ]
        found.extend(Path(folder, name) for name in names)
    return sorted(file for file in found if _is_text(file))


def _is_text(file: Path) -> bool:
    return file.is_file() and b"\0" not in file.read_bytes()[:4096]


@pytest.mark.parametrize(
    ("block", "promised"), [pytest.param(*found, id=str(found[0])) for found in python_blocks()]
)
def test_the_python_in_a_document_runs_and_prints_what_it_says(
    block: Block, promised: str | None, tmp_path: Path
) -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", block.body],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert finished.returncode == 0, finished.stderr
    if promised is not None:
        assert finished.stdout.strip() == promised.strip()


def test_the_readme_shows_code_that_runs_without_a_key() -> None:
    shown = [block for block, promised in python_blocks() if block.document.name == "README.md"]

    assert shown, "README.md shows no python that runs"
    assert "ScriptedModel" in shown[0].body


@pytest.mark.parametrize("heading", ["Try it", "Test it"])
def test_the_readme_gives_one_command_under(heading: str) -> None:
    """.ci/run reads these two commands out of README.md and runs them."""
    text = (ROOT / "README.md").read_text("utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]

    commands = [found["body"] for found in FENCE.finditer(section)]

    assert len(commands) == 1
    assert len(commands[0].splitlines()) == 1


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.relative_to(ROOT).as_posix())
def test_links_between_documents_lead_to_files_that_exist(document: Path) -> None:
    prose = FENCE.sub("", document.read_text("utf-8"))

    targets = re.findall(r"\]\(([^)\s]+)\)", prose)

    lost = [
        target
        for target in targets
        if not re.match(r"[a-z]+:|#", target)
        and not (document.parent / target.partition("#")[0]).exists()
    ]
    assert lost == []


def test_every_document_is_reached_from_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text("utf-8")

    unlisted = [
        file.name
        for file in sorted((ROOT / "docs").rglob("*.md"))
        if file.name != "index.md"
        and f"({file.relative_to(ROOT / 'docs').as_posix()})" not in index
    ]

    assert unlisted == []


def test_every_example_is_introduced_in_a_document() -> None:
    """tests/test_examples.py runs every file of examples/; people should find it, too."""
    prose = "\n".join(document.read_text("utf-8") for document in DOCUMENTS)

    unknown = [
        file.name
        for file in sorted((ROOT / "examples").rglob("*.py"))
        if f"examples/{file.relative_to(ROOT / 'examples').as_posix()}" not in prose
    ]

    assert unknown == []


# Put together from halves, so that this file does not name what it looks for.
PRIVATE = [
    re.compile(first + second, re.IGNORECASE)
    for first, second in [
        ("pythonhosted", r"\.org"),
        (r"pypi\.", r"org"),
        (r"registry\.", r"npmjs"),
        (r"deb\.", r"debian\.org"),
        ("index-", "url"),
        ("/ro", "ot/"),
        ("/wo", "rk/"),
        ("/ho", r"me/\w"),
        ("/Use", r"rs/\w"),
        ("/opt/", "(wheels|pypi)"),
        ("/tm", r"p/w\b"),
    ]
]


def test_no_file_speaks_of_one_machine_or_of_a_package_host() -> None:
    told = [
        f"{file.relative_to(ROOT).as_posix()}:{number}: {line.strip()[:100]}"
        for file in our_text_files()
        for number, line in enumerate(file.read_text("utf-8", "replace").splitlines(), start=1)
        for pattern in PRIVATE
        if pattern.search(line)
    ]

    assert told == []


def test_no_lock_file_is_in_the_tree() -> None:
    """They name the package host of whoever made them; constraints.txt pins versions instead."""
    ignored = (ROOT / ".gitignore").read_text("utf-8").split()

    assert {"uv.lock", "package-lock.json"} <= set(ignored)
    assert [
        file.name for file in our_text_files() if file.name in ("poetry.lock", "pdm.lock")
    ] == []


def test_the_changelog_tells_of_the_present_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)

    assert loopwright.__version__ in headings


def test_every_dependency_has_its_reason_written_down() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(name for extra in extras for name in extra)]
    reasons = (ROOT / "docs" / "dependencies.md").read_text("utf-8")

    names = {re.split(r"[\[<>=! ]", requirement)[0] for requirement in wanted} - {"loopwright"}

    assert {name for name in names if f"`{name}`" not in reasons} == set()


def test_the_pinned_versions_cover_every_dependency() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(name for extra in extras for name in extra)]
    pinned = {
        _normal(line.partition("==")[0])
        for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
        if "==" in line
    }

    names = {_normal(re.split(r"[\[<>=! ]", requirement)[0]) for requirement in wanted}

    assert names - {"loopwright"} - pinned == set()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
