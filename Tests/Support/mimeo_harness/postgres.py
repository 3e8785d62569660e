"""A temporary PostgreSQL cluster for one test, which may kill it."""

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import time

from .fault_proxy import FaultProxy
from .until import until

START_SECONDS = 60
"""Timeout until a cluster answers, including recovery after a kill."""


def binaries():
    """The folder of the newest PostgreSQL server on this machine."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[4]))
    if not found:
        raise FileNotFoundError("no PostgreSQL server is installed: run scripts/setup postgres")
    return found[-1].parent


class Postgres:
    """A cluster in the workspace, reachable only through a socket in its folder. It syncs to disk like a real one.

    PostgreSQL refuses to run as root, so it runs as `postgres` then. A standby follows its primary asynchronously.
    """

    def __init__(self, workspace, name="postgres", standby_of=None, shared_buffers="32MB"):
        self._folder = workspace.directory / name
        self._folder.mkdir()
        self._workspace = workspace
        self._binaries = binaries()
        self._shared_buffers = shared_buffers
        self._log_path = workspace.directory / f"{name}.log"
        self._popen = None
        self._frozen = []
        self._owner = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self._folder, account.pw_uid, account.pw_gid)
            self._owner = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        workspace.on_close(self.close)
        if standby_of:
            self._run("pg_basebackup", "-h", standby_of._folder, "-U", "postgres", "-D", self._data, "-R", "-c", "fast")
            return
        self._run("initdb", "-D", self._data, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C")

    @property
    def _data(self):
        return self._folder / "data"

    @property
    def url(self):
        """The URL for `--log` of a service."""
        return f"postgresql://postgres@/postgres?host={self._folder}"

    @property
    def proxy_target(self):
        """Where a proxy leads to that stands in front of this cluster."""
        return str(self._folder / ".s.PGSQL.5432")

    def proxy(self):
        """A proxy in front of this cluster, whose faults a service with `url_through` it sees."""
        return FaultProxy(self._workspace, self.proxy_target)

    @staticmethod
    def url_through(proxy):
        """The URL of this cluster for a service behind a proxy."""
        return f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?sslmode=disable"

    def url_with(self, standby):
        """The URL of this cluster and a standby: connections go to the one that accepts writes."""
        return f"{self.url},{standby._folder}&target_session_attrs=read-write"

    def promote(self):
        """Makes a standby accept writes."""
        self._run("pg_ctl", "promote", "-w", "-D", self._data)

    def start(self):
        """Starts the postmaster and waits until it answers; after a kill this includes recovery."""
        deadline = time.monotonic() + START_SECONDS
        while not self._try_to_start():
            if time.monotonic() > deadline:
                raise TimeoutError(f"PostgreSQL did not start within {START_SECONDS} s\n{self.log_tail()}")
            time.sleep(0.05)
        until(lambda: self._popen.poll() is not None or self._answers(), START_SECONDS, self.log_tail)
        return self

    def _try_to_start(self):
        """Starts once. While children of a killed postmaster still hold its shared memory, it ends at once."""
        with open(self._log_path, "ab") as log:
            self._popen = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._data, "-c", "listen_addresses=",
                 "-c", f"shared_buffers={self._shared_buffers}", "-c", f"unix_socket_directories={self._folder}", "-c", "fsync=on"],
                cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                **self._owner)
        while self._popen.poll() is None:
            if self._answers():
                return True
            time.sleep(0.02)
        return False

    def _answers(self):
        done = subprocess.run(
            [self._binaries / "pg_isready", "-q", "-h", self._folder], cwd=self._folder, check=False, **self._owner)
        return done.returncode == 0

    def kill(self):
        """kill -9 of the postmaster; its children notice and end by themselves."""
        self._popen.kill()
        self._popen.wait()

    def freeze(self):
        """Stops all processes of the server, which keep their connections and their locks."""
        # The postmaster first, so that it starts no further processes.
        self._popen.send_signal(signal.SIGSTOP)
        self._frozen = [self._popen.pid, *self._children()]
        for process in self._frozen[1:]:
            os.kill(process, signal.SIGSTOP)

    def thaw(self):
        """Resumes the processes that `freeze` stopped."""
        for process in self._frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
        self._frozen = []

    def _children(self):
        listed = pathlib.Path(f"/proc/{self._popen.pid}/task/{self._popen.pid}/children").read_text()
        return [int(process) for process in listed.split()]

    def query(self, statement):
        """The rows of a statement, as lists of strings, read with psql."""
        arguments = ["-X", "-q", "-A", "-t", "-F", "\x1f", "-h", self._folder, "-U", "postgres", "-c", statement]
        lines = self._run("psql", *arguments).splitlines()
        return [line.split("\x1f") for line in lines if line]

    def tool(self, name, *arguments):
        """What a client program of PostgreSQL prints, on this cluster."""
        return self._run(name, "-h", self._folder, "-U", "postgres", *arguments, seconds=1_800)

    def _run(self, name, *arguments, seconds=120):
        done = subprocess.run(
            [str(self._binaries / name), *(str(argument) for argument in arguments)], cwd=self._folder,
            capture_output=True, text=True, check=False, timeout=seconds, **self._owner)
        if done.returncode != 0:
            raise RuntimeError(f"{name}: {done.stderr}")
        return done.stdout

    def log_tail(self, lines=15):
        return "\n".join(self._log_path.read_text(errors="replace").splitlines()[-lines:])

    def close(self):
        """Ends the cluster at once, and removes its folder unless MIMEO_KEEP is set."""
        self.thaw()
        if self._popen is not None and self._popen.poll() is None:
            self._popen.send_signal(signal.SIGQUIT)
            try:
                self._popen.wait(15)
            except subprocess.TimeoutExpired:
                self._popen.kill()
                self._popen.wait()
        if not os.environ.get("MIMEO_KEEP"):
            shutil.rmtree(self._folder, ignore_errors=True)
