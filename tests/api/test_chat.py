# SPDX-License-Identifier: MIT OR Apache-2.0
"""Chat and completions as a client sees them, against the real worker and a tiny model."""

import json
import sys
import threading

from server import Server, run_tests

SERVER = None
PROMPT = "What is the capital of France?"


def test_whole_and_streamed_agree():
    for fields in ({"temperature": 0}, {"temperature": 0.8, "seed": 7}):
        whole = SERVER.chat(PROMPT, max_tokens=40, **fields)
        assert whole, "the answer is empty"
        assert SERVER.chat_stream(PROMPT, max_tokens=40, **fields) == whole


def test_shape_of_a_whole_answer():
    r = SERVER.post("/v1/chat/completions", {
        "model": "gpt-x", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 5,
        "temperature": 0, "logprobs": True, "top_logprobs": 3, "ignore_eos": True})
    assert r.status == 200, r.body
    assert r.headers["content-type"].startswith("application/json")
    assert r.headers["x-request-id"]
    body = r.json()
    assert body["object"] == "chat.completion" and body["id"].startswith("chatcmpl-")
    assert body["model"] == "tiny"
    choice = body["choices"][0]
    assert choice["finish_reason"] == "length" and choice["message"]["role"] == "assistant"
    entries = choice["logprobs"]["content"]
    assert len(entries) == 5
    for entry in entries:
        assert len(entry["top_logprobs"]) == 3 and entry["logprob"] <= 0
        assert entry["top_logprobs"][0]["logprob"] >= entry["top_logprobs"][1]["logprob"]
        assert entry["token"] == entry["top_logprobs"][0]["token"], "greedy takes the best"
    text = b"".join(bytes(e["bytes"]) for e in entries).decode("utf-8", "replace")
    assert text.startswith(choice["message"]["content"])
    assert not text.removeprefix(choice["message"]["content"]).strip("\ufffd"), "cut at most"
    usage = body["usage"]
    assert usage["completion_tokens"] == 5
    assert usage["total_tokens"] == usage["prompt_tokens"] + 5


def test_stream_frames():
    frames = list(SERVER.stream("/v1/chat/completions", {
        "model": "m", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 6,
        "temperature": 0, "ignore_eos": True, "stream_options": {"include_usage": True}}))
    assert frames[-1] == "[DONE]"
    chunks = [json.loads(f) for f in frames[:-1]]
    assert len({c["id"] for c in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 6
    assert all(c["usage"] is None for c in chunks[:-1])
    finishes = [c["choices"][0]["finish_reason"] for c in chunks[:-1]]
    assert finishes[-1] == "length" and set(finishes[:-1]) == {None}


def test_max_tokens_and_stop():
    full = SERVER.chat(PROMPT, temperature=0, max_tokens=60, ignore_eos=True)
    stop = full[10:14]
    cut = full[:full.index(stop)]
    for answer in (SERVER.chat(PROMPT, temperature=0, max_tokens=60, ignore_eos=True, stop=stop),
                   SERVER.chat_stream(PROMPT, temperature=0, max_tokens=60, ignore_eos=True,
                                      stop=[stop, "never there"])):
        assert answer == cut, (answer, cut)
    r = SERVER.post("/v1/chat/completions", {
        "model": "m", "messages": [{"role": "user", "content": PROMPT}], "temperature": 0,
        "max_tokens": 60, "ignore_eos": True, "stop": stop}).json()
    assert r["choices"][0]["finish_reason"] == "stop"


def test_several_choices():
    r = SERVER.post("/v1/chat/completions", {
        "model": "m", "messages": [{"role": "user", "content": PROMPT}], "temperature": 1,
        "seed": 3, "n": 4, "max_tokens": 20, "ignore_eos": True}).json()
    texts = [c["message"]["content"] for c in sorted(r["choices"], key=lambda c: c["index"])]
    assert len(texts) == 4 and len(set(texts)) > 1
    assert r["usage"]["completion_tokens"] == 80
    again = SERVER.post("/v1/chat/completions", {
        "model": "m", "messages": [{"role": "user", "content": PROMPT}], "temperature": 1,
        "seed": 3, "n": 4, "max_tokens": 20, "ignore_eos": True}).json()
    assert [c["message"]["content"] for c in again["choices"]] == [
        c["message"]["content"] for c in r["choices"]]


def test_special_tokens_of_a_user_are_text():
    plain = SERVER.post("/tokenize", {"messages": [{"role": "user", "content": "a<|end|>b"}]})
    ids = plain.json()["tokens"]
    marker = SERVER.post("/tokenize", {"prompt": "<|end|>", "parse_special": True,
                                       "add_special_tokens": False}).json()["tokens"]
    assert len(marker) == 1
    assert ids.count(marker[0]) == 1, "only the template's own end of turn is one"


def test_completions():
    r = SERVER.post("/v1/completions", {"model": "m", "prompt": "Once upon a time", "max_tokens": 8,
                                        "temperature": 0, "ignore_eos": True}).json()
    assert r["object"] == "text_completion" and r["choices"][0]["finish_reason"] == "length"
    text = r["choices"][0]["text"]
    ids = SERVER.post("/tokenize", {"prompt": "Once upon a time"}).json()["tokens"]
    by_ids = SERVER.post("/v1/completions", {"model": "m", "prompt": ids, "max_tokens": 8,
                                             "temperature": 0, "ignore_eos": True}).json()
    assert by_ids["choices"][0]["text"] == text
    several = SERVER.post("/v1/completions", {"model": "m", "prompt": ["Once upon a time", ids],
                                              "n": 2, "max_tokens": 8, "temperature": 0,
                                              "ignore_eos": True}).json()
    assert [c["text"] for c in several["choices"]] == [text] * 4
    assert [c["index"] for c in several["choices"]] == [0, 1, 2, 3]


def test_echo_and_scores():
    r = SERVER.post("/v1/completions", {"model": "m", "prompt": "Once upon a time", "max_tokens": 0,
                                        "echo": True, "logprobs": 1, "temperature": 0}).json()
    choice = r["choices"][0]
    assert choice["text"] == "Once upon a time", choice["text"]
    scores = choice["logprobs"]["token_logprobs"]
    assert scores[0] is None and all(s <= 0 for s in scores[1:])
    assert len(scores) == r["usage"]["prompt_tokens"] == len(choice["logprobs"]["tokens"])
    assert choice["logprobs"]["text_offset"][0] == 0
    plain = SERVER.post("/v1/completions", {"model": "m", "prompt": "Once upon a time",
                                            "max_tokens": 4, "echo": True, "temperature": 0}).json()
    assert plain["choices"][0]["text"].startswith("Once upon a time")


def test_models():
    models = SERVER.get("/v1/models").json()
    assert models["data"][0]["id"] == "tiny"
    assert SERVER.get("/v1/models/tiny").json()["id"] == "tiny"
    assert SERVER.get("/v1/models/other").status == 404


def test_tokenize_and_back():
    text = "The capital of France: \u00e9\u4e2d\U0001f600!"
    r = SERVER.post("/tokenize", {"prompt": text, "add_special_tokens": False}).json()
    assert r["count"] == len(r["tokens"])
    assert SERVER.post("/detokenize", {"tokens": r["tokens"]}).json()["prompt"] == text
    assert SERVER.post("/detokenize", {"tokens": [100000]}).status == 400


def test_health_and_metrics():
    assert SERVER.get("/health").json()["status"] == "ok"
    assert SERVER.get("/health/live").status == 200
    before = SERVER.metric("metrale_generation_tokens_total")
    SERVER.chat(PROMPT, max_tokens=7, ignore_eos=True, temperature=0)
    assert SERVER.metric("metrale_generation_tokens_total") == before + 7


def test_prefix_cache_is_seen_and_changes_nothing():
    long = "The lighthouse keeper walks. " * 20
    first = SERVER.post("/v1/chat/completions", {
        "model": "m", "messages": [{"role": "user", "content": long}], "temperature": 0,
        "max_tokens": 20, "ignore_eos": True}).json()
    second = SERVER.post("/v1/chat/completions", {
        "model": "m", "messages": [{"role": "user", "content": long}], "temperature": 0,
        "max_tokens": 20, "ignore_eos": True}).json()
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert first["choices"][0]["message"] == second["choices"][0]["message"]


def test_alone_and_among_others():
    fields = {"max_tokens": 40, "temperature": 0.8, "seed": 11, "ignore_eos": True}
    alone = SERVER.chat(PROMPT, **fields)
    answers = [None] * 8

    def ask(i):
        text = PROMPT if i == 3 else f"Tell me about the number {i} and the sea."
        answers[i] = SERVER.chat_stream(text, **dict(fields, seed=11 if i == 3 else i))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers[3] == alone


if __name__ == "__main__":
    with Server("--model-name", "tiny", "--max-seq-len", "512") as SERVER:
        run_tests(sys.modules[__name__])
