# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reasoning and tool calls through a whole server. A scripted worker plays what a model wrote."""

import json
import os
import sys
import tempfile
import time

from server import Broker, Server, run_tests

TEMPLATE = """{% if tools %}<|system|>{{ tools | tojson }}<tool_call></tool_call><|end|>{% endif %}\
{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}\
{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.name }} {{ c.function.arguments.city }}\
</tool_call>{% endfor %}<|end|>{% endfor %}\
{% if add_generation_prompt %}<|assistant|>{% if enable_thinking %}<think>
{% endif %}{% endif %}"""

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}},
    {"type": "function", "function": {"name": "now"}}]

CALLS = ('Look:\n<tool_call>\n{"name": "weather", "arguments": {"city": "Malm\u00f6 </tool_call>", '
         '"days": 3}}\n</tool_call>\n<tool_call>{"name": "now"}</tool_call>\nDone.')


class Player:
    """A broker whose worker says one text in answer to everything."""

    def __init__(self, text, *flags):
        self.folder = tempfile.TemporaryDirectory()
        template = os.path.join(self.folder.name, "template.jinja")
        with open(template, "w", encoding="utf-8") as f:
            f.write(TEMPLATE)
        self.broker = Broker("--chat-template", template, *flags, wait=False)
        try:
            ids = self.ids(text)
            tokens = os.path.join(self.folder.name, "tokens")
            with open(tokens, "w", encoding="utf-8") as f:
                f.write(" ".join(str(i) for i in ids + [2]))
            self.broker.start_worker("--vocab", "512", "--tokens", tokens,
                                     program="tests/support/scripted-worker")
            self.broker.wait_ready()
        except BaseException:
            self.__exit__()
            raise

    def ids(self, text):
        return tokenize(self.broker, text)

    def __enter__(self):
        return self.broker

    def __exit__(self, *_):
        self.broker.stop()
        self.folder.cleanup()


def tokenize(server, text):
    for _ in range(500):
        try:
            r = server.post("/tokenize", {"prompt": text, "add_special_tokens": False})
            if r.status == 200:
                return r.json()["tokens"]
        except OSError:
            pass
        time.sleep(0.02)
    raise AssertionError("no answer to /tokenize:\n" + server.log())


def ask(**fields):
    return dict({"model": "m", "messages": [{"role": "user", "content": "hi"}],
                 "max_tokens": 900}, **fields)


def whole(server, **fields):
    r = server.post("/v1/chat/completions", ask(**fields))
    assert r.status == 200, r.body
    return r.json()


def streamed(server, **fields):
    """Message and finish reason, joined from the deltas; what each delta may hold is checked."""
    message = {"content": "", "reasoning_content": "", "tool_calls": []}
    finish = None
    for data in server.stream("/v1/chat/completions", ask(**fields)):
        if data == "[DONE]":
            break
        for choice in json.loads(data)["choices"]:
            delta = choice["delta"]
            for key in ("content", "reasoning_content"):
                message[key] += delta.get(key) or ""
            for call in delta.get("tool_calls", []):
                if call["index"] == len(message["tool_calls"]):
                    assert call["id"].startswith("call_") and call["type"] == "function", call
                    assert call["function"]["name"], call
                    message["tool_calls"].append(call)
                else:
                    assert call["index"] == len(message["tool_calls"]) - 1, call
                    assert set(call) == {"index", "function"}, call
                    assert set(call["function"]) == {"arguments"}, call
                    message["tool_calls"][-1]["function"]["arguments"] += \
                        call["function"]["arguments"]
            finish = choice["finish_reason"] or finish
    return message, finish


def calls_of(message):
    return [(c["function"]["name"], json.loads(c["function"]["arguments"]))
            for c in message.get("tool_calls") or []]


def test_calls_streamed_and_not():
    want = [("weather", {"city": "Malm\u00f6 </tool_call>", "days": 3}), ("now", {})]
    with Player(CALLS) as s:
        choice = whole(s, tools=TOOLS)["choices"][0]
        assert choice["message"]["content"] == "Look:\nDone.", choice
        assert calls_of(choice["message"]) == want, choice
        assert choice["finish_reason"] == "tool_calls", choice
        ids = [c["id"] for c in choice["message"]["tool_calls"]]
        assert len(set(ids)) == 2, ids
        message, finish = streamed(s, tools=TOOLS)
        assert message["content"] == "Look:\nDone." and calls_of(message) == want, message
        assert finish == "tool_calls"
        one = whole(s, tools=TOOLS, parallel_tool_calls=False)["choices"][0]
        assert calls_of(one["message"]) == want[:1] and one["message"]["content"] == "Look:", one
        assert one["finish_reason"] == "tool_calls"
        none = whole(s, tools=TOOLS, tool_choice="none")["choices"][0]
        assert none["message"]["content"] == CALLS and none["finish_reason"] == "stop", none
        cut = whole(s, tools=TOOLS, max_tokens=40)["choices"][0]
        assert cut["finish_reason"] == "length", cut
        back = [{"role": "user", "content": "hi"},
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {
                        "name": "weather", "arguments": "{\"city\": \"Malm\"}"}}]},
                {"role": "tool", "tool_call_id": "call_1", "content": "rain"}]
        bad = s.post("/v1/chat/completions", ask(messages=back, tools=TOOLS, max_tokens=4))
        assert bad.status == 200, bad.body


def test_reasoning_and_its_budget():
    text = "one two three four five six seven\n</think>\n\nSo it is."
    with Player(text) as s:
        on = {"enable_thinking": True}
        answer = whole(s, **on)
        message = answer["choices"][0]["message"]
        assert message["reasoning_content"] == "one two three four five six seven", message
        assert message["content"] == "So it is.", message
        assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] > 5, answer
        again, finish = streamed(s, **on)
        assert again["reasoning_content"] == message["reasoning_content"], again
        assert again["content"] == "So it is." and finish == "stop"
        off = whole(s)["choices"][0]["message"]
        assert off["content"] == text and "reasoning_content" not in off, off
        raw = whole(s, separate_reasoning=False, **on)["choices"][0]["message"]
        assert raw["content"] == text, raw
        for budget in (0, 1, 6):
            spent = whole(s, thinking_budget=budget, **on)
            message = spent["choices"][0]["message"]
            words = message["reasoning_content"].split("\n\n")
            assert words[-1] == "The time is up, so I answer now.", message
            assert text.startswith(words[0]) or budget == 0, message
            assert message["content"], message
            same, _ = streamed(s, thinking_budget=budget, **on)
            assert same["reasoning_content"] == message["reasoning_content"], same
            assert same["content"] == message["content"], same
        r = s.post("/v1/chat/completions", ask(thinking_budget=-1))
        assert r.status == 400 and r.json()["error"]["param"] == "thinking_budget", r.body


def test_thinking_can_be_disabled():
    with Player("x\n</think>\n\ny", "--disable-thinking") as s:
        message = whole(s, enable_thinking=True)["choices"][0]["message"]
        assert message["content"] == "x\n</think>\n\ny", message


def test_what_a_model_can_not_do_is_refused():
    with Server() as s:
        for field, value in (("tools", TOOLS), ("reasoning_effort", "high")):
            r = s.post("/v1/chat/completions", ask(**{field: value}))
            assert r.status == 400 and r.json()["error"]["param"] == field, r.body
    with Player("hi") as s:
        for choice in ("required", {"type": "function", "function": {"name": "now"}}):
            r = s.post("/v1/chat/completions", ask(tools=TOOLS, tool_choice=choice))
            assert r.status == 400 and r.json()["error"]["param"] == "tool_choice", r.body
    with Broker("--tool-call-parser", "nonsense", wait=False) as s:
        assert s.wait_end() != 0 and "nonsense" in s.log(), s.log()


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
