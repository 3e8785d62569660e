"""Two instances of each service behind nginx, restarted in turn under load: no request fails, no session is lost. And
writes that are sent again under an Idempotency-Key, by clients that saw no answer: each counts once."""

import http.client
import json
import random
import signal
import threading
import time

from mimeo_harness import DOWN, SEED, Client, FaultProxy, FourProcesses, OneProcess, Peer, pick, until
from system_test import SystemTest

SERVICES = ("auth-gateway", "replicator", "query-service", "attachment-store")


class Load(threading.Thread):
    """Sends one kind of request after another on one kept connection; every answer but 200 is a failure."""

    def __init__(self, server, name, make):
        super().__init__(daemon=True)
        self.server, self.make = server, make
        self.name = name
        self.failures, self.answered = [], 0
        self._stopping = threading.Event()
        self.start()

    def run(self):
        host, port = self.server.address
        connection = None
        while not self._stopping.is_set():
            connection = connection or http.client.HTTPConnection(host, port, timeout=30)
            method, path, body, headers = self.make(self.answered)
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
                if answer.status != 200:
                    self.failures.append((time.time(), method, path, answer.status, content[:300]))
            except (OSError, http.client.HTTPException) as problem:
                # nginx closes a kept connection now and then (keepalive_requests); a request that met that is repeated.
                self.failures.append((time.time(), method, path, repr(problem)))
                connection = None
            else:
                self.answered += 1
                if answer.getheader("Connection") == "close":
                    connection = None

    def stop(self):
        self._stopping.set()
        self.join(60)


class Rolling(SystemTest):
    seconds = 300

    def test_no_request_fails_while_every_instance_is_restarted(self):
        cluster = FourProcesses(self.workspace)
        cluster.drain_seconds = 3
        for service in SERVICES:
            cluster.fronts[service] = [cluster.address_of(service), cluster.address_of(f"{service}-2")]
        cluster.start()
        for service in SERVICES:
            cluster.start_service(service, f"{service}-2")
        for service in SERVICES:
            until(lambda: self.is_healthy(cluster, f"{service}-2"), 60, f"{service}-2 is not healthy")
        cluster.execute("INSERT INTO c DOCUMENTS ({'_id': 'n', 'n': 0})")
        peers = [Peer(self.workspace, name, cluster, ["SELECT * FROM c"]) for name in "ab"]
        loads = self.loads(cluster)
        writer = PeerWriter(peers[0])
        for suffix in ("", "-2"):
            # All first instances at once, then all second ones, a moment after the first are healthy again.
            stopping = [threading.Thread(target=self.restart, args=(cluster, f"{service}{suffix}")) for service in SERVICES]
            for thread in stopping:
                thread.start()
            for thread in stopping:
                thread.join()
        time.sleep(0.5)
        for load in loads:
            load.stop()
        writer.stop()
        told = {load.name: (load.answered, load.failures[:5]) for load in loads}
        self.assertEqual([load.name for load in loads if load.failures], [], told)
        self.assertTrue(all(load.answered > 20 for load in loads), told)
        increments = sum(load.answered for load in loads if load.name.startswith("increment"))
        self.assertEqual(cluster.query("SELECT n FROM c WHERE _id = 'n'"), [{"n": increments}])
        peers[0].wait_for_commit(writer.last, 60)
        until(lambda: peers[1].count("c", "_id != 'n'") == writer.count, 60, "the other peer has not everything")
        self.assertEqual(writer.errors, [])
        self.measured(f"{sum(load.answered for load in loads)} requests, {writer.count} writes of a peer, none failed")

    def measured(self, text):
        print(f"\n    measured: {text}")

    def loads(self, cluster):
        bearer = cluster.authorization()
        as_json = {**bearer, "Content-Type": "application/json"}
        blob = b"rolling" * 1000
        login = json.dumps({"databaseID": cluster.database, "provider": "development", "token": cluster.token})

        def statement(text):
            body = json.dumps({"statement": text})
            return lambda number: ("POST", "/api/v5/store/execute", body, as_json)

        def upload(number):
            return "POST", "/api/v5/attachments/upload", blob + str(number).encode(), {
                **bearer, "Content-Type": "application/octet-stream"}

        found = cluster.request("POST", "/api/v5/attachments/upload", blob + b"0",
                                {**bearer, "Content-Type": "application/octet-stream"}).json
        path = f"/api/v5/attachments/{found['id']}"
        return [
            Load(cluster, "increment-1", statement("UPDATE c SET n = n + 1 WHERE _id = 'n'")),
            Load(cluster, "increment-2", statement("UPDATE c SET n = n + 1 WHERE _id = 'n'")),
            Load(cluster, "select", statement("SELECT COUNT(*) AS n FROM c")),
            Load(cluster, "login", lambda number: (
                "POST", "/_ditto/auth/login", login, {"Content-Type": "application/json"})),
            Load(cluster, "keys", lambda number: ("GET", "/_ditto/auth/jwks.json", None, {})),
            Load(cluster, "upload", upload),
            Load(cluster, "download", lambda number: ("GET", path, None, bearer)),
        ]

    def restart(self, cluster, label):
        self.assertEqual(cluster.processes[label].stop(signal.SIGTERM), 0)
        service = next(name for name in SERVICES if label in (name, f"{name}-2"))
        cluster.start_service(service, label)
        until(lambda: self.is_healthy(cluster, label), 60, f"{label} is not healthy again")

    @staticmethod
    def is_healthy(cluster, label):
        try:
            return cluster.client_of(label).request("GET", "/health", seconds=5).status == 200
        except OSError:
            return False

    def test_the_fronts_own_errors_have_a_code_and_the_requests_id(self):
        cluster = FourProcesses(self.workspace).start()
        cluster.processes["attachment-store"].kill()
        for method, path, status, code in (
                ("GET", "/nothing", 404, "SRV-0404"), ("GET", "/index.html", 404, "SRV-0404"), ("TRACE", "/", 405, "SRV-0405"),
                ("GET", "/api/v5/attachments/x", 502, "SRV-0502")):
            answer = cluster.request(method, path, headers={"X-Request-ID": "my-id.1"})
            self.assertEqual((answer.status, answer.error.get("code")), (status, code), answer.body)
            self.assertEqual(answer.headers["Content-Type"], "application/json")
            self.assertEqual((answer.error["requestId"], answer.headers["X-Request-ID"]), ("my-id.1", "my-id.1"))
            made = cluster.request(method, path, headers={"X-Request-ID": 'a"b'})
            self.assertRegex(made.error["requestId"], "^[0-9a-f]{32}$")
        answer = cluster.request("GET", "/health", headers={"X-Request-ID": "my-id.2"})
        self.assertEqual(answer.headers["X-Request-ID"], "my-id.2")


class PeerWriter(threading.Thread):
    """Writes on a peer, one document after another."""

    def __init__(self, peer):
        super().__init__(daemon=True)
        self.peer, self.count, self.last, self.errors = peer, 0, 0, []
        self._stopping = threading.Event()
        self.start()

    def run(self):
        while not self._stopping.is_set():
            try:
                self.last = self.peer.execute(f"INSERT INTO c DOCUMENTS ({{'_id': 'peer-{self.count}'}})")["commitID"]
                self.count += 1
                self.peer.wait_for_commit(self.last, 30)
            except Exception as problem:  # noqa: BLE001 (told by the test)
                self.errors.append(repr(problem))
            time.sleep(0.05)

    def stop(self):
        self._stopping.set()
        self.join(90)


class Repeated(SystemTest):
    seconds = 240
    INCREMENT = "UPDATE c SET n = n + 1 WHERE _id = 'n'"

    def total(self, server):
        return server.query("SELECT n FROM c WHERE _id = 'n'")[0]["n"]

    def test_killed_between_commit_and_answer(self):
        server = OneProcess(self.workspace).start()
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 'n', 'n': 0})")
        key = {"Idempotency-Key": "between"}
        proxy = FaultProxy(self.workspace, server.address)
        client = Client(proxy.origin)
        access = server.authorization()
        proxy.freeze(DOWN)
        lost = []

        def send():
            try:
                lost.append(client.request("POST", "/api/v5/store/execute", {"statement": self.INCREMENT},
                                           {**access, **key}, 30).status)
            except OSError as problem:
                lost.append(problem)

        sender = threading.Thread(target=send)
        sender.start()
        until(lambda: self.total(server) == 1, 30, "the write is not committed")
        server.kill()
        proxy.reset()
        sender.join(60)
        self.assertIsInstance(lost[0], OSError)
        server.start()
        answers = [server.post_statement(self.INCREMENT, headers=key) for _ in range(2)]
        self.assertEqual([answer.status for answer in answers], [200, 200])
        self.assertEqual([answer.headers["Idempotency-Replayed"] for answer in answers], ["true", "true"])
        self.assertEqual(answers[0].json["mutatedDocumentIds"], ["n"])
        self.assertEqual(self.total(server), 1)

    def test_every_increment_counts_once_whatever_is_killed(self):
        server = OneProcess(self.workspace).start()
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 'n', 'n': 0})")
        random.seed(SEED)
        is_over = threading.Event()
        kills = []

        def kill():
            while not is_over.wait(random.uniform(0.5, 1.5)) and len(kills) < pick(fast=3, deep=60):
                server.kill()
                server.start()
                kills.append(time.monotonic())

        killer = threading.Thread(target=kill)
        killer.start()
        counts = [0, 0, 0]

        def write(number):
            while killer.is_alive():
                key = {"Idempotency-Key": f"{number}-{counts[number]}"}
                while True:
                    try:
                        if server.post_statement(self.INCREMENT, headers=key, seconds=10).status == 200:
                            break
                    except (OSError, RuntimeError):
                        time.sleep(0.05)
                counts[number] += 1

        writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(200)
        is_over.set()
        killer.join(60)
        self.assertEqual(self.total(server), sum(counts))
        print(f"\n    measured: {len(kills)} kills, {sum(counts)} increments, each counted once")
