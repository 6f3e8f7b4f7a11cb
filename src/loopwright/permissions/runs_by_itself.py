"""Files that give orders without anybody starting them.                                    (pure)

Version control, editors, agents, package managers, build tools and shells obey files of certain
names as soon as they come into the folder. A change of one is a way to run a command later, without
a question: the mode `auto-edit` alone allows none of these, at any depth.

Not here: what this program obeys itself, and whom it trusts with that (trust.py).
"""

from __future__ import annotations

import re
import unicodedata

from .file_paths import plain_name

__all__ = ["runs_by_itself"]

_VERSION_CONTROL = (
    r"\.git(?:config|modules|attributes|hooks)?|git~\d|\.hg(?:rc|sub)?|\.jj|\.svn|\.bzr|_darcs"
)
_AGENTS = (
    r"\.loopwright|\.agents?|\.claude.*|\.codex|\.opencode|opencode\.jsonc?|\.pi|\.kiro|\.windsurf.*"
    r"|\.roo.*|\.cline.*|\.qwen|\.cursor.*|\.gemini|\.mcp\.json|\.aider.*|\.continue|\.goose.*"
    r"|\.amp|\.augment.*|\.trae|\.factory|\.crush.*|\.junie|\.github"
    r"|agents(?:\.override)?\.md|claude(?:\.local)?\.md|gemini\.md"
)
_EDITORS = (
    r"\.vscode|\.idea|\.vs|\.fleet|\.zed|\.devcontainer(?:\.json)?|.*\.code-workspace|\.g?vimrc"
    r"|\.l?vimrc|\.exrc|\.nvimrc|\.nvim\.lua|\.dir-locals(?:-2)?\.el|\.emacs(?:\.d)?"
)
_PACKAGES_AND_BUILDS = (
    r"\.npmrc|\.yarnrc(?:\.yml)?|\.yarn|\.pnpmfile\.c?js|\.pnp\..*|\.cargo|\.pre-commit-(?:config|hooks)"
    r"\.ya?ml|\.husky|\.?lefthook.*\.(?:ya?ml|toml|json)|\.lintstagedrc.*|\.envrc|\.direnv|\.?mise(?:\..*)?"
    r"|\.tool-versions|\.bundle|\.pypirc|\.pip|pip\.(?:conf|ini)|\.condarc|\.mvn|\.bazelrc|\.gemrc|\.rvmrc"
    r"|sitecustomize\.py|usercustomize\.py|.*\.pth"
)
_SHELLS_AND_TOOLS = (
    r"\.(?:bash|zsh|ksh|csh|tcsh)(?:rc|env)|\.(?:bash_|z)?(?:profile|login|logout)|\.bash_aliases"
    r"|config\.fish|\.inputrc|\.xinitrc|\.xprofile|\.pam_environment|\.tmux\.conf|\.screenrc|\.ssh"
    r"|\.ripgreprc|\.curlrc|\.wgetrc|\.netrc|\.gdbinit|\.lldbinit|\.pdbrc|\.pythonrc(?:\.py)?|\.rprofile"
    r"|\.irbrc|\.psqlrc|\.sqliterc|\.gnupg|\.aws|\.docker|\.kube"
)
_NAMES = re.compile(
    f"{_VERSION_CONTROL}|{_AGENTS}|{_EDITORS}|{_PACKAGES_AND_BUILDS}|{_SHELLS_AND_TOOLS}"
)


def runs_by_itself(path: str) -> bool:
    """Whether *path*, or a folder on the way, has a name that some program obeys unasked."""
    return any(_NAMES.fullmatch(_as_found(name)) for name in re.split(r"[/\\]", path))


def _as_found(name: str) -> str:
    """*name* in the one form for all that some file system opens the same file for."""
    # Windows drops dots and blanks at the end, and `name:stream` is in the same file.
    plain = plain_name(name).partition(":")[0].rstrip(". ")
    if plain.isascii():
        return plain
    apart = unicodedata.normalize("NFKD", plain)
    return "".join(char for char in apart if not unicodedata.combining(char)).casefold()
