# SPDX-License-Identifier: MIT OR Apache-2.0
"""Workers and clients that die, stop, come late: nothing that was accepted is lost."""

import json
import os
import signal
import socket
import sys
import threading
import time

from server import Broker, Server, run_tests

TEXTS = [f"Tell me the story of number {i}, at length." for i in range(8)]
FIELDS = {"max_tokens": 150, "temperature": 0.8, "ignore_eos": True}


def ask_all(server, started=None):
    """Eight streams at once; their texts."""
    answers = [None] * len(TEXTS)

    def ask(i):
        text = ""
        body = dict(FIELDS, model="m", seed=i, messages=[{"role": "user", "content": TEXTS[i]}])
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


def undisturbed():
    with Server("--max-seq-len", "512") as s:
        answers, _ = ask_all(s)
        assert all(answers), answers
        return answers


EXPECTED = None


def disturb(action):
    with Server("--max-seq-len", "512") as s:
        started = threading.Event()
        answers, threads = ask_all(s, started)
        assert started.wait(30), "no stream began"
        action(s)
        for t in threads:
            t.join(120)
        lost = sum(a != b for a, b in zip(answers, EXPECTED))
        print(f"      {lost} of {len(answers)} streams differ")
        assert lost == 0
        return s.status()


def kill_worker(server):
    pid = server.worker_pid()
    os.kill(pid, signal.SIGKILL)
    end = time.monotonic() + 10
    while server.worker_pid() in (0, pid) and time.monotonic() < end:
        time.sleep(0.05)


def test_worker_killed():
    status = disturb(kill_worker)
    assert status["workers"][0]["restarts"] == 1 and status["state"] == "ready", status


def test_worker_killed_twice():
    def twice(server):
        kill_worker(server)
        time.sleep(0.3)
        kill_worker(server)

    disturb(twice)


def test_worker_killed_again_and_again():
    def often(server):
        for _ in range(6):
            kill_worker(server)

    disturb(often)


def test_worker_stopped_and_continued():
    def pause(server):
        pid = server.worker_pid()
        os.kill(pid, signal.SIGSTOP)
        end = time.monotonic() + 8
        while server.get("/health").status == 200 and time.monotonic() < end:
            time.sleep(0.05)
        assert server.get("/health").status == 503, "a stopped worker must show"
        assert server.get("/health/live").status == 200
        os.kill(pid, signal.SIGCONT)

    disturb(pause)


class Watch(threading.Thread):
    """Asks for the health again and again, and keeps what it hears."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.over, self.heard = server, threading.Event(), []
        self.start()

    def run(self):
        while not self.over.wait(0.02):
            r = self.server.get("/health")
            self.heard.append((r.status, r.json().get("reason", "")))

    def stop(self):
        self.over.set()
        self.join()
        assert self.heard
        return self.heard


def test_worker_delayed():
    """Late again and again, but it lives: the streams go on right, and it counts as healthy."""
    def hamper(server):
        pid, watch = server.worker_pid(), Watch(server)
        for _ in range(12):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.3)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.02)
        heard = watch.stop()
        assert {status for status, _ in heard} == {200}, heard

    status = disturb(hamper)
    assert status["workers"][0]["restarts"] == 0 and status["state"] == "ready", status


def scripted(server, delay_us):
    worker = server.start_worker("--vocab", "512", "--delay-us", str(delay_us),
                                 program="tests/support/scripted-worker")
    server.wait_ready()
    return worker


def end(server, process):
    process.kill()
    process.wait()
    limit = time.monotonic() + 5
    while server.get("/health").status == 200 and time.monotonic() < limit:
        time.sleep(0.01)


def test_worker_that_answers_late():
    """Steps of 0.4 s and then one of 12 s: the same text; health says when a step takes too long
    and that it is over. A living worker is never given up for that."""
    asked = dict(seed=7, temperature=0.8, ignore_eos=True)
    with Broker("--max-seq-len", "512", wait=False) as s:
        prompt = scripted(s, 0)
        text = s.chat_stream("hi", max_tokens=6, **asked)
        first = s.chat_stream("hi", max_tokens=1, **asked)
        assert text and text.startswith(first)
        end(s, prompt)
        late = scripted(s, 400000)
        watch, begin = Watch(s), time.monotonic()
        assert s.chat_stream("hi", max_tokens=6, **asked) == text
        assert time.monotonic() - begin > 2, "six steps of 0.4 s"
        heard = watch.stop()
        assert {status for status, _ in heard} == {200}, heard
        end(s, late)
        scripted(s, 12 * 1000 * 1000)
        watch = Watch(s)
        assert s.chat_stream("hi", max_tokens=1, **asked) == first
        time.sleep(0.2)
        heard = watch.stop()
        bad = [reason for status, reason in heard if status == 503]
        assert heard[0][0] == 200 and heard[-1][0] == 200, heard
        assert bad and all("step has been running" in reason for reason in bad), bad
        assert s.status()["workers"][0]["restarts"] == 2  # the two that the test has killed


def test_worker_stopped_for_good():
    def freeze(server):
        os.kill(server.worker_pid(), signal.SIGSTOP)

    disturb(freeze)


def test_restart_gives_the_same():
    assert undisturbed() == EXPECTED


def test_drain_finishes_what_runs():
    with Server("--max-seq-len", "512") as s:
        started = threading.Event()
        answers, threads = ask_all(s, started)
        assert started.wait(30)
        time.sleep(0.1)
        s.process.send_signal(signal.SIGTERM)
        for t in threads:
            t.join(60)
        assert answers == EXPECTED
        assert s.wait_end() == 0


def test_drain_by_metralectl():
    with Server("--max-seq-len", "512") as s:
        s.ctl("drain")
        assert s.get("/health").status == 503
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        assert s.post("/v1/chat/completions", body).status == 503
        s.ctl("resume")
        assert s.post("/v1/chat/completions", dict(body, max_tokens=2)).status == 200
        s.ctl("shutdown")
        assert s.wait_end() == 0


def test_a_client_that_goes_away_frees_its_sequence():
    with Server("--max-seq-len", "512", "--max-batch-size", "2") as s:
        for stream in (True, False):
            sock = socket.create_connection(("127.0.0.1", s.port))
            body = json.dumps(dict(FIELDS, model="m", max_tokens=450, stream=stream, seed=1,
                                   messages=[{"role": "user", "content": TEXTS[0]}])).encode()
            sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: "
                         + str(len(body)).encode() + b"\r\n\r\n" + body)
            end = time.monotonic() + 10
            while s.status()["running"] == 0 and time.monotonic() < end:
                time.sleep(0.005)
            sock.close()
            end = time.monotonic() + 5
            while s.status()["running"] and time.monotonic() < end:
                time.sleep(0.01)
            assert s.status()["running"] == 0, "the sequence runs for nobody"
        assert s.chat("hi", max_tokens=3, ignore_eos=True)


def test_a_slow_reader_slows_only_itself():
    with Server("--max-seq-len", "512") as s:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", s.port))
        body = json.dumps(dict(FIELDS, model="m", stream=True, max_tokens=450, seed=1,
                               logprobs=True, top_logprobs=20,
                               messages=[{"role": "user", "content": TEXTS[0]}])).encode()
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: "
                     + str(len(body)).encode() + b"\r\n\r\n" + body)
        answers, _ = ask_all(s)
        assert answers == EXPECTED
        sock.close()


def test_a_full_queue_says_when_to_come_back():
    with Server("--max-seq-len", "512", "--max-batch-size", "1", "--max-num-seqs", "2") as s:
        codes, lock = [], threading.Lock()

        def ask(i):
            r = s.post("/v1/chat/completions",
                       dict(FIELDS, model="m", seed=i, max_tokens=200,
                            messages=[{"role": "user", "content": "hi"}]))
            with lock:
                codes.append((r.status, r.headers.get("retry-after")))

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        refused = [c for c in codes if c[0] == 429]
        assert refused and all(int(retry) >= 1 for _, retry in refused), codes
        assert len(refused) + sum(c[0] == 200 for c in codes) == 12, codes


def test_a_cache_too_small_for_all_at_once():
    """Eight streams of some 190 tokens where there is room for two or three: sequences are set back
    and computed again, and nobody can tell."""
    flags = ("--max-seq-len", "400", "--kv-cache-dtype", "f32")
    with Server(*flags) as s:
        expected, _ = ask_all(s)
        assert all(expected)
        assert s.metric("metrale_preemptions_total") == 0
    # 1 MB of f32 cache: 4 layers x 2 heads x 32 x 2 x 4 bytes = 2 KB a token, some 500 tokens.
    with Server(*flags, "--kv-cache-mb", "1") as s:
        cache = s.status()["cache"][0]
        assert cache["blocks"] * 16 < 3 * 190, cache
        for prefix in ("cold", "warm"):
            answers, _ = ask_all(s)
            lost = sum(a != b for a, b in zip(answers, expected))
            preempted = s.metric("metrale_preemptions_total")
            print(f"      {prefix}: {lost} streams differ, {preempted:.0f} were set back")
            assert lost == 0 and preempted > 0
        status = s.status()
        assert status["running"] == 0 and status["waiting"] == 0
        assert status["blocks_used"] == 0, status
        assert status["workers"][0]["restarts"] == 0


def test_a_request_over_its_time():
    with Server("--max-seq-len", "512") as s:
        r = s.post("/v1/chat/completions", dict(
            FIELDS, model="m", max_tokens=450, timeout=0.02,
            messages=[{"role": "user", "content": TEXTS[0]}]))
        assert r.status == 504, (r.status, r.body)


if __name__ == "__main__":
    EXPECTED = undisturbed()
    run_tests(sys.modules[__name__])
