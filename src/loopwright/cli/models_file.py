"""models.toml: servers of the user's own, and the model to use by default.

    default = "ollama/qwen3:4b"

    [providers.ollama]
    base_url = "http://127.0.0.1:11434/v1"

The user's file may do everything. A project's file comes with somebody else's folder, so it can
neither choose the model, nor take the place of a server the user knows, nor have a key out of the
environment sent to another machine.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from ..errors import ConfigurationError
from ..models import Model, Models, Provider

__all__ = ["add_project_models", "add_user_models"]

FILE_KEYS = ("default", "providers")
EXAMPLE = '[providers.ollama]\nbase_url = "http://127.0.0.1:11434/v1"'


class _ModelRow(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    name: str | None = None
    context_window: int | None = None
    max_tokens: int | None = None
    input: tuple[str, ...] = ("text", "image")


class _ProviderRow(msgspec.Struct, forbid_unknown_fields=True):
    base_url: str
    name: str | None = None
    api_key: str | None = None
    env: str | list[str] = msgspec.field(default_factory=list[str])
    headers: dict[str, str] = {}
    models: list[str | _ModelRow] = []
    flags: dict[str, Any] = {}


def add_user_models(models: Models, file: Path) -> str | None:
    """Know the servers of the user's *file*, which may be missing. Returns its default model.

    Raises `ConfigurationError` naming the file and what is wrong in it.
    """
    content = _read(file)
    for provider_id, row in _rows(content, file):
        models.add(_provider(provider_id, row, file))
    default = content.get("default")
    if default is not None and not isinstance(default, str):
        raise _wrong(file, f"`default` is a model's name, not {default!r}")
    return default


def add_project_models(models: Models, file: Path, tell: Callable[[str], None]) -> None:
    """Know the servers of a project's *file*, which may be missing, as far as it is trusted.

    *tell* is given a note about what was left out. Raises `ConfigurationError`.
    """
    content = _read(file)
    if "default" in content:
        tell(f"{file}: `default` is left out: a project does not choose the model")
    for provider_id, row in _rows(content, file):
        if models.get_provider(provider_id) is not None:
            tell(f"{file}: {provider_id!r} is left out: there is one of that name already")
            continue
        if row.env and not _is_on_this_machine(row.base_url):
            raise _wrong(
                file,
                f"{provider_id!r} wants a key from the environment ({row.env}) sent to "
                f"{row.base_url}, which a project may not ask for",
                hint="if you want that, move these lines into your own models.toml",
            )
        models.add(_provider(provider_id, row, file))


def _read(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as opened:
            content = tomllib.load(opened)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _wrong(file, f"it cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _wrong(file, f"it is not valid TOML: {error}") from error
    _refuse_unknown(file, "at the top", content, FILE_KEYS)
    return content


def _rows(content: dict[str, Any], file: Path) -> Iterable[tuple[str, _ProviderRow]]:
    tables = content.get("providers", {})
    if not isinstance(tables, dict):
        raise _wrong(file, "`providers` is no table", hint=f"for instance:\n{EXAMPLE}")
    for provider_id, table in cast("dict[str, Any]", tables).items():
        where = f"in [providers.{provider_id}]"
        if not isinstance(table, dict):
            raise _wrong(file, f"{where}: expected a table", hint=f"for instance:\n{EXAMPLE}")
        fields = cast("dict[str, Any]", table)
        _refuse_unknown(file, where, fields, _ProviderRow.__struct_fields__)
        try:
            row = msgspec.convert(fields, _ProviderRow)
        except msgspec.ValidationError as error:
            raise _wrong(file, f"{where}: {error}") from error
        if urlsplit(row.base_url).scheme not in ("http", "https"):
            raise _wrong(
                file, f"{where}: `base_url` starts with http:// or https://, not {row.base_url!r}"
            )
        yield provider_id, row


def _provider(provider_id: str, row: _ProviderRow, file: Path) -> Provider:
    try:
        return Provider.openai_compatible(
            provider_id,
            base_url=row.base_url,
            api_key=row.api_key,
            env=row.env,
            models=[_model(provider_id, model) for model in row.models],
            name=row.name,
            headers=row.headers,
            flags=row.flags,
        )
    except ValueError as error:
        raise _wrong(file, str(error)) from error


def _model(provider_id: str, row: str | _ModelRow) -> Model | str:
    if isinstance(row, str):
        return row
    return Model(
        provider_id,
        row.id,
        "openai-chat",
        name=row.name,
        context_window=row.context_window,
        max_tokens=row.max_tokens,
        input=row.input,
    )


def _refuse_unknown(file: Path, where: str, table: dict[str, Any], known: Iterable[str]) -> None:
    names = list(known)
    for key in table:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(names)}"
            raise _wrong(file, f"{where}: nothing is called `{key}`", hint=hint)


def _wrong(file: Path, message: str, *, hint: str | None = None) -> ConfigurationError:
    return ConfigurationError(f"{file}: {message}", hint=hint)


def _is_on_this_machine(base_url: str) -> bool:
    return urlsplit(base_url).hostname in ("127.0.0.1", "localhost", "::1")
