# SPDX-License-Identifier: MIT OR Apache-2.0
"""docs/request-fields.md against the types of the client packages, and against a server.

The page must name every field that a package's types have, and no other; what it calls refused a
server must refuse by that name, what it calls served or a hint must not be unknown there.
"""

import os
import re
import sys
import typing

from clients import need
from server import ROOT, Server, run_tests

openai, anthropic = need("openai", "anthropic")

from anthropic import types as anthropic_types  # noqa: E402
from openai import types as openai_types  # noqa: E402
from openai.types import conversations, responses  # noqa: E402
from openai.types.chat import completions as chat_completions  # noqa: E402

SERVER = None
PAGE = os.path.join(ROOT, "docs", "request-fields.md")
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
RESPONSE = {"model": "m", "input": "hi", "max_output_tokens": 1}
OTHER = {"no such": "value"}  # what no field takes


def read_page():
    """{heading: {name: "served", "hint" or "refused"}}"""
    out, heading = {}, None
    with open(PAGE, encoding="utf-8") as f:
        for line in f:
            if line.startswith("## "):
                heading = line[3:].strip().replace("`", "")
                out[heading] = {}
            elif row := re.match(r"\| `([^`]+)` \| (served|hint|refused)\b", line):
                assert row[1] not in out[heading], f"{heading}: {row[1]} twice"
                out[heading][row[1]] = row[2]
    return out


TABLES = read_page()


def fields_of(kind):
    """Names of a TypedDict, or of all that a union has."""
    if typing.get_origin(kind) is typing.Union:
        return set().union(*(fields_of(k) for k in typing.get_args(kind)))
    return set(kind.__annotations__)


def members(kind):
    if typing.get_origin(kind) is typing.Union:
        return [m for k in typing.get_args(kind) for m in members(k)]
    return [kind]


def literals(kind):
    if typing.get_origin(kind) is typing.Literal:
        return set(typing.get_args(kind))
    return set().union(*(literals(k) for k in typing.get_args(kind)), set())


def types_of(union):
    """What "type" may be in the members of a union."""
    return set().union(*(literals(typing.get_type_hints(m)["type"]) for m in members(union)))


def expect(heading, names, ignored=()):
    named = set(TABLES[heading])
    names = {n for n in names if n not in ignored}
    assert named == names, (f"{heading}: not on the page: {sorted(names - named)}; "
                            f"not in the package: {sorted(named - names)}")


def test_chat_fields():
    expect("POST /v1/chat/completions",
           fields_of(openai_types.chat.completion_create_params.CompletionCreateParams))


def test_completion_fields():
    expect("POST /v1/completions",
           fields_of(openai_types.completion_create_params.CompletionCreateParams))


def test_response_fields():
    t = responses
    expect("POST /v1/responses", fields_of(t.response_create_params.ResponseCreateParams))
    expect("POST /v1/responses/input_tokens", fields_of(t.InputTokenCountParams))
    expect("GET /v1/responses/{id}",
           fields_of(t.response_retrieve_params.ResponseRetrieveParams))


def test_conversation_fields():
    t = conversations
    expect("POST /v1/conversations", fields_of(t.ConversationCreateParams))
    expect("POST /v1/conversations/{id}", fields_of(t.ConversationUpdateParams))
    expect("POST /v1/conversations/{id}/items", fields_of(t.ItemCreateParams))


def test_queries():
    expect("Queries of lists",
           fields_of(conversations.ItemListParams) |
           fields_of(responses.InputItemListParams) |
           fields_of(openai_types.chat.CompletionListParams) |
           fields_of(chat_completions.MessageListParams))


def test_message_fields():
    t = anthropic_types
    plain = fields_of(t.message_create_params.MessageCreateParams)
    beta = fields_of(t.beta.message_create_params.MessageCreateParams)
    expect("POST /v1/messages", plain | beta, ignored=("betas",))  # that one is a header
    expect("POST /v1/messages/count_tokens",
           fields_of(t.message_count_tokens_params.MessageCountTokensParams))


def test_types():
    chat = openai_types.chat
    expect("Parts of a chat message",
           types_of(chat.chat_completion_content_part_param.ChatCompletionContentPartParam))
    expect("Tools of chat",
           types_of(chat.chat_completion_tool_union_param.ChatCompletionToolUnionParam))
    expect("Items of a response's input",
           types_of(responses.response_input_item_param.ResponseInputItemParam))
    expect("Parts of a response's message",
           types_of(responses.response_input_content_param.ResponseInputContentParam))
    expect("Tools of a response", types_of(responses.tool_param.ToolParam))
    expect("Blocks of a message",
           types_of(anthropic_types.content_block_param.ContentBlockParam))
    expect("Tools of a message", types_of(anthropic_types.tool_union_param.ToolUnionParam))


# ---- The server ----

ROUTES = {"POST /v1/chat/completions": CHAT, "POST /v1/responses": RESPONSE,
          "POST /v1/responses/input_tokens": {"input": "hi"}, "POST /v1/messages": CHAT,
          "POST /v1/messages/count_tokens": {"messages": CHAT["messages"]},
          "POST /v1/completions": {"model": "m", "prompt": "hi", "max_tokens": 1}}


def message_of(reply):
    return reply.json()["error"]["message"]


def test_a_server_does_as_the_page_says():
    for heading, good in ROUTES.items():
        path = heading.split()[1]
        assert SERVER.post(path, good).status == 200, path
        for name, status in TABLES[heading].items():
            r = SERVER.post(path, dict(good, **{name: OTHER}))
            if status == "refused":
                assert r.status == 400 and f"'{name}'" in message_of(r), (path, name, r.body)
            else:
                assert r.status in (200, 400), (path, name, r.body)
                assert r.status == 200 or f"unknown field '{name}'" not in message_of(r), (
                    path, name, r.body)
            assert status != "hint" or r.status == 200 or name in message_of(r), (path, name)
            if name not in good:
                r = SERVER.post(path, dict(good, **{name: None}))
                assert r.status == 200, (path, name, r.body)
        r = SERVER.post(path, dict(good, **{"no_such_field": 1}))
        assert r.status == 400 and "no_such_field" in message_of(r), (path, r.body)


def refuses(path, body, name):
    r = SERVER.post(path, body)
    assert r.status == 400 and name in message_of(r), (path, body, r.status, r.body)


def test_refused_types():
    def user(part):
        return [{"role": "user", "content": [part]}]

    for name, status in TABLES["Parts of a chat message"].items():
        if status == "refused":
            refuses("/v1/chat/completions", dict(CHAT, messages=user({"type": name})), name)
    for name, status in TABLES["Tools of chat"].items():
        if status == "refused":
            refuses("/v1/chat/completions", dict(CHAT, tools=[{"type": name}]), "tools")
    for name, status in TABLES["Items of a response's input"].items():
        if status == "refused":
            refuses("/v1/responses", dict(RESPONSE, input=[{"type": name}]), name)
    for name, status in TABLES["Parts of a response's message"].items():
        if status == "refused":
            refuses("/v1/responses", dict(RESPONSE, input=user({"type": name})), name)
    for name, status in TABLES["Tools of a response"].items():
        if status == "refused":
            refuses("/v1/responses", dict(RESPONSE, tools=[{"type": name, "name": "x"}]), name)
    for name, status in TABLES["Blocks of a message"].items():
        if status == "refused":
            refuses("/v1/messages", dict(CHAT, messages=user({"type": name})), name)
    for name, status in TABLES["Tools of a message"].items():
        if status == "refused":
            refuses("/v1/messages", dict(CHAT, tools=[{"type": name, "name": "x"}]), name)


if __name__ == "__main__":
    with Server("--max-seq-len", "512") as SERVER:
        run_tests(sys.modules[__name__])
