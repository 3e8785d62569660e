"""Two PostgreSQL servers under Patroni and their etcd, as compose's cluster.yaml runs them, without containers."""

import contextlib
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import urllib.request

from .postgres import binaries
from .processes import ROOT, free_port

ENTRY = ROOT / "compose" / "container" / "patroni-entry"


def is_installed():
    return all(shutil.which(program) for program in ("patroni", "etcd", "etcdctl"))


class Service:
    """A program in a process group of its own, as the user `postgres` where the tests run as root."""

    def __init__(self, workspace, name, command, environment=None):
        self._log_path = workspace.directory / f"{name}.log"
        self._command, self._environment = [str(part) for part in command], {**os.environ, **(environment or {})}
        self._folder = workspace.directory / name
        self._folder.mkdir()
        self._owner = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            os.chown(self._folder, account.pw_uid, account.pw_gid)
            self._owner = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self._popen = None
        workspace.on_close(self.close)

    @property
    def folder(self):
        return self._folder

    def start(self):
        with open(self._log_path, "ab") as log:
            self._popen = subprocess.Popen(
                self._command, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True, **self._owner)
        return self

    def run(self, *arguments):
        """What the program says with other arguments."""
        return subprocess.run(
            [*self._command, *arguments], cwd=self._folder, env=self._environment, capture_output=True, text=True,
            timeout=60, check=False, **self._owner)

    def processes(self):
        """All processes of the program, also those that have begun a session of their own."""
        found, fresh = [], self.roots()
        while fresh:
            found += fresh
            fresh = [child for parent in fresh for child in children(parent) if child not in found]
        return found

    def roots(self):
        return [self._popen.pid]

    def signal(self, number):
        # The parents first, so that they start nothing more.
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def kill(self):
        self.signal(signal.SIGSTOP)
        self.signal(signal.SIGKILL)
        self._popen.wait()

    def close(self):
        if self._popen is not None:
            self.kill()
        if not os.environ.get("MIMEO_KEEP"):
            shutil.rmtree(self._folder, ignore_errors=True)

    def log_tail(self, lines=15):
        return "\n".join(self._log_path.read_text(errors="replace").splitlines()[-lines:])


def children(process):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        listed = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text()
        return [int(child) for child in listed.split()]
    return []


class Member(Service):
    """A server under Patroni."""

    def __init__(self, workspace, name, etcd, copies=False):
        self.name, self.port, self.api_port = name, free_port(), free_port()
        password = workspace.directory / "postgres-password"
        password.write_text("secret\n")
        password.chmod(0o644)
        super().__init__(workspace, name, [ENTRY], {
            "MEMBER": name, "MEMBER_DATA": str(workspace.directory / name), "MEMBER_PORT": str(self.port),
            "MEMBER_API_PORT": str(self.api_port), "MEMBER_HOST": "127.0.0.1", "MEMBER_LISTEN": "127.0.0.1",
            "MEMBER_COPIES": "yes" if copies else "no", "ETCD_HOSTS": etcd, "POSTGRES_PASSWORD_FILE": str(password)})

    def run_alone(self):
        """What the official image leaves in a volume."""
        password = self._environment["POSTGRES_PASSWORD_FILE"]
        socket = ["-h", self.folder, "-p", self.port, "-U", "mimeo"]
        server = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' -p {self.port}"
        for name, *arguments in [
                ("initdb", "-D", self.folder, "-U", "mimeo", f"--pwfile={password}", "--auth-local=trust",
                 "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8"),
                ("pg_ctl", "-w", "-D", self.folder, "-l", self.folder / "alone.log", "-o", server, "start"),
                ("createdb", *socket, "mimeo"),
                ("psql", "-q", *socket, "-d", "mimeo", "-c", "CREATE TABLE before AS SELECT 1 AS n"),
                ("pg_ctl", "-w", "-D", self.folder, "-m", "fast", "stop")]:
            subprocess.run(
                [str(part) for part in (binaries() / name, *arguments)], cwd=self.folder, check=True, timeout=120,
                stdout=subprocess.DEVNULL, **self._owner)

    def query(self, statement):
        """The rows of a statement as lists of strings; none while the server does not answer."""
        done = subprocess.run(
            [binaries() / "psql", "-X", "-q", "-A", "-t", "-F", "\x1f", "-c", statement, self.url],
            capture_output=True, text=True, timeout=30, check=False)
        return [line.split("\x1f") for line in done.stdout.splitlines() if line]

    def roots(self):
        """Patroni, and the server that it has let go of: in a container both end together."""
        with contextlib.suppress(FileNotFoundError, IndexError):
            server = int((self.folder / "cluster" / "postmaster.pid").read_text().splitlines()[0])
            if (pathlib.Path("/proc") / str(server)).exists():
                return [*super().roots(), server]
        return super().roots()

    @property
    def url(self):
        return f"postgresql://mimeo:secret@127.0.0.1:{self.port}/mimeo"

    @property
    def takes_writes(self):
        return self.query("SELECT pg_is_in_recovery()") == [["f"]]


class Cluster:
    """Two members and an etcd, all running. With `alone` the first one had a server of its own on its volume, where a
    table has one row."""

    def __init__(self, workspace, alone=False):
        client, peer = free_port(), free_port()
        self.etcd = Service(workspace, "etcd", [
            shutil.which("etcd"), "--data-dir", "data",
            "--listen-client-urls", f"http://127.0.0.1:{client}",
            "--advertise-client-urls", f"http://127.0.0.1:{client}",
            "--listen-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-cluster", f"default=http://127.0.0.1:{peer}"]).start()
        address = f"127.0.0.1:{client}"
        self.members = [Member(workspace, "a", address), Member(workspace, "b", address, copies=True)]
        if alone:
            self.members[0].run_alone()
        # The second one first: it must wait for the other's cluster, and make none.
        for member in reversed(self.members):
            member.start()

    @property
    def url(self):
        """The URL of both for `--log`: connections go to the one that takes writes."""
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        return f"postgresql://mimeo:secret@{hosts}/mimeo?target_session_attrs=read-write"

    @property
    def leader(self):
        return next((member for member in self.members if member.takes_writes), None)

    @property
    def is_ready(self):
        """Whether Patroni would promote the standby: it has noted that commits wait for it."""
        for member in self.members:
            with contextlib.suppress(OSError, ValueError):
                with urllib.request.urlopen(f"http://127.0.0.1:{member.api_port}/cluster", timeout=5) as answer:
                    roles = sorted(known["role"] for known in json.load(answer)["members"])
                return roles == ["leader", "sync_standby"]
        return False

    def other(self, member):
        return next(other for other in self.members if other is not member)

    def log_tails(self):
        return "\n".join(f"-- {member.name}\n{member.log_tail()}" for member in self.members)
