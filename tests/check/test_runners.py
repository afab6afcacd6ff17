# SPDX-License-Identifier: MIT OR Apache-2.0
"""The runners' exit statuses where there is nothing to check: never success; what timing prints.

usage: test_runners.py TEMPLATE_CHECK TOKENIZER_CHECK GOLDEN_CHECK KERNEL_CHECK
"""

import json
import os
import subprocess
import sys
import tempfile

TEMPLATE_CHECK, TOKENIZER_CHECK, GOLDEN_CHECK, KERNEL_CHECK = sys.argv[1:5]
ROOT = os.environ["MTR_SOURCE_ROOT"]
TEMPLATES = os.path.join(ROOT, "tests", "data", "templates")


def run(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, check=False)


def fails(word, *command):
    r = run(*command)
    assert r.returncode == 2 and word in r.stdout + r.stderr, (command, r)


with tempfile.TemporaryDirectory() as empty:
    with open(os.path.join(empty, "cases.jsonl"), "w", encoding="utf-8"):
        pass
    absent = os.path.join(empty, "absent")

    assert run(TEMPLATE_CHECK, TEMPLATES).returncode == 0
    fails("no-such-case", TEMPLATE_CHECK, "--only", "no-such-case", TEMPLATES)
    fails("no-such-case", TEMPLATE_CHECK, "--only", "no-such-case", TEMPLATES, TEMPLATES)
    fails("holds no case", TEMPLATE_CHECK, TEMPLATES, empty)
    fails(absent, TEMPLATE_CHECK, absent)
    first = run(TEMPLATE_CHECK, "--only", "", TEMPLATES, empty)
    assert first.returncode == 0, first  # one of the folders had some

    fails(empty, TOKENIZER_CHECK, empty)
    fails(absent, TOKENIZER_CHECK, absent)
    fails(empty, GOLDEN_CHECK, empty)
    fails(absent, GOLDEN_CHECK, absent)
timed = run(KERNEL_CHECK, "--time", "--only", "argmax")
assert timed.returncode == 0, timed
for rows, line in zip((1, 64), timed.stdout.splitlines(), strict=True):
    found = json.loads(line)
    assert found["case"] == f"rows {rows} at 1023, cols 151936, f32", found
    assert found["us"] > 0 and found["bytes"] == 4 * rows * 151936 and found["launches"], found
print("runners fail where there is nothing to check")
