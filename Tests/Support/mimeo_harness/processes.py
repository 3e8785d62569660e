"""Processes and their working directory."""

import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[3]

STOP_SECONDS = 60
"""Timeout for a process to end after an interrupt."""


SHIPPED = frozenset(("mimeo", "auth-gateway", "replicator", "query-service", "attachment-store"))
"""The executables that people get."""


def binary(name):
    """The path of one of our executables, in MIMEO_BIN. A program of the tests alone, which no package has, is in the
    tests' build otherwise."""
    directory = ROOT / os.environ.get("MIMEO_BIN", ".build/release")
    path = directory / name
    if not path.exists() and name not in SHIPPED:
        path = ROOT / ".build" / "release" / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: build it first, or set MIMEO_BIN")
    return str(path)


_given_ports = set()


def free_port():
    """A loopback port that nobody listens on now; a server keeps it across restarts.

    It is below the system's range of ephemeral ports, and none is returned twice, so nobody else takes it between the
    end of a server and its next start.
    """
    while True:
        port = random.randrange(15_000, 32_000)
        if port in _given_ports:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given_ports.add(port)
        return port


class Process:
    """A running executable: its lines of output as they arrive, its log in a file of the workspace."""

    def __init__(self, name, arguments, directory, environment=None):
        self.name = name
        self.log_path = directory / f"{name}.log"
        self._log = open(self.log_path, "ab")
        self._popen = subprocess.Popen(
            [str(argument) for argument in arguments], cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._log, text=True, encoding="utf-8", bufsize=1, start_new_session=True,
            env={**os.environ, **environment} if environment else None)
        self.pid = self._popen.pid
        self._lines = []
        self._changed = threading.Condition()
        self._at_end = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._popen.stdout:
            with self._changed:
                self._lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._at_end = True
            self._changed.notify_all()

    def line(self, index, seconds):
        """Line `index` of standard output, from 0; None if the process ends first, or after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._lines) > index or self._at_end, timeout=seconds)
            return self._lines[index] if len(self._lines) > index else None

    @property
    def is_at_end(self):
        """True once its output has ended: it is gone, or is just being killed by another thread."""
        with self._changed:
            return self._at_end

    def write(self, line):
        """Writes a line to standard input; BrokenPipeError if the process is gone."""
        self._popen.stdin.write(line + "\n")
        self._popen.stdin.flush()

    @property
    def is_running(self):
        return self._popen.poll() is None

    def stop(self, with_signal=signal.SIGINT):
        """Asks the process to end; returns its exit code. Kills it and raises TimeoutError after STOP_SECONDS."""
        if self.is_running:
            self._popen.send_signal(with_signal)
        try:
            return self._popen.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"{self.name} ignored signal {with_signal} for {STOP_SECONDS} s") from None
        finally:
            self._close()

    def kill(self):
        """kill -9, of what it has started too: the workers of nginx would live on."""
        if self.is_running:
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        self._close()

    def wait(self, seconds):
        """Waits until the process ends by itself; returns its exit code."""
        return self._popen.wait(seconds)

    def close_input(self):
        self._popen.stdin.close()

    def _close(self):
        try:
            self._popen.stdin.close()
        except BrokenPipeError:
            pass
        self._log.close()

    def log_tail(self, lines=15):
        """The last lines of its log, for a message to a person."""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def processor_seconds(self):
        """Processor time used so far, user and system, in seconds."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Workspace:
    """A temporary directory with its processes and other resources, which it closes at its end."""

    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="mimeo-system."))
        # When the tests run as root, nginx's workers are another user: they may enter the folder, but not list it.
        self.directory.chmod(0o711)
        self._processes = []
        self._closers = []

    def on_close(self, closer):
        """Calls `closer` when the workspace closes, after its processes have ended."""
        self._closers.append(closer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def start(self, name, arguments, environment=None):
        """Starts a process; its log is `<name>.log`, appended to when the same name starts again."""
        process = Process(name, arguments, self.directory, environment)
        self._processes.append(process)
        return process

    def close(self):
        """Ends processes that still run and removes the directory."""
        for process in reversed(self._processes):
            if process.is_running:
                process.kill()
        self._processes.clear()
        while self._closers:
            self._closers.pop()()
        if os.environ.get("MIMEO_KEEP"):
            print(f"kept: {self.directory}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)
