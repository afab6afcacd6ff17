# SPDX-License-Identifier: MIT OR Apache-2.0
"""A server under test: started, asked, stopped. Standard library only.

Programs come from the environment: METRALECTL is the path of metralectl in the build tree,
MTR_BUILD_ROOT that tree. Without either they stand in bin/ beside tests/, as in a bundle. Every
wait is bounded; whatever was started is stopped, also when a test fails.
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
READY_LIMIT_S = 60
REQUEST_LIMIT_S = 120
STOP_LIMIT_S = 30


def program(name):
    """The path of a program by its place in the build tree: "broker/metrale-broker"."""
    build = os.environ.get("MTR_BUILD_ROOT")
    return os.path.join(build, name) if build else os.path.join(ROOT, "bin", os.path.basename(name))


def metralectl():
    return os.environ.get("METRALECTL") or program("ctl/metralectl")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def tiny_model(folder, family="llama"):
    """A complete small checkpoint: a fixture's weights with a tokenizer and a template."""
    os.makedirs(folder, exist_ok=True)
    for source in (os.path.join(ROOT, "tests", "golden", family),
                   os.path.join(ROOT, "tests", "data", "tiny")):
        for name in os.listdir(source):
            if name in ("config.json", "model.safetensors", "tokenizer.json",
                        "tokenizer_config.json", "generation_config.json"):
                shutil.copy(os.path.join(source, name), os.path.join(folder, name))
    return folder


class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)


class Server:
    """metralectl serve with a model; use it in a with statement."""

    def __init__(self, *flags, model=None, wait=True):
        self.folder = tempfile.mkdtemp(prefix="metrale-test-")
        self.port = free_port()
        self.model = model or tiny_model(os.path.join(self.folder, "tiny"))
        self.log_path = os.path.join(self.folder, "log")
        self.run_dir = os.path.join(self.folder, "run")
        self.others = []
        if "--store" not in flags:
            flags = ("--store", os.path.join(self.folder, "store.db"), *flags)
        self.process = self.launch(*self.program(), self.model, "--port", str(self.port),
                                   "--run-dir", self.run_dir, *flags)
        try:
            if wait:
                self.wait_ready()
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    # ---- Life ----

    def program(self):
        return [metralectl(), "serve"]

    def launch(self, *command):
        """A process whose output goes to the log."""
        with open(self.log_path, "ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start(self, name, *flags):
        """One more program of the build tree, that ends when the server is stopped."""
        path = program(name)
        self.others.append(self.launch(path, *flags))
        return self.others[-1]

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def alive(self):
        return self.process.poll() is None

    def wait_ready(self, limit=READY_LIMIT_S):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if not self.alive():
                raise AssertionError("the server ended:\n" + self.log())
            with contextlib.suppress(OSError):
                if self.get("/health").status == 200:
                    return
            time.sleep(0.02)
        raise AssertionError("the server was not ready in time:\n" + self.log())

    def wait_end(self, limit=STOP_LIMIT_S):
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            raise AssertionError("the server did not end:\n" + self.log()) from None

    def stop(self):
        """Ends the server and everything it started."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for other in self.others:
            other.kill()
            other.wait()
        if sys.exc_info()[0] and os.path.exists(self.log_path):
            sys.stderr.write(self.log())
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- Asking ----

    def connect(self, timeout=REQUEST_LIMIT_S):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None):
        connection = self.connect()
        try:
            if body is not None and not isinstance(body, (bytes, str)):
                body = json.dumps(body)
            connection.request(method, path, body, headers or {"Content-Type": "application/json"})
            r = connection.getresponse()
            return Reply(r.status, r.headers, r.read())
        finally:
            connection.close()

    def get(self, path, headers=None):
        return self.request("GET", path, headers=headers)

    def post(self, path, body, headers=None):
        return self.request("POST", path, body, headers)

    def stream(self, path, body, headers=None):
        """Yields the data of each event, [DONE] too, as text."""
        connection = self.connect()
        try:
            connection.request("POST", path, json.dumps(dict(body, stream=True)),
                               headers or {"Content-Type": "application/json"})
            r = connection.getresponse()
            if r.status != 200:
                raise AssertionError(f"status {r.status}: {r.read()!r}")
            pending = b""
            while True:
                piece = r.read1(65536)
                if not piece:
                    break
                pending += piece
                while b"\n\n" in pending:
                    frame, pending = pending.split(b"\n\n", 1)
                    if frame.startswith(b"data: "):
                        yield frame[6:].decode()
            if pending:
                raise AssertionError(f"the stream ended inside a frame: {pending!r}")
        finally:
            connection.close()

    def chat(self, text, **fields):
        """The answer's text to one user message, not streamed."""
        body = dict({"model": "any", "messages": [{"role": "user", "content": text}]}, **fields)
        r = self.post("/v1/chat/completions", body)
        assert r.status == 200, (r.status, r.body)
        return r.json()["choices"][0]["message"]["content"]

    def chat_stream(self, text, **fields):
        """The same, streamed."""
        out = ""
        body = dict({"model": "any", "messages": [{"role": "user", "content": text}]}, **fields)
        for data in self.stream("/v1/chat/completions", body):
            if data == "[DONE]":
                return out
            for choice in json.loads(data)["choices"]:
                out += choice["delta"].get("content") or ""
        raise AssertionError("the stream ended without [DONE]")

    def metric(self, name):
        text = self.get("/metrics").body.decode()
        match = re.search(rf"^{re.escape(name)}{{[^}}]*}} ([0-9.eE+-]+)$", text, re.M)
        assert match, f"no metric {name}"
        return float(match.group(1))

    # ---- metralectl ----

    def ctl(self, *arguments, check=True):
        r = subprocess.run([metralectl(), *arguments, "--run-dir", self.run_dir],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
                           check=False)
        if check and r.returncode != 0:
            raise AssertionError(f"metralectl {arguments}: {r.returncode}\n{r.stderr}")
        return r

    def status(self):
        return json.loads(self.ctl("status", "--json").stdout)

    def worker_pid(self):
        return self.status()["workers"][0]["pid"]


class Broker(Server):
    """metrale-broker alone; workers are started by hand."""

    def program(self):
        return [program("broker/metrale-broker")]

    def start_worker(self, *flags, program="worker/metrale-worker"):
        return self.start(program, "--connect", f"ipc://{self.run_dir}/plan.sock", *flags)


def run_tests(module):
    """Runs every function test_* of a module; one line each; exit status for meson."""
    import traceback

    wanted = sys.argv[1:]
    failed = 0
    for name, test in sorted(vars(module).items()):
        if not name.startswith("test_") or not callable(test) or (wanted and name not in wanted):
            continue
        start = time.monotonic()
        try:
            test()
            print(f"ok    {name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"FAIL  {name}\n{traceback.format_exc()}", flush=True)
    sys.exit(1 if failed else 0)
