"""Limits of a database and of its users, from outside: requests, bytes and sessions beyond them, and what metrics tell."""

import json

from mimeo_harness import OneProcess, Peer, mimeo, until
from system_test import SystemTest


class Limits(SystemTest):
    def setUp(self):
        super().setUp()
        self.server = OneProcess(self.workspace).start()
        self.server.execute("INSERT INTO c DOCUMENTS ({'_id': 'a', 'text': :text})", {"text": "x" * 50_000})

    def admin(self, *words):
        done = mimeo(
            "admin", *words, "--url", self.server.origin, "--admin-credential-file",
            self.server.data / "auth" / "admin.token", "--database", self.server.database, "--format", "json", "--yes")
        self.assertEqual(done.returncode, 0, f"{words} {done.stdout} {done.stderr}")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def limit(self, **limits):
        self.admin("limits", "put", *(part for name, value in limits.items() for part in (f"--{name}", json.dumps(value))))

    def read(self, key=None):
        fields = {"Authorization": f"Bearer {key}"} if key else self.server.authorization()
        return self.server.request("POST", "/api/v5/store/execute", {"statement": "SELECT * FROM c"}, fields)

    def refused(self, ask):
        """The first answer that a limit refuses."""
        return until(lambda: (answer := ask()).status == 429 and answer, 60, "nothing is refused", pause=0)

    def series(self, name):
        text = self.server.request("GET", "/metrics").body.decode()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + "{")}

    def test_requests_beyond_the_limit_are_refused_and_other_users_go_on(self):
        key = self.admin("api-keys", "create", "--name", "other", "--permissions", '{"read": {"everything": true}}')["key"]
        self.server.authorization()
        self.limit(**{"each-user": {"requestsPerSecond": 2}, "users": {"api-key:other": {"requestsPerSecond": 100_000}}})
        self.assertEqual(self.admin("limits", "show")["eachUser"], {"requestsPerSecond": 2})
        answer = self.refused(self.read)
        self.assertEqual((answer.error["code"], answer.error["limit"], answer.error["of"]), ("SRV-0432", "requestsPerSecond", "user"))
        self.assertEqual(answer.headers["Retry-After"], "1")
        for _ in range(20):
            self.assertEqual(self.read(key).status, 200)
        (refusals,) = [value for name, value in self.series("mimeo_limit_refused_total").items() if "requestsPerSecond" in name]
        self.assertGreaterEqual(refusals, 1)
        until(lambda: 2 in self.series("mimeo_limit_most").values(), 60, "the metrics tell no limit")
        # Whoever waits is let in, and an end of all limits is at once.
        until(lambda: self.read().status == 200, 60, "waiting does not help")
        self.limit()
        for _ in range(20):
            self.assertEqual(self.read().status, 200)

    def test_bytes_of_answers_and_bodies_are_paid_for(self):
        self.server.authorization()
        self.limit(whole={"bytesPerSecond": 20_000})
        answer = self.refused(self.read)
        self.assertEqual((answer.error["limit"], answer.error["of"]), ("bytesPerSecond", "database"))
        self.assertGreaterEqual(int(answer.headers["Retry-After"]), 1)
        self.limit(whole={"bytesPerSecond": 1_000_000})
        body = {"statement": "SELECT :text AS n FROM system:dual", "args": {"text": "x" * 1_000_000}}
        answer = self.refused(lambda: self.server.request("POST", "/api/v5/store/execute", body, self.server.authorization()))
        self.assertEqual(answer.error["limit"], "bytesPerSecond")

    def test_bytes_of_a_session_are_paid_for_and_all_of_them_arrive(self):
        peer = Peer(self.workspace, "peer", self.server, ["SELECT * FROM d"])
        until(lambda: peer.ask(".status")["connected"], 60, "the peer has no session")
        self.limit(whole={"bytesPerSecond": 40_000})
        for number in range(20):
            peer.execute(f"INSERT INTO d DOCUMENTS ({{'_id': {number}, 'text': '{'x' * 10_000}'}})")
        # The session pays: a request that has none of its own waits for its debt.
        answer = self.refused(lambda: self.server.request("GET", "/api/v5/requests", None, self.server.authorization()))
        self.assertEqual((answer.error["limit"], answer.error["of"]), ("bytesPerSecond", "database"))
        self.limit()
        until(lambda: self.server.count("d") == 20, 120, "writes of the session that waited are missing")
        self.assertTrue(peer.ask(".status")["connected"])

    def test_a_peer_without_a_place_loses_no_write(self):
        self.limit(whole={"sessions": 1})
        first = Peer(self.workspace, "first", self.server, ["SELECT * FROM d"])
        until(lambda: first.ask(".status")["connected"], 60, "the first one has no session")
        second = Peer(self.workspace, "second", self.server, ["SELECT * FROM d"])
        second.execute("INSERT INTO d DOCUMENTS ({'_id': 'kept'})")
        until(lambda: any("sessions" in name and value for name, value in self.series("mimeo_limit_refused_total").items()),
              60, "no session is refused")
        self.assertFalse(second.ask(".status")["connected"])
        self.assertEqual(self.server.count("d"), 0)
        until(lambda: any("sessions" in name and value == 1 for name, value in self.series("mimeo_limit_used").items()),
              60, "the metrics tell no session")
        first.stop()
        until(lambda: self.server.count("d") == 1, 60, "the write of the peer that waited does not come")
