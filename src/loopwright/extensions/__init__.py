"""Extensions: what other packages, and the files of a trusted project, add to the product.

`Extension` is what they are written with; the rest is for programs that load some.
"""

from .combining import ExtensionFailed, combine, combine_hooks
from .extension import Command, CommandContext, Extension, Hooks
from .loading import LoadedExtensions, load_extensions

__all__ = [
    "Command",
    "CommandContext",
    "Extension",
    "ExtensionFailed",
    "Hooks",
    "LoadedExtensions",
    "combine",
    "combine_hooks",
    "load_extensions",
]
