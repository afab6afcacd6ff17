# SPDX-License-Identifier: MIT OR Apache-2.0
"""metralectl bench against a server with a tiny model, and against what is no good server."""

import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

from server import Server, free_port, metralectl, run_tests

SERVER = None
SHORT = ("--set", "prompt-tokens=24", "--set", "output-tokens=6", "--set", "repeats=2",
         "--ignore-eos")


def bench(*arguments, state=None, **variables):
    """The finished command; its history in a folder of its own unless one is given."""
    with tempfile.TemporaryDirectory() as own:
        return subprocess.run([metralectl(), "bench", *arguments], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False,
                              env=dict(os.environ, XDG_STATE_HOME=state or own, **variables))


def run_json(*arguments, status=0, url=None, **more):
    url = url or f"http://127.0.0.1:{SERVER.port}"
    r = bench("run", *arguments, "--url", url, "--json", **more)
    assert r.returncode == status, (r.returncode, r.stdout, r.stderr)
    return json.loads(r.stdout)


# ---- A real server ----


def test_points_and_figures():
    run = run_json("concurrency-sweep", *SHORT, "--set", "widths=1,3", "--set", "seed=7")
    assert run["status"] == "passed" and run["benchmark"] == "concurrency-sweep"
    assert run["parameters"]["widths"] == "1,3" and run["parameters"]["seed"] == 7
    assert [p["width"] for p in run["results"]] == [1, 3]
    for p in run["results"]:
        assert p["requests"] == 2 * p["width"] and p["failed"] == 0 and not p["errors"]
        assert p["output_tokens"] == 6 * p["requests"] and p["counted_by"] == "server"
        assert p["tokens_per_s"] > 0 and p["stream_tokens_per_s"] > 0 and p["wall_s"] > 0
        assert 0 < p["ttft_ms"]["p50"] <= p["ttft_ms"]["p99"]
        assert 0 <= p["inter_token_ms"]["p50"] <= p["inter_token_ms"]["p99"]
        assert abs(p["prompt_tokens"] / p["requests"] - 24) <= 8, p


def test_both_endpoints_and_a_table():
    r = bench("run", "decode", "--url", f"http://127.0.0.1:{SERVER.port}/v1/", *SHORT,
              "--api", "completions")
    assert r.returncode == 0, r.stderr
    assert "tokens/s" in r.stdout and "passed" in r.stdout and "width 1" in r.stderr
    run = run_json("ttft", *SHORT, "--prompt-tokens=16,32", "--output-tokens", "1")
    assert [p["prompt_tokens_asked"] for p in run["results"]] == [16, 32]
    assert all(p["ttft_ms"]["p50"] > 0 for p in run["results"])


def test_only_warm_prompts_are_found_in_the_cache():
    long = (*SHORT, "--set", "prompt-tokens=200", "--set", "seed=7")
    cold = run_json("decode", *long)["results"][0]
    warm = run_json("decode", *long, "--set", "warm=true")["results"][0]
    assert warm["cached_tokens"] > 0.5 * warm["prompt_tokens"], warm
    assert cold["cached_tokens"] < 0.5 * cold["prompt_tokens"], cold


def test_gates():
    run = run_json("decode", *SHORT, "--min-tokens-per-s", "1e8", status=2)
    assert run["status"] == "refused" and "tokens/s" in run["reason"]
    run_json("decode", *SHORT, "--min-tokens-per-s", "1e8", "--no-fail-on-verdict", status=0)
    run = run_json("decode", *SHORT, "--max-ttft-ms", "0.001", status=2)
    assert "first token" in run["reason"]
    assert run_json("decode", *SHORT, "--min-tokens-per-s", "0.01")["gates"] == {
        "min-tokens-per-s": 0.01, "max-failed": 0}


def test_history():
    with tempfile.TemporaryDirectory() as state:
        first = run_json("decode", *SHORT, state=state)
        second = run_json("ttft", *SHORT, state=state)
        run_json("decode", *SHORT, "--no-history", state=state)
        with open(os.path.join(state, "metrale", "bench.jsonl"), "a", encoding="utf-8") as f:
            f.write("half a li")
        third = run_json("decode", *SHORT, state=state)
        r = bench("history", "--json", state=state)
        assert r.returncode == 0 and json.loads(r.stdout) == [first, second, third]
        assert "1 lines" in r.stderr
        one = bench("history", "--id", "decode", "--limit", "1", state=state)
        assert third["id"] in one.stdout and first["id"] not in one.stdout
        again = bench("history", "--run", first["id"], state=state)
        assert first["date"] in again.stdout and "first token" in again.stdout
        assert bench("history", "--run", "run-1", state=state).returncode == 1
        assert bench("history", "--id", "prefill", state=state).returncode == 1


# ---- What is wrong ----


def test_wrong_parameters_are_named():
    for arguments, says in (
            (("run", "prefill"), "'prefill'"), (("run",), "which one"),
            ((), "run, list or history"),
            (("run", "decode", "--set", "width=3"), "'width'; there are prompt-tokens"),
            (("run", "decode", "--set", "url=x"), "'url'"),
            (("run", "decode", "--set", "seed"), "NAME=VALUE"),
            (("run", "decode", "--set"), "--set"),
            (("run", "decode", "--set", "repeats=0"), "--repeats takes an integer from 1"),
            (("run", "decode", "--set", "widths=1,0"), "--widths"),
            (("run", "decode", "--widths", "4,4"), "4 twice"),
            (("run", "decode", "--widths", "1,"), "not ''"),
            (("run", "decode", "--set", "temperature=3"), "--temperature"),
            (("run", "decode", "--set", "warm=maybe"), "warm takes true or false"),
            (("run", "decode", "--output-token", "3"), "did you mean --output-tokens"),
            (("run", "decode", "--repeats=100000", "--widths=4096"), "409600000 requests"),
            (("run", "decode", "--url", "localhost:1"), "--url"),
            (("run", "decode", "--api-key", "a\nb"), "control character"),
            (("list", "prefill"), "'prefill'"), (("history", "--limit", "0"), "--limit")):
        r = bench(*arguments)
        assert r.returncode == 1 and says in r.stderr and not r.stdout, (arguments, r)


def test_nobody_there():
    url = f"http://127.0.0.1:{free_port()}"
    for more in ((), ("--model", "x")):
        with tempfile.TemporaryDirectory() as state:
            r = bench("run", "decode", "--url", url, *more, state=state)
            assert r.returncode == 1 and url in r.stderr and "connect" in r.stderr, r.stderr
            assert not os.path.exists(os.path.join(state, "metrale"))


def test_a_proxy_is_not_asked():
    nowhere = f"http://127.0.0.1:{free_port()}"
    run_json("decode", *SHORT, http_proxy=nowhere, all_proxy=nowhere)


# ---- Servers that fail ----

PIECE = b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"delta":{},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n'


@contextlib.contextmanager
def scripted(answer):
    """A server that answers the requests from the fourth on, those that count, with `answer`."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(self.headers.get("Authorization"))
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert body["stream"] and body["stream_options"] == {"include_usage": True}
            status, data = (200, PIECE * 3 + END) if len(asked) <= 3 else answer(len(asked) - 3)
            self.send_response(status)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()


def failing(answer, *more, status):
    with scripted(answer) as (url, _):
        return run_json("decode", "--model", "m", "--set", "repeats=4", *more, url=url,
                        status=status)


def test_a_server_that_does_not_count():
    with scripted(lambda n: (200, PIECE * 3 + END)) as (url, asked):
        run = run_json("decode", "--model", "m", "--api-key", "secret", url=url)
    assert run["results"][0]["output_tokens"] == 15
    assert run["results"][0]["counted_by"] == "pieces"
    assert set(asked) == {"Bearer secret"} and "secret" not in json.dumps(run)


def test_some_requests_fail():
    def answer(n):
        if n == 1:
            return 503, b'{"error": {"message": "the queue is full"}}'
        return 200, PIECE * 3 + END

    point = failing(answer, status=2)["results"][0]
    assert point["failed"] == 1 and point["output_tokens"] == 9
    assert point["errors"] == [{"count": 1, "message": "status 503: the queue is full"}]
    assert failing(answer, "--max-failed", "1", status=0)["status"] == "passed"


def test_all_requests_fail():
    for data, says in ((PIECE, "ended early"), (b"<html>", "no event stream"),
                       (b"data: {]\n\n", "no JSON"), (b"", "ended early"),
                       (b"data: " + b"x" * (2 << 20), "larger than 1 MiB"),
                       (b'data: {"error": {"message": "lost"}}\n\n', "error in the stream: lost")):
        run = failing(lambda n, data=data: (200, data), status=1)
        assert run["status"] == "failed" and says in run["reason"], run
        assert run["results"][0]["failed"] == 4


def test_a_first_request_that_is_refused():
    r = bench("run", "decode", "--url", f"http://127.0.0.1:{SERVER.port}", "--model", "m",
              "--temperature", "0", "--prompt-tokens", "100000")
    assert r.returncode == 1 and "status 400" in r.stdout, r


def test_cancelled():
    with tempfile.TemporaryDirectory() as state:
        p = subprocess.Popen([metralectl(), "bench", "run", "decode", "--json", "--repeats=100000",
                              "--widths=2", "--url", f"http://127.0.0.1:{SERVER.port}"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=dict(os.environ, XDG_STATE_HOME=state))
        time.sleep(1.5)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=30)
        assert p.returncode == 1 and "cancelled" in err, err
        run = json.loads(out)
        assert run["status"] == "cancelled" and run["results"][0]["output_tokens"] > 0
        assert os.path.exists(os.path.join(state, "metrale", "bench.jsonl"))


def test_list_and_help():
    r = bench("list")
    assert r.returncode == 0 and all(n in r.stdout for n in ("decode", "ttft", "concurrency-sweep"))
    r = bench("list", "ttft")
    assert r.returncode == 0 and "--prompt-tokens" in r.stdout and "128,512,2048" in r.stdout
    for words in (("--help",), ("run", "--help"), ("run", "ttft", "--help"), ("history", "--help")):
        r = bench(*words)
        assert r.returncode == 0 and "usage: metralectl bench" in r.stdout, r


if __name__ == "__main__":
    with Server() as SERVER:
        run_tests(sys.modules[__name__])
