# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that are started wrongly, told to read again, ended and started over."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from server import Broker, Server, free_port, metralectl, run_tests

SOON_S = 10
GOOD = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}


def children_of(run_dir):
    """Processes that name this run directory on their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if run_dir.encode() in f.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def ends_wrong(*arguments, word, lines, status):
    """metralectl serve ends soon, says this and no more, and leaves nothing behind."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = os.path.join(folder, "run")
        start = time.monotonic()
        r = subprocess.run([metralectl(), "serve", *arguments, "--run-dir", run_dir],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=SOON_S, check=False)
        said = r.stderr.strip().split("\n")
        assert r.returncode == status and word in r.stderr and len(said) == lines, r
        assert "worker[" not in r.stderr, r
        assert time.monotonic() - start < SOON_S and r.stdout == ""
        assert not children_of(run_dir) and not os.path.exists(run_dir)


def test_a_wrong_flag_starts_nothing():
    for flag, word in ((["--prot", "1"], "--port"), (["--port", "x"], "port"),
                       (["--log-level", "loud"], "log-level"),
                       (["--max-batch-size", "9999"], "batch"),
                       (["--curve-key", "k.key"], "--curve-allow")):
        ends_wrong("/nonexistent/model", *flag, word=word, lines=2, status=2)


def test_a_wrong_model_ends_it():
    with tempfile.TemporaryDirectory() as folder:
        run_dir = os.path.join(folder, "run")
        r = subprocess.run([metralectl(), "serve", os.path.join(folder, "absent"),
                            "--run-dir", run_dir, "--port", str(free_port())],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=SOON_S, check=False)
        assert r.returncode == 1 and "absent" in r.stderr, r
        assert not children_of(run_dir) and not os.path.exists(run_dir)


def wait_for(server, words, limit=SOON_S):
    end = time.monotonic() + limit
    while words not in server.log():
        assert time.monotonic() < end, f"'{words}' is not in the log:\n{server.log()}"
        time.sleep(0.02)


def write(path, text, mode=0o600):
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    os.chmod(path, mode)


def test_hangup_rereads_keys_and_log_levels():
    with tempfile.TemporaryDirectory() as folder:
        level, keys = os.path.join(folder, "level"), os.path.join(folder, "keys")
        write(level, "warn\n")
        write(keys, "first\n")
        with Server("--log-level-file", level, "--auth-tokens-file", keys) as s:
            first, second = ({"Authorization": f"Bearer {k}"} for k in ("first", "second"))
            assert s.post("/v1/chat/completions", GOOD, first).status == 200
            assert "INFO" not in s.log(), "warn was asked for"
            write(level, "info\n")
            write(keys, "second\n")
            s.process.send_signal(signal.SIGHUP)
            wait_for(s, "broker the API keys were read again")
            wait_for(s, "worker[0] the log level was read again")
            assert s.post("/v1/chat/completions", GOOD, first).status == 401
            assert s.post("/v1/chat/completions", GOOD, second).status == 200
            wait_for(s, "prompt tokens")

            write(level, "loud\n")
            s.process.send_signal(signal.SIGHUP)
            wait_for(s, "broker the log level was not read again")
            wait_for(s, "worker[0] the log level was not read again")
            os.unlink(level)
            s.process.send_signal(signal.SIGHUP)
            wait_for(s, "can't read the log level from " + level)
            assert s.post("/v1/chat/completions", GOOD, second).status == 200
            assert s.status()["workers"][0]["restarts"] == 0


def test_hangup_without_files_changes_nothing():
    with Server() as s:
        for _ in range(20):
            s.process.send_signal(signal.SIGHUP)
        wait_for(s, "nothing is to be read again")
        assert s.chat("hi", max_tokens=2, ignore_eos=True)
        assert s.status()["workers"][0]["restarts"] == 0


def test_a_level_file_that_is_wrong_refuses_the_start():
    with tempfile.TemporaryDirectory() as folder:
        level = os.path.join(folder, "level")
        write(level, "")
        with Server("--log-level-file", level, wait=False) as s:
            assert s.wait_end() == 1
            assert "is no log level" in s.log()


def sockets(server):
    return sorted(os.listdir(server.run_dir)) if os.path.isdir(server.run_dir) else None


def test_a_broker_leaves_nothing_behind():
    with Broker(wait=False) as s:
        s.start_worker()
        s.wait_ready()
        assert sockets(s) == ["admin.sock", "plan.sock"]
        s.process.send_signal(signal.SIGTERM)
        assert s.wait_end() == 0
        assert sockets(s) is None, "a folder that it made goes with it"


def test_a_folder_that_was_there_stays():
    with tempfile.TemporaryDirectory() as folder:
        with Broker("--plan-address", f"ipc://{folder}/p", "--admin-socket", f"ipc://{folder}/a",
                    wait=False) as s:
            end = time.monotonic() + SOON_S
            while len(os.listdir(folder)) < 2 and time.monotonic() < end:
                time.sleep(0.02)
            assert sorted(os.listdir(folder)) == ["a", "p"]
            s.process.send_signal(signal.SIGTERM)
            assert s.wait_end() == 0
            assert os.listdir(folder) == []


def test_a_killed_broker_is_succeeded():
    with Broker(wait=False) as s:
        s.start_worker()
        s.wait_ready()
        s.process.kill()
        s.process.wait()
        assert sockets(s) == ["admin.sock", "plan.sock"]
        s.process = s.launch(*s.program(), s.model, "--port", str(s.port), "--run-dir", s.run_dir)
        s.start_worker()
        s.wait_ready()
        assert s.chat("hi", max_tokens=2, ignore_eos=True)


def test_a_live_broker_is_not_displaced():
    with Broker(wait=False) as s:
        s.start_worker()
        s.wait_ready()
        second = s.start("broker/metrale-broker", s.model, "--port", str(free_port()), "--run-dir",
                         s.run_dir)
        assert second.wait(SOON_S) == 1
        assert "plan.sock: another process serves this socket" in s.log()
        assert sockets(s) == ["admin.sock", "plan.sock"]
        assert s.chat("hi", max_tokens=2, ignore_eos=True)


def test_a_worker_of_another_shape_is_refused():
    """One that says what was not ordered is told so, and the right one is served."""
    with Broker(wait=False) as s:
        wrong = s.start_worker("--groups", "3", program="tests/support/scripted-worker")
        wrong.wait(SOON_S)
        wait_for(s, "it has 3 cache groups, the model has 1")
        assert s.get("/health").status == 503
        s.start_worker()
        s.wait_ready()
        assert s.chat("hi", max_tokens=2, ignore_eos=True)


if __name__ == "__main__":
    run_tests(sys.modules[__name__])
