# SPDX-License-Identifier: MIT OR Apache-2.0
"""Bodies that come and requests that wait take no more memory together than they may."""

import json
import os
import socket
import sys
import threading
import time

from server import Broker, Server, run_tests

LIMIT_MB, BODY_BYTES, CLIENTS = 24, 1 << 20, 400
FLAGS = ("--max-request-mb", str(LIMIT_MB), "--max-body-bytes", str(BODY_BYTES),
         "--max-seq-len", "512", "--client-timeout", "20")
CHAT = "/v1/chat/completions"


def resident_mb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


def started():
    broker = Broker(*FLAGS, wait=False)
    broker.start_worker()
    broker.wait_ready()
    return broker


def half_body(server, sent):
    """A request whose body stops in the middle."""
    s = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: "
              + str(BODY_BYTES).encode() + b"\r\n\r\n")
    try:
        s.sendall(b" " * sent)
    except OSError:
        pass  # cut while it sends
    return s


def answer_of(s):
    out = b""
    try:
        s.settimeout(0.2)
        while piece := s.recv(65536):
            out += piece
    except OSError:
        pass
    return out


def test_bodies_that_never_end():
    """Many clients send most of a large body and wait; others are served, memory is bounded."""
    with started() as server:
        before = resident_mb(server.process.pid)
        expected = server.chat("hi", max_tokens=8, temperature=0, ignore_eos=True)
        socks = [half_body(server, BODY_BYTES - 1000) for _ in range(CLIENTS)]
        time.sleep(0.3)
        grown = resident_mb(server.process.pid) - before
        print(f"      {grown:.0f} MB more for {CLIENTS} MB of bodies")
        # What is read between two looks, and what the allocator keeps, come on top.
        assert grown < 4 * LIMIT_MB < CLIENTS / 4, grown
        assert server.chat("hi", max_tokens=8, temperature=0, ignore_eos=True) == expected
        answers = [answer_of(s) for s in socks]
        cut = [a for a in answers if a]
        assert len(cut) >= CLIENTS - 2 * LIMIT_MB, f"only {len(cut)} were answered"
        for a in cut:
            head, _, body = a.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 429 ") and b"retry-after: " in head, a
            assert json.loads(body)["error"]["code"] == "rate_limit_exceeded", a
        for s in socks:
            s.close()
        end = time.monotonic() + 5
        while time.monotonic() < end:
            r = server.post("/v1/completions", {"prompt": "hi", "max_tokens": 2,
                                                "user": "x" * (BODY_BYTES - 100)})
            if r.status == 200:
                break
            time.sleep(0.05)
        assert r.status == 200, (r.status, r.body)


def test_whole_bodies_over_the_limit():
    """More large bodies at once than there is memory for: each is served or told to come back."""
    with started() as server:
        replies, lock = [], threading.Lock()

        def ask():
            r = server.post("/tokenize", {"prompt": "the sea " * (BODY_BYTES // 10)})
            with lock:
                replies.append(r)

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        codes = sorted(r.status for r in replies)
        assert set(codes) <= {200, 429} and 200 in codes, codes
        for r in replies:
            if r.status == 429:
                assert int(r.headers["retry-after"]) >= 1
                assert r.json()["error"]["code"] == "rate_limit_exceeded"
        print(f"      {codes.count(200)} served, {codes.count(429)} told to come back")
        assert server.chat("hi", max_tokens=2, ignore_eos=True)


def test_values_that_take_much_more_than_their_text():
    """Forty bytes for three: counted as what they take, and given back."""
    with started() as server:
        body = b'{"prompt":"a","user":[' + b"[]," * (BODY_BYTES // 3 - 100) + b"[]]}"
        for _ in range(8):
            r = server.post("/v1/completions", body)
            assert r.status in (400, 429), r.status
        assert server.post("/v1/completions", {"prompt": "hi", "max_tokens": 2}).status == 200


def test_flags_that_make_no_sense_together():
    with Server("--max-request-mb", "8", "--max-body-bytes", str(BODY_BYTES), wait=False) as s:
        assert s.wait_end() == 2
        assert "--max-request-mb 8 has no room" in s.log() and "worker[" not in s.log()


if __name__ == "__main__":
    assert os.path.exists("/proc/self/status")
    run_tests(sys.modules[__name__])
