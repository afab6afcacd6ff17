# SPDX-License-Identifier: MIT OR Apache-2.0
"""Models with recurrent layers: a lost worker changes no token, and neither does a warm cache, of
which a conversation's next turn finds all but the last answer and the chunk that it stands in. The
same of windows, whose blocks are freed behind them, and of latent caches."""

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time

from server import Server, run_tests, tiny_model

FAMILIES = ["qwen3_5", "qwen3_next-dense"]
CACHES = ["mistral", "mistral4"]  # all layers see a window of 24 tokens; latents
BLOCK = 16
CHUNK = 64  # tokens, at whose multiples a prompt may be picked up again
TURNS = 10
TEXTS = [f"Tell me the story of number {i}, at length." for i in range(6)]


class Hybrid(Server):
    def __init__(self, family, *flags):
        self.models = tempfile.mkdtemp(prefix="metrale-test-")
        super().__init__(*flags, model=tiny_model(os.path.join(self.models, family), family))

    def stop(self):
        super().stop()
        shutil.rmtree(self.models, ignore_errors=True)


def ask_all(server, started=None):
    """Streams at once; their texts."""
    answers = [None] * len(TEXTS)

    def ask(i):
        text = ""
        body = {"model": "m", "seed": i, "max_tokens": 200, "temperature": 0.8,
                "ignore_eos": True, "messages": [{"role": "user", "content": TEXTS[i]}]}
        for data in server.stream("/v1/chat/completions", body):
            if data == "[DONE]":
                answers[i] = text
                return
            chunk = json.loads(data)
            assert "error" not in chunk, chunk
            for choice in chunk["choices"]:
                text += choice["delta"].get("content") or ""
            if started is not None and len(text) > 20:
                started.set()

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(TEXTS))]
    for t in threads:
        t.start()
    if started is None:
        for t in threads:
            t.join()
    return answers, threads


def kill_worker(server):
    pid = server.worker_pid()
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 10
    while server.worker_pid() in (0, pid) and time.monotonic() < end:
        time.sleep(0.05)


def test_worker_killed():
    for family in FAMILIES + CACHES:
        with Hybrid(family) as s:
            expected, _ = ask_all(s)
            assert all(expected), expected
        with Hybrid(family) as s:
            started = threading.Event()
            answers, threads = ask_all(s, started)
            assert started.wait(30), "no stream began"
            kill_worker(s)
            for t in threads:
                t.join(120)
            assert answers == expected, (family, answers, expected)
            assert s.status()["workers"][0]["restarts"] == 1


def metric(server, name):
    text = server.get("/metrics").body.decode()
    return int(re.search(rf"^{name}(?:{{.*}})? (\d+)", text, re.M).group(1))


def converse(server):
    """Each turn's answer, prompt tokens and those of them that were cached."""
    messages, turns = [], []
    for i in range(TURNS):
        messages.append({"role": "user", "content": f"And {i}, why?"})
        body = {"model": "m", "max_tokens": 12, "temperature": 0, "ignore_eos": True,
                "messages": messages}
        reply = server.post("/v1/chat/completions", body)
        assert reply.status == 200, reply.body
        text = reply.json()["choices"][0]["message"]["content"]
        usage = reply.json()["usage"]
        turns.append((text, usage["prompt_tokens"],
                      usage["prompt_tokens_details"]["cached_tokens"]))
        messages.append({"role": "assistant", "content": text})
    return turns


def test_conversation():
    for family in FAMILIES:
        with Hybrid(family, "--no-prefix-caching") as s:
            cold = converse(s)
        with Hybrid(family) as s:
            warm = converse(s)
            expected = sum(prompt - cached for _, prompt, cached in warm)
            end = time.monotonic() + 10
            missed = None
            while missed != expected and time.monotonic() < end:  # published now and then
                missed = metric(s, "metrale_prefix_cache_miss_tokens_total")
        assert [t[0] for t in warm] == [t[0] for t in cold], (warm, cold)
        assert all(cached == 0 for _, _, cached in cold), cold
        assert warm[-1][1] > 4 * CHUNK, "the conversation is too short to show anything"
        assert missed == expected, (missed, expected)
        for (_, before, _), (_, prompt, cached) in zip(warm, warm[1:]):
            # The chunk in which the turn before began its answer is computed again, no more.
            assert cached == (before - 1) // CHUNK * CHUNK, (family, before, prompt, cached)


def test_other_caches():
    for family in CACHES:
        with Hybrid(family, "--no-prefix-caching") as s:
            cold = converse(s)
        with Hybrid(family) as s:
            warm = converse(s)
        assert [t[0] for t in warm] == [t[0] for t in cold], (family, warm, cold)
        for (_, before, _), (_, _, cached) in zip(warm, warm[1:]):
            assert cached >= (before - 1) // BLOCK * BLOCK, (family, warm)


def test_no_snapshots():
    """Without room for snapshots nothing can be picked up, and all is right still."""
    for family in FAMILIES:
        with Hybrid(family, "--ssm-cache-slots", "0") as s:
            turns = converse(s)
        assert all(cached == 0 for _, _, cached in turns), turns


def test_dense_checkpoints():
    """Snapshots within a prompt: a prompt that leaves another one midway finds the nearest."""
    for family in FAMILIES:
        with Hybrid(family, "--ssm-checkpoint-interval", "4") as s:
            def ask(tokens):
                reply = s.post("/v1/completions", {"model": "m", "prompt": tokens,
                                                   "max_tokens": 4, "temperature": 0})
                assert reply.status == 200, reply.body
                return reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

            prompt = [7 + i % 400 for i in range(300)]
            assert ask(prompt) == 0
            assert ask(prompt[:200] + prompt[:50]) == 192
            assert ask(prompt) == 256


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
