# SPDX-License-Identifier: MIT OR Apache-2.0
"""A checkpoint that can't be served is refused before the server is healthy, saying why."""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from server import Server, free_port, metralectl, run_tests, tiny_model

LIMIT_S = 20


def refused(change, *words):
    """Serves a changed copy of the tiny model; it must end by itself, naming what is wrong."""
    folder = tempfile.mkdtemp(prefix="metrale-test-")
    try:
        model = tiny_model(os.path.join(folder, "tiny"))
        change(model)
        start = time.monotonic()
        r = subprocess.run([metralectl(), "serve", model, "--port", str(free_port()),
                            "--run-dir", os.path.join(folder, "run")], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert r.returncode not in (0, -11, 139), (r.returncode, r.stderr)
        for word in words:
            assert word in r.stderr, f"'{word}' is not in: {r.stderr}"
        assert time.monotonic() - start < LIMIT_S
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def edit_config(model, **changes):
    path = os.path.join(model, "config.json")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    for key, value in changes.items():
        if value is None:
            config.pop(key, None)
        else:
            config[key] = value
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f)


def edit_tensors(model, edit):
    """Changes the tensors {name: (entry, bytes)} and writes the file anew, without gaps."""
    path = os.path.join(model, "model.safetensors")
    with open(path, "rb") as f:
        raw = f.read()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    data = raw[8 + size:]
    metadata = header.pop("__metadata__", None)
    tensors = {name: (entry, data[slice(*entry["data_offsets"])])
               for name, entry in header.items()}
    edit(tensors)
    header, out = {"__metadata__": metadata} if metadata else {}, b""
    for name, (entry, content) in tensors.items():
        header[name] = dict(entry, data_offsets=[len(out), len(out) + len(content)])
        out += content
    new = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(new)) + new + out)


def test_truncated():
    def cut(model):
        path = os.path.join(model, "model.safetensors")
        os.truncate(path, os.path.getsize(path) - 100)

    refused(cut, "model.safetensors")


def test_header_overflow():
    def overflow(model):
        with open(os.path.join(model, "model.safetensors"), "r+b") as f:
            f.write(struct.pack("<Q", 2**63))

    refused(overflow, "model.safetensors")


def test_tensor_missing():
    refused(lambda m: edit_tensors(m, lambda t: t.pop("model.layers.2.mlp.up_proj.weight")),
            "model.layers.2.mlp.up_proj.weight")


def test_tensor_misshaped():
    def transpose(tensors):
        tensors["model.layers.1.mlp.down_proj.weight"][0]["shape"].reverse()

    refused(lambda m: edit_tensors(m, transpose), "model.layers.1.mlp.down_proj.weight")


def test_tensor_renamed():
    def rename(tensors):
        tensors["model.layers.0.self_attn.k_proj.weights"] = tensors.pop(
            "model.layers.0.self_attn.k_proj.weight")

    refused(lambda m: edit_tensors(m, rename), "k_proj.weight")


def test_unknown_config_key():
    refused(lambda m: edit_config(m, attention_flavour="new"), "attention_flavour")


def test_unknown_architecture():
    refused(lambda m: edit_config(m, model_type="unheard_of", architectures=["Unheard"]),
            "unheard_of")


def test_impossible_numbers():
    refused(lambda m: edit_config(m, num_hidden_layers=-1), "num_hidden_layers")
    refused(lambda m: edit_config(m, hidden_size=2**62), "hidden_size")
    refused(lambda m: edit_config(m, num_attention_heads=0), "num_attention_heads")


def test_no_tokenizer():
    refused(lambda m: os.unlink(os.path.join(m, "tokenizer.json")), "tokenizer.json")


def test_dummies_need_no_tensors():
    """The same text for the same seed, whether or not there are tensors."""
    folder = tempfile.mkdtemp(prefix="metrale-test-")
    try:
        whole = tiny_model(os.path.join(folder, "whole"))
        bare = tiny_model(os.path.join(folder, "bare"))
        os.unlink(os.path.join(bare, "model.safetensors"))
        texts = []
        for model, seed in ((whole, "3"), (bare, "3"), (bare, "4")):
            with Server("--load-format", "dummy", "--dummy-seed", seed, model=model) as s:
                reply = s.post("/v1/completions", {"prompt": "One two", "max_tokens": 24,
                                                   "temperature": 0, "ignore_eos": True})
                assert reply.status == 200, (reply.status, reply.body)
                texts.append(reply.json()["choices"][0]["text"])
        assert texts[0] == texts[1] != texts[2], texts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_no_tensors():
    refused(lambda m: os.unlink(os.path.join(m, "model.safetensors")), "tensor")


def test_a_template_that_does_not_compile():
    def template(model):
        with open(os.path.join(model, "chat_template.jinja"), "w", encoding="utf-8") as f:
            f.write("{% for m in messages %}")

    refused(template, "chat template")


def test_no_such_model():
    r = subprocess.run([metralectl(), "serve", "/no/such/model", "--port",
                        str(free_port())], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=LIMIT_S, check=False)
    assert r.returncode != 0 and "/no/such/model" in r.stderr, r.stderr


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
