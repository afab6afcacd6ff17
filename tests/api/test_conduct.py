# SPDX-License-Identifier: MIT OR Apache-2.0
"""Transport and manners: TLS, HTTP/2, web pages, what is refused by name, signs of life."""

import json
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.request

from server import Broker, Server, run_tests

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3,
       "temperature": 0}


def certificate(folder):
    """A key and a certificate that signs itself."""
    key, cert = os.path.join(folder, "key.pem"), os.path.join(folder, "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key,
                    "-out", cert], check=True, capture_output=True)
    return key, cert


class TlsServer(Server):
    """Asked over HTTPS."""

    def __init__(self, key, cert, *flags):
        self.context = ssl.create_default_context(cafile=cert)
        super().__init__("--tls-key", key, "--tls-cert", cert, *flags)

    def request(self, method, path, body=None, headers=None):
        r = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", method=method,
                                   data=body and json.dumps(body).encode(),
                                   headers=headers or {"Content-Type": "application/json"})
        with urllib.request.urlopen(r, context=self.context, timeout=30) as answer:
            answer.body = answer.read()
            return answer


def curl(*arguments):
    r = subprocess.run(["curl", "-sS", "--max-time", "30", *arguments], capture_output=True,
                       text=True, check=False)
    assert r.returncode == 0, r.stderr
    return r.stdout


def test_tls_and_http2():
    with tempfile.TemporaryDirectory() as folder:
        key, cert = certificate(folder)
        with TlsServer(key, cert) as s:
            answer = json.loads(s.post("/v1/chat/completions", ASK).body)
            assert answer["usage"]["completion_tokens"] >= 1
            url = f"https://127.0.0.1:{s.port}/v1/chat/completions"
            for flag, version in (("--http1.1", "1.1"), ("--http2", "2")):
                out = curl(flag, "--cacert", cert, "-d", json.dumps(dict(ASK, stream=True)), "-w",
                           "%{http_version}", url)
                assert out.endswith("data: [DONE]\n\n" + version), out


def test_http2_in_clear_text():
    with Server() as s:
        out = curl("--http2-prior-knowledge", "-w", "%{http_version}",
                   f"http://127.0.0.1:{s.port}/health")
        assert out.endswith("2") and '"ok"' in out, out


def test_a_key_that_is_none():
    with tempfile.TemporaryDirectory() as folder:
        s = Server("--tls-key", "/dev/null", "--tls-cert", "/dev/null", wait=False)
        with s:
            assert s.wait_end() != 0
            assert "/dev/null" in s.log(), folder


def test_pages_of_other_origins():
    with Server() as s:
        r = s.request("OPTIONS", "/v1/models", headers={"Origin": "http://a.example"})
        assert r.status == 405 and "access-control-allow-origin" not in r.headers
    with Server("--cors-origin", "http://a.example") as s:
        r = s.request("OPTIONS", "/v1/chat/completions", headers={
            "Origin": "http://a.example", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, content-type"})
        assert r.status == 204 and r.headers["access-control-allow-origin"] == "http://a.example"
        assert "POST" in r.headers["access-control-allow-methods"]
        assert r.headers["access-control-allow-headers"] == "authorization, content-type"
        for origin, seen in (("http://a.example", "http://a.example"), ("http://b.example", None)):
            for path, body, status in (("/v1/chat/completions", ASK, 200),
                                       ("/v1/chat/completions", {"messages": 1}, 400)):
                r = s.post(path, body, {"Origin": origin})
                assert r.status == status
                assert r.headers["access-control-allow-origin"] == seen, (origin, status)
    with Server("--cors-origin", "*") as s:
        r = s.get("/v1/models", {"Origin": "http://c.example"})
        assert r.headers["access-control-allow-origin"] == "*"


def test_adapters_are_refused_by_name():
    with Server() as s:
        for path in ("/v1/lora/load", "/v1/lora/unload", "/v1/lora"):
            r = s.post(path, {"name": "x"})
            assert r.status == 404 and "adapters" in r.json()["error"]["message"], r.body


def test_signs_of_life():
    """A step of three seconds: each protocol shows meanwhile that it lives."""
    with Broker("--keepalive", "1", wait=False) as s:
        s.start_worker("--delay-us", "3000000", "--vocab", "512",
                       program="tests/support/scripted-worker")
        s.wait_ready()
        for path, sign, fields in (("/v1/chat/completions", b": keep-alive\n\n", {}),
                                   ("/v1/responses", b": keep-alive\n\n", {}),
                                   ("/v1/messages", b"event: ping\n", {})):
            body = dict(ASK, stream=True, max_tokens=1, **fields)
            if path == "/v1/responses":
                body = {"input": "hi", "stream": True, "max_output_tokens": 1}
            out = s.post(path, body).body
            assert out.count(sign) >= 2, out
            if path == "/v1/messages":
                assert out.index(b"message_start") < out.index(sign)


def test_long_conversations_are_shortened():
    turns = []
    for i in range(40):
        turns += [{"role": "user", "content": f"question {i} of many words"},
                  {"role": "assistant", "content": "answer"}]
    turns.append({"role": "user", "content": "last"})
    body = dict(ASK, messages=turns)
    with Server("--max-seq-len", "256") as s:
        assert s.post("/v1/chat/completions", body).status == 400
        r = s.post("/v1/responses", {"input": turns, "truncation": "auto",
                                     "max_output_tokens": 3}).json()
        assert r["usage"]["input_tokens"] <= 253 and r["truncation"] == "auto"
    with Server("--max-seq-len", "256", "--auto-compact", "0.5") as s:
        r = s.post("/v1/chat/completions", body)
        assert r.status == 200 and r.json()["usage"]["prompt_tokens"] <= 128, r.body
        assert r.json()["usage"]["prompt_tokens"] > 64, "no more than needed is left out"


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
