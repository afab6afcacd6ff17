#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs golden-check on a published model where it has been fetched, else reports skipped (77).

usage: real_model.py GOLDEN_CHECK FILE CASES.json [golden-check options]

FILE is looked for where scripts/fetch-model puts it: $METRALE_CACHE, $XDG_CACHE_HOME/metrale,
~/.cache/metrale.
"""
import os
import pathlib
import subprocess
import sys

SKIPPED = 77


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("METRALE_CACHE") or pathlib.Path(base) / "metrale")


def main():
    checker, name, cases, *options = sys.argv[1:]
    model = cache_folder() / name
    if not model.exists():
        print(f"{model} is not there: scripts/fetch-model fetches it")
        return SKIPPED
    return subprocess.run([checker, *options, "--model", model, cases]).returncode


sys.exit(main())
