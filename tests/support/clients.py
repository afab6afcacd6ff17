# SPDX-License-Identifier: MIT OR Apache-2.0
"""The client packages that people use, from the virtual environment that scripts/test makes.

Importing this puts them on the path; need() ends a test as skipped where one is missing.
"""

import glob
import importlib
import os
import sys

SKIPPED = 77

for place in glob.glob(os.path.join(os.environ.get("MTR_BUILD_ROOT", "."), "clients", "lib",
                                    "python3*", "site-packages")):
    sys.path.append(place)


def need(*names):
    """The modules of these names, or the end of the test."""
    try:
        found = [importlib.import_module(name) for name in names]
    except ImportError as e:
        print(f"skipped: {e}")
        sys.exit(SKIPPED)
    return found[0] if len(found) == 1 else found


def refusal(kind, call, *arguments, **fields):
    """The exception of that kind that the call raises."""
    try:
        call(*arguments, **fields)
    except kind as e:
        return e
    raise AssertionError(f"no {kind.__name__}")
