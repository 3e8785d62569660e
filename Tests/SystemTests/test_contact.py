"""Services that are cut off from the log, or get no answer from it: who may still do what, and that all goes on after.

Every service has a proxy of its own in front of PostgreSQL, and two short times: health fails after the first,
credentials are refused after the second. A second gateway keeps its contact, and revokes meanwhile.
"""

import base64
import os
import time

from mimeo_harness import FourProcesses, Peer, Postgres, until
from mimeo_harness.servers import await_health
from system_test import SystemTest

EVERYTHING = {"read": {"everything": True}, "write": {"everything": True}}
SELECT = "SELECT * FROM cars"
CONTACT, GRACE = 2, 8


class Contact(SystemTest):
    seconds = 300

    def setUp(self):
        super().setUp()
        self.postgres = Postgres(self.workspace).start()
        server = FourProcesses(self.workspace, log=self.postgres.url)
        self.proxies = {service: self.postgres.proxy() for service in server.services}
        server.logs = {service: Postgres.url_through(proxy) for service, proxy in self.proxies.items()}
        times = ["--contact-seconds", CONTACT, "--contact-grace-seconds", GRACE]
        server.extra_arguments = {service: times for service in server.services}
        self.server = server.start()
        await_health(server.start_service("auth-gateway", "direct"), server.client_of("direct"))
        self.admin = (server.data / "auth" / "admin.token").read_text().strip()
        self.path = f"/admin/auth/databases/{server.database}"
        self.kept, self.lost = (self.direct("POST", "/api-keys", {"name": name, "permissions": EVERYTHING})
                                for name in ("kept", "lost"))
        self.blob = server.upload(b"wheel").json["id"]
        self.peer = Peer(self.workspace, "a", server, [SELECT])
        self.write_at_the_peer("first")

    def direct(self, method, path, body=None):
        """An admin request to the gateway that has contact."""
        answer = self.server.client_of("direct").request(
            method, self.path + path, body, {"Authorization": f"Bearer {self.admin}"})
        self.assertLess(answer.status, 300, answer.body)
        return answer.json if answer.body else None

    def write_at_the_peer(self, name):
        self.peer.wait_for_commit(self.peer.execute(f"INSERT INTO cars DOCUMENTS ({{'_id': '{name}'}})")["commitID"])

    def ask(self, service, method, path, credential, body=None, headers=()):
        headers = {"Authorization": f"Bearer {credential}", **dict(headers)}
        return self.server.client_of(service).request(method, path, body, headers, seconds=90)

    def requests(self):
        """Every kind of credential at every service, by name."""
        token, key, server = self.server.access_token, self.kept["key"], self.server
        login = {"databaseID": server.database, "provider": "development", "token": server.token}
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                   "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode()}
        execute, upload = "/api/v5/store/execute", "/api/v5/attachments/upload"
        download = f"/api/v5/attachments/{self.blob}"
        rows = {
            "login": lambda: server.client_of("auth-gateway").request("POST", "/_ditto/auth/login", login),
            "certificate": lambda: self.ask("auth-gateway", "POST", "/_ditto/auth/cert", token, {"request": ""}),
            "admin of the gateway": lambda: self.ask("auth-gateway", "GET", self.path, self.admin),
            "admin of the replicator": lambda: self.ask(
                "replicator", "GET", "/admin/replicator/databases", self.admin),
        }
        for name, credential in (("token", token), ("API key", key)):
            rows |= {
                f"session by {name}": lambda c=credential: self.ask(
                    "replicator", "GET", "/_ditto/sync", c, headers=upgrade),
                f"statement by {name}": lambda c=credential: self.ask(
                    "query-service", "POST", execute, c, {"statement": SELECT}),
                f"upload by {name}": lambda c=credential: self.ask(
                    "attachment-store", "POST", upload, c, b"tyre", {"Content-Type": "application/octet-stream"}),
                f"download by {name}": lambda c=credential: self.ask("attachment-store", "GET", download, c),
            }
        return rows

    def codes(self, names=None):
        return {name: (answer.status, answer.error.get("code")) for name, answer in
                ((name, ask()) for name, ask in self.requests().items() if names is None or name in names)}

    def sessions(self):
        metrics = self.server.client_of("replicator").request("GET", "/metrics").body.decode()
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in metrics.splitlines()
                   if line.startswith("websocket_connections"))

    def health(self):
        """The status of each service, of all it has and of its own part."""
        return [self.server.client_of(service).request("GET", path).status for service in self.server.services
                for path in ("/health", f"/admin/{service}/health")]

    def check(self, part, mend, revoked):
        until(lambda: self.sessions() == 1, 60, "the peer's session")
        # A session that is still catching up reads the log, and ends without it.
        before = self.peer.execute(f"INSERT INTO cars DOCUMENTS ({{'_id': 'before {revoked['id']}'}})")["commitID"]
        self.peer.wait_for_commit(before, 90)
        until(lambda: self.health() == [200] * 8, 60, lambda: f"health {self.health()}")
        began = time.monotonic()
        part()
        until(lambda: self.health() == [503] * 8, 60, lambda: f"health {self.health()}")
        # What needs no answer of the log goes on until the grace is over.
        names = ("login", "upload by token", "download by token", "download by API key")
        codes, sessions = self.codes(names), self.sessions()
        # On a machine that is so slow that the grace may be over by now, this says nothing.
        if time.monotonic() - began < GRACE - 1:
            self.assertEqual(set(codes.values()), {(200, None)})
            self.assertEqual(sessions, 1)
        self.direct("DELETE", f"/api-keys/{revoked['id']}")
        refused = (503, "SRV-0602")
        time.sleep(max(0, began + GRACE - time.monotonic()))
        until(lambda: set(self.codes().values()) == {refused}, 60, lambda: str(self.codes()))
        for service, path in (("replicator", "/admin/replicator/databases"), ("auth-gateway", self.path)):
            self.assert_refused(self.ask(service, "GET", path, "x"), 401)
        until(lambda: self.sessions() == 0, 30, "the session goes on")
        commit = self.peer.execute(f"INSERT INTO cars DOCUMENTS ({{'_id': 'without {revoked['id']}'}})")["commitID"]
        mend()
        until(lambda: self.health() == [200] * 8, 90, lambda: f"health {self.health()}")
        for service, method, path, body in (
                ("query-service", "POST", "/api/v5/store/execute", {"statement": SELECT}),
                ("attachment-store", "GET", f"/api/v5/attachments/{self.blob}", None)):
            self.assert_refused(self.ask(service, method, path, revoked["key"], body), 401)
        expected = {"certificate": 400, "session by token": 101, "session by API key": 101}
        for name, (status, _) in self.codes().items():
            self.assertEqual(status, expected.get(name, 200), name)
        self.peer.wait_for_commit(commit, 90)

    def test_who_may_still_do_what(self):
        proxies = list(self.proxies.values())
        with self.subTest("the connections are cut"):
            self.check(lambda: [proxy.cut() for proxy in proxies], lambda: [proxy.mend() for proxy in proxies],
                       self.lost)
        other = self.direct("POST", "/api-keys", {"name": "other", "permissions": EVERYTHING})
        with self.subTest("the connections are half open: no byte and no end"):
            self.check(lambda: [proxy.freeze() for proxy in proxies], lambda: [proxy.thaw() for proxy in proxies],
                       other)
