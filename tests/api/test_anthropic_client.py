# SPDX-License-Identifier: MIT OR Apache-2.0
"""The anthropic package as a client: what it reads is what the server meant."""

import sys

from clients import need, refusal

anthropic = need("anthropic")

from server import Server, run_tests  # noqa: E402

SERVER = None
CLIENT = None
PROMPT = [{"role": "user", "content": "What is the capital of France?"}]


def create(**fields):
    fields = dict({"model": "m", "messages": PROMPT, "max_tokens": 12}, **fields)
    extra = dict({"temperature": 0}, **fields.pop("extra_body", {}))
    return CLIENT.messages.create(extra_body=extra, **fields)


def text_of(message):
    return "".join(b.text for b in message.content if b.type == "text")


def test_plain():
    m = create()
    assert m.type == "message" and m.role == "assistant" and m.id.startswith("msg_")
    assert m.model == "tiny" and text_of(m) and m.stop_reason == "max_tokens"
    assert m.stop_sequence is None and m.usage.output_tokens == 12
    assert m.usage.input_tokens + m.usage.cache_read_input_tokens > 0


def test_streamed_is_the_same():
    whole = create()
    with CLIENT.messages.stream(model="m", messages=PROMPT, max_tokens=12,
                                extra_body={"temperature": 0}) as stream:
        texts = list(stream.text_stream)
        final = stream.get_final_message()
    assert "".join(texts) == text_of(whole) == text_of(final)
    assert final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens


def test_events_in_order():
    events = list(create(stream=True))
    kinds = [e.type for e in events]
    deltas = kinds[2:-3]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert deltas and set(deltas) == {"content_block_delta"}
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert events[0].message.content == [] and events[0].message.stop_reason is None
    start, end = events[0].message.usage, events[-2].usage
    assert start.input_tokens == end.input_tokens
    assert start.cache_read_input_tokens == end.cache_read_input_tokens
    assert end.output_tokens == 12


def test_system_in_all_places():
    base = create()
    assert create(system="Answer in verse.").usage.input_tokens > base.usage.input_tokens
    blocks = [{"type": "text", "text": "Answer in verse.", "cache_control": {"type": "ephemeral"}}]
    assert text_of(create(system=blocks)) == text_of(create(system="Answer in verse."))
    later = PROMPT + [{"role": "assistant", "content": "Paris."},
                      {"role": "system", "content": "Be short now."},
                      {"role": "user", "content": "And of Spain?"}]
    assert text_of(create(messages=later))


def test_stop_sequence_is_named():
    full = text_of(create(max_tokens=60))
    stop = full[8:12]
    m = create(max_tokens=60, stop_sequences=["never there", stop])
    assert text_of(m) == full[:full.index(stop)]
    assert m.stop_reason == "stop_sequence" and m.stop_sequence == stop
    last = list(create(max_tokens=60, stop_sequences=[stop], stream=True))[-2]
    assert last.delta.stop_reason == "stop_sequence" and last.delta.stop_sequence == stop


def test_a_begun_answer_goes_on():
    full = text_of(create(max_tokens=20))
    m = create(messages=PROMPT + [{"role": "assistant", "content": "The capital"}], max_tokens=4)
    assert text_of(m) and not text_of(m).startswith("The capital") and full
    e = refusal(anthropic.BadRequestError, create,
                messages=PROMPT + [{"role": "assistant", "content": "The capital "}])
    assert "white space" in e.message


def test_cache_counts():
    system = "Some words that are said every time. " * 8
    first = create(system=system, max_tokens=1)
    again = create(system=system, max_tokens=1)
    assert again.usage.cache_read_input_tokens > first.usage.cache_read_input_tokens
    total = first.usage.input_tokens + first.usage.cache_read_input_tokens
    assert again.usage.input_tokens + again.usage.cache_read_input_tokens == total
    assert CLIENT.messages.count_tokens(model="m", messages=PROMPT,
                                        system=system).input_tokens == total


def test_max_tokens_is_what_is_left():
    m = create(max_tokens=20000)
    assert m.stop_reason in ("max_tokens", "end_turn")
    assert m.usage.output_tokens < 512


def test_only_the_cache():
    m = create(max_tokens=0)
    assert m.content == [] and m.usage.output_tokens == 0


def test_errors():
    for fields, word in (({"messages": []}, "messages"), ({"max_tokens": -1}, "max_tokens"),
                         ({"extra_body": {"temperature": 2}}, "temperature"),
                         ({"extra_body": {"no_such": 1}}, "no_such"),
                         ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "bash_20250124"),
                         ({"tool_choice": {"type": "any"}, "tools": [
                             {"name": "f", "input_schema": {"type": "object"}}]}, "tool_choice"),
                         ({"thinking": {"type": "enabled", "budget_tokens": 5}}, "budget_tokens"),
                         ({"messages": [{"role": "user", "content": [
                             {"type": "image", "source": {"type": "url", "url": "x"}}]}]},
                          "messages[0].content[0]")):
        for stream in (False, True):
            e = refusal(anthropic.BadRequestError, create, stream=stream, **fields)
            assert e.status_code == 400 and word in e.message, (fields, e.message)
            assert e.body["type"] == "error"
            assert e.body["error"]["type"] == "invalid_request_error"
            assert e.body["request_id"] == e.response.headers["request-id"] == e.request_id
    r = CLIENT.messages.with_raw_response.create(model="m", messages=PROMPT, max_tokens=1)
    assert r.headers["request-id"]
    r = SERVER.post("/v1/messages/batches", {})
    assert r.status == 404 and r.json()["error"]["type"] == "not_found_error"
    r = SERVER.post("/v1/messages", b"{")
    assert r.status == 400 and r.json()["error"]["type"] == "invalid_request_error"
    r = SERVER.post("/v1/messages", {"messages": PROMPT, "max_tokens": 1},
                    {"anthropic-version": "1999-01-01"})
    assert r.status == 400 and "1999-01-01" in r.json()["error"]["message"]


def test_models():
    models = list(CLIENT.models.list())
    assert len(models) == 1 and models[0].type == "model" and models[0].display_name
    assert CLIENT.models.retrieve(models[0].id).id == models[0].id
    refusal(anthropic.NotFoundError, CLIENT.models.retrieve, "no-such-model")


def test_keys():
    with Server("--auth-token", "secret") as s:
        for key, good in (("wrong", False), ("secret", True)):
            client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{s.port}", api_key=key,
                                         max_retries=0)
            if good:
                assert client.messages.create(model="m", messages=PROMPT, max_tokens=2).content
            else:
                e = refusal(anthropic.AuthenticationError, client.messages.create, model="m",
                            messages=PROMPT, max_tokens=2)
                assert e.body["error"]["type"] == "authentication_error"


def test_rate_limit():
    with Server("--rate-limit-rpm", "1") as s:
        client = anthropic.Anthropic(base_url=f"http://127.0.0.1:{s.port}", api_key="k",
                                     max_retries=0)
        client.messages.create(model="m", messages=PROMPT, max_tokens=2)
        e = refusal(anthropic.RateLimitError, client.messages.create, model="m", messages=PROMPT,
                    max_tokens=2)
        assert e.body["error"]["type"] == "rate_limit_error"
        assert int(e.response.headers["retry-after"]) >= 1


if __name__ == "__main__":
    with Server("--max-seq-len", "512") as SERVER:
        with anthropic.Anthropic(base_url=f"http://127.0.0.1:{SERVER.port}", api_key="none",
                                 max_retries=0) as CLIENT:
            run_tests(sys.modules[__name__])
