"""Random transcripts, as ugly as real ones: orphans, repeated ids, empty and foreign replies,
halves of surrogate pairs, images. For the property tests of every wire's encoder."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from loopwright.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.models import Model

texts = st.sampled_from(["", " ", "a", "b \n", "c\ud83d", "🙂" * 3])
call_ids = st.sampled_from(["", "x", "y|fc_1", "x_2", "z" * 80, "ä b"])
tool_names = st.sampled_from(["look", "look-up", "", "functions.look", "l" * 200])
images = st.sampled_from([
    ImageContent("aGk=", "image/png"),
    ImageContent("aGk=", "image/jpg"),
    ImageContent("aGk=", "image/bmp"),
])  # fmt: skip
content = st.one_of(st.builds(TextContent, texts), images)


def transcripts(
    own: Model, *, signatures: st.SearchStrategy[str | None] | None = None, max_size: int = 12
) -> st.SearchStrategy[list[Message]]:
    """Transcripts in which *own* and others spoke; *signatures* are what its texts may carry."""
    others = [("other", own.api, own.id), ("other", "openai-chat", "small")]
    whos = st.sampled_from([(own.provider, own.api, own.id)] * 3 + others)
    blocks: st.SearchStrategy[Any] = st.one_of(
        st.builds(TextContent, texts, st.none() if signatures is None else signatures),
        st.builds(ThinkingContent, texts, st.none() | st.just("S"), st.booleans()),
        st.builds(ToolCall, call_ids, tool_names, st.dictionaries(texts, texts, max_size=2)),
    )

    def spoken(who: tuple[str, str, str], said: list[Any], stop_reason: Any) -> AssistantMessage:
        provider, api, model = who
        return AssistantMessage(said, api, provider, model, stop_reason=stop_reason, timestamp=1)

    messages: st.SearchStrategy[Message] = st.one_of(
        st.builds(lambda c: UserMessage(c, 1), st.one_of(texts, st.lists(content, max_size=3))),
        st.builds(
            spoken,
            whos,
            st.lists(blocks, max_size=4),
            st.sampled_from(["stop", "toolUse", "length", "error", "aborted"]),
        ),
        st.builds(
            lambda id, said, failed: ToolResultMessage(
                id, "look", said, is_error=failed, timestamp=1
            ),
            call_ids,
            st.lists(content, max_size=2),
            st.booleans(),
        ),
    )
    return st.lists(messages, max_size=max_size)
