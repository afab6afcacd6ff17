# SPDX-License-Identifier: MIT OR Apache-2.0
"""The systemd units: accepted by systemd-analyze verify, and installed where they say they are.

Arguments: the build directory. Exit status 77 (skipped) where systemd-analyze is missing.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

UNITS = ("metrale-broker.service", "metrale-broker.socket", "metrale-worker@.service",
         "metrale.target")


def verify(build, source, folder):
    """The units with the programs of this build in place of installed ones."""
    programs = {"metrale-broker": os.path.join(build, "broker", "metrale-broker"),
                "metrale-worker": os.path.join(build, "worker", "metrale-worker")}
    environment = os.path.join(source, "deploy", "systemd", "metrale.env")
    paths = []
    for name in UNITS:
        made = os.path.join(build, "deploy", name)
        path = made if os.path.exists(made) else os.path.join(source, "deploy", "systemd", name)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        text = re.sub(r"^(ExecStart=)\S*/(metrale-\w+)", lambda m: m[1] + programs[m[2]], text,
                      flags=re.M)
        text = re.sub(r"^EnvironmentFile=.*$", "EnvironmentFile=" + environment, text, flags=re.M)
        paths.append(os.path.join(folder, name.replace("@.", "@0.")))
        with open(paths[-1], "w", encoding="utf-8") as f:
            f.write(text)
    r = subprocess.run(["systemd-analyze", "verify", "--man=no", *paths], capture_output=True,
                       text=True, timeout=60, check=False)
    # Names of the units that this machine lacks (a minimal container has few) are not our business.
    said = [line for line in (r.stdout + r.stderr).splitlines() if "metrale" in line]
    assert r.returncode == 0 and not said, "\n".join(said) or r.stderr


def installed(build, folder):
    """meson install into a folder: programs, units, settings."""
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", folder],
                   check=True, capture_output=True, timeout=60)
    found = {}
    for base, _, files in os.walk(folder):
        found.update({name: os.path.join(base, name) for name in files})
    for name in (*UNITS, "metrale-broker", "metrale-worker", "metralectl", "metrale.env",
                 "metrale.conf"):
        assert name in found, f"{name} is not installed"
    with open(found["metrale-broker.service"], encoding="utf-8") as f:
        text = f.read()
    for named in (re.search(r"^ExecStart=(\S+)", text, re.M)[1],
                  re.search(r"^Documentation=file:(\S+)", text, re.M)[1]):
        assert os.path.exists(folder + named), f"{named} is not what is installed"
    version = subprocess.run([found["metralectl"], "version"], capture_output=True, text=True,
                             timeout=10, check=True)
    assert version.stdout.startswith("metrale ")


def main():
    build, source = sys.argv[1:3]
    folder = tempfile.mkdtemp(prefix="metrale-test-")
    try:
        installed(build, os.path.join(folder, "root"))
        if not shutil.which("systemd-analyze"):
            print("systemd-analyze is not installed")
            sys.exit(77)
        verify(build, source, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
