"""A guard for `python -m loopwright`, which makes Python look for modules in the working folder first.

That folder may be anybody's: a file `asyncio.py` in it would run before any question. This module
is imported before all others of the package, and itself imports only what Python has loaded already.

Not here: the installed command and `python -P`, which do not look there.
"""

import os
import sys

__all__ = ["guard_module_start"]


def guard_module_start() -> None:
    """Take the working folder off `sys.path` if this process was started with `-m loopwright`.

    Raises `SystemExit` (status 2) if a file of that folder would have been imported in place of a
    module that is installed: then it is not known what ran already.
    """
    asked = any(word.partition(".")[0].endswith("loopwright") for word in sys.orig_argv[1:])
    if sys.argv[:1] != ["-m"] or not asked or sys.flags.safe_path or not sys.path:
        return  # Python sets "-m" while it looks for the module
    here, *others = sys.path
    own_folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if _same(here, own_folder):
        return  # the package itself comes from there
    installed = set(sys.stdlib_module_names).union(
        *(_modules(folder) for folder in others if not _same(here, folder))
    )
    hiding = sorted(_modules(here) & installed)
    if hiding:
        names = ", ".join(ascii(name) for name in hiding[:5])
        sys.stderr.write(
            f"error: files of the working folder hide installed Python modules: {names}\n"
            "hint: start it as `loopwright`, or as `python -P -m loopwright`\n"
        )
        raise SystemExit(2)
    del sys.path[0]


def _modules(folder: str) -> set[str]:
    """The names that `import` would find in *folder*. A folder counts with an `__init__` file:
    without one it comes after every module that is installed."""
    found: set[str] = set()
    for name in _names(folder or os.curdir):
        stem, _, ending = name.partition(".")
        if ending.endswith(("py", "pyc", "so", "pyd")) or (
            not ending
            and any(inner.startswith("__init__.") for inner in _names(os.path.join(folder, name)))
        ):
            found.add(stem)
    return found


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # no folder (a zip file), or none that may be read
        return []


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one or os.curdir) == os.path.realpath(other or os.curdir)


guard_module_start()
