"""models.toml: servers of the user's own, changes to known ones, and the model to use by default.

    default = "ollama/qwen3:4b"

    [providers.team]
    base_url = "http://127.0.0.1:8000/v1"

    [providers.openai]
    base_url = "https://gateway.example/openai/v1"

The user's file may do everything. A project's file comes with somebody else's folder, so it can
neither choose the model, nor take the place of a server the user knows, nor have a key out of the
environment sent to another machine.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from ...errors import ConfigurationError
from ...messages import Cost
from ...models import Model, Models, Provider, ThinkingLevel
from ...models.addresses import Address
from ...models.credentials import credential_file
from ...models.provider import Dialect
from ...models.vendors import vendor_table

__all__ = ["add_project_models", "add_user_models"]

MOST_BYTES = 1_000_000
FILE_KEYS = ("default", "providers")
EXAMPLE = '[providers.ollama]\nbase_url = "http://127.0.0.1:11434/v1"'


class _CostRow(msgspec.Struct, forbid_unknown_fields=True):
    """US dollars for a million tokens."""

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None


class _ModelRow(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    name: str | None = None
    api: str | None = None
    base_url: str | None = None
    context_window: int | None = None
    max_tokens: int | None = None
    input: tuple[str, ...] | None = None
    thinking_levels: list[ThinkingLevel] | dict[ThinkingLevel, str | bool] | None = None
    cost: _CostRow | None = None
    flags: dict[str, Any] = {}


class _ProviderRow(msgspec.Struct, forbid_unknown_fields=True):
    base_url: str = ""
    api: str | None = None
    name: str | None = None
    api_key: str | None = None
    env: str | list[str] = msgspec.field(default_factory=list[str])
    headers: dict[str, str] = {}
    models: list[str | _ModelRow] = []
    flags: dict[str, Any] = {}
    any_model: bool | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        return (self.env,) if isinstance(self.env, str) else tuple(self.env)


def add_user_models(models: Models, file: Path) -> str | None:
    """Know the servers of the user's *file*, which may be missing. Returns its default model.

    Raises `ConfigurationError` naming the file and what is wrong in it.
    """
    content = _read(file)
    for provider_id, row in _rows(content, file):
        known = models.get_provider(provider_id)
        if known is not None and known.listed is not None:
            models.add(_changed(known, row))
        else:
            models.add(_provider(provider_id, row, file))
    default = content.get("default")
    if default is not None and not isinstance(default, str):
        raise _wrong(file, f"`default` is a model's name, not {default!r}")
    return default


def add_project_models(models: Models, file: Path, tell: Callable[[str], object]) -> None:
    """Know the servers of a project's *file*, which may be missing, as far as it is trusted.

    *tell* is given a note about what was left out. Raises `ConfigurationError`.
    """
    content = _read(file)
    if "default" in content:
        tell(f"{file}: `default` is left out: a project does not choose the model")
    for provider_id, row in _rows(content, file):
        known = models.get_provider(provider_id)
        if known is not None and not _is_the_same_kind_of_server(known, row):
            tell(f"{file}: {provider_id!r} is left out: there is one of that name already")
            continue
        _refuse_other_peoples_keys(provider_id, row, file)
        models.add(_provider(provider_id, row, file))


def _refuse_other_peoples_keys(provider_id: str, row: _ProviderRow, file: Path) -> None:
    """A project may name servers, but not have the user's keys or identity sent to them."""
    foreign = [url for url in _addresses(row) if not _is_on_this_machine(url)]
    identity = sorted(_apis(row) & FIND_AN_IDENTITY) or sorted(
        str(flags["auth"]) for flags in _all_flags(row) if flags.get("auth") not in PLAIN_AUTH
    )
    if identity:
        wanted = f"your identity ({', '.join(identity)})"
    elif foreign and row.env:
        wanted = f"a key from the environment ({row.env})"
    elif foreign and row.api_key is None and credential_file().key(provider_id):
        wanted = "the key you keep for it"
    else:
        return
    raise _wrong(
        file,
        f"{provider_id!r} wants {wanted} sent to {', '.join(foreign) or row.base_url}, "
        "which a project may not ask for",
        hint="if you want that, move these lines into your own models.toml",
    )


FIND_AN_IDENTITY = frozenset({"bedrock-converse"})
"""Wires that look for the user's credentials by themselves."""

PLAIN_AUTH = (None, "bearer", "x-api-key", "x-goog-api-key", "none")
"""Ways to send a key that was given; every other value of the flag `auth` fetches an identity."""


def _models(row: _ProviderRow) -> list[_ModelRow]:
    return [model for model in row.models if isinstance(model, _ModelRow)]


def _addresses(row: _ProviderRow) -> list[str]:
    return [url for url in (row.base_url, *(m.base_url for m in _models(row))) if url]


def _apis(row: _ProviderRow) -> set[str]:
    return {api for api in (row.api, *(m.api for m in _models(row))) if api}


def _all_flags(row: _ProviderRow) -> list[dict[str, Any]]:
    return [row.flags, *(model.flags for model in _models(row))]


def _read(file: Path) -> dict[str, Any]:
    try:
        # Somebody else's project may have put anything there: a pipe would wait for ever.
        if file.exists() and not file.is_file():
            raise _wrong(file, "it is no regular file")
        if file.is_file() and file.stat().st_size > MOST_BYTES:
            raise _wrong(file, f"it is larger than {MOST_BYTES:,} bytes")
        with file.open("rb") as opened:
            content = tomllib.load(opened)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _wrong(file, f"it cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise _wrong(file, "it is nested too deeply") from error
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
        if row.base_url and urlsplit(row.base_url).scheme not in ("http", "https"):
            raise _wrong(
                file, f"{where}: `base_url` starts with http:// or https://, not {row.base_url!r}"
            )
        yield provider_id, row


def _provider(provider_id: str, row: _ProviderRow, file: Path) -> Provider:
    """A server nobody knew."""
    if not row.base_url:
        raise _wrong(
            file, f"in [providers.{provider_id}]: Object missing required field `base_url`"
        )
    api = row.api or "openai-chat"
    try:
        provider = Provider.openai_compatible(
            provider_id,
            base_url=row.base_url,
            api_key=row.api_key,
            env=row.env,
            name=row.name,
            headers=row.headers,
            flags=row.flags,
        )
    except ValueError as error:
        raise _wrong(file, str(error)) from error
    if row.env:  # who names a variable means it to hold a key
        provider = dataclasses.replace(provider, needs_key=True)
    if api != "openai-chat":
        provider = dataclasses.replace(provider, api=api, flags=row.flags)
    return dataclasses.replace(
        provider,
        models=tuple([_model(provider, model) for model in row.models]),
        any_model=row.any_model is not False,
    )


def _changed(known: Provider, row: _ProviderRow) -> Provider:
    """A vendor of the table, as far as *row* says otherwise."""
    dialects = [known.dialect(api) for api in known.apis]
    if row.base_url:
        # Who puts a gateway in front of a vendor means all the dialects of that host.
        place = known.dialect(row.api or known.api).base_url
        dialects = [
            dataclasses.replace(dialect, base_url=row.base_url)
            if dialect.base_url == place or dialect.api == row.api
            else dialect
            for dialect in dialects
        ]
    if row.api is not None:
        if row.api not in known.apis:
            dialects.append(Dialect(row.api, row.base_url or known.base_url))
        dialects.sort(key=lambda dialect: dialect.api != row.api)
    first, *others = dialects
    changed = dataclasses.replace(
        known,
        name=row.name or known.name,
        api=first.api,
        base_url=first.base_url,
        flags=first.flags,
        other_dialects=tuple(others),
        env=row.variables or known.env,
        api_key=row.api_key or (None if row.variables else known.api_key),
        headers={**known.headers, **row.headers},
        overrides={**known.overrides, **row.flags},
        any_model=known.any_model if row.any_model is None else row.any_model,
        # What the file says is not overruled by a variable of the environment.
        address=Address(known.address.gaps) if row.base_url else known.address,
        prepare=None if row.base_url else known.prepare,
    )
    models = [_model(changed, model) for model in row.models]
    return dataclasses.replace(changed, models=tuple(models))


def _model(provider: Provider, row: str | _ModelRow) -> Model:
    """What *row* says, over what is known of that model."""
    if isinstance(row, str):
        row = _ModelRow(row)
    listed = provider.listed().get(row.id) if provider.listed is not None else None
    base = listed or Model(provider.id, row.id, provider.api, input=("text", "image"))
    changes: dict[str, Any] = {
        "name": row.name,
        "api": row.api,
        "base_url": row.base_url,
        "context_window": row.context_window,
        "max_tokens": row.max_tokens,
        "input": row.input,
        "thinking_levels": _levels(row.thinking_levels),
        "flags": {**(base.flags or {}), **row.flags} or None,
    }
    if row.cost is not None:
        cost = row.cost
        changes["cost"] = Cost(cost.input, cost.output, cost.cache_read, cost.cache_write)
        changes["cost_tiers"] = []
    told = {name: value for name, value in changes.items() if value is not None}
    return msgspec.structs.replace(base, **told)


def _levels(
    given: list[ThinkingLevel] | dict[ThinkingLevel, str | bool] | None,
) -> dict[str, str | None] | None:
    """Level -> the vendor's word; `true` is the same word, `false` is not offered."""
    if given is None:
        return None
    if isinstance(given, list):
        return {level: level for level in given}
    return {
        level: (level if word else None) if isinstance(word, bool) else word
        for level, word in given.items()
    }


def _is_the_same_kind_of_server(known: Provider, row: _ProviderRow) -> bool:
    """Whether *known* is a server as it comes with us, on this machine and without a key, and *row*
    only says that it is somewhere else on this machine."""
    return (
        known is vendor_table().get(known.id)
        and not known.needs_key
        and _is_on_this_machine(known.base_url or "")
        and _is_on_this_machine(row.base_url)
        and all(_is_on_this_machine(url) for url in _addresses(row))
        and not row.env
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
