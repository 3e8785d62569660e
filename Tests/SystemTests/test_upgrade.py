"""`mimeo upgrade --check`: what it tells before an upgrade is what a start then does, and it changes nothing."""

import hashlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3

from mimeo_harness import OneProcess, Postgres, mimeo, until
from system_test import SystemTest

FIXTURES = pathlib.Path(__file__).parents[1] / "ReplicaTests" / "Fixtures"


class UpgradeTest(SystemTest):
    seconds = 120

    def check(self, *arguments, expected=0):
        """The answer, and its parts by name."""
        done = mimeo("upgrade", "--check", "--json", *arguments)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        answer = json.loads(done.stdout)
        return answer, {row["part"]: row for row in answer["parts"]}

    @staticmethod
    def set_format(path, version):
        """Writes the file again, without sums of its pages, as if another version had."""
        copy = path.with_suffix(".copy")
        with sqlite3.connect(path) as old, sqlite3.connect(copy) as new:
            new.executescript("".join(old.iterdump()))
            mark = old.execute("PRAGMA application_id").fetchone()[0]
            new.executescript(f"PRAGMA application_id = {mark}; PRAGMA user_version = {version}")
        old.close()
        new.close()
        copy.rename(path)


class Upgrade(UpgradeTest):
    def digests(self, folder):
        """Every file and folder, with its content and the time of its last change."""
        return {path: (path.stat().st_mtime_ns, path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest())
                for path in sorted(folder.rglob("*"))}

    def test_files_of_this_an_earlier_and_a_newer_version(self):
        server = OneProcess(self.workspace).start()
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        answer, parts = self.check("--data", server.data)
        self.assertEqual((answer["starts"], answer["changes"], answer["wayBack"]), (True, False, "replaceTheProgram"))
        self.assertEqual({row["outcome"] for row in parts.values()}, {"opened"})
        self.assertEqual(set(parts), {"log", "fold"})
        server.stop()
        log = server.data / "log.sqlite"

        # A fold of a format that was never released, among the present ones.
        shutil.copytree(FIXTURES / "store-11", server.data / "replicator" / "earlier")
        self.set_format(server.data / "replicator" / "earlier" / "replica.sqlite", 8)
        before = self.digests(server.data)
        answer, _ = self.check("--data", server.data)
        old = [row for row in answer["parts"] if row["place"].endswith("/earlier")]
        self.assertEqual([(row["outcome"], row["stored"]) for row in old], [("rebuilt", 8)])
        self.assertEqual((answer["changes"], answer["wayBack"]), (True, "removeTheFolds"))
        self.set_format(server.data / "replicator" / "earlier" / "replica.sqlite", 99)
        answer, _ = self.check("--data", server.data, expected=1)
        self.assertIn("STORE-0103", json.dumps(answer))
        shutil.rmtree(server.data / "replicator" / "earlier")

        for version in (99, 4):
            self.set_format(log, version)
            refused = self.digests(server.data)
            answer, parts = self.check("--data", server.data, expected=1)
            self.assertEqual((answer["starts"], answer["wayBack"]), (False, None))
            self.assertTrue(parts["log"]["refusal"].startswith("LOG-0203"), parts["log"])
            done = mimeo("serve", "--data", server.data, "--listen", "127.0.0.1:0")
            self.assertIn("LOG-0203", done.stderr)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(self.digests(server.data), refused)
        self.assertIn("before 0.2.0", done.stderr)
        self.assertTrue(before)

    def test_nothing_at_all_changes_beside_a_server_that_runs_and_after_it_was_killed(self):
        elsewhere = self.workspace.directory / "elsewhere"
        server = OneProcess(self.workspace, extra_arguments=["--projection", f"sqlite:{elsewhere}"]).start()
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        server.query("SELECT * FROM c")
        place = ["--data", server.data, "--projection", f"sqlite:{elsewhere}"]
        answer, parts = self.check(*place)
        self.assertEqual((answer["changes"], {row["outcome"] for row in parts.values()}), (False, {"opened"}))
        self.assertTrue(any(row["place"].startswith(str(elsewhere)) for row in answer["parts"]), answer)
        # A server that is halted holds its locks and changes nothing itself.
        os.kill(server.process.pid, signal.SIGSTOP)
        try:
            stat = pathlib.Path(f"/proc/{server.process.pid}/stat")
            until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", 30, "the server is not halted")
            before = self.digests(self.workspace.directory)
            beside, _ = self.check(*place)
            self.assertEqual((beside, self.digests(self.workspace.directory)), (answer, before))
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
        # Killed, it leaves write-ahead logs, and whoever opens the files would go through them.
        server.kill()
        for index in [*server.data.rglob("*-shm"), *elsewhere.rglob("*-shm")]:
            index.unlink()
        before = self.digests(self.workspace.directory)
        killed, _ = self.check(*place)
        self.assertEqual((killed, self.digests(self.workspace.directory)), (answer, before))

        # A projection that a newer version wrote, elsewhere than the data.
        store = next(elsewhere.rglob("replica.sqlite"))
        server.start()
        self.assertEqual(server.stop(), 0)
        self.set_format(store, 99)
        answer, _ = self.check(*place, expected=1)
        self.assertIn("STORE-0103", json.dumps(answer))

    def test_a_peers_store_a_missing_log_and_a_wrong_command_line(self):
        for fixture, outcome in (("store-11", "migrated"), ("store-12", "opened")):
            store = self.workspace.directory / fixture
            shutil.copytree(FIXTURES / fixture, store)
            place = ["--data", self.workspace.directory / "none", "--peer-store", store]
            before = self.digests(store)
            answer, parts = self.check(*place)
            self.assertEqual((parts["log"]["outcome"], parts["peer's store"]["outcome"]), ("new", outcome))
            self.assertEqual(self.digests(store), before)
        self.set_format(store / "replica.sqlite", 10)
        before = self.digests(store)
        answer, parts = self.check(*place, expected=1)
        self.assertEqual(parts["peer's store"]["outcome"], "refused")
        self.assertTrue(parts["peer's store"]["refusal"].startswith("STORE-0103: it has format 10"), parts)
        self.assertEqual(self.digests(store), before)
        self.assertIn("refused", json.dumps(self.check("--data", "none", "--peer-store", "/none", expected=1)))
        self.assertEqual(mimeo("upgrade", "--data", "none").returncode, 2)
        self.check("--log", "postgres://mimeo@127.0.0.1:1/none", expected=3)


class UpgradeInPostgreSQL(UpgradeTest):
    def test_log_and_projection(self):
        postgres = Postgres(self.workspace).start()
        place = ["--data", self.workspace.directory / "server", "--log", postgres.url, "--projection", postgres.url]
        self.assertEqual({row["outcome"] for row in self.check(*place)[1].values()}, {"new"})
        server = OneProcess(self.workspace, extra_arguments=place[2:]).start()
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        answer, parts = self.check(*place)
        self.assertEqual((parts["log"]["outcome"], parts["projection"]["outcome"]), ("opened", "opened"))
        server.stop()
        postgres.query("UPDATE mimeo_log.format SET version = 4")
        answer, parts = self.check(*place, expected=1)
        self.assertTrue(parts["log"]["refusal"].startswith("LOG-0203: it has format 4"), parts["log"])
        postgres.query("UPDATE mimeo_log.format SET version = 99")
        postgres.query("UPDATE mimeo_projection.format SET version = 98")
        answer, parts = self.check(*place, expected=1)
        self.assertTrue(parts["log"]["refusal"].startswith("LOG-0203: it has format 99"), parts["log"])
        self.assertTrue(parts["projection"]["refusal"].startswith("PROJ-0104: it has format 98"), parts)
        self.assertEqual(postgres.query("SELECT version FROM mimeo_log.format"), [["99"]])
