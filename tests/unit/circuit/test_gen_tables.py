#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table generator: every kind of mistake in the TOML files is found and named.

Each case changes one file of a copy of the sources and expects words of the message.
"""

import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("MTR_SOURCE_ROOT", Path(__file__).resolve().parents[3]))
NEEDED = ("common/circuit", "common/numeric", "kernels")
sys.path.insert(0, str(ROOT / "scripts"))
from gen_tables import Mistake, generate, main  # noqa: E402: the path had to be set

ATTENTION = "kernels/circuits/blocks/attention.toml"
LLAMA = "kernels/circuits/llama.toml"
MAP = "kernels/circuits/llama.config.toml"
FUSIONS = "kernels/host/common/FUSIONS.toml"
SMOL = "kernels/gb10/smollm2-135m/MODEL.toml"
QWEN = "kernels/gb10/qwen3-8b/MODEL.toml"
POINTS = "kernels/host/common/KERNEL_FAMILIES.toml"

MISTAKES = [
    (ATTENTION, 'q = "tokens heads*head_dim"', 'q = "tokens heads*"', "is no expression"),
    (ATTENTION, 'q = "tokens heads*head_dim"', 'q = "rows heads"', "is not 'rows columns"),
    (ATTENTION, 'q = "tokens heads*head_dim"', 'q = "tokens heads e9m9"', "e9m9 is no format"),
    (ATTENTION, "attn_norm = norm h -> x", "attn_norm = norm z -> x", "z is read before written"),
    (ATTENTION, "attn_norm = norm h -> x", "attn_norm = nrm h -> x", "nrm is no operation"),
    (ATTENTION, "attn_norm = norm h -> x", "attn_norm norm h -> x", "is no node"),
    (ATTENTION, "norm h -> x; eps = norm_eps", "norm h -> x", "parameter eps is missing"),
    (ATTENTION, "norm h -> x; eps", "norm h -> x; colour = 3; eps", "unknown entry colour"),
    (ATTENTION, "attn_o = linear(o)", "attn_o = linear", "a linear has a role"),
    (ATTENTION, "attn_o = linear(o) a -> o", "att_o = linear(o) a -> o", "weight is not bound"),
    (ATTENTION, "attn_add = add h o -> h", "attn_add = add h -> h", "1 edges where"),
    (ATTENTION, "cache = full; heads", "cache = half; heads", "there is no cache half"),
    (ATTENTION, 'full = { kind = "full"', 'full = { kind = "round"', "round is no kind of cache"),
    (LLAMA, 'blocks = ["attention", "mlp"]', 'blocks = ["attention", "mpl"]', "no block mpl"),
    (LLAMA, 'logits = "logits"', 'logits = "loggits"', "nothing writes loggits"),
    (LLAMA, 'title = "', 'titel = "', "title is missing"),
    (MAP, 'head_dim = { dim = "head_dim", max = 4096 }', 'head_dim = { max = 3 }', "has no class"),
    (MAP, 'head_dim = { dim = "head_dim", max = 4096 }', 'head_dim = { dim = "a" }', "has no max"),
    (MAP, '"full_attention" }, missing', '"half" }, missing', "half is unknown"),
    (MAP, 'circuit = "llama"', 'circuit = "alpaca"', "there is no circuit alpaca"),
    (MAP, 'types = ["llama", "mistral"]', 'types = ["llama", "qwen2"]', "claim one model_type"),
    ("kernels/circuits/families.toml", "phi3 =", "llama =", "llama has a circuit"),
    (FUSIONS, 'tag = "reference"', 'tag = "same"', "same is no tag"),
    (FUSIONS, 'proof = "kernels/linear"\n', "", "name the test that proves it"),
    (FUSIONS, 'kernel = "embed.embed"', 'kernel = "embed.embd"', "no kernel embed.embd"),
    (FUSIONS, 'weights = ["e.weight"]', 'weights = ["e.wait"]', "e.wait: no such slot"),
    (FUSIONS, 'match = ["e = embed -> y"]', 'match = ["e = embed y"]', "is no pattern"),
    (FUSIONS, 'match = ["e = embed -> y"]', 'match = ["e = embed -> z"]', "no edge y"),
    (FUSIONS, '"EPILOGUE_GLU"', '"EPILOGUE_GLOO"', "set epilogue = EPILOGUE_GLOO"),
    (POINTS, '"LINEAR_TILE_N"', '"LINEAR_TILE_M"', "no constant MTR_LINEAR_TILE_M"),
    (POINTS, '"q6_k"]', '"q9_k"]', "q9_k is no format"),
    (POINTS, '["group16"]', '["group9"]', "group9 is no scaling"),
    ("kernels/host/HARDWARE.toml", 'name = "host"', 'name = "hast"', "has another name"),
    ("kernels/gb10/HARDWARE.toml", 'fusions = "host"', 'fusions = "hast"', "no class hast"),
    ("kernels/gb10/HARDWARE.toml", 'fusions = "host"', 'fusions = "hopper"', "its own ancestor"),
    ("kernels/gb10/HARDWARE.toml", 'fusions = "host"', "", "FUSIONS.toml: no such file"),
    ("kernels/host/HARDWARE.toml", "max_batch_size", "max_batch", "max_batch_size is missing"),
    ("kernels/hopper/HARDWARE.toml", "max_batch_size", "max_batch", "unknown entry max_batch"),
    (SMOL, "hidden_size = 576", "hidden = 576", "unknown entry hidden"),
    (SMOL, "temperature = 0.2", "temperature = 20", "temperature = 20 is not in [0, 5]"),
    (SMOL, '"smollm2"', '"SmolLM2"', "names are in lower case"),
    (SMOL, "[[match]]", "[[mach]]", "match is missing"),
    (QWEN, "enable_thinking = true", "enable_thinking = 1", "is not true or false"),
    ("kernels/host/HARDWARE.toml", 'models = "gb10"', 'models = "gb9"', "there is no class gb9"),
    ("kernels/DEVICES.toml", 'title = "B200"', 'tittle = "B200"', "title is missing"),
    ("common/circuit/ir.c", '"norm", "x", "y", "weight", "eps', '"norm", "x", "y", "weight", "epsi',
     "unknown parameter epsi"),
]

CHILD = """# SPDX-License-Identifier: MIT OR Apache-2.0
name = "child"
parent = "host"
arch = "other"
"""


class GenerateTables(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        for part in NEEDED:
            shutil.copytree(ROOT / part, self.folder / part)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def refusal(self):
        """The message of the mistake; a failed test when there is none."""
        with self.assertRaises(Mistake) as caught:
            generate(self.folder)
        return str(caught.exception)

    def change(self, file, old, new):
        path = self.folder / file
        text = path.read_text()
        self.assertIn(old, text, f"{file} has changed: adapt this test")
        path.write_text(text.replace(old, new, 1))
        return text

    def test_mistakes_are_named(self):
        for file, old, new, words in MISTAKES:
            with self.subTest(file=file, new=new):
                before = self.change(file, old, new)
                message = self.refusal()
                (self.folder / file).write_text(before)
                self.assertIn(words, message)

    def test_same_input_same_bytes(self):
        command = ["gen_tables.py", self.folder, self.folder / "out.c", self.folder / "out.d"]
        self.assertEqual(main(command), 0)
        self.assertEqual((self.folder / "out.c").read_text(), generate(self.folder)[0])
        depends = (self.folder / "out.d").read_text()
        self.assertIn("blocks/attention.toml", depends)
        self.assertIn("kernels/circuits ", depends)

    def test_a_class_inherits(self):
        child = self.folder / "kernels/child"
        child.mkdir()
        (child / "HARDWARE.toml").write_text(CHILD)
        text, _ = generate(self.folder)
        self.assertRegex(text, r'\{"child", "cpu", "other", "host", MTR_F32')
        (child / "common").mkdir()
        (child / "common/FUSIONS.toml").write_text(
            '[[rule]]\nname = "qkv"\nremove = true\n\n[[rule]]\nname = "embed"\npriority = 99\n'
            'tag = "reference"\nmatch = ["e = embed -> y"]\nkernel = "embed.embed"\nout = ["y"]\n'
            'weights = ["e.weight"]\n')
        text, _ = generate(self.folder)
        self.assertEqual(text.count('{"qkv", 90'), 2)  # of the host and of gb10, not of the child
        self.assertIn('{"embed", 99, ', text)

    def test_a_class_takes_only_rules_that_it_has_kernels_for(self):
        text, _ = generate(self.folder)  # one table of the host class, one of the others
        self.assertEqual((text.count('{"qkv", 90'), text.count('{"gather", 10, ')), (2, 2))
        self.assertEqual(text.count('{"conv1d", 10, '), 1)
        self.change("kernels/gb10/common/KERNEL_FAMILIES.toml", '"gather"', '"scatter"')
        text, _ = generate(self.folder)
        self.assertEqual((text.count('{"qkv", 90'), text.count('{"gather", 10, ')), (2, 1))

    def test_ancestry_ends(self):
        child = self.folder / "kernels/child"
        child.mkdir()
        (child / "HARDWARE.toml").write_text(CHILD.replace('"host"', '"child"'))
        self.assertIn("its own ancestor", self.refusal())
        (child / "HARDWARE.toml").write_text(CHILD.replace('"host"', '"ghost"'))
        self.assertIn("there is no class ghost", self.refusal())


if __name__ == "__main__":
    unittest.main()
