# SPDX-License-Identifier: MIT OR Apache-2.0
"""Hundreds of requests that can't be right, while a stream runs whose every byte is known.

Each gets a 4xx with an error body, or the answer of what it says if it says something possible; no
5xx, no hang, and the stream goes on as if nobody else were there.
"""

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

from server import Server, run_tests

SERVER = None
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
GOOD = {CHAT: {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2},
        COMPLETIONS: {"prompt": "hi", "max_tokens": 2},
        "/tokenize": {"prompt": "hi"},
        "/detokenize": {"tokens": [40]}}
WITNESS = {"model": "m", "messages": [{"role": "user", "content": "Tell me about the sea."}],
           "temperature": 0.8, "seed": 5, "max_tokens": 300, "ignore_eos": True}
WAIT_S = 20
CLIENT_LIMIT_S = 3  # what the server gives a client to send a request or to read an answer

FIELDS = ["model", "messages", "prompt", "max_tokens", "max_completion_tokens", "min_tokens", "n",
          "best_of", "temperature", "top_p", "top_k", "min_p", "top_n_sigma", "seed", "stop",
          "stop_token_ids", "logit_bias", "logprobs", "top_logprobs", "presence_penalty",
          "frequency_penalty", "repetition_penalty", "stream", "stream_options", "echo", "suffix",
          "ignore_eos", "skip_special_tokens", "include_stop_str_in_output", "timeout", "user",
          "metadata", "tools", "tool_choice", "response_format", "functions", "function_call",
          "modalities", "audio", "store", "reasoning_effort", "chat_template_kwargs", "guided_json",
          "prediction", "service_tier", "add_special_tokens", "parse_special", "tokens", "content",
          "skip_special_tokens", "no_such_field", ""]
VALUES = ["null", "true", "false", "0", "-1", "1", "2.5", "1e308", "1e999", "-0.0",
          "18446744073709551616", "-9223372036854775809", "4294967296", "0.00000000000000001",
          '""', '"x"', '"\\u0000"', '"\\ud83d\\ude00"', "[]", "[null]", "[[]]", "[1,2,3]",
          '["a","b"]', "{}", '{"a":1}', '{"type":"json_object"}', '{"1":100}', '{"x":{"y":[{}]}}']


class Witness(threading.Thread):
    """Streams one request again and again; each answer must be the known one."""

    def __init__(self):
        super().__init__(daemon=True)
        self.expected = SERVER.chat_stream("Tell me about the sea.", **{
            k: v for k, v in WITNESS.items() if k not in ("model", "messages")})
        self.over = threading.Event()
        self.rounds, self.failure = 0, None

    def run(self):
        try:
            while not self.over.is_set() or self.rounds == 0:
                text = ""
                for data in SERVER.stream(CHAT, WITNESS):
                    for choice in json.loads(data)["choices"] if data != "[DONE]" else ():
                        text += choice["delta"].get("content") or ""
                assert text == self.expected, (text, self.expected)
                self.rounds += 1
        except Exception as e:  # pylint: disable=broad-except
            self.failure = e

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join(WAIT_S)
        assert self.failure is None, f"the witness saw: {self.failure!r}"
        assert self.rounds > 0 and not self.is_alive(), "the witness hangs"


def check(reply, what):
    """A right answer or a refusal with the error body that clients expect."""
    assert 200 <= reply.status < 500, (what, reply.status, reply.body[:300])
    if reply.status >= 400:
        error = reply.json()["error"]
        assert error["message"] and set(error) == {"message", "type", "param", "code"}, what


def test_wrong_types_for_every_field():
    with Witness():
        for path, good in GOOD.items():
            for field in FIELDS:
                for value in VALUES[::1 if path == CHAT else 3]:
                    rest = {k: v for k, v in good.items() if k != field}
                    body = json.dumps(rest)[:-1] + (", " if rest else "") + json.dumps(field)
                    body += ":" + value + "}"
                    check(SERVER.post(path, body), (path, body))


def test_wrong_messages():
    parts = ['1', '"x"', "null", "[]", "{}", '{"role":1}', '{"role":"user"}',
             '{"role":"user","content":1}', '{"role":"user","content":{}}',
             '{"role":"user","content":[1]}', '{"role":"user","content":[{"type":"text"}]}',
             '{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc"}}]}',
             '{"role":"user","content":[{"type":"text","text":1}]}',
             '{"role":"\\u0000","content":"x"}', '{"content":"x"}',
             '{"role":"assistant","content":null}', '{"role":"tool","content":"x"}',
             '{"role":"assistant","tool_calls":{}}', '{"role":"assistant","tool_calls":[{}]}',
             '{"role":"user","content":"x","name":{}}', '{"role":"user","content":null}']
    with Witness():
        for one in parts:
            for body in (f"[{one}]", f'[{{"role":"user","content":"a"}},{one}]', f"[{one},{one}]"):
                for path in (CHAT, "/tokenize"):
                    extra = ',"max_tokens":1' if path == CHAT else ""
                    r = SERVER.post(path, f'{{"messages":{body}{extra}}}')
                    check(r, body)


def test_large_and_deep():
    deep = 100000
    bodies = [b"[" * deep, b'{"messages":' * deep, b'{"a":' * 50 + b"1" + b"}" * 50,
              b'{"prompt":' + b"[" * deep + b"]" * deep + b"}",
              b'{"prompt":"' + b"x" * 120000 + b'","max_tokens":1}',
              b'{"prompt":"' + "\u4e2d".encode() * 40000 + b'","max_tokens":1}',
              b'{"prompt":"x","stop":"' + b"y" * 100000 + b'"}',
              b'{"prompt":"x","max_tokens":' + b"9" * 100000 + b"}",
              b'{"prompt":"x","max_tokens":1' + b"0" * 400 + b"e-400}",
              b'{"prompt":[' + b"1," * 50000 + b'1],"max_tokens":1}',
              b'{"prompt":[' + b'"a",' * 20000 + b'"a"],"max_tokens":1}',
              b'{"prompt":"x","logit_bias":{' + b",".join(b'"%d":1' % i for i in range(9000))
              + b"}}",
              b'{"prompt":"x",' + b",".join(b'"k%d":1' % i for i in range(9000)) + b"}",
              b'{"messages":[' + b'{"role":"user","content":"x"},' * 4000
              + b'{"role":"user","content":"x"}]}',
              b'{"messages":[{"role":"user","content":"'
              + b"<|user|>" * 10000 + b'"}],"max_tokens":1}']
    with Witness():
        for body in bodies:
            for path in GOOD:
                begin = time.monotonic()
                check(SERVER.post(path, body), (path, body[:60]))
                assert time.monotonic() - begin < WAIT_S, body[:60]


def test_bodies_that_are_all_values():
    """Some bytes of text for each, dozens of memory: refused before they take much."""
    with Server("--max-seq-len", "512") as s:
        for value in (b"[[1,2,3]" + b",[1,2,3]" * 2500000 + b"]", b"[" + b"[]," * 9000000 + b"1]"):
            r = s.post(COMPLETIONS, b'{"prompt":"x","max_tokens":1,"metadata":' + value + b"}")
            check(r, "many values")
            assert r.status == 400 and r.json()["error"]["code"] == "limit_exceeded", r.body
        assert s.chat("hi", max_tokens=2, ignore_eos=True)


def test_duplicate_keys_and_bytes():
    with Witness():
        for body in (b'{"prompt":"a","prompt":"b","max_tokens":1}',
                     b'{"prompt":"a","max_tokens":1,"max_tokens":-1}',
                     b'{"prompt":"\x00","max_tokens":1}', b'{"prompt":"\xff","max_tokens":1}',
                     b'{"prompt":"\xc0\x80","max_tokens":1}', b'{"prompt":"a\tb","max_tokens":1}',
                     b'\xef\xbb\xbf{"prompt":"a","max_tokens":1}',
                     b'{"prompt":"a","max_tokens":01}',
                     b'{"prompt":"a","max_tokens":+1}', b'{"prompt":"a","max_tokens":1.}',
                     b'{"prompt":"a","max_tokens":1,}', b'{"prompt":"a" "max_tokens":1}',
                     b"{'prompt':'a'}", b'{"prompt":NaN}', b'{"prompt":"a","temperature":Infinity}',
                     b'{"prompt":"a"}\x00', b'{"prompt":"a"}{}', b"   ", b"\x00" * 1000,
                     b'{"prompt":"\\ud800","max_tokens":1}', b'{"prompt":"\\x41","max_tokens":1}',
                     b'{"\\u0000":1}', b'{"prompt":"\\u0000","max_tokens":1}'):
            for path in GOOD:
                check(SERVER.post(path, body), (path, body))


# ---- HTTP itself ----


def exchange(data, limit=WAIT_S, shut=False):
    """Sends bytes, reads until the server closes or nothing comes for a while."""
    with socket.create_connection(("127.0.0.1", SERVER.port), timeout=limit) as s:
        s.sendall(data)
        if shut:
            s.shutdown(socket.SHUT_WR)
        out = b""
        s.settimeout(2)
        try:
            while piece := s.recv(65536):
                out += piece
        except (TimeoutError, ConnectionError):
            pass
        return out


def statuses(out):
    return [int(s) for s in re.findall(rb"HTTP/1\.[01] (\d+) ", out)]


def request(body, head=b"", version=b"1.1", path=COMPLETIONS.encode(), length=True):
    head = (b"Content-Length: %d\r\n" % len(body) if length else b"") + head
    return b"POST " + path + b" HTTP/" + version + b"\r\nHost: x\r\n" + head + b"\r\n" + body


BODY = b'{"prompt":"hi","max_tokens":2,"temperature":0}'


def test_versions_and_framing():
    with Witness():
        expect = statuses(exchange(request(BODY, b"Connection: close\r\n")))
        assert expect == [200], expect
        assert statuses(exchange(request(BODY, version=b"1.0"))) == [200]
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
        out = exchange(request(chunked, b"Transfer-Encoding: chunked\r\nConnection: close\r\n",
                               length=False))
        assert statuses(out) == [200], out
        single = b"".join(b"1\r\n%c\r\n" % c for c in BODY) + b"0\r\n\r\n"
        assert statuses(exchange(request(single, b"Transfer-Encoding: chunked\r\n",
                                         length=False))) == [200]
        out = exchange(request(BODY, b"Expect: 100-continue\r\nConnection: close\r\n"))
        assert statuses(out)[-1] == 200, out
        out = exchange(request(BODY) * 3 + request(BODY, b"Connection: close\r\n"))
        assert statuses(out) == [200] * 4, out
        stream = BODY[:-1] + b',"stream":true}'
        out = exchange(request(stream) + request(BODY, b"Connection: close\r\n"))
        assert statuses(out) == [200, 200] and out.count(b"[DONE]") == 1, out


def test_broken_framing():
    cases = [request(BODY, b"Content-Length: 5\r\n"),
             request(BODY, b"Transfer-Encoding: chunked\r\n"),
             request(b"fffffffffffffffff\r\n" + BODY, b"Transfer-Encoding: chunked\r\n",
                     length=False),
             request(b"-1\r\n" + BODY, b"Transfer-Encoding: chunked\r\n", length=False),
             request(BODY, b"Content-Length: 99999999999999999999\r\n", length=False),
             request(BODY, b"Content-Length: 12, 13\r\n", length=False),
             request(BODY, b"Transfer-Encoding: gzip\r\n", length=False),
             request(BODY, b"X: " + b"y" * 100000 + b"\r\n"),
             request(BODY, b"".join(b"X%d: y\r\n" % i for i in range(5000))),
             request(BODY, path=b"/" + b"a" * 100000), request(BODY, path=b"/v1/../../etc/passwd"),
             request(BODY, path=b"/v1/%00"), request(BODY, path=b"*"),
             request(BODY, b"\x00: x\r\n"),
             request(BODY, path=b"http://other/v1/completions"), b"\r\n" * 1000, b"\x00" * 5000,
             b"GET /health\r\n\r\n", b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
             b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", b"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n",
             b"GET /health HTTP/1.1\r\n\r\n",
             b"GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
             request(BODY)[:-10], b"POST"]
    with Witness():
        for data in cases:
            out = exchange(data, shut=True)
            # 501 is the right answer to a transfer coding that the server does not know.
            assert all(s < 500 or s == 501 for s in statuses(out)), (data[:200], out[:300])
    assert SERVER.get("/health").status == 200


def test_http2_by_prior_knowledge():
    curl = shutil.which("curl")
    if not curl:
        return
    r = subprocess.run([curl, "-s", "--http2-prior-knowledge", "--max-time", str(WAIT_S), "-d",
                        BODY.decode(), f"http://127.0.0.1:{SERVER.port}{COMPLETIONS}", "-w",
                        " %{http_version} %{http_code}"], capture_output=True, check=False)
    assert r.stdout.endswith(b" 2 200"), r
    stream = BODY.decode()[:-1] + ',"stream":true}'
    r = subprocess.run([curl, "-s", "--http2-prior-knowledge", "--max-time", str(WAIT_S), "-d",
                        stream, f"http://127.0.0.1:{SERVER.port}{COMPLETIONS}"],
                       capture_output=True, check=False)
    assert r.stdout.endswith(b"data: [DONE]\n\n"), r


def test_slow_heads_and_bodies_end():
    """Clients that trickle are cut after the limit, however regularly a byte comes."""
    heads = [b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n", request(BODY + b" " * 5000)[:-4000]]
    socks = []
    with Witness():
        for head in heads * 4:
            s = socket.create_connection(("127.0.0.1", SERVER.port), timeout=5)
            s.sendall(head)
            s.settimeout(0.05)
            socks.append(s)
        begin, still = time.monotonic(), list(socks)
        while still and time.monotonic() - begin < 3 * CLIENT_LIMIT_S:
            for s in list(still):
                try:
                    s.sendall(b" " if s in socks[1::2] else b"a")
                    if s.recv(4096) == b"":
                        still.remove(s)
                except TimeoutError:
                    pass
                except OSError:
                    still.remove(s)
            time.sleep(0.1)
        for s in socks:
            s.close()
        assert not still, f"{len(still)} slow clients are still connected"


def test_clients_that_do_not_read():
    """They keep their connection for a while, and nothing of it for ever."""
    body = b'{"prompt":"hi","max_tokens":500,"ignore_eos":true,"stream":true,"logprobs":20}'
    with Witness():
        socks = []
        for _ in range(8):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            s.connect(("127.0.0.1", SERVER.port))
            s.sendall(request(body) * 40)  # more than fits into the buffers of a connection
            socks.append(s)
        begin = time.monotonic()
        while SERVER.metric("metrale_requests_active") < len(socks):
            assert time.monotonic() - begin < WAIT_S, "they were not taken"
        while SERVER.metric("metrale_requests_active") > 1:
            assert time.monotonic() - begin < 3 * WAIT_S, "the server waits for them for ever"
            time.sleep(0.1)
        assert time.monotonic() - begin > CLIENT_LIMIT_S / 2, "they were never stuck"
        for s in socks:
            s.close()


def test_clients_that_vanish():
    before = SERVER.metric("metrale_requests_cancelled_total")
    with Witness():
        for stream in (b"true", b"false"):
            for _ in range(40):
                body = b'{"prompt":"hi","max_tokens":400,"ignore_eos":true,"stream":%s}' % stream
                s = socket.create_connection(("127.0.0.1", SERVER.port))
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                s.sendall(request(body))
                s.close()  # with a reset
    end = time.monotonic() + WAIT_S
    while SERVER.status()["running"] + SERVER.status()["waiting"] and time.monotonic() < end:
        time.sleep(0.05)
    assert SERVER.status()["running"] + SERVER.status()["waiting"] == 0
    assert SERVER.metric("metrale_requests_cancelled_total") > before


def test_zz_everything_still_works():
    assert SERVER.chat("hi", max_tokens=4, ignore_eos=True)
    assert SERVER.metric("metrale_requests_active") == 0


if __name__ == "__main__":
    with Server("--max-seq-len", "512", "--max-body-bytes", "1500000",
                "--client-timeout", str(CLIENT_LIMIT_S)) as SERVER:
        run_tests(sys.modules[__name__])
