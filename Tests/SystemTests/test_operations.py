"""What an operator does with a replicator: TLS, draining, looking at sessions and the log, truncating it."""

import asyncio
import json
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request

from mimeo_harness import FaultProxy, FourProcesses, OneProcess, Peer, Postgres, until, use_packages
from system_test import SystemTest

use_packages()
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "Conformance"))

from wire_peer import WirePeer  # noqa: E402

SELECT = "SELECT * FROM cars"


class Certificates:
    """An authority of a test's own, and certificates for loopback by it."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.authority = self.directory / "authority.pem"
        self._run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                  "-subj", "/CN=test authority", "-keyout", "authority.key", "-out", "authority.pem")

    def issue(self, name, serial):
        """Writes NAME.pem and NAME.key, over what was there."""
        self._run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
                  "-keyout", "new.key", "-out", "new.csr")
        (self.directory / "names.cnf").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        self._run("x509", "-req", "-in", "new.csr", "-CA", "authority.pem", "-CAkey", "authority.key", "-days", "2",
                  "-set_serial", str(serial), "-extfile", "names.cnf", "-out", "new.pem")
        (self.directory / "new.key").rename(self.directory / f"{name}.key")
        (self.directory / "new.pem").rename(self.directory / f"{name}.pem")

    def _run(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.directory, check=True, capture_output=True)


class SecureServer(OneProcess):
    """`mimeo serve` with a certificate; spoken to through TLS by everybody."""

    def __init__(self, workspace, certificates):
        self.certificates = certificates
        arguments = ["--tls-certificate", certificates.directory / "server.pem",
                     "--tls-key", certificates.directory / "server.key", "--keep-alive-seconds", "1"]
        super().__init__(workspace, "secure", arguments)
        self.origin = f"https://localhost:{self.port}"

    def request(self, method, path, body=None, headers=None, seconds=60):
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        asked = urllib.request.Request(
            self.origin + path, data, {"Content-Type": "application/json", **(headers or {})}, method=method)
        context = ssl.create_default_context(cafile=self.certificates.authority)
        with urllib.request.urlopen(asked, timeout=seconds, context=context) as answer:
            return Answer(answer.status, answer.read())

    def serial(self):
        """The serial number of the certificate that a new connection is shown."""
        context = ssl.create_default_context(cafile=self.certificates.authority)
        with context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), 10),
                                 server_hostname="localhost") as connected:
            return int(connected.getpeercert()["serialNumber"], 16)


class Answer:
    def __init__(self, status, body):
        self.status, self.body = status, body

    @property
    def json(self):
        return json.loads(self.body)


class TLS(SystemTest):
    seconds = 240

    def setUp(self):
        super().setUp()
        self.certificates = Certificates(self.workspace.directory)
        self.certificates.issue("server", 1001)
        self.server = SecureServer(self.workspace, self.certificates).start()

    def peer(self, name, server, trusting=True):
        environment = {"SSL_CERT_FILE": str(self.certificates.authority)} if trusting else {}
        return Peer(self.workspace, name, server, [SELECT], environment=environment)

    def test_sync_and_http_over_tls_and_a_certificate_that_is_renewed(self):
        self.assertTrue(self.server.announced_url.startswith("https://"), self.server.announced_url)
        peer = self.peer("a", self.server)
        peer.wait_for_commit(peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 1})")["commitID"])
        self.assertEqual(self.server.query(SELECT), [{"_id": 1}])
        self.assertEqual(self.server.serial(), 1001)
        self.certificates.issue("server", 1002)
        until(lambda: self.server.serial() == 1002, 30, "the renewed certificate", pause=0.3)
        # The session goes on, and new ones begin under the new one.
        peer.wait_for_commit(peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 2})")["commitID"])
        peer.stop_sync()
        peer.start_sync()
        peer.wait_for_commit(peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 3})")["commitID"])
        # A file that is none changes nothing.
        (self.certificates.directory / "server.pem").write_text("no certificate")
        time.sleep(1.2)
        self.assertEqual(self.server.serial(), 1002)
        self.assertEqual(self.server.stop(signal.SIGTERM), 0)

    def test_who_does_not_trust_the_authority_does_not_connect(self):
        stranger = self.peer("stranger", self.server, trusting=False)
        stranger.execute("INSERT INTO cars DOCUMENTS ({'_id': 1})")
        with self.assertRaises(RuntimeError):
            stranger.wait_for_commit(1, 3)
        self.assertEqual(self.server.query(SELECT), [])

    def test_turned_bits_are_always_noticed_under_tls(self):
        """On a line that turns bits over in both directions nothing wrong arrives, and all of it in the end."""
        proxy = FaultProxy(self.workspace, ("127.0.0.1", self.server.port))
        proxy.spare_bytes = 6_000
        proxy.corrupt.update(up=0.05, down=0.05)
        outside = Outside(self.server, f"https://localhost:{proxy.port}")
        peers = [self.peer(name, outside) for name in "ab"]
        for number in range(30):
            peer = peers[number % 2]
            last = peer.execute(f"INSERT INTO cars DOCUMENTS ({{'_id': {number}, 'text': '{'t' * 2000}'}})")
            time.sleep(0.02)
        time.sleep(2)
        proxy.corrupt.update(up=0.0, down=0.0)
        proxy.reset()
        peers[1].wait_for_commit(last["commitID"], 60)
        expected = [{"_id": number, "text": "t" * 2000} for number in range(30)]
        until(lambda: self.server.count("cars") == 30, 60, "everything to arrive")
        self.assertEqual(self.server.query(f"{SELECT} ORDER BY _id"), expected)
        for peer in peers:
            until(lambda: peer.query(f"{SELECT} ORDER BY _id") == expected, 60, "everything to come back")
        self.assertGreater(proxy.accepted, 4)


class Outside:
    """A server at another address."""

    def __init__(self, server, origin):
        self.origin, self.database, self.token = origin, server.database, server.token


class Draining(SystemTest):
    seconds = 360

    def test_a_replicator_that_drains_or_stops_sends_its_peers_elsewhere(self):
        """nginx knows two on one PostgreSQL log; nobody is cut off, and nothing but what they say leads the peers."""
        postgres = Postgres(self.workspace).start()
        cluster = FourProcesses(self.workspace, log=postgres.url)
        names = ("replicator", "replicator-2")
        cluster.fronts["replicator"] = [cluster.address_of(name) for name in names]
        cluster.extra_arguments["replicator-2"] = [
            "--data", self.workspace.directory / "other", "--admin-token", cluster.data / "auth" / "admin.token"]
        cluster.start()
        cluster.start_service("replicator", "replicator-2")
        until(lambda: healthy(cluster.client_of("replicator-2")), 30, "the second replicator is not healthy")
        peers = [Peer(self.workspace, name, cluster, [SELECT]) for name in "abcdef"]
        self.write(peers, "first")
        credential = (cluster.data / "auth" / "admin.token").read_text().strip()
        clients = {name: cluster.client_of(name) for name in names}

        def admin(name, method, path):
            answer = clients[name].request(method, path, headers={"Authorization": f"Bearer {credential}"})
            self.assertEqual(answer.status, 200, answer.body[:300])
            return answer.json

        def sessions(name):
            return len(admin(name, "GET", f"/admin/replicator/databases/{cluster.database}/sessions")["sessions"])

        until(lambda: sessions("replicator") + sessions("replicator-2") == len(peers), 30, "every session")
        self.assertGreater(sessions("replicator"), 0)
        admin("replicator", "POST", "/admin/replicator/drain")
        until(lambda: sessions("replicator") == 0, 60, "the sessions to go")
        until(lambda: sessions("replicator-2") == len(peers), 150, "all peers at the other")
        self.write(peers, "drained")
        self.assertFalse(admin("replicator", "DELETE", "/admin/replicator/drain")["draining"])
        codes = []
        stopping = threading.Thread(target=lambda: codes.append(cluster.processes["replicator-2"].stop(signal.SIGTERM)))
        end = asyncio.run(self.told(cluster, stopping.start))
        self.assertEqual((end.code, end.status), ("SYNC-0503", 1001))
        asyncio.run(self.let_in_at_once(cluster))
        self.write(peers, "stopped")
        stopping.join()
        self.assertEqual(codes, [0])
        until(lambda: sessions("replicator") == len(peers), 60, "all peers, and nobody else, at the first")
        self.assertEqual(cluster.count("cars"), 3 * len(peers))

    @staticmethod
    def write(peers, text):
        for peer in peers:
            commit = peer.execute(f"INSERT INTO cars DOCUMENTS ({{'_id': '{text}-{peer.name}'}})")["commitID"]
            peer.wait_for_commit(commit, 60)

    @staticmethod
    async def let_in_at_once(cluster):
        """nginx saw the first one drain a moment ago, and the second one is leaving: newcomers are let in all the same,
        each at its first attempt. (It would set the first one aside for ten seconds, and try it with one session then.)"""
        access_token = cluster.access_token
        newcomers = [WirePeer(cluster.origin, cluster.database, cluster.token) for _ in range(12)]
        for peer in newcomers:
            await peer.connect(access_token)
        for peer in newcomers:
            await peer.disconnect()

    @staticmethod
    async def told(cluster, stop):
        """How the session of a peer ends that is there when the replicator is stopped."""
        client = cluster.client_of("replicator-2")
        peer = WirePeer(client.origin, cluster.database, cluster.token)
        await peer.connect(client.access_token)
        await peer.subscribe(SELECT)
        await peer.until(lambda: peer.live)
        stop()
        return await peer.until_closed()


def healthy(client):
    try:
        return client.request("GET", "/health", seconds=5).status == 200
    except OSError:
        return False


class Admin(SystemTest):
    seconds = 240

    def setUp(self):
        super().setUp()
        self.server = OneProcess(self.workspace).start()
        credential = (self.server.data / "auth" / "admin.token").read_text().strip()
        self.headers = {"Authorization": f"Bearer {credential}"}
        self.base = f"/admin/replicator/databases/{self.server.database}"

    def admin(self, method, path, status=200):
        answer = self.server.request(method, path, headers=self.headers)
        self.assertEqual(answer.status, status, answer.body[:500])
        return answer.json if answer.body else None

    def test_sessions_are_seen_and_ended(self):
        peers = [Peer(self.workspace, name, self.server, [SELECT]) for name in "ab"]
        for peer in peers:
            peer.wait_for_commit(peer.execute(f"INSERT INTO cars DOCUMENTS ({{'_id': '{peer.name}'}})")["commitID"])
        def settled():
            """What is acknowledged is folded, and told to others, a moment later."""
            sessions = self.admin("GET", f"{self.base}/sessions")["sessions"]
            (row,) = [one for one in self.admin("GET", "/admin/replicator/databases")["databases"]
                      if one["id"] == self.server.database]
            is_well = ([one["queries"] for one in sessions] == [1, 1]
                       and (row["sessions"], row["queries"], row["lag"]) == (2, 1, 0)
                       and all(one["lag"] <= 2 and one["unsentBytes"] == 0 for one in sessions))
            return sessions if is_well else None

        sessions = until(settled, 60, lambda: str(self.admin("GET", f"{self.base}/sessions")))
        first = sessions[0]["session"]
        instance, _, number = first.partition("-")
        self.assertEqual(self.admin("GET", "/admin/replicator/databases")["instance"], instance)
        self.assertEqual(sessions[0]["number"], int(number))
        self.assertLess(int(number), 2**53)
        self.admin("DELETE", f"{self.base}/sessions/{first}", 204)
        # The number of another instance's session, of none, and what is no number at all.
        for other in (int(number) ^ 1 << 40, int(number) + 1000, f"other-{number}", f"-{number}", "1", "x"):
            self.admin("DELETE", f"{self.base}/sessions/{other}", 404)
        (second,) = self.admin("GET", f"{self.base}/sessions?after={number}&limit=1")["sessions"]
        self.assertGreater(second["number"], int(number))
        # As documented: by its number alone.
        self.admin("DELETE", f"{self.base}/sessions/{second['number']}", 204)
        self.admin("GET", f"{self.base}/sessions?limit=0", 400)

        def anew():
            numbers = [one["session"] for one in self.admin("GET", f"{self.base}/sessions")["sessions"]]
            return len(numbers) == 2 and first not in numbers and second["session"] not in numbers

        until(anew, 30, "the peers to come back")

    def test_what_waits_for_a_receiver_is_seen_until_it_takes_it(self):
        for number in range(8):
            self.server.execute(f"INSERT INTO cars DOCUMENTS ({{'_id': {number}, 'text': '{'t' * 900_000}'}})")

        def load():
            (session,) = self.admin("GET", f"{self.base}/sessions")["sessions"]
            return session["catchingUp"], session["unsentBytes"] > 0

        async def receive():
            peer = WirePeer(self.server.origin, self.server.database, self.server.token)
            await peer.connect()
            peer.gives_credit = False
            await peer.subscribe(SELECT)
            await asyncio.to_thread(until, lambda: load() == (1, True), 30, lambda: f"a queue, not {load()}")
            self.assertFalse(peer.live)
            peer.gives_credit = True
            await peer.give_back()
            await peer.until(lambda: peer.live)
            await asyncio.to_thread(until, lambda: load() == (0, False), 30, lambda: f"no queue, not {load()}")
            self.assertEqual(len(peer.documents), 8)
            await peer.disconnect()

        asyncio.run(receive())

    def test_a_drained_instance_takes_no_session_until_it_is_told_to(self):
        peer = Peer(self.workspace, "a", self.server, [SELECT])
        peer.wait_for_commit(peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 1})")["commitID"])
        self.assertTrue(self.admin("POST", "/admin/replicator/drain")["draining"])
        until(lambda: self.admin("GET", f"{self.base}/sessions")["sessions"] == [], 60, "its sessions to go")
        self.assertEqual(self.server.request("GET", "/admin/replicator/health").status, 503)
        commit = peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 2})")["commitID"]
        time.sleep(1.5)
        self.assertEqual(self.admin("GET", f"{self.base}/sessions")["sessions"], [])
        self.assertEqual(self.server.count("cars"), 1)
        self.admin("DELETE", "/admin/replicator/drain")
        peer.wait_for_commit(commit, 60)
        self.assertEqual(self.server.request("GET", "/admin/replicator/health").status, 200)

    def test_the_log_is_read_snapshotted_and_truncated(self):
        for number in range(5):
            self.server.execute(f"INSERT INTO cars DOCUMENTS ({{'_id': {number}}})")
        listed = self.admin("GET", f"{self.base}/log?limit=3")["operations"]
        self.assertEqual([one["offset"] for one in listed], [1, 2, 3])
        self.assertEqual(listed[0]["documents"][0]["collection"], "cars")
        self.assertEqual(listed[1]["documents"][0]["id"], 1)
        self.assertEqual([one["offset"] for one in self.admin("GET", f"{self.base}/log?after=3")["operations"]], [4, 5])
        self.assertEqual(self.admin("GET", f"{self.base}/log?after=900")["operations"], [])
        self.admin("GET", f"{self.base}/log?after=x", 400)
        self.admin("GET", f"{self.base}/log?limit=0", 400)
        self.admin("POST", f"{self.base}/truncations", 409)
        self.assertEqual(self.admin("POST", f"{self.base}/snapshots", 201)["offset"], 5)
        self.assertEqual(self.admin("POST", f"{self.base}/truncations?keep=2", 201)["truncated"], 3)
        self.admin("GET", f"{self.base}/log?after=1", 410)
        self.assertEqual([one["offset"] for one in self.admin("GET", f"{self.base}/log")["operations"]], [4, 5])
        self.admin("GET", "/admin/replicator/databases/nothing/log", 404)
        # A peer that comes now begins with the snapshot, and a new write follows it.
        peer = Peer(self.workspace, "late", self.server, [SELECT])
        until(lambda: peer.count("cars") == 5, 30, "everything to arrive")

    def test_nobody_else_gets_in(self):
        for headers in ({}, {"Authorization": "Bearer x"}, self.server.authorization()):
            answer = self.server.request("GET", "/admin/replicator/databases", headers=headers)
            self.assert_refused(answer, 401)
