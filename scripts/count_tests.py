# SPDX-License-Identifier: MIT OR Apache-2.0
"""Counts the results in a meson test log: prints "PASSED FAILED SKIPPED".

usage: count_tests.py .../meson-logs/testlog.json
"""
import json
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP", "IGNORED"}


def main(path):
    counts = [0, 0, 0]
    with open(path, encoding="utf-8") as log:
        for line in log:
            result = json.loads(line)["result"]
            counts[0 if result in PASSED else 2 if result in SKIPPED else 1] += 1
    print(*counts)


if __name__ == "__main__":
    main(sys.argv[1])
