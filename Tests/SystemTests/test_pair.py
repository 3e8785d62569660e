"""compose's two PostgreSQL servers, without containers: whatever ends and comes back, one at most takes writes."""

import os
import pathlib
import pwd
import signal
import subprocess
import time

from mimeo_harness import ROOT, until
from mimeo_harness.postgres import binaries
from system_test import SystemTest

ENTRY = ROOT / "compose" / "container" / "postgres"

DECISIONS = [
    # cluster, its timeline, the other server, may begin alone: what happens
    ("none", "", "silent", "no", "wait"),
    ("none", "", "standby", "no", "wait"),
    ("none", "", "primary 3", "no", "copy"),
    ("standby", "1", "silent", "no", "start"),
    ("standby", "1", "standby", "no", "start"),
    ("standby", "1", "primary 2", "no", "start"),
    ("primary", "1", "silent", "no", "wait"),
    ("primary", "1", "silent", "yes", "start"),
    ("primary", "1", "standby", "no", "start"),
    ("primary", "1", "primary 2", "no", "follow"),
    # A word that was given before the other one was heard does not count against it.
    ("primary", "1", "primary 2", "yes", "follow"),
    ("primary", "2", "primary 2", "no", "follow"),
    # The other one is the old primary: it came back from a pause, and ends when it hears this one.
    ("primary", "10", "primary 9", "no", "start"),
    ("primary", "1", "an answer that nobody knows", "no", "wait"),
]


def function(name, *arguments):
    """What a function of the script prints, and its exit code."""
    done = subprocess.run(
        ["bash", "-c", f'source "$1"; {name} "${{@:2}}"', "bash", str(ENTRY), *arguments],
        capture_output=True, text=True, timeout=30, check=False)
    return done.stdout.strip(), done.returncode


class Decisions(SystemTest):
    def test_a_server_decides_by_its_cluster_the_other_one_and_the_operator(self):
        for *case, decision in DECISIONS:
            with self.subTest(case=case):
                self.assertEqual(function("decide", *case), (decision, 0))

    def test_no_two_servers_begin_as_primaries_by_hearing_each_other(self):
        for mine in range(1, 4):
            for others in range(1, 4):
                here, _ = function("decide", "primary", str(mine), f"primary {others}", "no")
                there, _ = function("decide", "primary", str(others), f"primary {mine}", "no")
                self.assertNotEqual((here, there), ("start", "start"), (mine, others))

    def test_a_primary_ends_for_a_later_timeline_only(self):
        for mine, other, status in [("1", "primary 2", 0), ("9", "primary 10", 0), ("2", "primary 2", 1),
                                    ("2", "primary 1", 1), ("1", "standby", 1), ("1", "silent", 1)]:
            self.assertEqual(function("is_superseded", mine, other)[1], status, (mine, other))


class Server:
    """One of the pair, as its container would run it: the folder of its sockets is its address."""

    def __init__(self, workspace, name, other):
        self._workspace, self.name = workspace, name
        self.folder = workspace.directory / name
        self.folder.mkdir()
        password = self.folder / "password"
        password.write_text("a password")
        self._as_owner = []
        if os.geteuid() == 0:
            account = pwd.getpwnam("postgres")
            for path in (self.folder, password):
                os.chown(path, account.pw_uid, account.pw_gid)
            self._as_owner = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
        self._environment = {
            **os.environ, "PATH": f"{binaries()}:{os.environ['PATH']}", "HOME": str(self.folder),
            "PAIR_DATA": str(self.folder / "data"), "PAIR_SELF": name, "PGHOST": str(self.folder),
            "PAIR_OTHER": str(workspace.directory / other), "POSTGRES_USER": "mimeo", "POSTGRES_DB": "mimeo",
            "POSTGRES_PASSWORD_FILE": str(password)}
        self.process = None
        self._frozen = []
        self.call("mkdir", "-p", str(self.folder / "data"))
        workspace.on_close(self.thaw)

    def call(self, *command, is_refused=False):
        done = subprocess.run(
            [*self._as_owner, *command], env=self._environment, cwd=self.folder, capture_output=True, text=True,
            timeout=90, check=False)
        if (done.returncode != 0) != is_refused:
            raise AssertionError(f"{self.name}: {command}: {done.returncode} {done.stdout}{done.stderr}")
        return done.stdout.strip() + done.stderr.strip()

    def entry(self, word, is_refused=False):
        return self.call(str(ENTRY), word, is_refused=is_refused)

    def start(self):
        self.process = self._workspace.start(self.name, [
            *self._as_owner, ENTRY, "-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}"],
            self._environment)

    def kill(self):
        """What the end of a container is for its processes."""
        processes = self._processes()
        self.process.kill()
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        until(lambda: not any(map(is_alive, processes)), 30, f"processes of {self.name} are left")
        # A new container does not know their numbers either; here they may wait for long to be reaped.
        for path in ("data/cluster/postmaster.pid", ".s.PGSQL.5432.lock"):
            (self.folder / path).unlink(missing_ok=True)

    def freeze(self):
        """`docker pause`."""
        self._frozen = self._processes()
        for process in self._frozen:
            os.kill(process, signal.SIGSTOP)

    def thaw(self):
        for process in self._frozen:
            if is_alive(process):
                os.kill(process, signal.SIGCONT)
        self._frozen = []

    def _processes(self):
        """The entry and all below it."""
        found, parents = [self.process.pid], {}
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                parents.setdefault(int(path.read_text().rsplit(")", 1)[1].split()[1]), []).append(int(path.parts[2]))
            except OSError:
                continue
        for process in found:
            found += parents.get(process, [])
        return found

    def query(self, statement):
        """One value, or None while no server answers."""
        done = subprocess.run(
            [binaries() / "psql", "-h", self.folder, "-U", "mimeo", "-d", "mimeo", "-X", "-tAc", statement],
            capture_output=True, text=True, timeout=60, check=False, cwd=self.folder)
        return done.stdout.strip() if done.returncode == 0 else None

    def is_primary(self):
        return self.query("SELECT pg_is_in_recovery()") == "f"

    def is_standby(self):
        return self.query("SELECT pg_is_in_recovery()") == "t"

    def rows(self):
        return self.query("SELECT string_agg(name, ' ' ORDER BY name) FROM kept")

    def log(self):
        return self.process.log_tail(30)


def is_alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Pair(SystemTest):
    def setUp(self):
        super().setUp()
        self.a, self.b = Server(self.workspace, "a", "b"), Server(self.workspace, "b", "a")
        self.a.entry("new")
        self.a.start()
        self.b.start()
        self.await_roles(self.a, self.b)
        self.a.query("CREATE TABLE kept (name text)")
        self.write(self.a, "first")
        self.await_rows(self.b, "first")

    def await_roles(self, primary, standby):
        until(lambda: primary.is_primary() and standby.is_standby(), 60, lambda: f"{primary.log()}\n{standby.log()}")

    def await_rows(self, server, rows):
        until(lambda: server.rows() == rows, 60, lambda: f"{server.rows()}\n{server.log()}")

    def write(self, server, name):
        self.assertIsNotNone(server.query(f"INSERT INTO kept VALUES ('{name}')"))

    def await_word(self, server, word):
        until(lambda: word in server.log(), 60, server.log)

    def never_two(self, seconds=60):
        """Waits until one takes writes and the other follows it, and looks all the time that never both do."""
        end = time.monotonic() + seconds
        while True:
            states = [server.is_primary() for server in (self.a, self.b)]
            self.assertNotEqual(states, [True, True], "two primaries")
            if any(states) and (self.a if states[1] else self.b).is_standby():
                return self.a if states[0] else self.b
            self.assertLess(time.monotonic(), end, f"{self.a.log()}\n{self.b.log()}")

    def test_both_come_back_at_once_after_a_promotion(self):
        self.a.kill()
        self.b.entry("promote")
        self.write(self.b, "second")
        self.b.kill()
        self.a.start()
        self.await_word(self.a, "takes no writes before it hears from it")
        self.assertIsNone(self.a.rows())
        self.b.start()
        self.assertIs(self.never_two(), self.b)
        self.await_rows(self.a, "first second")
        # And the other way round: the word that was given to b is used up, since a has copied.
        self.b.kill()
        self.a.entry("promote")
        self.write(self.a, "third")
        self.a.kill()
        self.b.start()
        self.a.start()
        self.assertIs(self.never_two(), self.a)
        self.await_rows(self.b, "first second third")

    def test_without_a_promotion_the_primary_begins_when_it_hears_its_standby_or_the_operator(self):
        self.a.kill()
        self.b.kill()
        self.a.start()
        self.await_word(self.a, "takes no writes before it hears from it")
        self.b.start()
        self.assertIs(self.never_two(), self.a)
        self.b.kill()
        self.a.kill()
        self.a.start()
        self.await_word(self.a, "postgres-entry alone")
        self.assertIsNone(self.a.rows())
        self.a.entry("alone")
        until(self.a.is_primary, 60, self.a.log)
        self.assertEqual(self.a.rows(), "first")

    def test_a_primary_that_was_paused_ends_when_it_hears_of_a_promotion(self):
        self.assertIn("takes writes: stop it first", self.b.entry("promote", is_refused=True))
        self.a.freeze()
        self.b.entry("promote")
        self.write(self.b, "second")
        self.a.thaw()
        self.assertNotEqual(self.a.process.wait(60), 0)
        self.assertIn("was promoted meanwhile", self.a.log())
        self.a.start()
        self.assertIs(self.never_two(), self.b)
        self.await_rows(self.a, "first second")

    def test_a_lost_folder_is_copied_and_never_begins_a_second_cluster(self):
        self.a.kill()
        self.b.entry("promote")
        self.b.kill()
        self.a.call("rm", "-rf", str(self.a.folder / "data" / "cluster"))
        self.a.start()
        self.await_word(self.a, "nothing is here to start")
        self.assertIsNone(self.a.query("SELECT 1"))
        self.b.start()
        self.assertIs(self.never_two(), self.b)
        self.await_rows(self.a, "first")
        self.assertIn("has a cluster", self.call_new_with_an_empty_folder())

    def call_new_with_an_empty_folder(self):
        """`new` on a server without data, while the other one answers."""
        self.a.kill()
        self.a.call("rm", "-rf", str(self.a.folder / "data" / "cluster"))
        return self.a.entry("new", is_refused=True)
