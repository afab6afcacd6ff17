#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The kernel laboratory where there is no GPU: reading, judging and showing recorded lines."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path

ROOT = Path(os.environ.get("MTR_SOURCE_ROOT", Path(__file__).resolve().parents[3]))
PROGRAM = ROOT / "tests" / "perf" / "kernels"
sys.dont_write_bytecode = True  # the program has no suffix; its copy would lie beside it
LOADER = importlib.machinery.SourceFileLoader("laboratory", str(PROGRAM))
SPEC = importlib.util.spec_from_loader("laboratory", LOADER)
lab = importlib.util.module_from_spec(SPEC)
LOADER.exec_module(lab)

# As kernel-check --class hopper --time wrote them on an H200.
LINES = """\
{"kernel":"embed_q4_0","case":"rows 1 at 1023, cols 4096, n 32768","us":1.61,"gb_per_s":10,\
"tflop_per_s":0.0,"bytes":16384,"operations":0,"launches":40}
{"kernel":"linear_bf16","case":"rows 8192 at 0, cols 4096, n 12288+12288, glu, activation 1",\
"us":2691.27,"gb_per_s":248,"tflop_per_s":612.8,"bytes":671088640,"operations":1649267441664,\
"launches":3}
{"kernel":"rms_norm","case":"rows 64 at 1023, cols 4096, residual","us":3.11,"gb_per_s":674,\
"tflop_per_s":0.0,"bytes":2097152,"operations":0,"launches":40}
{"kernel":"attention_bf16","case":"rows 8 at 8191, sequences 8, heads 32/8 of 128","us":188.59,\
"gb_per_s":1424,"tflop_per_s":5.7,"bytes":268566528,"operations":1073741824,"launches":40}
"""
CEILINGS = {"copy_bytes_per_s": 4.2e12, "matrix_ops_per_s": 735e12}


def rows():
    return lab.read_times(LINES)


class Cases(unittest.TestCase):
    def test_reads_what_kernel_check_writes(self):
        embed, linear, norm, attention = (r["shape"] for r in rows())
        self.assertEqual((embed["rows"], embed["start"], embed["n"]), (1, 1023, [32768]))
        self.assertEqual((linear["n"], linear["epilogue"], linear["activation"]),
                         ([12288, 12288], "glu", 1))
        self.assertEqual((norm["cols"], norm["words"]), (4096, ["residual"]))
        self.assertEqual([attention[k] for k in ("sequences", "heads", "kv_heads", "head_dim")],
                         [8, 32, 8, 128])

    def test_leaves_what_it_does_not_know(self):
        for text in ("rows 8 at 0, cols 64, sinks", "cols 64", "rows 8 at 0, window 100",
                     "rows 8 at 0, cols 64, 0.5"):
            self.assertIsNone(lab.parse_case(text), text)

    def test_counts_sets_as_kernel_check_does(self):
        self.assertEqual([lab.set_count({"bytes": b}) for b in (0, 1e4, 5e7, 2.5e8, 1e9)],
                         [1, 16, 6, 2, 1])


class Judging(unittest.TestCase):
    def setUp(self):
        self.rows = rows()
        for row, eager, graph in zip(self.rows, (None, 2437.99, 19.04, 68.64),
                                     (None, 2268.87, 2.61, None)):
            if eager:
                row.update(eager_us=eager, graph_us=graph, graph_way="some way")
            lab.judge(row, CEILINGS)

    def test_takes_the_nearer_ceiling(self):
        self.assertEqual([r["bound"] for r in self.rows],
                         ["memory", "matrix", "memory", "memory"])
        self.assertAlmostEqual(self.rows[1]["of_ceiling"], 1649267441664 / 735e6 / 2691.27)
        self.assertAlmostEqual(self.rows[3]["of_ceiling"], 268566528 / 4.2e6 / 188.59)

    def test_ratios_above_one_are_ours(self):
        self.assertAlmostEqual(self.rows[2]["eager_ratio"], 19.04 / 3.11)
        self.assertAlmostEqual(self.rows[2]["graph_ratio"], 2.61 / 3.11)
        self.assertIsNone(self.rows[0]["eager_ratio"])
        self.assertIsNone(self.rows[3]["graph_ratio"])

    def test_table_has_a_line_each(self):
        lines = lab.table(self.rows).splitlines()
        self.assertEqual(len(lines), 2 + len(self.rows))
        self.assertEqual({line.count("|") for line in lines}, {11})
        self.assertIn("| 613 TFLOP/s | 83% | 2437.99 | 0.91 | 2268.87 | 0.84 | some way |",
                      lines[3])
        self.assertIn("| 1.61 | 10 GB/s | 0% | – | – | – | – | – |", lines[2])

    def test_summary_tells_losses(self):
        text = lab.summary(self.rows)
        self.assertIn("ahead of PyTorch eager in 1 of 3", text)
        self.assertIn("ahead of the best in a graph in 0 of 2", text)
        self.assertIn("rms_norm, rows 64 at 1023, cols 4096, residual: 0.84", text)
        self.assertIn("attention_bf16, rows 8 at 8191, sequences 8, heads 32/8 of 128: 0.36", text)
        self.assertNotIn("0.91", text)  # within a tenth


class Rivals(unittest.TestCase):
    class Clock:
        """Every function says how long it takes."""

        def eager(self, function, _, __):
            return function()

        def graph(self, function, _, __):
            return function()

    def times(self, ways, left=1):
        def compile_way(way):
            return (lambda: 2.0) if left else None
        with contextlib.redirect_stderr(io.StringIO()) as said:
            found = lab.rival_times(self.Clock(), types.SimpleNamespace(compile=compile_way), ways,
                                    40)
        return found, said.getvalue()

    def test_first_way_is_eager_and_the_best_is_in_a_graph(self):
        ways = [lab.Way("plain", lambda: 9.0, []), lab.Way("other", lambda: 5.0, [], True)]
        self.assertEqual(self.times(ways)[0],
                         {"eager_us": 9.0, "graph_us": 2.0, "graph_way": "other, compiled"})
        self.assertEqual(self.times(ways, 0)[0],
                         {"eager_us": 9.0, "graph_us": 5.0, "graph_way": "other"})

    def test_refused_ways_are_told(self):
        def refuse():
            raise RuntimeError("no such kernel\nand more")
        found, said = self.times([lab.Way("plain", lambda: 9.0, []), lab.Way("odd", refuse, [])])
        self.assertEqual(found["graph_us"], 9.0)
        self.assertEqual(said, "kernels: odd: no such kernel\n")

    def test_formats_that_pytorch_lacks_have_none(self):
        torch = types.SimpleNamespace(nn=types.SimpleNamespace(functional=None))
        self.assertEqual(lab.Rivals(torch).ways(rows()[0]), [])


class Programs(unittest.TestCase):
    """The exit status, beside a PyTorch and a kernel-check that are scripts."""

    def run_with(self, torch, check="exit 0"):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "torch").mkdir()
            (root / "torch" / "__init__.py").write_text(torch)
            (root / "torch" / "nn").mkdir()
            (root / "torch" / "nn" / "__init__.py").write_text("")
            (root / "torch" / "nn" / "attention.py").write_text("")
            program = root / "kernel-check"
            program.write_text(f"#!/bin/sh\necho \"$@\" >&2\n{check}\n")
            program.chmod(0o755)
            return subprocess.run([sys.executable, PROGRAM, "--kernel-check", program, "--only",
                                   "glu"], env={**os.environ, "PYTHONPATH": folder},
                                  capture_output=True, text=True, timeout=60, check=False)

    DEVICE = ("class cuda:\n    is_available = lambda: True\n"
              "    get_device_capability = lambda: (9, 0)\n")

    def test_skips_without_torch_or_device(self):
        done = self.run_with("raise ImportError\n")
        self.assertEqual(done.returncode, 77, done)
        self.assertEqual(done.stderr, "kernels: there is no PyTorch here\n")
        done = self.run_with("class cuda:\n    is_available = lambda: False\n")
        self.assertEqual(done.returncode, 77, done)
        self.assertIn("no CUDA device", done.stderr)
        done = self.run_with(self.DEVICE, "exit 77")
        self.assertEqual(done.returncode, 77, done)

    def test_fails_where_kernel_check_fails(self):
        done = self.run_with(self.DEVICE, "exit 2")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("--class hopper --time --only glu", done.stderr)
        self.assertIn("ended with 2", done.stderr)



if __name__ == "__main__":
    unittest.main()
