"""`loopwright models [search]`: what can be asked, what it costs, and whether there is a key.

Everything comes from files of this machine; nobody is asked.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from ...messages import Cost
from ...models import Model, Models, Provider
from ...models.auth import KeyStatus
from ..exit_codes import ExitCode
from ..options import Mode
from ..streams import Output, Piece, print_error, print_note
from ..table import Column, table_lines
from .known import known_models
from .usable import key_of

__all__ = ["list_models", "list_providers"]

ANY = "..."
"""In place of a model's id: any may be asked for."""


Row = TypeVar("Row")


class Vendor(NamedTuple):
    """A vendor, and whether its key is there."""

    provider: Provider
    key: KeyStatus


class Entry(NamedTuple):
    """A model, and who sells it."""

    model: Model
    vendor: Vendor


def list_models(search: str, mode: Mode) -> ExitCode:
    """Print the models that have all words of *search* in their vendor, id or name."""
    words = search.lower().split()
    vendors = [v for v in _vendors(known_models()) if not v.provider.retired]
    entries = [
        entry for vendor in vendors for entry in _entries(vendor, words) if _fits(entry, words)
    ]
    if not entries:
        _say_nothing_fits(search, vendors)
        return ExitCode.FAILED
    output = Output(sys.stdout)
    if mode == "json":
        output.write_line_of_bytes(b"\n".join(map(_model_as_json, entries)))
        return ExitCode.DONE
    _print_table(output, _MODEL_COLUMNS, entries)
    if output.is_terminal:
        with_key = sum(1 for vendor in vendors if vendor.key.present and vendor.key.source)
        print_note(
            f"{len(entries)} models; there are keys for {with_key} of {len(vendors)} vendors"
        )
    return ExitCode.DONE


def list_providers(search: str, mode: Mode) -> ExitCode:
    """Print the vendors that have all words of *search* in their id or name."""
    words = search.lower().split()
    vendors = [
        vendor
        for vendor in _vendors(known_models())
        if all(word in f"{vendor.provider.id} {vendor.provider.name}".lower() for word in words)
    ]
    if not vendors:
        print_error(f"no vendor has {search!r} in its name", hint="loopwright models --providers")
        return ExitCode.FAILED
    output = Output(sys.stdout)
    if mode == "json":
        output.write_line_of_bytes(b"\n".join(map(_vendor_as_json, vendors)))
    else:
        _print_table(output, _VENDOR_COLUMNS, vendors)
    return ExitCode.DONE


# -- what there is -----------------------------------------------------------------------------


def _vendors(models: Models) -> list[Vendor]:
    """Those that can be asked now in front, then makers of models, then those who host them."""
    known = [provider for id in models.provider_ids() if (provider := models.get_provider(id))]
    vendors = [Vendor(provider, key_of(provider)) for provider in known]
    return sorted(
        vendors,
        key=lambda vendor: (
            vendor.provider.id != "local",
            not (vendor.key.present and vendor.key.source),
            vendor.provider.any_model,
        ),
    )


def _entries(vendor: Vendor, words: Iterable[str]) -> list[Entry]:
    provider = vendor.provider
    by_wire = {api: Vendor(provider, key_of(provider, api)) for api in provider.apis}
    found = [Entry(model, by_wire.get(model.api, vendor)) for model in provider.known_models()]
    if not found and words and provider.any_model:
        return [Entry(Model(provider.id, ANY, provider.api, input=()), vendor)]
    return found


def _fits(entry: Entry, words: Iterable[str]) -> bool:
    model, provider = entry.model, entry.vendor.provider
    text = f"{provider.id}/{model.id} {model.name or ''} {provider.name or ''}".lower()
    return all(word in text for word in words)


def _say_nothing_fits(search: str, vendors: Iterable[Vendor]) -> None:
    import difflib

    word = search.lower()
    names: dict[str, None] = {}
    for vendor in vendors:
        names[vendor.provider.id] = None
        for model in vendor.provider.known_models():
            names.update(dict.fromkeys(_PART.split(model.id.lower())))
    near = difflib.get_close_matches(word, list(names), n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else "`loopwright models` lists all"
    print_error(f"no model has {search!r} in its vendor, id or name", hint=hint)


_PART = re.compile(r"[-/.:@_ ]+")


# -- as text -----------------------------------------------------------------------------------


def _print_table(output: Output, columns: Sequence[Column[Row]], rows: Sequence[Row]) -> None:
    head, *lines = table_lines(columns, rows, output.width if output.is_terminal else None)
    output.write_pieces([Piece(head + "\n", "quiet"), Piece("\n".join(lines) + "\n")])


def tokens_text(tokens: int | None) -> str:
    """`1.05M`, `200k`, `512`; `?` where it is not known."""
    if tokens is None:
        return "?"
    if tokens >= 1_000_000:
        return f"{tokens / 1_000_000:.3g}M"
    return f"{tokens / 1000:.0f}k" if tokens >= 1000 else str(tokens)


def price_text(cost: Cost | None) -> str:
    """`$3 / $15` for a million tokens of input and output; `?` where it is not known."""
    if cost is None or (cost.input is None and cost.output is None):
        return "?"
    if not cost.input and not cost.output:
        return "free"
    return " / ".join(["?" if rate is None else f"${rate:g}" for rate in (cost.input, cost.output)])


def _abilities(entry: Entry) -> str:
    model = entry.model
    words = ["thinking"] if model.thinking_levels else []
    words += ["images"] if "image" in model.input else []
    words += [f"until {model.deprecated_on}"] if model.deprecated_on else []
    return " ".join(words)


def _short_abilities(entry: Entry) -> str:
    return "".join([word[0].upper() for word in _abilities(entry).split()[:2] if word != "until"])


def key_text(key: KeyStatus) -> str:
    """`yes: NAME`, with where it comes from, or what to set."""
    if key.present:
        return f"yes: {key.source}" if key.source else "none needed"
    return f"no: {key.source}" if key.source else "no"


def _yes_or_no(key: KeyStatus) -> str:
    return "yes" if key.present else "no"


_MODEL_COLUMNS: tuple[Column[Entry], ...] = (
    Column[Entry]("MODEL", lambda entry: f"{entry.vendor.provider.id}/{entry.model.id}"),
    Column[Entry](
        "KEY", lambda e: key_text(e.vendor.key), instead=(lambda e: _yes_or_no(e.vendor.key),)
    ),
    Column[Entry]("CONTEXT", lambda entry: tokens_text(entry.model.context_window), right=True),
    Column[Entry]("$ IN / OUT PER M", lambda entry: price_text(entry.model.cost)),
    Column[Entry]("CAN", _abilities, instead=(_short_abilities,)),
    Column[Entry]("OUTPUT", lambda entry: tokens_text(entry.model.max_tokens), right=True),
)

_VENDOR_COLUMNS: tuple[Column[Vendor], ...] = (
    Column[Vendor]("PROVIDER", lambda vendor: vendor.provider.id),
    Column[Vendor]("KEY", lambda v: key_text(v.key), instead=(lambda v: _yes_or_no(v.key),)),
    Column[Vendor]("MODELS", lambda vendor: _count(vendor.provider), right=True),
    Column[Vendor](
        "NAME",
        lambda v: (
            v.provider.display_name
            + (f" (ended {v.provider.retired})" if v.provider.retired else "")
        ),
    ),
    Column[Vendor]("WIRES", lambda vendor: " ".join(vendor.provider.apis)),
    Column[Vendor]("WHERE", lambda vendor: vendor.provider.base_url or ""),
)


def _count(provider: Provider) -> str:
    known = len(provider.known_models())
    return f"{known or ''}{'+' if known and provider.any_model else ''}" or "any"


# -- as JSON -----------------------------------------------------------------------------------


def _model_as_json(entry: Entry) -> bytes:
    model, vendor = entry.model, entry.vendor
    return msgspec.json.encode(
        {
            "provider": vendor.provider.id,
            "id": model.id,
            "name": model.name,
            "api": model.api,
            "contextWindow": model.context_window,
            "maxTokens": model.max_tokens,
            "input": model.input,
            "thinkingLevels": None
            if model.thinking_levels is None
            else [level for level, word in model.thinking_levels.items() if word is not None],
            "cost": None if model.cost is None else _rates(model.cost),
            "deprecatedOn": model.deprecated_on,
            "successor": model.successor,
            "key": {"present": vendor.key.present, "source": vendor.key.source},
        }
    )


def _rates(cost: Cost) -> dict[str, float | None]:
    return {
        "input": cost.input,
        "output": cost.output,
        "cacheRead": cost.cache_read,
        "cacheWrite": cost.cache_write,
    }


def _vendor_as_json(vendor: Vendor) -> bytes:
    provider = vendor.provider
    return msgspec.json.encode(
        {
            "id": provider.id,
            "name": provider.display_name,
            "apis": provider.apis,
            "baseUrl": provider.base_url,
            "models": len(provider.known_models()),
            "anyModel": provider.any_model,
            "env": provider.env,
            "retired": provider.retired,
            "key": {"present": vendor.key.present, "source": vendor.key.source},
        }
    )
