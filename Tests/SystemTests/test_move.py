"""Databases move to another log while they are written, and the mover is killed in each step."""

import fcntl
import json
import threading

from mimeo_harness import OneProcess, Peer, Postgres, binary, mimeo, until
from system_test import SystemTest, report

EVERYTHING = ["SELECT * FROM c"]
INCREMENT = "UPDATE c APPLY n INCREMENT BY 1 WHERE _id = 'x'"
ADDRESS = "https://new.example.com"


class Writer:
    """Inserts documents over HTTP, one after the other, and remembers what was acknowledged."""

    def __init__(self, server):
        self.acknowledged = []
        self.refusals = []
        self._server = server
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        number = 0
        while not self._is_over.is_set():
            number += 1
            try:
                answer = self._server.post_statement("INSERT INTO c DOCUMENTS ({'_id': :id})", {"id": f"w{number}"})
            except OSError as problem:
                self.refusals.append((0, repr(problem)))
                self._is_over.wait(0.05)
                continue
            if answer.status == 200:
                self.acknowledged.append(f"w{number}")
            else:
                self.refusals.append((answer.status, answer.error.get("code"), answer.error.get("message")))
                self._is_over.wait(0.05)

    def stop(self):
        self._is_over.set()
        self._thread.join()


class Moves(SystemTest):
    seconds = 300

    def move(self, server, to, *arguments, log=()):
        done = mimeo("database", "move", "--data", server.data, *log, "--to", to, *arguments)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def kill_at(self, step, server, to):
        """Begins a move, and kills it once it says that it begins this step."""
        mover = self.workspace.start("mover", [
            binary("mimeo"), "database", "move", "--data", server.data, "--to", to, "--address", ADDRESS])
        index = 0
        while json.loads(mover.line(index, 60) or self.fail(mover.log_tail())).get("step") != step:
            index += 1
        mover.kill()

    def test_a_server_moves_from_sqlite_to_postgresql_under_writes_with_the_mover_killed_in_each_step(self):
        postgres = Postgres(self.workspace).start()
        server = OneProcess(self.workspace).start()
        a, b = (Peer(self.workspace, name, server, EVERYTHING) for name in "ab")
        a.wait_for_commit(a.execute("INSERT INTO c DOCUMENTS ({'_id': 'x'})")["commitID"])
        until(lambda: b.count("c") == 1, 60, "b never saw the document")
        attachment = server.upload(b"a blob").json["id"]
        writer = Writer(server)
        try:
            until(lambda: len(writer.acknowledged) > 20, 60, "nothing is written")
            self.kill_at("copying", server, postgres.url)
            before = len(writer.acknowledged)
            until(lambda: len(writer.acknowledged) > before, 60, "writes stop with a copy")
            b.wait_for_commit(b.execute(INCREMENT)["commitID"])
            # It is killed while it closes the log, or copies the rest, or just before or after all that.
            self.kill_at("closed", server, postgres.url)
            self.kill_at("moved", server, postgres.url)
            until(lambda: writer.refusals, 60, "the old log takes writes")
            until(lambda: b"LOG-0313" in server.request("GET", "/health").body, 60, "health does not tell")
            self.assertEqual(server.request("GET", "/health/ready").status, 503)
            refused = server.post_statement("INSERT INTO c DOCUMENTS ({'_id': 'late'})")
            self.assert_refused(refused, 503)
            self.assertEqual(refused.error["code"], "LOG-0313")
            self.assertIn(ADDRESS, refused.error["message"])
            self.assertEqual(server.count("c", "_id = 'x'"), 1)
        finally:
            writer.stop()
        commits = {peer: peer.execute(INCREMENT)["commitID"] for peer in (a, b)}
        moved = self.move(server, postgres.url, "--address", ADDRESS)
        self.assertTrue(moved["moved"])
        self.assertIn(server.database, [part["database"] for part in moved["databases"]])
        server.stop()

        second = OneProcess(self.workspace, extra_arguments=["--log", postgres.url])
        second.port, second.origin = server.port, server.origin
        second.start()
        self.assertEqual(second.database, server.database)
        for peer, commit in commits.items():
            peer.wait_for_commit(commit, 120)
        expected = sorted(["x", *writer.acknowledged])
        for name, side in {"server": second, "a": a, "b": b}.items():
            until(lambda: sorted(row["_id"] for row in side.query("SELECT _id FROM c")) == expected, 90,
                  lambda: f"{name} lacks or has too much")
            until(lambda: side.query("SELECT n FROM c WHERE _id = 'x'") == [{"n": 3}], 60, f"{name} does not count")
        self.assertEqual(second.download(attachment).body, b"a blob")
        # The positions that the peers have seen are the new log's: nobody takes it for one that was put back.
        self.assertNotIn("put back", second.process.log_path.read_text())
        report(f"{len(writer.acknowledged)} acknowledged writes moved, {len(writer.refusals)} were refused meanwhile")

    def test_one_database_moves_to_another_server_that_runs_and_a_move_is_taken_back(self):
        server = OneProcess(self.workspace).start()
        other = OneProcess(self.workspace, "other").start()
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 'x'})")
        to = f"sqlite:{other.data / 'log.sqlite'}"
        one = ["--database", server.database]
        self.assertFalse(self.move(server, to, *one, "--ahead")["moved"])
        self.move(server, to, *one, "--cancel")
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 'y'})")
        # The third byte of the wake file is the lock of whoever makes drafts in the log: a mover, for example.
        with open(server.data / "log.sqlite-wake", "r+b") as wake:
            fcntl.lockf(wake, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 2)
            for second in (["--cancel"], ["--ahead"], []):
                refused = mimeo("database", "move", "--data", server.data, "--to", to, *one, *second)
                self.assertEqual(refused.returncode, 1, refused.stdout)
                self.assertIn("LOG-0314", refused.stderr)
        whole = mimeo("database", "move", "--data", server.data, "--to", to)
        self.assertEqual(whole.returncode, 1, whole.stderr)
        self.assertIn("BAK-0401", whole.stderr)
        self.assertTrue(self.move(server, to, *one)["moved"])
        self.assertEqual(server.post_statement("INSERT INTO c DOCUMENTS ({'_id': 'z'})").error["code"], "LOG-0313")
        # The rest of the server is served as before.
        self.assertEqual(server.request("GET", "/health/ready").status, 200)
        done = mimeo("database", "move", "--data", server.data, "--to", to, *one, "--cancel")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("BAK-0401", done.stderr)
        back = self.move(other, f"sqlite:{server.data / 'log.sqlite'}", *one)
        self.assertTrue(back["moved"])
        until(lambda: server.post_statement("INSERT INTO c DOCUMENTS ({'_id': 'z'})").status == 200, 60,
              "the former log takes no writes after the way back")
        until(lambda: server.count("c") == 3, 60, "documents are missing after the way back")
