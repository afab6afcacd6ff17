# SPDX-License-Identifier: MIT OR Apache-2.0
"""Responses, conversations and kept completions through the openai package."""

import json
import os
import sys
import tempfile
import time

from clients import need, refusal

openai = need("openai")

from server import Broker, Server, run_tests  # noqa: E402

CLIENT = None
LIMIT_S = 30


def connect(server, key="none"):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key=key, max_retries=0,
                         timeout=LIMIT_S)


def create(said="What is the capital of France?", **fields):
    fields = dict({"model": "m", "input": said, "max_output_tokens": 12, "temperature": 0},
                  **fields)
    return CLIENT.responses.create(**fields)


def test_plain():
    r = create(instructions="Be short.", metadata={"a": "b"})
    assert r.object == "response" and r.id.startswith("resp_") and r.model == "tiny"
    assert r.status == "incomplete" and r.incomplete_details.reason == "max_output_tokens"
    assert r.output_text and r.output[0].type == "message" and r.output[0].status == "incomplete"
    assert r.instructions == "Be short." and r.metadata == {"a": "b"} and r.error is None
    assert r.usage.output_tokens == 12
    assert r.usage.total_tokens == r.usage.input_tokens + 12
    assert CLIENT.responses.retrieve(r.id) == r


def test_streamed_is_the_same():
    whole = create()
    events = list(create(stream=True))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    kinds = [e.type.removeprefix("response.") for e in events]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    assert kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done",
                          "incomplete"]
    assert set(kinds[4:-4]) == {"output_text.delta"}
    deltas = [e for e in events if e.type == "response.output_text.delta"]
    last = events[-1].response
    assert "".join(d.delta for d in deltas) == whole.output_text == last.output_text
    assert {d.item_id for d in deltas} == {last.output[0].id}
    assert {d.output_index for d in deltas} == {0}
    assert CLIENT.responses.retrieve(last.id) == last


def test_state():
    first = create("one")
    second = create("two", previous_response_id=first.id)
    alone = create([{"role": "user", "content": "one"},
                    {"role": "assistant", "content": first.output_text},
                    {"role": "user", "content": "two"}])
    assert second.output_text == alone.output_text
    assert second.usage.input_tokens == alone.usage.input_tokens
    assert second.previous_response_id == first.id
    items = list(CLIENT.responses.input_items.list(second.id))
    assert len(items) == 1 and items[0].content[0].text == "two"
    by_reference = create([{"type": "item_reference", "id": items[0].id}])
    assert by_reference.usage.input_tokens == create("two").usage.input_tokens
    CLIENT.responses.delete(first.id)
    refusal(openai.NotFoundError, CLIENT.responses.retrieve, first.id)
    e = refusal(openai.BadRequestError, create, previous_response_id=second.id)
    assert e.param == "previous_response_id"


def test_conversations():
    c = CLIENT.conversations.create(items=[{"type": "message", "role": "user", "content": "one"}],
                                    metadata={"k": "v"})
    assert c.metadata == {"k": "v"} and CLIENT.conversations.retrieve(c.id) == c
    r = create("two", conversation=c.id)
    assert r.conversation.id == c.id
    items = list(CLIENT.conversations.items.list(c.id, order="asc"))
    assert [i.role for i in items] == ["user", "user", "assistant"]
    assert items[2].content[0].text == r.output_text
    assert len(list(CLIENT.conversations.items.list(c.id, limit=1))) == 3, "pages are followed"
    more = create("three", conversation={"id": c.id})
    assert more.usage.input_tokens > r.usage.input_tokens
    CLIENT.conversations.items.delete(items[0].id, conversation_id=c.id)
    refusal(openai.NotFoundError, CLIENT.conversations.items.retrieve, items[0].id,
            conversation_id=c.id)
    assert CLIENT.conversations.update(c.id, metadata={"x": "y"}).metadata == {"x": "y"}
    assert CLIENT.conversations.delete(c.id).deleted
    assert refusal(openai.NotFoundError, create, conversation=c.id).param == "conversation"


def test_logprobs():
    r = create(include=["message.output_text.logprobs"], top_logprobs=2)
    logprobs = r.output[0].content[0].logprobs
    assert len(logprobs) == 12 and all(len(p.top_logprobs) == 2 for p in logprobs)
    text = b"".join(bytes(p.bytes) for p in logprobs).decode("utf-8", "replace")
    assert text.startswith(r.output_text)
    assert not text.removeprefix(r.output_text).strip("\ufffd"), "cut at most"
    streamed = [p for e in create(include=["message.output_text.logprobs"], stream=True)
                if e.type == "response.output_text.delta" for p in e.logprobs]
    assert [p.token for p in streamed] == [p.token for p in logprobs]


def test_background():
    r = create(background=True)
    assert r.status in ("queued", "in_progress") and r.background and r.output == []
    end = time.monotonic() + LIMIT_S
    while r.status in ("queued", "in_progress"):
        assert time.monotonic() < end
        time.sleep(0.02)
        r = CLIENT.responses.retrieve(r.id)
    assert r.status == "incomplete" and r.output_text == create().output_text
    assert CLIENT.responses.cancel(r.id).status == "incomplete", "it is over"
    refusal(openai.BadRequestError, CLIENT.responses.cancel, create().id)


def test_cancellation():
    with Broker(wait=False) as s, connect(s) as client:
        s.start_worker("--delay-us", "50000", "--vocab", "512",
                       program="tests/support/scripted-worker")
        s.wait_ready()
        r = client.responses.create(model="m", input="hi", background=True)
        assert client.responses.cancel(r.id).status == "cancelled"
        end = time.monotonic() + LIMIT_S
        while s.metric("metrale_requests_active"):
            assert time.monotonic() < end, "its sequence still runs"
            time.sleep(0.05)
        assert client.responses.retrieve(r.id).status == "cancelled"
        stream = client.responses.create(model="m", input="hi", background=True, stream=True)
        first = next(iter(stream)).response
        stream.close()
        time.sleep(0.3)
        assert client.responses.retrieve(first.id).status == "in_progress", "it needs no client"
        assert client.responses.cancel(first.id).status == "cancelled"


def test_input_tokens():
    count = CLIENT.responses.input_tokens.count(model="m", input="one two").input_tokens
    assert count == create("one two").usage.input_tokens


def test_errors():
    for fields, param in (({"input": []}, "input"), ({"temperature": 9}, "temperature"),
                          ({"max_output_tokens": 0}, "max_output_tokens"),
                          ({"text": {"format": {"type": "json_object"}}}, "text.format"),
                          ({"tools": [{"type": "web_search"}]}, "tools[0]"),
                          ({"tools": [{"type": "function", "name": "f", "parameters": {},
                                       "strict": False}], "tool_choice": "required"},
                           "tool_choice"),
                          ({"background": True, "store": False}, "background"),
                          ({"extra_body": {"no_such": 1}}, "no_such")):
        for stream in (False, True):
            e = refusal(openai.BadRequestError, create, stream=stream, **fields)
            assert e.param == param, (fields, e.body)
    refusal(openai.NotFoundError, CLIENT.responses.retrieve, "resp_never")
    refusal(openai.NotFoundError, CLIENT.conversations.retrieve, "conv_never")


def test_kept_completions():
    def ask(**fields):
        return CLIENT.chat.completions.create(model="m", max_tokens=8, temperature=0, store=True,
                                              messages=[{"role": "user", "content": "hi"}],
                                              **fields)

    whole = ask(metadata={"a": "b"})
    kept = CLIENT.chat.completions.retrieve(whole.id)
    assert kept.choices == whole.choices and kept.usage == whole.usage
    chunks = list(ask(stream=True))
    streamed = CLIENT.chat.completions.retrieve(chunks[0].id)
    assert streamed.choices[0].message.content == "".join(
        c.choices[0].delta.content or "" for c in chunks)
    ids = [c.id for c in CLIENT.chat.completions.list(limit=1)]
    assert ids[-2:] == [whole.id, chunks[0].id]
    assert [c.id for c in CLIENT.chat.completions.list(metadata={"a": "b"})] == [whole.id]
    assert CLIENT.chat.completions.update(whole.id, metadata={"c": "d"}).metadata == {"c": "d"}
    assert [m.content for m in CLIENT.chat.completions.messages.list(whole.id)] == ["hi"]
    assert CLIENT.chat.completions.delete(whole.id).deleted
    refusal(openai.NotFoundError, CLIENT.chat.completions.retrieve, whole.id)


def test_what_is_kept_outlives_the_server():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "store.db")
        with Server("--store", path, "--auth-token", "one") as s, connect(s, "one") as client:
            r = client.responses.create(model="m", input="one", max_output_tokens=4)
        assert os.stat(path).st_mode & 0o077 == 0
        tokens = os.path.join(folder, "tokens")
        with open(tokens, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write("one\ntwo\n")
        with Server("--store", path, "--auth-tokens-file", tokens) as s:
            with connect(s, "one") as client:
                assert client.responses.retrieve(r.id) == r
                assert client.responses.create(model="m", input="two", max_output_tokens=4,
                                               previous_response_id=r.id).output_text
            with connect(s, "two") as other:
                refusal(openai.NotFoundError, other.responses.retrieve, r.id)
                refusal(openai.BadRequestError, other.responses.create, model="m", input="x",
                        previous_response_id=r.id)


def test_nothing_is_kept():
    with Server("--store", "none") as s, connect(s) as client:
        r = client.responses.create(model="m", input="one", max_output_tokens=4)
        assert r.output_text and not json.loads(r.model_dump_json())["store"]
        refusal(openai.NotFoundError, client.responses.retrieve, r.id)
        assert refusal(openai.BadRequestError, client.responses.create, model="m", input="x",
                       store=True).param == "store"
        refusal(openai.NotFoundError, client.conversations.create)


if __name__ == "__main__":
    with Server("--max-seq-len", "512") as SERVER:
        with connect(SERVER) as CLIENT:
            run_tests(sys.modules[__name__])
