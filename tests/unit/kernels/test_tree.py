#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kernel tree: which layer's file wins, what is refused, and what a closure hash depends on."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("MTR_SOURCE_ROOT", Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(ROOT / "scripts"))
from tables.base import Mistake, Sources  # noqa: E402: the path had to be set
from tables.tree import Tree, closure, closure_hash  # noqa: E402

BASE = {
    "host/HARDWARE.toml": 'name = "host"\nvendor = "cpu"\narch = "any"\n',
    "gb10/HARDWARE.toml": 'name = "gb10"\nvendor = "nvidia"\narch = "sm_121f"\n'
                          'ptx = "compute_90"\n',
    "gb10/common/linear.cu": '#include "kernels/args/linear.h"\nmma\n',
    "gb10/common/embed.cu": "embed\n",
    "hopper/HARDWARE.toml": 'name = "hopper"\nparent = "gb10"\narch = "sm_90a"\n',
    "args/linear.h": '#include "kernels/args/step.h"\n#include <stdint.h>\n',
    "args/step.h": "step\n",
}
WGMMA = {
    "hopper/common/linear.cu": "wgmma\n",
    "hopper/common/KERNEL.toml": '[shadow]\n"linear.cu" = "twice the rate of mma"\n',
}
LEAF = {
    "gb10/big/MODEL.toml": "",
    "gb10/big/nvfp4/linear.cu": "fp4\n",
    "gb10/big/nvfp4/KERNEL.toml": '[shadow]\n"linear.cu" = "reads fp4 in place"\n'
                                  '[build]\nflags = ["-DFP4"]\n',
}


class TreeTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name).resolve()

    def write(self, *layers):
        for name, text in {k: v for files in layers for k, v in files.items()}.items():
            path = self.root / "kernels" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def tree(self, *layers):
        self.write(BASE, *layers)
        return Tree(Sources(self.root), self.root)

    def modules(self, tree):
        """{target: {module: folder of its source}}"""
        kernels = self.root / "kernels"
        return {t.name(): {m: str(path.parent.relative_to(kernels))
                           for m, (path, _) in t.modules.items()} for t in tree.targets}

    def refused(self, words, *layers):
        with self.assertRaisesRegex(Mistake, words):
            self.tree(*layers)

    def test_a_class_inherits_what_it_does_not_have(self):
        found = self.modules(self.tree())
        self.assertEqual(found["hopper/*/*"], {"linear": "gb10/common", "embed": "gb10/common"})
        self.assertNotIn("host/*/*", found)

    def test_a_declared_shadow_wins(self):
        found = self.modules(self.tree(WGMMA))
        self.assertEqual(found["hopper/*/*"], {"linear": "hopper/common", "embed": "gb10/common"})
        self.assertEqual(found["gb10/*/*"]["linear"], "gb10/common")

    def test_a_leaf_is_inherited_too_and_a_class_s_own_tier_wins_over_it(self):
        found = self.modules(self.tree(LEAF))
        self.assertEqual(found["hopper/big/nvfp4"]["linear"], "gb10/big/nvfp4")
        found = self.modules(self.tree(LEAF, WGMMA))
        self.assertEqual(found["hopper/big/nvfp4"]["linear"], "hopper/common")
        self.assertEqual(found["gb10/big/nvfp4"],
                         {"linear": "gb10/big/nvfp4", "embed": "gb10/common"})

    def test_flags_are_those_of_the_folder_of_the_source(self):
        targets = {t.name(): t for t in self.tree(LEAF).targets}
        self.assertEqual(targets["gb10/big/nvfp4"].modules["linear"][1], ["-DFP4"])
        self.assertEqual(targets["gb10/big/nvfp4"].modules["embed"][1], [])

    def test_what_is_refused(self):
        cases = [
            ("declare it", WGMMA, {"hopper/common/KERNEL.toml": ""}),
            ("has no reason", WGMMA,
             {"hopper/common/KERNEL.toml": '[shadow]\n"linear.cu" = ""\n'}),
            ("hides nothing", {"hopper/common/KERNEL.toml": WGMMA["hopper/common/KERNEL.toml"],
                               "hopper/common/new.cu": "new\n"}),
            ("the same as what it hides", WGMMA,
             {"hopper/common/linear.cu": BASE["gb10/common/linear.cu"]}),
            ("unknown entry shadows", {"gb10/common/KERNEL.toml": "[shadows]\n"}),
            ("has a MODEL.toml", {"gb10/small/q4/linear.cu": "x\n"}),
            ("its own ancestor", {"hopper/HARDWARE.toml": 'name = "hopper"\nparent = "hopper"\n'}),
            ("no class", {"hopper/HARDWARE.toml": 'name = "hopper"\nparent = "b300"\n'}),
        ]
        for words, *layers in cases:
            with self.subTest(words), tempfile.TemporaryDirectory() as folder:
                self.root = Path(folder).resolve()
                self.refused(words, *layers)

    def test_filters(self):
        tree = self.tree(LEAF)
        names = lambda *f: [t.name() for t in tree.chosen(*f)]
        self.assertEqual(names("hopper", "*", "*"), ["hopper/*/*", "hopper/big/nvfp4"])
        self.assertEqual(names("hopper,gb10", "small", "*"), ["gb10/*/*", "hopper/*/*"])
        with self.assertRaisesRegex(Mistake, "no class b200; there are gb10, hopper"):
            names("b200", "*", "*")

    def test_the_closure_follows_quoted_includes(self):
        self.tree()
        source = self.root / "kernels/gb10/common/linear.cu"
        found = [str(p.relative_to(self.root)) for p in closure(self.root, source)]
        self.assertEqual(found, ["kernels/gb10/common/linear.cu", "kernels/args/linear.h",
                                 "kernels/args/step.h"])
        source.write_text('#include "gone.h"\n')
        with self.assertRaisesRegex(Mistake, "no gone.h to include"):
            closure(self.root, source)

    def test_the_hash_changes_with_all_that_decides_the_code_and_nothing_else(self):
        self.tree()
        source = self.root / "kernels/gb10/common/linear.cu"
        first = closure_hash(self.root, source, ["-O3"], "nvcc 13")
        self.assertNotEqual(first, closure_hash(self.root, source, ["-O2"], "nvcc 13"))
        self.assertNotEqual(first, closure_hash(self.root, source, ["-O3"], "nvcc 14"))
        self.write({"gb10/common/embed.cu": "other\n"})
        self.assertEqual(first, closure_hash(self.root, source, ["-O3"], "nvcc 13"))
        self.write({"args/step.h": "other\n"})
        self.assertNotEqual(first, closure_hash(self.root, source, ["-O3"], "nvcc 13"))


if __name__ == "__main__":
    unittest.main()
