"""`loopwright completion bash | zsh | fish`: a script by which the shell knows our commands.

    source <(loopwright completion bash)

Not here: the commands themselves; the script is made from them as they are.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

from ..exit_codes import ExitCode
from ..streams import Output, print_note

if TYPE_CHECKING:
    from cyclopts import App

__all__ = ["Shell", "print_completion"]

Shell = Literal["bash", "zsh", "fish"]

_HOW: dict[Shell, str] = {
    "bash": "put into ~/.bashrc: source <(loopwright completion bash)",
    "zsh": "put into ~/.zshrc, behind compinit: source <(loopwright completion zsh)",
    "fish": "loopwright completion fish > ~/.config/fish/completions/loopwright.fish",
}


def print_completion(app: App, shell: Shell) -> ExitCode:
    """Print the script for *shell*; on a terminal, also how to use it."""
    output = Output(sys.stdout)
    output.write(app.generate_completion(prog_name="loopwright", shell=shell))
    if output.is_terminal:
        print_note(_HOW[shell])
    return ExitCode.DONE
