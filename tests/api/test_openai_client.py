# SPDX-License-Identifier: MIT OR Apache-2.0
"""The openai package as a client: what it reads is what the server meant.

Skipped where the package can't be imported; scripts/test puts it into BUILD/clients.
"""

import os
import sys

from clients import need, refusal

openai = need("openai")

from server import Server, run_tests  # noqa: E402

CLIENT = None
PROMPT = [{"role": "user", "content": "What is the capital of France?"}]


def chat(**fields):
    fields = dict({"model": "gpt-4o", "messages": PROMPT, "temperature": 0, "max_tokens": 12},
                  **fields)
    return CLIENT.chat.completions.create(**fields)


def test_plain():
    r = chat()
    assert r.object == "chat.completion" and r.id.startswith("chatcmpl-") and r.created > 1e9
    assert r.choices[0].message.role == "assistant" and r.choices[0].message.content
    assert r.choices[0].finish_reason in ("stop", "length")
    assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens
    assert r.usage.completion_tokens <= 12
    assert r.usage.prompt_tokens_details.cached_tokens >= 0


def test_stream():
    whole = chat(extra_body={"ignore_eos": True})
    text, roles, reasons = "", [], []
    for chunk in chat(stream=True, extra_body={"ignore_eos": True}):
        assert chunk.object == "chat.completion.chunk" and len(chunk.choices) == 1
        choice = chunk.choices[0]
        text += choice.delta.content or ""
        roles += [choice.delta.role] if choice.delta.role else []
        reasons += [choice.finish_reason] if choice.finish_reason else []
    assert text == whole.choices[0].message.content
    assert roles == ["assistant"] and reasons == ["length"]


def test_usage_of_a_stream():
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens >= 1
    assert all(c.usage is None for c in chunks[:-1])


def test_stream_helper_accumulates():
    text = chat(extra_body={"ignore_eos": True}).choices[0].message.content
    fields = {"temperature": 0, "max_tokens": 12, "logprobs": True, "top_logprobs": 2,
              "stop": text[len(text) // 2:], "extra_body": {"ignore_eos": True}}
    with CLIENT.chat.completions.stream(model="m", messages=PROMPT, **fields) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds, kinds
    plain = chat(**fields)
    assert final.choices[0].message.content == plain.choices[0].message.content
    assert ([t.token for t in final.choices[0].logprobs.content]
            == [t.token for t in plain.choices[0].logprobs.content])


def test_several_choices():
    fields = {"n": 3, "temperature": 0.9, "seed": 5, "extra_body": {"ignore_eos": True}}
    r = chat(**fields)
    texts = [c.message.content for c in r.choices]
    assert [c.index for c in r.choices] == [0, 1, 2] and len(set(texts)) > 1
    streamed = ["", "", ""]
    for chunk in chat(stream=True, **fields):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == texts
    assert r.usage.prompt_tokens_details.cached_tokens <= r.usage.prompt_tokens


def test_logprobs():
    r = chat(logprobs=True, top_logprobs=3)
    tokens = r.choices[0].logprobs.content
    assert len(tokens) >= r.usage.completion_tokens - 1
    for t in tokens:
        assert t.logprob <= 0 and len(t.top_logprobs) == 3 and t.bytes
        assert t.top_logprobs[0].token == t.token, "greedy takes the best"
    assert chat().choices[0].logprobs is None


def test_stop():
    text = chat(max_tokens=40, extra_body={"ignore_eos": True}).choices[0].message.content
    stop = text[6:9]
    r = chat(max_tokens=40, stop=[stop], extra_body={"ignore_eos": True})
    assert r.choices[0].message.content == text[:text.index(stop)]
    assert r.choices[0].finish_reason == "stop"


def test_newer_names():
    r = chat(max_tokens=openai.omit if hasattr(openai, "omit") else openai.NOT_GIVEN,
             max_completion_tokens=3, user="me", metadata={"a": "b"}, parallel_tool_calls=True,
             response_format={"type": "text"}, extra_body={"ignore_eos": True})
    assert r.usage.completion_tokens == 3


def test_completions():
    r = CLIENT.completions.create(model="m", prompt="Once upon a time", max_tokens=8, temperature=0,
                                  logprobs=2, echo=True)
    assert r.object == "text_completion" and r.choices[0].text.startswith("Once upon a time")
    assert len(r.choices[0].logprobs.tokens) == len(r.choices[0].logprobs.token_logprobs)
    text = "".join(c.choices[0].text for c in CLIENT.completions.create(
        model="m", prompt="Once upon a time", max_tokens=8, temperature=0, stream=True))
    assert r.choices[0].text == "Once upon a time" + text


def test_models():
    models = list(CLIENT.models.list())
    assert len(models) == 1 and models[0].object == "model"
    assert CLIENT.models.retrieve(models[0].id).id == models[0].id
    refusal(openai.NotFoundError, CLIENT.models.retrieve, "no-such-model")


def test_errors():
    e = refusal(openai.BadRequestError, chat, temperature=9)
    assert e.status_code == 400 and e.param == "temperature"
    assert e.type == "invalid_request_error" and "temperature" in e.message
    assert refusal(openai.BadRequestError, chat, messages=[]).param == "messages"
    assert refusal(openai.BadRequestError, chat, temperature=9, stream=True).param == "temperature"
    e = refusal(openai.NotFoundError, CLIENT.embeddings.create, model="m", input="x")
    assert "not supported" in e.message
    refusal(openai.NotFoundError, CLIENT.responses.retrieve, "resp_never")


def test_keys():
    with Server("--auth-token", "secret") as s:
        url = f"http://127.0.0.1:{s.port}/v1"
        wrong = openai.OpenAI(base_url=url, api_key="wrong", max_retries=0)
        refusal(openai.AuthenticationError, wrong.chat.completions.create, model="m",
                messages=PROMPT)
        right = openai.OpenAI(base_url=url, api_key="secret", max_retries=0)
        assert right.chat.completions.create(model="m", messages=PROMPT, max_tokens=2).choices


def test_rate_limit():
    with Server("--rate-limit-rpm", "1") as s:
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{s.port}/v1", api_key="k", max_retries=0)
        client.chat.completions.create(model="m", messages=PROMPT, max_tokens=2)
        e = refusal(openai.RateLimitError, client.chat.completions.create, model="m",
                    messages=PROMPT)
        assert int(e.response.headers["retry-after"]) >= 1


if __name__ == "__main__":
    with Server("--max-seq-len", "512", model=os.environ.get("MTR_TEST_MODEL")) as SERVER:
        with openai.OpenAI(base_url=f"http://127.0.0.1:{SERVER.port}/v1", api_key="none",
                           max_retries=0) as CLIENT:
            run_tests(sys.modules[__name__])
