#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A server whose worker computes on a CUDA device: one that works, one that dies in a step.

The device is the scripted driver of tests/support/fake_cuda.c, under the name by which the worker
opens the real one; its tokens depend on the position and the token before. Where there is a real
device, one that has an accident (tests/support/trap_cuda.c) is tested too. Skipped in a build
without CUDA kernels.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager

from server import Server, metralectl, program, run_tests

DRIVER = program("tests/support/fake_cuda.so")
TRAP = program("tests/support/trap_cuda.so")
STREAMS = 8
TOKENS = 60


def real_driver():
    """The path of this machine's CUDA driver, or None where there is none or no device."""
    probe = subprocess.run([program("worker/metrale-worker"), "--probe"], capture_output=True,
                           text=True, check=True)
    if json.loads(probe.stdout)["hardware"] == "host":
        return None
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    paths = re.findall(r"libcuda\.so\.1 .*=> (\S+)", listed)
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    paths += [os.path.join(f, "libcuda.so.1") for f in folders if f]
    return next(p for p in paths if os.path.exists(p))


@contextmanager
def device(driver=DRIVER, **script):
    """The environment in which the worker finds the scripted driver, or another one."""
    folder = tempfile.mkdtemp(prefix="metrale-device-")
    shutil.copy(driver, os.path.join(folder, "libcuda.so.1"))
    failed = os.path.join(folder, "failed")
    more = {"LD_LIBRARY_PATH": folder, "FAKE_CUDA_ONCE": failed, "TRAP_CUDA_ONCE": failed, **script}
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield folder
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder)


def stream_all(server):
    """What each of eight streams at once says."""
    said = [None] * STREAMS

    def one(i):
        said[i] = server.chat_stream(f"stream {i}", max_tokens=TOKENS, temperature=1, seed=i)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(STREAMS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return said


def test_auto_takes_the_device():
    with device(), Server() as server:
        assert server.status()["workers"][0]["device"] == "Scripted GPU 0", server.status()
        assert "class hopper: Scripted GPU 0" in server.log(), server.log()
        health = server.get("/health").json()
        assert (health["hardware"], health["device"]) == ("hopper", "Scripted GPU 0"), health
        assert server.metric("metrale_device_info") == 1
        assert all(stream_all(server))


def test_a_device_that_is_lost_costs_no_stream_its_answer():
    """Every way for a step to end: while it is launched, and while it is waited for."""
    with device(), Server() as server:
        undisturbed = stream_all(server)
    for script in ("cuGraphLaunch:20:719", "cuMemcpyHtoDAsync_v2:90:700",
                   "cuEventRecord:60:700"):
        with device(FAKE_CUDA_FAIL=script) as folder, Server() as server:
            assert stream_all(server) == undisturbed, script
            assert os.path.exists(os.path.join(folder, "failed")), f"{script} was never called"
            assert server.metric("metrale_worker_losses_total") == 1, script
            assert "the device is lost" in server.log(), server.log()


def test_a_kernel_that_traps_costs_no_stream_its_answer():
    """The same on a real device, by a real error."""
    driver = real_driver()
    if driver is None:
        return
    with Server() as server:
        undisturbed = stream_all(server)
    with device(TRAP, TRAP_CUDA_DRIVER=driver, TRAP_CUDA_AFTER="40") as folder:
        with Server() as server:
            assert stream_all(server) == undisturbed
            assert os.path.exists(os.path.join(folder, "failed")), "there was no accident"
            assert server.metric("metrale_worker_losses_total") == 1
            assert "the device is lost" in server.log(), server.log()


def test_a_device_that_dies_in_every_step_ends_the_request():
    """Each worker loads, says that it is ready, and dies of the first step."""
    with device(FAKE_CUDA_FAIL="cuEventElapsedTime:0:999", FAKE_CUDA_ONCE=""), Server() as server:
        reply = server.post("/v1/completions", {"model": "tiny", "prompt": "a", "max_tokens": 4})
        assert reply.status >= 500, reply.body
        assert b"lost 6 times" in reply.body, reply.body
        assert server.alive()


def test_a_device_that_does_not_start_is_told():
    with device(FAKE_CUDA_FAIL="cuInit:0:999", FAKE_CUDA_ONCE=""):
        server = Server(wait=False)
        with server:
            assert server.wait_end() != 0
            assert "the CUDA driver does not start" in server.log(), server.log()


def test_a_class_without_a_device_is_refused():
    server = Server("--hardware", "b200", wait=False)
    with server:
        assert server.wait_end() != 0
        said = server.log()
        assert "there is no CUDA driver" in said or "has no kernels of class b200" in said, said


if __name__ == "__main__":
    listed = subprocess.run([metralectl(), "kernels", "list"], capture_output=True, check=False)
    if listed.returncode or not os.path.exists(DRIVER):
        print("no CUDA kernels in this build, or no scripted driver")
        sys.exit(77)
    run_tests(sys.modules[__name__])
