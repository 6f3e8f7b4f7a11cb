"""A vendor as data: where it is, which dialect it speaks, where its key comes from, its quirks.

A row says everything a wire must know about the host it talks to, so that a new vendor needs no
code. `flags` are the vendor's quirks by name; each wire's module lists those it reads.

Not here: which models a vendor has by name and price (a catalog adds those), or the dialects
themselves (the wires).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from ..stream import AssistantStream
from .addresses import Address
from .catalog import snapshot_of
from .model import Context, Model

__all__ = ["Dialect", "Endpoint", "KeySource", "Provider", "StreamFn"]


class StreamFn(Protocol):
    """Asks a model: `stream_fn(model, context, **options)`, or an awaitable of the stream.

    It never raises for a failed request; the stream ends with `Error` instead.
    """

    def __call__(
        self, model: Model, context: Context, /, **options: Any
    ) -> AssistantStream | Awaitable[AssistantStream]:
        """Begin one request."""
        ...


KeySource = str | Callable[[], str | Awaitable[str | None] | None]
"""A key, or what gives one when a request needs it."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One wire a vendor speaks: the wire's id, the base URL there, and the quirks on it."""

    api: str
    base_url: str | None = None
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where one request goes, worked out right before it is sent."""

    base_url: str | None
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    model_id: str | None = None
    """The name the host knows the model by, where it differs from the model's own id."""
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Quirks of this place, before all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A vendor. Only `id` is needed; `api` names the wire that is used unless a model says else."""

    id: str
    name: str | None = None
    """For people; the id if not given."""
    api: str = "openai-chat"
    base_url: str | None = None
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Quirks on the default wire."""
    other_dialects: tuple[Dialect, ...] = ()
    """Further wires the vendor speaks."""
    env: tuple[str, ...] = ()
    """Environment variables that may hold the key, in the order to look."""
    api_key: KeySource | None = field(default=None, repr=False)
    """Comes before the environment."""
    needs_key: bool = True
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Sent with every request."""
    models: tuple[Model, ...] = ()
    any_model: bool = False
    """Also ids that are not in `models` may be asked for; the vendor decides."""
    prepare: Callable[[], Awaitable[Endpoint]] | None = field(default=None, repr=False)
    """Brings the host up, or fetches what a request needs; its endpoint comes before the rest of
    the row. Awaited before every request, so it must be quick once all is ready."""
    stream: StreamFn | None = field(default=None, repr=False)
    """Asks the model itself; no wire is used then. For stand-ins and in-process models."""
    scripted: bool = False
    """A stand-in that reaches nobody; it works where real requests are forbidden."""
    ready: Callable[[], bool] | None = field(default=None, repr=False)
    """Whether it can serve here and now without a key of the user's; None: the key decides."""
    listed: Callable[[], Mapping[str, Model]] | None = field(default=None, repr=False)
    """Further models, from a list that is read when it is wanted; those in `models` come before."""
    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Quirks the user sets: on every wire, and before those of a single model."""
    address: Address = field(default_factory=Address)
    """How the environment completes or replaces the base URLs."""
    identities: tuple[tuple[str, ...], ...] = ()
    """Variables that, all of a group together, stand for an identity in place of a key."""
    key_hint: str | None = None
    """What to know about its keys, where it takes none that can simply be asked for."""
    price_list: str | None = None
    """Its name in the price list of genai-prices."""
    retired: str | None = None
    """The day (ISO 8601) on which it ended; such a vendor is refused."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.\-]+", self.id):
            raise ValueError(
                f"a provider's id is made of letters, digits, '-', '_' and '.', not {self.id!r}"
            )

    @classmethod
    def openai_compatible(
        cls,
        id: str,
        *,
        base_url: str,
        api_key: KeySource | None = None,
        env: str | Iterable[str] = (),
        models: Iterable[Model | str] = (),
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
        flags: Mapping[str, Any] | None = None,
    ) -> Provider:
        """Any server that speaks Chat Completions; *base_url* usually ends in `/v1`.

        A key is sent if *api_key* or one of the variables *env* gives one; otherwise the request
        goes without. *models* may be names; any other model can be asked for, too.
        """
        return cls(
            id=id,
            name=name,
            api="openai-chat",
            base_url=base_url,
            api_key=api_key,
            env=(env,) if isinstance(env, str) else tuple(env),
            needs_key=False,
            headers=dict(headers or {}),
            flags={"max_tokens_field": "max_tokens", **(flags or {})},
            models=tuple(
                model if isinstance(model, Model) else _unknown_model(id, model, "openai-chat")
                for model in models
            ),
            any_model=True,
        )

    @property
    def display_name(self) -> str:
        """The name for people."""
        return self.name or self.id

    @property
    def apis(self) -> list[str]:
        """The wires it speaks, the default one in front."""
        return [self.api, *[dialect.api for dialect in self.other_dialects]]

    def dialect(self, api: str) -> Dialect:
        """What the row says about the wire *api*; bare defaults for one it does not name."""
        if api == self.api:
            return Dialect(api, self.base_url, self.flags)
        for dialect in self.other_dialects:
            if dialect.api == api:
                return dialect
        return Dialect(api)

    def flags_for(self, model: Model) -> Mapping[str, Any]:
        """The quirks of a request to *model*: the wire's, the model's own, the user's."""
        flags = self.dialect(model.api).flags
        if not model.flags and not self.overrides:
            return flags
        return {**flags, **(model.flags or {}), **self.overrides}

    def known_models(self) -> list[Model]:
        """Its models as far as they are known: those in `models`, then the list's."""
        if self.listed is None:
            return list(self.models)
        own = {model.id for model in self.models}
        return [
            *self.models,
            *[model for model in self.listed().values() if model.id not in own],
        ]

    def get_model(self, model_id: str) -> Model | None:
        """The model *model_id*: a known one, a dated or fine-tuned form of one, or made up if any
        may be asked for; None if the vendor has no such."""
        for model in self.models:
            if model.id == model_id:
                return model
        if self.listed is not None:
            listed = self.listed()
            found = listed.get(model_id)
            if found is not None:
                return found
            base = listed.get(snapshot_of(model_id) or "")
            if base is not None:
                return msgspec.structs.replace(base, id=model_id, name=None)
        return _unknown_model(self.id, model_id, self.api) if self.any_model and model_id else None


def _unknown_model(provider: str, model_id: str, api: str) -> Model:
    """A model of which nothing is known: images are passed on, its host will say if it minds."""
    return Model(provider, model_id, api, input=("text", "image"))
