"""The vendors that are known: a table that is read line by line, each when it is asked for.

The facts stand in data/vendors.jsonl, one vendor a line with its sources, which tools/gen_vendors.py
writes. A row becomes a `Provider`; its flags are those that the wires read, its models are those of
the catalog.

Not here: vendors of the user's own, or how a cloud's addresses and tokens are worked out (azure.py,
google_vertex.py, and the wire bedrock-converse).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from .addresses import Address, look_up
from .catalog import Catalog, catalog
from .model import Model
from .provider import Dialect, Endpoint, Provider

__all__ = ["VendorRow", "VendorTable", "vendor_table"]

FILE = Path(__file__).parent / "data" / "vendors.jsonl"


class WireRow(msgspec.Struct):
    """One dialect a vendor speaks."""

    api: str
    base_url: str
    flags: dict[str, Any] = {}
    notes: list[str] = []
    unverified: bool = False
    """No source confirms the address word for word."""


class VendorRow(msgspec.Struct, kw_only=True):
    """One line of the file; tools/gen_vendors.py says what each field is for."""

    id: str
    name: str
    env: list[str]
    auth: list[str]
    wires: list[WireRow]
    gaps: dict[str, list[str]] = {}
    base_url_variables: list[tuple[str, str]] = []
    headers: dict[str, str] = {}
    identities: list[list[str]] = []
    login: str | None = None
    listed_only: bool = False
    price_list: str | None = None
    retired: str | None = None
    notes: list[str] = []
    sources: list[str]
    evidence: int
    """How many independent sources know it; with 1, check before relying on a quirk."""


class VendorTable:
    """A `ProviderSource` of all vendors of one file."""

    def __init__(self, file: Path = FILE, models: Catalog | None = None) -> None:
        self._file = file
        self._models = models
        self._lines: dict[str, bytes] | None = None
        self._providers: dict[str, Provider] = {}

    def ids(self) -> list[str]:
        """The ids of all vendors, in the order of the file."""
        return list(self._index())

    def row(self, vendor_id: str) -> VendorRow | None:
        """What the table says about a vendor, with notes and sources."""
        line = self._index().get(vendor_id)
        return None if line is None else _decode_row(line)

    def get(self, provider_id: str) -> Provider | None:
        """The vendor with that id."""
        known = self._providers.get(provider_id)
        if known is None:
            row = self.row(provider_id)
            if row is None:
                return None
            known = self._providers[provider_id] = self._provider(row)
        return known

    def vendors_of(self, model_id: str) -> list[str]:
        """The vendors whose list has a model of exactly that id."""
        return self._catalog().vendors_of(model_id)

    def _index(self) -> Mapping[str, bytes]:
        if self._lines is None:
            lines = self._file.read_bytes().splitlines()[1:]
            # `{"id":"` is how each line starts.
            self._lines = {line[7 : line.index(b'"', 7)].decode(): line for line in lines}
        return self._lines

    def _catalog(self) -> Catalog:
        return catalog() if self._models is None else self._models

    def _provider(self, row: VendorRow) -> Provider:
        first, *others = row.wires

        def listed() -> Mapping[str, Model]:
            return self._catalog().models(row.id, first.api)

        provider = Provider(
            id=row.id,
            name=row.name,
            api=first.api,
            base_url=first.base_url,
            flags=first.flags,
            other_dialects=tuple([Dialect(wire.api, wire.base_url, wire.flags) for wire in others]),
            env=tuple(row.env),
            needs_key="none" not in row.auth and not row.identities,
            headers=row.headers,
            any_model=not row.listed_only,
            listed=listed,
            address=Address(
                {gap: tuple(names) for gap, names in row.gaps.items()},
                tuple(row.base_url_variables),
            ),
            identities=tuple([tuple(group) for group in row.identities]),
            key_hint=row.login,
            price_list=row.price_list,
            retired=row.retired,
        )
        finish = _FINISHED_BY_CODE.get(row.id)
        return provider if finish is None else finish(provider)


_decode_row = msgspec.json.Decoder(VendorRow).decode


def _azure(provider: Provider) -> Provider:
    """Azure's own rules for addresses, keys and deployments, worked out when a request is made."""
    from .azure import azure_base_url, azure_provider

    model = azure_provider("https://unknown.openai.azure.com", id=provider.id)
    dialects = {model.api: model.flags, **{d.api: d.flags for d in model.other_dialects}}

    async def locate() -> Endpoint:
        return Endpoint(azure_base_url())

    return dataclasses.replace(
        provider,
        base_url=None,
        flags={**provider.flags, **dialects.get(provider.api, {})},
        other_dialects=tuple(
            [
                Dialect(other.api, None, {**other.flags, **dialects.get(other.api, {})})
                for other in provider.other_dialects
            ]
        ),
        address=Address(),
        prepare=locate,
    )


def _vertex(provider: Provider) -> Provider:
    """Gemini at Vertex: a project and a token of the user's identity, or without a project a key."""
    from .google_vertex import EXPRESS_URL, vertex_base_url

    async def locate() -> Endpoint:
        key = look_up(provider.env)
        if key is not None and look_up(_PROJECTS) is None:
            return Endpoint(EXPRESS_URL, api_key=key.value, flags={"auth": "x-goog-api-key"})
        return Endpoint(vertex_base_url(), flags={"auth": "google-adc"})

    return dataclasses.replace(provider, api_key=_GoogleIdentity(), needs_key=True, prepare=locate)


def _vertex_anthropic(provider: Provider) -> Provider:
    """Claude at Vertex: a project, and a token of the user's identity."""
    from .google_vertex import vertex_base_url

    async def locate() -> Endpoint:
        project = look_up(["GOOGLE_VERTEX_PROJECT", *_PROJECTS])
        location = look_up(["GOOGLE_VERTEX_LOCATION", "GOOGLE_CLOUD_LOCATION"])
        url = vertex_base_url(
            project and project.value, location and location.value, publisher="anthropic"
        )
        return Endpoint(url)

    return dataclasses.replace(provider, api_key=_GoogleIdentity(), needs_key=True, prepare=locate)


_PROJECTS = ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")


class _GoogleIdentity:
    """Tokens of the application default credentials, and whether there are such, as far as files
    and the environment show."""

    def __init__(self) -> None:
        self._tokens: Callable[[], Awaitable[str]] | None = None

    def __call__(self) -> Awaitable[str]:
        if self._tokens is None:
            from .google_vertex import google_tokens

            self._tokens = google_tokens()
        return self._tokens()

    def available(self) -> bool:
        if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
            return True
        folder = os.environ.get("CLOUDSDK_CONFIG") or Path.home() / ".config" / "gcloud"
        return (Path(folder) / "application_default_credentials.json").is_file()


_FINISHED_BY_CODE: Mapping[str, Callable[[Provider], Provider]] = {
    "azure": _azure,
    "google-vertex": _vertex,
    "google-vertex-anthropic": _vertex_anthropic,
}


@cache
def vendor_table() -> VendorTable:
    """The table that comes with the package."""
    return VendorTable()
