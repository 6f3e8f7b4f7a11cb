"""What a file is written in, by its name, as the fences of Markdown call it.                (pure)"""

from __future__ import annotations

__all__ = ["language_of"]

_BY_ENDING = {
    "bash": "bash",
    "c": "c",
    "cc": "cpp",
    "cpp": "cpp",
    "cs": "csharp",
    "css": "css",
    "csv": "csv",
    "go": "go",
    "h": "c",
    "hpp": "cpp",
    "htm": "html",
    "html": "html",
    "ini": "ini",
    "java": "java",
    "js": "js",
    "json": "json",
    "jsonl": "json",
    "jsx": "jsx",
    "kt": "kotlin",
    "lua": "lua",
    "md": "markdown",
    "php": "php",
    "pl": "perl",
    "py": "python",
    "pyi": "python",
    "r": "r",
    "rb": "ruby",
    "rs": "rust",
    "rst": "rst",
    "scala": "scala",
    "sh": "sh",
    "sql": "sql",
    "swift": "swift",
    "toml": "toml",
    "ts": "ts",
    "tsx": "tsx",
    "xml": "xml",
    "yaml": "yaml",
    "yml": "yaml",
}


def language_of(path: str) -> str:
    """The language of the file at *path*; empty if its ending tells none."""
    return _BY_ENDING.get(path.rpartition(".")[2].lower(), "") if "." in path else ""
