"""Layer 1 of 3: an agent loop with nothing but an HTTP client. It fits on a page, and it works.

    ask the model -> it calls a tool -> run the tool -> tell the model -> until it calls no more

What is left to whoever writes this: replies that stream; a vendor that is overloaded, or speaks
another dialect; arguments that are wrong or cut off; tools that fail, hang, or do not exist;
calls that could run side by side; stopping in the middle. The next two files take these over.

Prints:
    asking the vendor (1 message)
    running add({'a': 17, 'b': 25})
    asking the vendor (3 messages)
    That makes 42.
"""

import http.client
import json
from typing import Any

from toy_vendor import toy_vendor

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    },
}


def add(a: int, b: int) -> int:
    return a + b


def ask(base_url: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """One request to the vendor; its reply as the dialect has it."""
    print(f"asking the vendor ({len(messages)} message{'s' * (len(messages) > 1)})")
    connection = http.client.HTTPConnection(base_url.split("/")[2])
    body = json.dumps({"model": "toy-1", "messages": messages, "tools": [ADD]})
    connection.request("POST", "/v1/chat/completions", body)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer["choices"][0]["message"]


with toy_vendor() as base_url:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "What is 17 + 25?"}]
    while True:
        reply = ask(base_url, messages)
        messages.append(reply)
        calls = reply.get("tool_calls", [])
        if not calls:
            break
        for call in calls:
            arguments = json.loads(call["function"]["arguments"])
            print(f"running add({arguments})")
            answer = str(add(**arguments))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer})
    print(reply["content"])
