#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compiling the kernel tree, with a compiler that only writes down what it is asked."""

import contextlib
import io
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("MTR_SOURCE_ROOT", Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(ROOT / "scripts"))
from gen_kernels import main  # noqa: E402: the path had to be set

# Each call is a line of ../calls; a source that says "wrong" is one.
NVCC = """#!/usr/bin/env python3
import sys
if "--version" in sys.argv:
    print("nvcc\\nrelease 13.0\\nbuild 1")
    sys.exit(0)
source, target = next(a for a in sys.argv if a.endswith(".cu")), sys.argv[-1]
with open("calls", "a") as f:
    print(" ".join(sys.argv[1:]), file=f)
text = open(source).read()
if "wrong" in text:
    sys.exit(f"{source}(1): error: it is wrong")
with open(target, "w") as f:
    f.write(".visible .entry add(\\n" if "-ptx" in sys.argv else "an image of " + text)
print("ptxas info    : Compiling entry function 'add' for 'sm_90a'\\n"
      "    0 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\\n"
      "ptxas info    : Used 33 registers, used 1 barriers, 128 bytes smem", file=sys.stderr)
"""

TREE = {
    "kernels/gb10/HARDWARE.toml": 'name = "gb10"\nvendor = "nvidia"\narch = "sm_121f"\n'
                                  'ptx = "compute_90"\n',
    "kernels/gb10/common/add.cu": '#include "kernels/args/add.h"\n',
    "kernels/hopper/HARDWARE.toml": 'name = "hopper"\nparent = "gb10"\narch = "sm_90a"\n',
    "kernels/args/add.h": "struct args;\n",
}


class GenerateKernels(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.out = self.root / "out"
        self.out.mkdir()
        for name, text in {**TREE, "nvcc": NVCC}.items():
            self.write(name, text)
        (self.root / "nvcc").chmod(0o755)
        before = dict(os.environ)
        os.environ["METRALE_KERNEL_CACHE"] = str(self.root / "cache")
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run_it(self, *more, nvcc=True):
        """The exit status, and the compiler's calls of this run."""
        calls = self.root / "calls"
        calls.unlink(missing_ok=True)
        words = ["gen_kernels.py", "--root", str(self.root), "--out", str(self.out), *more]
        words += ["--nvcc", str(self.root / "nvcc")] if nvcc else []
        self.said = io.StringIO()
        with contextlib.redirect_stderr(self.said), contextlib.redirect_stdout(io.StringIO()):
            status = main(words)
        return status, calls.read_text().splitlines() if calls.exists() else []

    def table(self):
        return (self.out / "kernel_table.c").read_text()

    def test_a_source_is_compiled_once_for_each_architecture(self):
        status, calls = self.run_it()
        self.assertEqual(status, 0)
        codes = sorted(re.search(r",code=(\w+)", c).group(1) for c in calls)
        self.assertEqual(codes, ["compute_90", "sm_121f", "sm_90a"])
        self.assertEqual(self.run_it(), (0, []))  # all are in the cache

    def test_what_is_included_counts_and_nothing_else(self):
        self.run_it()
        self.write("kernels/gb10/notes.txt", "more")
        self.assertEqual(self.run_it()[1], [])
        self.write("kernels/args/add.h", "struct other;\n")
        self.assertEqual(len(self.run_it()[1]), 3)

    def test_a_leaf_shares_what_it_does_not_hide(self):
        self.write("kernels/gb10/big/MODEL.toml", "")
        self.write("kernels/gb10/big/q4_0/sub.cu", "sub\n")
        _, calls = self.run_it("--hw", "gb10")
        self.assertEqual(len(calls), 4)  # add and sub, as cubin and PTX
        self.assertIn('{"gb10", "big", "q4_0", "sm_121f"', self.table())
        self.assertEqual(self.table().count('"kernels/gb10/common/add.cu", "sm_121f"'), 1)

    def test_the_table_has_what_ptxas_said(self):
        self.run_it()
        self.assertIn('{"add", 33, 128, 8}', self.table())
        self.assertIn('{"add", 0, 0, 0}', self.table())  # PTX
        self.assertIn(".incbin", (self.out / "kernel_images.S").read_text())

    def test_filters_compile_less(self):
        _, calls = self.run_it("--hw", "hopper")
        self.assertEqual([c for c in calls if "sm_90a" not in c], [])
        self.assertEqual(self.run_it("--hw", "b300")[0], 1)
        self.assertIn("there is no class b300", self.said.getvalue())

    def test_a_source_that_is_wrong_stops_the_build(self):
        self.write("kernels/gb10/common/add.cu", "wrong\n")
        self.assertEqual(self.run_it()[0], 1)
        self.assertIn("add.cu(1): error: it is wrong", self.said.getvalue())
        self.write("kernels/gb10/common/add.cu", "right\n")
        self.assertEqual(self.run_it()[0], 0)

    def test_without_a_compiler_there_are_none(self):
        self.assertEqual(self.run_it(nvcc=False), (0, []))
        self.assertIn("*count = 0;", self.table())
        self.assertNotIn(".incbin", (self.out / "kernel_images.S").read_text())

    def test_the_depfile_names_sources_and_folders(self):
        self.run_it("--depfile", str(self.out / "d"))
        named = (self.out / "d").read_text()
        for name in ("kernels/gb10/common/add.cu", "kernels/args/add.h", "kernels/hopper ",
                     "kernels/hopper/HARDWARE.toml"):
            self.assertIn(str(self.root / name), named + " ")


if __name__ == "__main__":
    unittest.main()
