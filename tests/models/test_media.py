"""Images and documents that a wire cannot send."""

from __future__ import annotations

import pytest

from loopwright.messages import ImageContent, TextContent, UserMessage
from loopwright.models.handoff import sendable
from loopwright.models.media import MEDIA, PDF
from loopwright.models.model import Model


def sent(image: ImageContent, api: str) -> ImageContent | TextContent:
    message = UserMessage([TextContent("look"), image])
    (view,) = sendable([message], Model("x", "m", api))
    assert message.content[1] is image  # what is stored stays
    assert isinstance(view, UserMessage)
    assert isinstance(view.content, list)
    return view.content[1]


@pytest.mark.parametrize("api", sorted(MEDIA))
@pytest.mark.parametrize("data", ["AAAAé", "", "not base64!", "AAA", "data:image/png;base64,AAAAé"])
def test_case_087_an_image_that_is_no_base64_is_replaced_by_words(api: str, data: str) -> None:
    assert "base64" in getattr(sent(ImageContent(data, "image/png"), api), "text", "")


def test_case_087_an_image_that_is_too_large_is_replaced_by_words() -> None:
    large = ImageContent("A" * 8_388_720, "image/png")

    assert "8,388,720" in getattr(sent(large, "anthropic-messages"), "text", "")
    assert sent(large, "openai-responses") is large


def test_case_087_the_head_of_a_data_url_is_taken_off() -> None:
    image = ImageContent("data:image/png;base64,AAAA", "image/png")

    assert sent(image, "openai-chat") == ImageContent("AAAA", "image/png")


@pytest.mark.parametrize("api", sorted(MEDIA))
@pytest.mark.parametrize("kind", ["image/tiff", "image/bmp", "image/svg+xml", "audio/wav"])
def test_case_088_a_type_that_the_wire_does_not_take_is_never_sent(api: str, kind: str) -> None:
    assert kind in getattr(sent(ImageContent("AAAA", kind), api), "text", "")


@pytest.mark.parametrize("api", sorted(MEDIA))
def test_case_089_a_document_is_sent_as_one_or_left_out_in_true_words(api: str) -> None:
    image = ImageContent("JVBERi0xLjQ=", PDF)

    got = sent(image, api)

    if PDF in MEDIA[api].types:
        assert got is image
    else:
        assert getattr(got, "text", "").startswith("(a file was left out")
