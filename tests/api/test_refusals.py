# SPDX-License-Identifier: MIT OR Apache-2.0
"""What can't be right gets a 4xx that names the field, and nobody else notices."""

import json
import socket
import sys

from server import Server, run_tests

SERVER = None
GOOD = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}


def error_of(reply, status=400):
    assert reply.status == status, (reply.status, reply.body)
    body = reply.json()["error"]
    assert set(body) == {"message", "type", "param", "code"} and body["message"]
    return body


def test_fields_are_named():
    for change, field in (({"temperature": "hot"}, "temperature"),
                          ({"max_tokens": -1}, "max_tokens"),
                          ({"messages": []}, "messages"), ({"n": 0}, "n"), ({"stop": 5}, "stop"),
                          ({"unknown": 1}, "unknown"), ({"logit_bias": {"x": 1}}, "logit_bias"),
                          ({"tools": [{"type": "function"}]}, "tools"),
                          ({"top_logprobs": 3}, "top_logprobs"),
                          ({"response_format": {"type": "json_object"}}, "response_format")):
        body = error_of(SERVER.post("/v1/chat/completions", dict(GOOD, **change)))
        assert body["param"] == field, body


def test_bodies_that_are_no_json():
    for body in (b"", b"{", b"nonsense", b"[]", b'"x"', b"{\"a\":1}x", b"\xff\xfe", b"{\"a\":\x00}",
                 b"[" * 100000, b'{"messages":' + b"[" * 5000 + b"]" * 5000 + b"}",
                 b'{"messages":"\xed\xa0\x80"}', b'{"model":"\\ud800"}'):
        error_of(SERVER.post("/v1/chat/completions", body))
        error_of(SERVER.post("/v1/completions", body))
        error_of(SERVER.post("/tokenize", body))


def test_template_errors_are_the_clients():
    body = error_of(SERVER.post("/v1/chat/completions", dict(
        GOOD, messages=[{"role": "tool", "content": "x"}])))
    assert "role tool is not for this model" in body["message"]


def test_prompts_that_do_not_fit():
    body = error_of(SERVER.post("/v1/chat/completions", dict(
        GOOD, messages=[{"role": "user", "content": "word " * 5000}])))
    assert "tokens" in body["message"]
    body = error_of(SERVER.post("/v1/completions", {"model": "tiny", "prompt": [600]}))
    assert "600" in body["message"]


def test_paths_and_methods():
    assert error_of(SERVER.post("/v1/embeddings", {}), 404)["message"].find("embeddings") >= 0
    error_of(SERVER.get("/nothing"), 404)
    r = SERVER.get("/v1/completions")
    assert error_of(r, 405)["code"] == "method_not_allowed" and r.headers["allow"] == "POST"
    assert SERVER.request("DELETE", "/health").status == 405
    assert SERVER.request("HEAD", "/health").status == 200


def raw(data):
    """Sends bytes, returns what comes back within a few seconds."""
    with socket.create_connection(("127.0.0.1", SERVER.port), timeout=5) as s:
        out = b""
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has answered already
        try:
            while piece := s.recv(4096):
                out += piece
        except (TimeoutError, ConnectionResetError):
            pass
        return out


def test_broken_http():
    for data in (b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00",
                 b"POST /v1/completions HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
                 b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
                 b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"):
        line = raw(data).split(b"\r\n", 1)[0]
        assert line == b"" or b" 4" in line or b" 5" in line, (data, line)
    assert SERVER.get("/health").status == 200


def test_errors_of_http_have_the_same_body():
    """What is refused before any route is found is explained like all else."""
    post = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
    for data, status, code, word in (
            (post + b"Content-Length: 99999999\r\n\r\n", 413, "request_too_large", "150000"),
            (post + b"Content-Length: 1x\r\n\r\n", 400, None, "HTTP request"),
            (post + b"Transfer-Encoding: gzip\r\n\r\n", 400, None, "HTTP request"),
            (post + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, None, "HTTP request"),
            (post + b"Transfer-Encoding: chunked\r\n\r\n30d40\r\n" + b"x" * 200000, 413,
             "request_too_large", "150000")):
        head, _, body = raw(data).partition(b"\r\n\r\n")
        lines = head.decode().lower().split("\r\n")
        assert lines[0].startswith(f"http/1.1 {status} "), (data[:80], head)
        assert "content-type: application/json" in lines, lines
        assert f"content-length: {len(body)}" in lines, (lines, body)
        error = json.loads(body)["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        assert error["code"] == code and word in error["message"], error


def test_a_body_over_the_limit():
    r = SERVER.post("/v1/completions", {"prompt": "x" * 200000})
    assert error_of(r, 413)["code"] == "request_too_large"


def test_strict_model():
    body = error_of(SERVER.post("/v1/chat/completions", dict(GOOD, model="other")), 404)
    assert body["param"] == "model"
    assert SERVER.post("/v1/chat/completions", dict(GOOD, model="tiny")).status == 200


def test_everything_still_works():
    assert SERVER.chat("hi", model="tiny", max_tokens=4, ignore_eos=True)
    assert json.loads(SERVER.get("/health").body)["status"] == "ok"


def test_keys():
    with Server("--auth-token", "secret", "--model-name", "tiny") as s:
        error_of(s.post("/v1/chat/completions", GOOD), 401)
        error_of(s.post("/tokenize", {"prompt": "a"}), 401)
        error_of(s.post("/v1/chat/completions", GOOD, {"Authorization": "Bearer wrong"}), 401)
        good = {"Authorization": "Bearer secret"}
        assert s.post("/v1/chat/completions", GOOD, good).status == 200
        assert s.get("/health").status == 200


def test_rate_limit():
    with Server("--rate-limit-rpm", "2", "--model-name", "tiny") as s:
        codes = [s.post("/v1/chat/completions", GOOD).status for _ in range(3)]
        assert codes == [200, 200, 429], codes
        assert int(s.post("/v1/chat/completions", GOOD).headers["retry-after"]) >= 1


if __name__ == "__main__":
    with Server("--model-name", "tiny", "--max-seq-len", "512", "--strict-model",
                "--max-body-bytes", "150000") as SERVER:
        run_tests(sys.modules[__name__])
