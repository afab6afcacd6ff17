# SPDX-License-Identifier: MIT OR Apache-2.0
"""A broker whose worker plays a text: what the server makes of a model's output, without a model.

The text may hold special tokens of the tiny model ("<|end|>" ends a turn). Every sequence gets it
from its beginning.
"""

import json
import os
import shutil
import tempfile
import time

from server import Broker, tiny_model

TEMPLATE = """{{ bos_token }}{% if tools %}<|system|>{% for t in tools %}{{ t | tojson }}
{% endfor %}Call them as <tool_call>{"name": ..., "arguments": ...}</tool_call><|end|>{% endif %}
{%- for m in messages %}<|{{ 'user' if m.role == 'tool' else m.role }}|>
{%- if m.role == 'tool' %}<tool_response>{{ m.content }}</tool_response>
{%- else %}{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}
{{- m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>{"name": "
{{- c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}
{%- endif %}<|end|>{% endfor %}
{%- if add_generation_prompt %}<|assistant|>{% if enable_thinking is defined and not enable_thinking
%}<think></think>{% endif %}{% endif %}"""


def roomy_model(folder):
    """The tiny model with a context that has room for tools; nobody computes with it."""
    path = os.path.join(tiny_model(folder), "config.json")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    config["max_position_embeddings"] = 4096
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f)
    return folder


class Scripted(Broker):
    """Use it as Server; text is the model's whole output."""

    def __init__(self, text, *flags, delay_us=0):
        self.scratch = tempfile.mkdtemp(prefix="metrale-test-")
        template = os.path.join(self.scratch, "template.jinja")
        with open(template, "w", encoding="utf-8") as f:
            f.write(TEMPLATE)
        super().__init__("--chat-template", template, *flags, wait=False,
                         model=roomy_model(os.path.join(self.scratch, "tiny")))
        try:
            self.play(text, delay_us)
        except BaseException:
            self.stop()
            raise

    def play(self, text, delay_us):
        end = time.monotonic() + 30
        while True:
            try:
                ids = self.post("/tokenize", {"prompt": text, "parse_special": True,
                                              "add_special_tokens": False}).json()["tokens"]
                break
            except OSError:
                assert time.monotonic() < end and self.alive(), self.log()
                time.sleep(0.02)
        path = os.path.join(self.scratch, "tokens")
        with open(path, "w", encoding="utf-8") as f:
            f.write(" ".join(map(str, ids)))
        self.start_worker("--vocab", "512", "--tokens", path, "--delay-us", str(delay_us),
                          program="tests/support/scripted-worker")
        self.wait_ready()

    def stop(self):
        super().stop()
        shutil.rmtree(self.scratch, ignore_errors=True)
