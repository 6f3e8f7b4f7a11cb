"""What is known of vendors' models: limits, what they read, thinking levels, prices, their end.

The facts stand in data/catalog.jsonl, which tools/gen_catalog.py writes; its first line has their
sources and dates. One vendor's models are read when that vendor is first asked for one. What the
file does not say is unknown.

Not here: which vendors there are (vendors.py), or what a request cost (costs.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ..messages import Cost
from .model import CostTier, Model

__all__ = ["Catalog", "CatalogRow", "catalog", "parse_levels", "snapshot_of"]

FILE = Path(__file__).parent / "data" / "catalog.jsonl"

_SNAPSHOT = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$")
"""What vendors put behind a model's name: a day, or that it shall be the newest."""


class CatalogRow(msgspec.Struct, array_like=True, gc=False):
    """One line of the file. Numbers are tokens, and US dollars for a million of them."""

    id: str
    name: str | None = None
    api: str | None = None
    """The wire; None for the vendor's default."""
    context_window: int | None = None
    max_tokens: int | None = None
    images: int = 0
    levels: str | None = None
    """See `parse_levels`; None where nothing is known."""
    cost: tuple[float | None, ...] | None = None
    """Input, output, cache read, cache write."""
    tiers: list[tuple[float | None, ...]] | None = None
    """Each: more input tokens than this, then the four rates."""
    long_cache_write: float | None = None
    flags: dict[str, Any] | None = None
    base_url: str | None = None
    deprecated_on: str | None = None
    successor: str | None = None


class Catalog:
    """The models of one file. Reading is lazy and safe from several threads."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._text: bytes | None = None
        self._read_for: dict[tuple[str, str], dict[str, Model]] = {}

    def models(self, vendor: str, api: str) -> Mapping[str, Model]:
        """The models of *vendor* by id, in the order to show them; those that name no wire of
        their own speak *api*. Empty for a vendor that is not listed."""
        known = self._read_for.get((vendor, api))
        if known is None:
            rows = _decode_rows(self._section(vendor))
            known = self._read_for[vendor, api] = {row.id: _model(row, vendor, api) for row in rows}
        return known

    def sources(self) -> list[str]:
        """Where the facts come from, with versions and dates."""
        head: dict[str, Any] = msgspec.json.decode(self._read().partition(b"\n")[0])
        return head["sources"]

    def vendors_of(self, model_id: str) -> list[str]:
        """Who sells a model of exactly that id."""
        text = self._read()
        wanted = b"\n[" + msgspec.json.encode(model_id)
        return [
            vendor
            for vendor, section in _sections(text)
            if wanted + b"," in section or wanted + b"]" in section
        ]

    def _section(self, vendor: str) -> bytes:
        text = self._read()
        start = text.find(b"\n" + _VENDOR + msgspec.json.encode(vendor) + b",")
        if start < 0:
            return b""
        start = text.index(b"\n", start + 1) + 1
        end = text.find(b"\n" + _VENDOR, start - 1)
        return text[start:] if end < 0 else text[start:end]

    def _read(self) -> bytes:
        if self._text is None:
            self._text = self._file.read_bytes()
        return self._text


_VENDOR = b'{"vendor":'
_decode_rows = msgspec.json.Decoder(CatalogRow).decode_lines


def _sections(text: bytes) -> Iterator[tuple[str, bytes]]:
    for part in text.split(b"\n" + _VENDOR)[1:]:
        name, _, rows = part.partition(b",")
        yield msgspec.json.decode(name), rows


def _model(row: CatalogRow, vendor: str, api: str) -> Model:
    return Model(
        vendor,
        row.id,
        row.api or api,
        name=row.name,
        base_url=row.base_url,
        context_window=row.context_window,
        max_tokens=row.max_tokens,
        input=("text", "image") if row.images else ("text",),
        thinking_levels=None if row.levels is None else dict(parse_levels(row.levels)),
        cost=None if row.cost is None else Cost(*row.cost),
        cost_tiers=[CostTier(int(above or 0), Cost(*rates)) for above, *rates in row.tiers or ()],
        long_cache_write=row.long_cache_write,
        flags=row.flags,
        deprecated_on=row.deprecated_on,
        successor=row.successor,
    )


@cache
def parse_levels(text: str) -> Mapping[str, str | None]:
    """`"off! low high=thorough"`: a level by itself is the vendor's word, too; `!` behind it says
    that it is refused."""
    levels: dict[str, str | None] = {}
    for part in text.split():
        level, _, word = part.partition("=")
        if level.endswith("!"):
            levels[level[:-1]] = None
        else:
            levels[level] = word or level
    return levels


def snapshot_of(model_id: str) -> str | None:
    """The model that *model_id* is a dated snapshot of, or a fine-tuned descendant; None if its
    name does not look so."""
    if model_id.startswith("ft:"):
        return model_id.split(":")[1] or None
    base = _SNAPSHOT.sub("", model_id)
    return base if base != model_id else None


@cache
def catalog() -> Catalog:
    """The catalog that comes with the package."""
    return Catalog()
