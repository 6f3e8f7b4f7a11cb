"""Our own stream over each wire, against the benchmarks' server."""

from __future__ import annotations

from importlib.util import find_spec

from loopwright.messages import UserMessage
from loopwright.models import Context, Model, Models, Provider
from loopwright.stream import Done, Error, TextDelta, ToolCallDelta

from .subject import Work

__all__ = ["WIRES", "available_wires", "model_at", "models_of", "our_stream"]

WIRES = {
    "openai-chat": "openai",
    "anthropic-messages": "anthropic",
    "openai-responses": "openai",
    "google-gemini": "httpx2",
    "bedrock-converse": "httpx2",
}
"""Every wire, and the library it sends with. Mistral's shares the first one's decoder."""


def available_wires() -> list[str]:
    """Those whose library is installed here."""
    return [wire for wire, needs in WIRES.items() if find_spec(needs) is not None]


def models_of() -> Models:
    """A vendor for each wire."""
    return Models([Provider(id=wire, api=wire, any_model=True, api_key="k") for wire in WIRES])


def model_at(wire: str, base_url: str) -> Model:
    """A model that the benchmarks' server plays."""
    return Model(wire, "some", wire, base_url=base_url)


_CONTEXT = Context("", [UserMessage("Go.", 0)], [])


def our_stream(models: Models, wire: str, base_url: str, *, kind: str = "text") -> Work:
    """Ask for the reply at *base_url*; reports its pieces of text, or characters of arguments."""
    model = model_at(wire, base_url)
    options = {"aws_region": "us-east-1"} if wire == "bedrock-converse" else {}

    async def text() -> int:
        count = characters = 0
        stream = models.stream(model, _CONTEXT, **options)
        async for event in stream:
            if type(event) is TextDelta:
                count += 1
                characters += len(event.delta)
            elif type(event) is Error:
                raise RuntimeError(f"our own stream failed: {event.error.error_message}")
        assert characters
        return count

    async def call() -> int:
        characters = 0
        stream = models.stream(model, _CONTEXT, **options)
        async for event in stream:
            if type(event) is ToolCallDelta:
                characters += len(event.delta)
            elif type(event) is Error:
                raise RuntimeError(f"our own stream failed: {event.error.error_message}")
            elif type(event) is Done:
                assert event.reason == "toolUse"
        return characters

    return text if kind == "text" else call
