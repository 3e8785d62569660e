"""A PostgreSQL that is not as the services need it: away under running ones, full under a projection, of another format.

What cannot be done is a 503 with a code and a time to come back; when things are as they should be again, everything
goes on without a restart.
"""

import os
import random
import shutil
import unittest

from mimeo_harness import FourProcesses, Peer, Postgres, deep_only, until
from system_test import SystemTest
from test_disk_full import SmallDisk


class PostgresAway(SystemTest):
    seconds = 300

    def insert(self, server, name, kib=0):
        text = random.Random(name).randbytes(kib * 512).hex()
        return server.post_statement("INSERT INTO cars DOCUMENTS (:car)", {"car": {"_id": name, "t": text}}, seconds=60)

    def assert_comes_back(self, answer, code):
        self.assert_refused(answer, 503)
        self.assertIn(code, answer.body.decode())
        headers = {name.lower(): value for name, value in dict(answer.headers).items()}
        self.assertGreater(int(headers["retry-after"]), 0)

    @staticmethod
    def ids(side):
        return sorted(item["_id"] for item in side.query("SELECT _id FROM cars"))

    def health(self, server, service):
        return server.client_of(service).request("GET", "/health", seconds=60).status

    def test_a_log_that_is_away_is_a_503_and_comes_back_by_itself(self):
        postgres = Postgres(self.workspace).start()
        server = FourProcesses(self.workspace, log=postgres.url).start()
        peer = Peer(self.workspace, "a", server, ["SELECT * FROM cars"])
        self.assertEqual(self.insert(server, "first").status, 200)
        until(lambda: self.ids(peer) == ["first"], 60, "the peer does not follow")
        postgres.kill()
        for _ in range(3):
            self.assert_comes_back(self.insert(server, "away"), "LOG-030")
            self.assert_comes_back(server.post_statement("SELECT _id FROM cars", seconds=60), "LOG-030")
        for service in ("replicator", "query-service"):
            until(lambda: self.health(server, service) == 503, 60, f"{service} says it is healthy")
        commit = peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'offline'})")["commitID"]
        self.assertEqual(self.ids(peer), ["first", "offline"])
        postgres.start()
        until(lambda: self.insert(server, "last").status == 200, 60, "writes are still refused")
        peer.wait_for_commit(commit, 60)
        expected = ["first", "last", "offline"]
        for side in (server, peer):
            until(lambda: self.ids(side) == expected, 60, lambda: f"{self.ids(side)}, not {expected}")
        for service in ("replicator", "query-service"):
            until(lambda: self.health(server, service) == 200, 60, f"{service} is not healthy again")

    @deep_only("it waits 30 s for a server; StoppedTests of PostgresTests do the same with a short time-out")
    def test_a_log_whose_server_hangs_is_a_503_and_comes_back_by_itself(self):
        postgres = Postgres(self.workspace).start()
        server = FourProcesses(self.workspace, log=postgres.url)
        server.extra_arguments["query-service"] = ["--projection", postgres.url]
        server.start()
        peer = Peer(self.workspace, "a", server, ["SELECT * FROM cars"])
        self.assertEqual(self.insert(server, "first").status, 200)
        until(lambda: self.ids(peer) == ["first"], 60, "the peer does not follow")
        postgres.freeze()
        commit = peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'offline'})")["commitID"]
        # Nothing waits for ever, although nothing is heard of the server (thirty seconds, and connecting again).
        self.assert_refused(server.post_statement("SELECT _id FROM cars", seconds=90), 503)
        for service in ("replicator", "query-service"):
            until(lambda: self.health(server, service) == 503, 90, f"{service} says it is healthy")
        self.assertEqual(self.ids(peer), ["first", "offline"])
        postgres.thaw()
        until(lambda: self.insert(server, "last").status == 200, 60, "writes are still refused")
        peer.wait_for_commit(commit, 60)
        expected = ["first", "last", "offline"]
        for side in (server, peer):
            until(lambda: self.ids(side) == expected, 60, lambda: f"{self.ids(side)}, not {expected}")
        for service in ("replicator", "query-service"):
            until(lambda: self.health(server, service) == 200, 60, f"{service} is not healthy again")

    def test_a_log_of_a_newer_build_is_refused_and_left_as_it_is(self):
        postgres = Postgres(self.workspace).start()
        server = FourProcesses(self.workspace, log=postgres.url).start()
        self.assertEqual(self.insert(server, "first").status, 200)
        version = postgres.query("SELECT version FROM mimeo_log.format")[0][0]
        postgres.query("UPDATE mimeo_log.format SET version = 99")
        before = postgres.query("SELECT * FROM mimeo_log.databases WHERE id NOT LIKE 'mimeo.%'")
        refused = server.start_service("query-service", "query-service-2")
        self.assertNotEqual(refused.wait(60), 0)
        self.assertIn("LOG-0203", refused.log_tail())
        self.assertEqual(postgres.query("SELECT version FROM mimeo_log.format"), [["99"]])
        self.assertEqual(postgres.query("SELECT * FROM mimeo_log.databases WHERE id NOT LIKE 'mimeo.%'"), before)
        postgres.query(f"UPDATE mimeo_log.format SET version = {version}")
        server.start_service("query-service", "query-service-2")
        other = server.client_of("query-service-2")
        until(lambda: self.answers(other) == 200, 60, "the second query-service does not answer")
        self.assertEqual(self.ids(other), ["first"])

    @staticmethod
    def answers(client):
        try:
            return client.post_statement("SELECT _id FROM cars", seconds=60).status
        except OSError:
            return None

    def test_a_full_tablespace_of_a_projection_says_so_and_catches_up_when_there_is_space(self):
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root may mount a small file system")
        postgres = Postgres(self.workspace).start()
        disk = SmallDisk(self.workspace, self.workspace.directory / "tablespace")
        shutil.chown(disk.folder, "postgres", "postgres")
        postgres.query(f"CREATE TABLESPACE small LOCATION '{disk.folder}'")
        postgres.query("ALTER SYSTEM SET default_tablespace = small")
        postgres.query("SELECT pg_reload_conf()")
        server = FourProcesses(self.workspace)
        server.extra_arguments["query-service"] = ["--projection", postgres.url]
        server.start()
        self.assertEqual(self.insert(server, "first").status, 200)
        disk.fill(left_kib=100)
        peers = {name: Peer(self.workspace, name, server, ["SELECT * FROM cars"]) for name in "ab"}
        expected = ["first"]
        for number in range(40):
            text = random.Random(number).randbytes(10_000).hex()
            statement = f"INSERT INTO cars DOCUMENTS ({{'_id': 'p-{number:02}', 't': '{text}'}})"
            commit = peers["a"].execute(statement)["commitID"]
            expected.append(f"p-{number:02}")
        peers["a"].wait_for_commit(commit, 60)
        # Nobody else is held up.
        until(lambda: self.ids(peers["b"]) == sorted(expected), 60, "the other peer does not follow")
        self.assert_comes_back(server.post_statement("SELECT _id FROM cars", seconds=60), "PROJ-0")
        self.assertEqual(self.health(server, "query-service"), 503)
        disk.clear()
        until(lambda: self.answers(server) == 200, 60, "reads are still refused")
        self.assertEqual(self.ids(server), sorted(expected))
        self.assertEqual(self.insert(server, "last").status, 200)
        until(lambda: self.health(server, "query-service") == 200, 60, "the query-service is not healthy again")
