"""kill -9 while a peer, a server or PostgreSQL builds an index: it goes on by itself, and changes no answer."""

import contextlib
import json
import os
import random
import signal
import subprocess
import threading
import time
import types
import uuid

from mimeo_harness import SEED, OneProcess, Peer, mimeo, pick, until
from mimeo_harness.processes import ROOT
from system_test import SystemTest, report

DOCUMENTS = pick(fast=4_000, deep=12_000)
KILLS = pick(fast=2, deep=40)
SERVER_KILLS = pick(fast=2, deep=20)
POSTGRES_KILLS = pick(fast=1, deep=20)
NOWHERE = types.SimpleNamespace(origin="http://127.0.0.1:9", database=str(uuid.uuid4()), token="none")


class IndexKill(SystemTest):
    seconds = 600

    def test_an_index_goes_on_after_a_kill_in_the_middle_of_its_building(self):
        dice = random.Random(SEED)
        file = self.workspace.directory / "documents.json"
        file.write_text(json.dumps([{"_id": n, "a": n % 97, "t": "x" * 300} for n in range(DOCUMENTS)]))
        store = self.workspace.directory / "peer-a"
        run = mimeo("import", "--store", store, "--collection", "c", "--id", "_id", file)
        self.assertEqual(run.returncode, 0, run.stderr)
        peer = Peer(self.workspace, "a", NOWHERE, offline=True)
        wanted = peer.query("SELECT a, COUNT(*) AS n FROM c GROUP BY a ORDER BY a")
        found = {"building": 0, "ready": 0, "none": 0}
        earliest, latest, turn = 0.0, 0.6, 0
        # How long a machine takes to begin and to end is found out: what is ready was killed too late.
        while turn < KILLS or (found["building"] == 0 and turn < 60 + 6 * KILLS):
            turn += 1
            # The statement is on its way when the process dies: before, in the midst of, or after the building.
            peer.process.write(f"CREATE INDEX IF NOT EXISTS i{turn} ON c (a, _t{turn})")
            delay = dice.uniform(earliest, latest)
            time.sleep(delay)
            peer.kill()
            peer.start(offline=True)
            rows = [row for row in peer.query("SELECT * FROM system:indexes") if row["name"] == f"i{turn}"]
            state = rows[0]["state"] if rows else "none"
            found[state] += 1
            if state == "ready":
                latest = delay
            elif state == "none":
                earliest = delay
            if state == "building" or latest - earliest < 0.005:
                earliest, latest = delay * 0.5, delay * 1.5 + 0.01
            number = dice.randrange(DOCUMENTS)
            peer.execute(f"UPDATE c SET a = {number % 97} WHERE _id = {number}")
        self.assertGreater(found["building"], 0, f"no kill met the building of an index: {found}")
        until(lambda: all(row["state"] == "ready" for row in peer.query("SELECT * FROM system:indexes")), 120,
              "an index is still building")
        for index in ["''"] + [f"'{row['name']}'" for row in peer.query("SELECT * FROM system:indexes")]:
            rows = peer.query(f"SELECT a, COUNT(*) AS n FROM c USE INDEX {index} WHERE a >= 0 GROUP BY a ORDER BY a")
            self.assertEqual(rows, wanted, index)
        plan = json.dumps(peer.query("EXPLAIN SELECT * FROM c WHERE a = 5"))
        self.assertIn("indexScan", plan)
        self.assertEqual(peer.stop(), 0)
        report(f"{turn} kills: {found}")


class ServerIndexKill(SystemTest):
    seconds = 120 + 20 * SERVER_KILLS

    def test_what_was_acknowledged_is_defined_and_each_defined_index_is_built(self):
        dice = random.Random(SEED)
        server = OneProcess(self.workspace).start()
        documents = [{"_id": n, "a": n % 97, "t": "x" * 300} for n in range(DOCUMENTS)]
        for start in range(0, DOCUMENTS, 1_000):
            server.execute("INSERT INTO c DOCUMENTS (:d)", {"d": documents[start:start + 1_000]})
        wanted = server.query("SELECT a, COUNT(*) AS n FROM c GROUP BY a ORDER BY a")
        acknowledged, latest, turn = set(), 0.2, 0
        # How long a machine takes is found out: what is acknowledged was killed too late.
        while turn < SERVER_KILLS or (len(acknowledged) == turn and turn < 10 + SERVER_KILLS):
            turn += 1
            name = f"i{turn}"
            thread = threading.Thread(target=self.create, args=(server, name, acknowledged))
            thread.start()
            delay = dice.uniform(0, latest)
            time.sleep(delay)
            server.kill()
            thread.join()
            latest = delay * 0.7 if name in acknowledged else min(2.0, latest * 1.5)
            server.start()
            number = dice.randrange(DOCUMENTS)
            server.execute("UPDATE c SET a = :a WHERE _id = :n", {"a": number % 97, "n": number})
        until(lambda: all(row["state"] == "ready" for row in server.query("SELECT * FROM system:indexes")), 120,
              "an index is still building")
        names = [row["name"] for row in server.query("SELECT * FROM system:indexes")]
        self.assertEqual(acknowledged - set(names), set(), "an index that was acknowledged is not there")
        for index in ["", *names]:
            rows = server.query(
                f"SELECT a, COUNT(*) AS n FROM c USE INDEX '{index}' WHERE a >= 0 GROUP BY a ORDER BY a")
            self.assertEqual(rows, wanted, index)
        self.assertEqual(server.stop(), 0)
        self.assertLess(len(acknowledged), turn, "no kill met a statement")
        report(f"{turn} kills: {len(names)} indexes defined, {len(acknowledged)} of them acknowledged")

    @staticmethod
    def create(server, name, acknowledged):
        try:
            server.execute(f"CREATE INDEX {name} ON c (a, _t{name})")
            acknowledged.add(name)
        except Exception:  # The server was killed under it.
            pass


class PostgresIndexKill(SystemTest):
    """Server and PostgreSQL's processes are killed in turns, while an index is built and a writer writes."""

    seconds = 300 + 30 * POSTGRES_KILLS

    def test_indexes_and_counts_are_those_of_the_documents_after_each_kill(self):
        dice = random.Random(SEED)
        command = [ROOT / "scripts" / "with-postgres", "sh", "-c", "echo $MIMEO_TEST_POSTGRES; exec cat"]
        postgres = self.workspace.start("postgres", command)
        self.url = postgres.line(0, 180).strip()
        self.addCleanup(lambda: (postgres.close_input(), postgres.wait(60)))
        server = OneProcess(self.workspace, extra_arguments=["--projection", self.url]).start()
        documents = [{"_id": n, "a": n % 97, "t": "x" * 300} for n in range(DOCUMENTS)]
        for start in range(0, DOCUMENTS, 1_000):
            server.execute("INSERT INTO c DOCUMENTS (:d)", {"d": documents[start:start + 1_000]})
        done = set()
        for turn in range(2 * POSTGRES_KILLS):
            number = DOCUMENTS + turn
            threads = [
                threading.Thread(target=self.attempt, args=(server, done, turn, statement))
                for statement in (f"CREATE INDEX i{turn} ON c (a, _t{turn})",
                                  f"INSERT INTO c DOCUMENTS ({{'_id': {number}, 'a': {number % 97}}})")
            ]
            for thread in threads:
                thread.start()
            time.sleep(dice.uniform(0, 1.5))
            if turn % 2:
                self.kill_backends()
            else:
                server.kill()
            for thread in threads:
                thread.join()
            if turn % 2 == 0:
                server.start()
        self.settle(server)
        wanted = self.answered(server, "SELECT a, COUNT(*) AS n FROM c USE INDEX '' WHERE a >= 0 GROUP BY a ORDER BY a")
        names = [row["name"] for row in self.answered(server, "SELECT * FROM system:indexes")]
        self.assertEqual(done - {*names, *done & {"insert"}}, set(), "an acknowledged index is not there")
        for name in names:
            rows = self.answered(
                server, f"SELECT a, COUNT(*) AS n FROM c USE INDEX '{name}' WHERE a >= 0 GROUP BY a ORDER BY a")
            self.assertEqual(rows, wanted, name)
        count = self.answered(server, "SELECT COUNT(*) AS n FROM c")[0]["n"]
        self.assertEqual(count, sum(row["n"] for row in wanted))
        self.assertEqual(self.sql("SELECT count(*) FROM pg_index WHERE NOT indisvalid"), "0")
        self.assertEqual(server.stop(), 0)
        report(f"{2 * POSTGRES_KILLS} kills: {len(names)} indexes of {count} documents")

    @staticmethod
    def attempt(server, done, turn, statement):
        with contextlib.suppress(Exception):  # The server was killed under it.
            server.execute(statement)
            done.add(f"i{turn}" if statement.startswith("CREATE") else "insert")

    def answered(self, server, statement):
        """The items of a statement. While PostgreSQL recovers it is refused with a time to ask again."""
        answer = None

        def taken():
            nonlocal answer
            answer = server.post_statement(statement)
            if answer.status == 503:
                self.assertIsNotNone(answer.headers["Retry-After"], answer.body)
            return answer.status != 503

        until(taken, 60, lambda: f"{statement}: {answer.body}")
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["items"]

    @staticmethod
    def settle(server):
        """Waits until all indexes are ready. Many may be left to build: each has its time."""
        left = None
        while left != 0:
            before = left

            def advanced():
                nonlocal left
                with contextlib.suppress(Exception):  # PostgreSQL recovers.
                    left = sum(row["state"] != "ready" for row in server.query("SELECT * FROM system:indexes"))
                return left is not None and (left == 0 or before is None or left < before)

            until(advanced, 120, lambda: f"{left} indexes are still building, and none was completed")

    def sql(self, text):
        """What PostgreSQL answers, once it has recovered."""
        command = ["psql", "--no-psqlrc", "-At", "-c", text, self.url]
        run = None

        def is_connected():
            nonlocal run
            run = subprocess.run(command, capture_output=True, text=True, timeout=60)
            return run.returncode != 2

        until(is_connected, 60, lambda: run.stderr)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout.strip()

    def kill_backends(self):
        """One process of PostgreSQL that serves us; all others end with it, and the server recovers."""
        pids = self.sql(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pids.split()[0]), signal.SIGKILL)
