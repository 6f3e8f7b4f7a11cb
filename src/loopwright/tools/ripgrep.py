"""ripgrep, and what makes it look at the files our own worker looks at.

Settings of the user and of git's do not count, so that a search gives the same everywhere.

Not here: what it is asked (grep.py, find.py), running it (search_process.py).
"""

from __future__ import annotations

import re
import shutil

from .ignore_files import in_repository
from .search_process import SearchRequest

__all__ = ["find_ripgrep", "name_filter", "which_files"]


def find_ripgrep() -> str | None:
    """Where `rg` is, if it is there."""
    return shutil.which("rg")


def which_files(request: SearchRequest) -> list[str]:
    """The options for ignore files and hidden files.

    In a repository it goes by the rules of git, which end where another repository begins; ripgrep
    15 forgets that as soon as it is told that no repository is required.
    """
    options = ["--no-config", "--no-ignore-global"]
    options += [] if in_repository(request.folder) else ["--no-require-git"]
    return [*options, "--hidden", "--glob=!.git"] if request.hidden else options


def name_filter(glob: str | None) -> list[str]:
    """What lets ripgrep pass over files whose name cannot match *glob*, as a file type: unlike its
    own globs, types do not bring back what is ignored."""
    name = (glob or "").rpartition("/")[2]
    if name.startswith(".") or not re.fullmatch(
        r"[\w.*?-]*[\w.?-][\w.*?-]*",
        name,
        re.ASCII,  # an accent may be spelled in two ways
    ):
        return []
    return [f"--type-add=wanted:{name}", "--type=wanted"]
