"""`loopwright trust`: whose project's files may give orders to this program.

Not here: what trust means and how it is kept (permissions/trust.py).
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from ...errors import ConfigurationError
from ...permissions.trust import TrustFile, what_needs_trust
from ..exit_codes import ExitCode
from ..places import trust_file, working_folder
from ..streams import Output, print_error, print_note, visible
from .grants import forget_grants

__all__ = ["forget_folder", "is_trusted", "list_trusted", "trust_folder", "trust_question"]

MOST_NAMES = 8

_SAYS = {
    "settings.toml": "model, permissions, extensions and the other settings",
    "models.toml": "servers that models are asked at",
    "SYSTEM.md": "replaces the system prompt",
    "APPEND_SYSTEM.md": "extends the system prompt",
    "extensions": "Python code that runs with all your rights",
}


def is_trusted(folder: Path) -> bool:
    """Whether the user trusts *folder*. If the list cannot be believed, that is told, and it is
    not trusted."""
    try:
        return TrustFile(trust_file()).is_trusted(folder)
    except ConfigurationError as error:
        _tell_once(f"{error.message}; {error.hint}" if error.hint else error.message)
    except OSError as error:
        _tell_once(f"{trust_file()} cannot be read, so no folder is trusted: {error.strerror}")
    return False


def trust_question(folder: Path) -> str | None:
    """What to show before the user is asked whether to trust *folder*; None if nothing in it needs
    that. Control characters in names are neutralized."""
    waiting = what_needs_trust(folder)
    if not waiting:
        return None
    names = [str(path.relative_to(folder)) + ("/" if path.is_dir() else "") for path in waiting]
    longest = max(map(len, names))
    lines = [f"{folder.resolve()} has files that give orders to loopwright:"]
    for name, path in zip(names, waiting, strict=True):
        lines.append(f"  {name:<{longest}}  {_SAYS.get(path.name, '')}".rstrip())
        lines += [f"      {inner}" for inner in _inner_names(path)]
    lines.append("They are passed over unless you trust the folder, and all that lies in it.")
    return visible("\n".join(line.replace("\n", "\u240a") for line in lines))


def trust_folder(folder: Path | None) -> ExitCode:
    """Trust *folder*, by default the one the command was started in."""
    folder = folder or working_folder()
    real = TrustFile(trust_file()).trust(folder)
    print_note(f"trusted from now on: {real}")
    for path in what_needs_trust(real):
        print_note(f"  {path.relative_to(real)}: {_SAYS.get(path.name, '')}")
    return ExitCode.DONE


def forget_folder(folder: Path | None) -> ExitCode:
    """Trust *folder* no more, and take back the rules that were granted there."""
    folder = folder or working_folder()
    real = folder.resolve()
    file = TrustFile(trust_file())
    was_trusted = file.forget(folder)
    rules = forget_grants(folder)
    if was_trusted:
        print_note(f"trusted no more: {real}")
    if rules:
        print_note(f'forgotten: {rules} {"rule" if rules == 1 else "rules"} granted with "always"')
    if is_trusted(folder):
        above = next(path for path in real.parents if str(path) in file.folders())
        print_error(
            f"{real} is still trusted, because it lies in {above}",
            hint=f"loopwright trust --forget {above}",
        )
        return ExitCode.FAILED
    if not was_trusted and not rules:
        print_error(f"{real} was not trusted", hint="loopwright trust --list")
        return ExitCode.FAILED
    return ExitCode.DONE


def list_trusted() -> ExitCode:
    """Print the trusted folders, one a line."""
    file = TrustFile(trust_file())
    folders = sorted(file.folders())
    output = Output(sys.stdout)
    for name in folders:
        output.write(f"{name}\n")
        if not file.is_trusted(name):
            gone = "it is not there" if not Path(name).exists() else "its owner or rights changed"
            print_note(f"  {name}: trusted no more, {gone}")
    if not folders:
        print_note("no folder is trusted")
    return ExitCode.DONE


@cache
def _tell_once(note: str) -> None:
    """Several parts of the program ask whether a folder is trusted."""
    print_note(note)


def _inner_names(path: Path) -> list[str]:
    try:
        names = sorted(inner.name for inner in path.iterdir() if inner.name != "__pycache__")
    except OSError:  # no folder, or not to be read
        return []
    more = len(names) - MOST_NAMES
    return names if more <= 1 else [*names[:MOST_NAMES], f"and {more} more"]
