"""The vendors a program knows, and what a name such as `acme/large-2:high` means.

Single vendors are added; whole tables are sources, read only when a vendor is asked for. A name
that means nothing is answered with near ones.

Not here: asking a model (models.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Self

from ..errors import ModelNotFound
from .auth import has_key
from .model import Model, ThinkingLevel
from .provider import Provider
from .thinking import LEVELS

__all__ = ["ProviderDirectory", "ProviderSource", "check_in_service"]


class ProviderSource(Protocol):
    """Many vendors that are read only when asked for, such as a table in a file."""

    def ids(self) -> Iterable[str]:
        """The ids of all its vendors."""
        ...

    def get(self, provider_id: str) -> Provider | None:
        """The vendor with that id."""
        ...


class ProviderDirectory:
    """Vendors by id."""

    def __init__(self, providers: Iterable[Provider] = ()) -> None:
        self._providers: dict[str, Provider] = {}
        self._sources: list[ProviderSource] = []
        for provider in providers:
            self.add(provider)

    def add(self, provider: Provider) -> Self:
        """Know *provider*, instead of any other with its id. Returns itself, to chain."""
        self._providers[provider.id] = provider
        return self

    set_provider = add

    def add_source(self, source: ProviderSource) -> Self:
        """Know the vendors of *source* too; single ones that were added come before them."""
        self._sources.append(source)
        return self

    def provider_ids(self) -> list[str]:
        """The ids of all vendors, those added first in front."""
        every = dict.fromkeys(self._providers)
        for source in self._sources:
            every.update(dict.fromkeys(source.ids()))
        return list(every)

    def get_provider(self, provider_id: str) -> Provider | None:
        """The vendor with that id."""
        known = self._providers.get(provider_id)
        if known is None:
            for source in self._sources:
                known = source.get(provider_id)
                if known is not None:
                    break
        return known

    def get_model(self, provider_id: str, model_id: str) -> Model | None:
        """The model, None if there is none of that name. A vendor that takes any id (a compatible
        server) has every model."""
        provider = self.get_provider(provider_id)
        return provider.get_model(model_id) if provider is not None else None

    def has_key(self, provider_id: str) -> bool:
        """Whether a request to that vendor would find the key it needs."""
        provider = self.get_provider(provider_id)
        return provider is not None and has_key(provider)

    def resolve(self, reference: str) -> Model:
        """The model that *reference* names: `provider/model`, or `provider:model`, with or without
        a thinking level behind it (`:high`). Raises `ModelNotFound` with near names."""
        return self.resolve_with_level(reference)[0]

    def resolve_with_level(self, reference: str) -> tuple[Model, ThinkingLevel | None]:
        """The model that *reference* names, and the thinking level if it names one.

        A provider's id alone names its first model, a model's id alone the model, if only one
        vendor that was added has it. Model ids may hold `/` and `:`; what stands behind the last
        colon is a level only if it is the name of one and no model has it in its id.
        """
        provider, rest = self._split(reference)
        if provider is None:
            return self._by_model_id(reference)
        check_in_service(provider)
        if not rest:
            if provider.models:
                return provider.models[0], None
            some = [f"{provider.id}/{model.id}" for model in provider.known_models()[:3]]
            raise ModelNotFound(
                f"{reference!r} names a provider, but no model",
                hint=f"write {provider.id}/<model>{f', such as {some[0]}' if some else ''}",
            )
        base, level = _without_level(rest)
        if level is not None:
            exact = next((m for m in provider.known_models() if m.id == rest), None)
            if exact is not None:
                return exact, None
        found = provider.get_model(base)
        if found is None:
            raise self._not_found(provider, base)
        return found, level

    def provider_of(self, model: Model) -> Provider:
        """The vendor to ask for *model*. Raises `ModelNotFound` if there is none."""
        provider = self.get_provider(model.provider)
        if provider is not None:
            check_in_service(provider)
            return provider
        if model.base_url:  # a model that says itself where it is needs no row
            return Provider(
                id=model.provider or "unnamed", api=model.api, base_url=model.base_url,
                needs_key=False,
            )  # fmt: skip
        raise self._no_provider(model.provider)

    def _split(self, reference: str) -> tuple[Provider | None, str]:
        """The vendor at the start of *reference* and what stands behind it."""
        for place, character in enumerate(reference):
            if character in "/:":
                return self.get_provider(reference[:place]), reference[place + 1 :]
        return self.get_provider(reference), ""

    def _by_model_id(self, reference: str) -> tuple[Model, ThinkingLevel | None]:
        base, level = _without_level(reference)
        found: list[tuple[Model, ThinkingLevel | None]] = []
        for provider in self._providers.values():
            for model in provider.models:
                if model.id == reference:
                    found.append((model, None))
                elif model.id == base:
                    found.append((model, level))
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(f"{model.provider}/{model.id}" for model, _ in found)
            raise ModelNotFound(
                f"{reference!r} is the name of several models", hint=f"say which: {names}"
            )
        raise self._no_provider(reference)

    def _no_provider(self, name: str) -> ModelNotFound:
        wanted = name.partition("/")[0].partition(":")[0]
        near = [f"{vendor}/{name}" for vendor in self._vendors_of(name)][:3]
        near += _near(wanted, self.provider_ids())
        names = [f"{p.id}/{m.id}" for p in self._providers.values() for m in p.models]
        near += [n for n in _near(name, [*names, *(n.partition("/")[2] for n in names)])
                 if n not in near]  # fmt: skip
        if near:
            hint = f"did you mean {' or '.join(map(repr, near))}?"
        else:
            hint = (
                f"known providers: {_some(self.provider_ids()) or 'none'}; add another with "
                "Models().add(Provider.openai_compatible(id, base_url=...))"
            )
        if wanted != name:
            return ModelNotFound(f"no provider is named {wanted!r} (in {name!r})", hint=hint)
        return ModelNotFound(f"no provider or model is named {name!r}", hint=hint)

    def _vendors_of(self, model_id: str) -> list[str]:
        found: list[str] = []
        for source in self._sources:
            vendors_of = getattr(source, "vendors_of", None)  # only tables with lists have it
            if vendors_of is not None:
                found += vendors_of(model_id)
        return found

    def _not_found(self, provider: Provider, model_id: str) -> ModelNotFound:
        known = [model.id for model in provider.known_models()]
        near = _near(model_id, known)
        if near:
            hint = f"did you mean {' or '.join(repr(f'{provider.id}/{n}') for n in near)}?"
        else:
            hint = f"it has: {', '.join(known[:8])}{' and more' if len(known) > 8 else ''}"
        if provider.listed is not None:
            hint += (
                f"; one that is newer than our list goes into models.toml, or is asked for with "
                f"Model({provider.id!r}, {model_id!r}, {provider.api!r})"
            )
        return ModelNotFound(f"no model named {model_id!r} at provider {provider.id!r}", hint=hint)


def check_in_service(provider: Provider) -> None:
    """Raise `ModelNotFound` for a vendor that is no more."""
    if provider.retired:
        raise ModelNotFound(
            f"{provider.display_name} ended its service on {provider.retired}",
            hint="`loopwright models` lists the vendors that are there",
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _without_level(name: str) -> tuple[str, ThinkingLevel | None]:
    base, colon, last = name.rpartition(":")
    if colon and base and last in LEVELS:
        return base, last
    return name, None


def _near(name: str, known: Iterable[str]) -> list[str]:
    import difflib

    names = list(known)
    holding = [other for other in names if name and name.lower() in other.lower()]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    return list(dict.fromkeys(close + holding))[:3]
