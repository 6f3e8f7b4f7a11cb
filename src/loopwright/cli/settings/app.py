"""`loopwright config`, `trust` and `completion`: the commands and their options; what they do is in
settings/command.py, settings/trust.py and settings/completion.py, imported when asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from ..exit_codes import ExitCode
from ..options import Mode
from ..streams import print_error

__all__ = ["add_setup_commands", "completion_app", "config_app", "trust_app"]


def add_setup_commands(app: App) -> None:
    """Add all three to *app*, the root of all commands."""
    app.command(config_app())
    app.command(trust_app())
    app.command(completion_app(app))


def config_app() -> App:
    """`config` and the commands below it."""
    app = App(
        name="config",
        help="Show all settings and who set them, or change one.",
        help_epilogue='A key is written as in permissions.mode. A list is TOML: \'["a", "b"]\'.',
    )
    app.default(_show)
    app.command(_get, name="get")
    app.command(_set, name="set")
    app.command(_unset, name="unset")
    app.command(_path, name="path")
    return app


def trust_app() -> App:
    """`trust`."""
    app = App(
        name="trust",
        help="Trust a folder, so that its settings, servers and extensions count.",
        help_epilogue="",
    )
    app.default(_trust)
    return app


def completion_app(root: App) -> App:
    """`completion`, for all commands of *root*."""
    app = App(
        name="completion",
        help="Print a script that completes commands and options in your shell.",
        help_epilogue="bash: source <(loopwright completion bash)\n"
        "zsh:  source <(loopwright completion zsh)\n"
        "fish: loopwright completion fish | source",
    )

    def completion(shell: Literal["bash", "zsh", "fish"], /) -> ExitCode:
        """Print a script that completes commands and options in your shell.

        Parameters
        ----------
        shell
            Which one.
        """
        from .completion import print_completion

        return print_completion(root, shell)

    app.default(completion)
    return app


def _show(*, mode: Mode = "text") -> ExitCode:
    """Show all settings and who set them.

    Parameters
    ----------
    mode
        "json" prints one setting a line as JSON.
    """
    from .command import show_settings

    return show_settings(mode)


def _get(key: str, /, *, mode: Mode = "text") -> ExitCode:
    """Print one setting, or a table of them.

    Parameters
    ----------
    key
        Such as permissions.mode, or permissions.
    mode
        "json" prints it with who set it.
    """
    from .command import get_setting

    return get_setting(key, mode)


def _set(
    key: str,
    value: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    project: bool = False,
) -> ExitCode:
    """Change a setting in your own file; its comments stay.

    Parameters
    ----------
    key
        Such as theme or budget.run.max_turns.
    value
        As in TOML; a text needs no quotes.
    project
        In the file of this folder's project.
    """
    from .command import set_setting

    return set_setting(key, value, project=project)


def _unset(key: str, /, *, project: bool = False) -> ExitCode:
    """Take a setting out of your own file.

    Parameters
    ----------
    key
        Such as theme, or a whole table such as agents.review.
    project
        Out of the file of this folder's project.
    """
    from .command import unset_setting

    return unset_setting(key, project=project)


def _path(*, project: bool = False) -> ExitCode:
    """Print where your settings file is, for instance for an editor.

    Parameters
    ----------
    project
        Where the project's is.
    """
    from .command import print_path

    return print_path(project=project)


def _trust(
    folder: Path | None = None,
    /,
    *,
    show: Annotated[bool, Parameter(name="--list")] = False,
    forget: bool = False,
) -> ExitCode:
    """Trust a folder, so that its settings, servers and extensions count.

    Parameters
    ----------
    folder
        This one if none is named. What lies in it is trusted, too.
    show
        Print the trusted folders instead.
    forget
        Trust it no more, and take back what was granted there with "always".
    """
    from .trust import forget_folder, list_trusted, trust_folder

    if show and (forget or folder is not None):
        print_error("--list stands alone", hint="loopwright trust --list")
        return ExitCode.USAGE
    if show:
        return list_trusted()
    return forget_folder(folder) if forget else trust_folder(folder)
