# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reasoning and tool calls through the real client packages, in all three protocols.

The model's output is played, so that every protocol must make the same of it: a thought, some text,
two calls, text behind them.
"""

import json
import sys

from clients import need, refusal

openai, anthropic = need("openai", "anthropic")

from scripted import Scripted  # noqa: E402
from server import run_tests  # noqa: E402

SERVER = CHAT = MESSAGES = None
ARGUMENTS = [{"city": "Paris </tool_call> \"quoted\" é"}, {"city": "Rome", "days": 3}]
CALLS = "".join('<tool_call>\n{"name": "weather", "arguments": %s}\n</tool_call>'
                % json.dumps(a, ensure_ascii=False) for a in ARGUMENTS)
OUTPUT = f"<think>\nWhere is it?\n</think>\n\nLet me look.\n{CALLS}<|end|>"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"},
                                           "days": {"type": "integer"}}, "required": ["city"]}
TOOL = {"name": "weather", "description": "tells it", "parameters": SCHEMA}
ASK = [{"role": "user", "content": "How is it in Paris and Rome?"}]


def chat(**fields):
    fields = dict({"model": "m", "messages": ASK,
                   "tools": [{"type": "function", "function": TOOL}]}, **fields)
    return CHAT.chat.completions.create(**fields)


def respond(**fields):
    fields = dict({"model": "m", "input": ASK,
                   "tools": [dict(TOOL, type="function", strict=False)]}, **fields)
    return CHAT.responses.create(**fields)


def message(**fields):
    fields = dict({"model": "m", "messages": ASK, "max_tokens": 400, "tools": [
        {"name": "weather", "description": "tells it", "input_schema": SCHEMA}]}, **fields)
    return MESSAGES.messages.create(**fields)


def test_chat():
    r = chat()
    choice = r.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me look."
    assert choice.message.reasoning_content == "Where is it?"
    calls = choice.message.tool_calls
    assert [json.loads(c.function.arguments) for c in calls] == ARGUMENTS
    assert {c.function.name for c in calls} == {"weather"} and {c.type for c in calls} == {
        "function"}
    assert len({c.id for c in calls}) == 2 and all(c.id.startswith("call_") for c in calls)
    assert 0 < r.usage.completion_tokens_details.reasoning_tokens < r.usage.completion_tokens


def test_chat_streamed():
    text, thought, calls, finish = "", "", {}, []
    for chunk in chat(stream=True):
        delta = chunk.choices[0].delta
        text += delta.content or ""
        thought += getattr(delta, "reasoning_content", None) or ""
        finish.append(chunk.choices[0].finish_reason)
        for c in delta.tool_calls or []:
            if c.index not in calls:
                assert c.id and c.type == "function" and c.function.name == "weather"
                calls[c.index] = ""
            else:
                assert not c.id and not c.function.name
            calls[c.index] += c.function.arguments or ""
    assert text == "Let me look." and thought == "Where is it?"
    assert [json.loads(calls[i]) for i in sorted(calls)] == ARGUMENTS
    assert finish[-1] == "tool_calls" and set(finish[:-1]) == {None}


def test_choices():
    r = chat(tool_choice="none")
    assert not r.choices[0].message.tool_calls and r.choices[0].finish_reason == "stop"
    assert "<tool_call>" in r.choices[0].message.content
    one = chat(parallel_tool_calls=False).choices[0].message.tool_calls
    assert len(one) == 1
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        assert refusal(openai.BadRequestError, chat, tool_choice=choice).param == "tool_choice"
    assert refusal(openai.BadRequestError, respond, tool_choice="required").param == "tool_choice"
    for choice in ({"type": "any"}, {"type": "tool", "name": "weather"}):
        assert "tool_choice" in refusal(anthropic.BadRequestError, message,
                                        tool_choice=choice).message
    single = message(tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert len([b for b in single.content if b.type == "tool_use"]) == 1
    r = message(tool_choice={"type": "none"})
    assert [b.type for b in r.content] == ["thinking", "text"] and r.stop_reason == "end_turn"
    r = respond(tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [
        {"type": "function", "name": "other"}]})
    assert [i.type for i in r.output] == ["reasoning", "message"]


def check_response(r):
    assert r.status == "completed", r
    assert [i.type for i in r.output] == ["reasoning", "message", "function_call", "function_call"]
    assert r.output[0].content[0].text == "Where is it?" and r.output_text == "Let me look."
    assert [json.loads(i.arguments) for i in r.output[2:]] == ARGUMENTS
    assert len({i.id for i in r.output}) == 4 and len({i.call_id for i in r.output[2:]}) == 2
    assert r.usage.output_tokens_details.reasoning_tokens > 0


def test_responses():
    r = respond()
    check_response(r)
    check_response(CHAT.responses.retrieve(r.id))


def test_responses_streamed():
    with CHAT.responses.stream(model="m", input=ASK,
                               tools=[dict(TOOL, type="function", strict=False)]) as stream:
        events = list(stream)
        check_response(stream.get_final_response())
    assert [e.sequence_number for e in events] == list(range(len(events)))
    added = [e for e in events if e.type == "response.output_item.added"]
    assert [e.output_index for e in added] == [0, 1, 2, 3]
    for e in events:
        if hasattr(e, "item_id"):
            assert e.item_id == added[e.output_index].item.id, e
    done = [e for e in events if e.type == "response.function_call_arguments.done"]
    for i, e in enumerate(done):
        assert json.loads(e.arguments) == ARGUMENTS[i]
        assert e.arguments == "".join(
            d.delta for d in events if d.type == "response.function_call_arguments.delta"
            and d.output_index == e.output_index)


def results_of(response):
    return [{"type": "function_call_output", "call_id": i.call_id, "output": "sunny"}
            for i in response.output if i.type == "function_call"]


def test_response_results():
    first = respond()
    outputs = results_of(first)
    second = respond(previous_response_id=first.id, input=outputs)
    whole = respond(input=ASK + [i.model_dump(exclude_none=True) for i in first.output] + outputs)
    assert second.usage.input_tokens == whole.usage.input_tokens > first.usage.input_tokens
    sealed = respond(store=False, include=["reasoning.encrypted_content"])
    back = [i.model_dump(exclude_none=True) for i in sealed.output]
    del back[0]["content"]
    again = respond(input=ASK + back + results_of(sealed))
    assert again.usage.input_tokens == whole.usage.input_tokens
    e = refusal(openai.BadRequestError, respond, input=ASK + outputs)
    assert e.param == "input" and outputs[0]["call_id"] in e.message
    summary = respond(reasoning={"summary": "auto"}).output[0]
    assert summary.summary[0].text == "Where is it?" and not summary.content


def check_message(m):
    assert [b.type for b in m.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert m.content[0].thinking == "Where is it?" and m.content[0].signature
    assert m.content[1].text == "Let me look."
    assert [b.input for b in m.content[2:]] == ARGUMENTS
    assert all(b.id.startswith("toolu_") and b.name == "weather" for b in m.content[2:])
    assert m.stop_reason == "tool_use" and m.stop_sequence is None


def test_messages():
    check_message(message())


def test_messages_streamed():
    with MESSAGES.messages.stream(model="m", messages=ASK, max_tokens=400, tools=[
            {"name": "weather", "input_schema": SCHEMA}]) as stream:
        events = [e for e in stream if e.type in (
            "message_start", "content_block_start", "content_block_delta", "content_block_stop",
            "message_delta", "message_stop")]
        check_message(stream.get_final_message())
    indices = [e.index for e in events if hasattr(e, "index")]
    assert indices == sorted(indices) and set(indices) == {0, 1, 2, 3}


def test_message_results():
    first = message()
    results = [{"type": "tool_result", "tool_use_id": b.id, "content": "sunny"}
               for b in first.content if b.type == "tool_use"]
    turns = ASK + [{"role": "assistant", "content": first.content},
                   {"role": "user", "content": results + [{"type": "text", "text": "Well?"}]}]
    second = message(messages=turns)
    count = MESSAGES.messages.count_tokens(model="m", messages=turns, tools=[
        {"name": "weather", "description": "tells it", "input_schema": SCHEMA}]).input_tokens
    usage = second.usage
    assert usage.input_tokens + usage.cache_read_input_tokens == count
    plain = [dict(m) for m in ASK]
    plain.append({"role": "assistant", "content": "Let me look.", "reasoning_content":
                  "Where is it?", "tool_calls": [
                      {"id": b.id, "type": "function", "function": {
                          "name": b.name, "arguments": json.dumps(b.input)}}
                      for b in first.content if b.type == "tool_use"]})
    plain += [{"role": "tool", "tool_call_id": r["tool_use_id"], "content": "sunny"}
              for r in results] + [{"role": "user", "content": "Well?"}]
    assert chat(messages=plain).usage.prompt_tokens == count, "all protocols say the same"


def test_thinking_is_left_out():
    m = message(thinking={"type": "enabled", "budget_tokens": 1024, "display": "omitted"},
                max_tokens=2000)
    assert m.content[0].type == "thinking" and m.content[0].thinking == ""


if __name__ == "__main__":
    with Scripted(OUTPUT) as SERVER:
        BASE = f"http://127.0.0.1:{SERVER.port}"
        CHAT = openai.OpenAI(base_url=BASE + "/v1", api_key="none", max_retries=0)
        MESSAGES = anthropic.Anthropic(base_url=BASE, api_key="none", max_retries=0)
        run_tests(sys.modules[__name__])
