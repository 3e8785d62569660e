"""One byte turned, a file cut, a page zeroed: healed, refused with a code and a failing health check, or without effect.

A server is filled and killed, a peer is filled and killed. Then one place of one of their files is damaged at a time, and
a server is started on it, or a peer. The answers before the damage are the only right ones.
"""

import json
import random
import re
import shutil
import subprocess

from mimeo_harness import SEED, FourProcesses, OneProcess, Peer, Postgres, binary, pick, until
from mimeo_harness.servers import ServerFailed, announcement
from system_test import SystemTest, report

PAGE = 4096
PLACES = pick(fast=120, deep=6_000)
"""Damages of one run, over all kinds of files. A file has at least one place of each kind of damage."""

SECONDS = pick(fast=420, deep=4 * 3_600)


CODE = re.compile(r"(SRV|LOG|AUTH|STORE|BLOB|SDK|DQL)-\d{4}")


def essence(text):
    """The lines of a log that tell of a failure, or its end."""
    lines = [line for line in text.splitlines() if re.search(r"[Ff]atal|[Ee]rror|Crash| at /.*/Sources? | in .* at ", line)]
    return "\n".join(lines[:12]) or text[-500:]


class Place:
    """One damage of one file."""

    def __init__(self, path, kind, offset):
        self.path, self.kind, self.offset = path, kind, offset

    def __repr__(self):
        return f"{self.kind} at {self.offset} of {self.path}"

    def apply(self, root):
        file = root / self.path
        size = file.stat().st_size
        with open(file, "r+b") as content:
            content.seek(self.offset)
            if self.kind == "cut":
                content.truncate(self.offset)
            elif self.kind == "zero":
                content.write(bytes(min(PAGE, size - self.offset)))
            else:
                byte = content.read(1)[0]
                content.seek(self.offset)
                content.write(bytes([byte ^ (1 << (self.offset % 8))]))


def places(root, files, count, generator):
    """`count` places, spread over the files and the kinds of damage, all of them different."""
    found = {}
    rounds = 0
    while len(found) < count and rounds < count * 20:
        rounds += 1
        path = files[rounds % len(files)]
        size = (root / path).stat().st_size
        if size == 0:
            continue
        kind = ("turn", "cut", "turn", "zero")[(rounds // len(files)) % 4]
        offset = generator.randrange(size)
        if kind == "zero":
            offset -= offset % PAGE
        if kind == "cut" and generator.random() < 0.2:
            offset = 0
        found[(path, kind, offset)] = Place(path, kind, offset)
    return list(found.values())


class OldFolders(SystemTest):
    """A log that is not the one that the folders beside it have followed."""

    seconds = 240

    def test_no_service_begins_a_new_log_beside_the_folders_of_another_one(self):
        cluster = FourProcesses(self.workspace).start()
        cluster.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
        cluster.upload(b"bytes")
        cluster.stop()
        for file in cluster.data.glob("log.sqlite*"):
            file.rename(self.workspace.directory / file.name)
        for service in cluster.services:
            process = cluster.start_service(service)
            self.assertEqual(process.wait(30), 1)
            said = process.log_tail()
            for part in ("SRV-0204", str(cluster.data / "log.sqlite"), str(cluster.data / "system"), "--new-log"):
                self.assertIn(part, said)
        self.assertFalse((cluster.data / "log.sqlite").exists())
        cluster.extra_arguments["auth-gateway"] = ["--new-log"]
        gateway = cluster.start_service("auth-gateway")
        announcement(gateway)
        gateway.stop()

    def test_no_service_begins_in_an_empty_postgres_beside_the_folders_of_another_log(self):
        cluster = FourProcesses(self.workspace, log=Postgres(self.workspace, "first").start().url).start()
        cluster.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
        cluster.stop()
        empty = Postgres(self.workspace, "empty").start().url
        for service in cluster.services:
            cluster.logs[service] = empty
            process = cluster.start_service(service)
            self.assertEqual(process.wait(30), 1)
            said = process.log_tail()
            for part in ("SRV-0204", "PostgreSQL", str(cluster.data / "system"), "--new-log"):
                self.assertIn(part, said)
        cluster.logs = {}
        gateway = cluster.start_service("auth-gateway")
        announcement(gateway)
        gateway.stop()

    def test_a_restored_backup_takes_no_token_until_an_operator_accepts_what_it_takes_back(self):
        server = OneProcess(self.workspace).start()
        server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
        server.stop()
        backup = self.workspace.directory / "backup.sqlite"
        shutil.copy(server.data / "log.sqlite", backup)
        server.start()
        answer = server.request(
            "POST", f"/admin/auth/databases/{server.database}/revocations", {"kind": "user", "value": "mallory"},
            admin(server))
        self.assertEqual(answer.status, 201)
        old = server.access_token
        server.stop()
        for file in server.data.glob("log.sqlite*"):
            file.unlink()
        shutil.copy(backup, server.data / "log.sqlite")
        arguments = [binary("mimeo"), "serve", "--data", server.data, "--listen", f"127.0.0.1:{server.port}"]
        for _ in range(2):
            server.process = self.workspace.start("server", arguments)
            announcement(server.process)
            self.assert_refused(server.login(), 503)
            refused = server.request(
                "POST", "/api/v5/store/execute", {"statement": "SELECT 1"}, {"Authorization": f"Bearer {old}"})
            self.assertEqual(refused.error["code"], "SRV-0603", refused.body)
            self.assertIsNone(refused.headers["Retry-After"])
            self.assertEqual(server.request("GET", "/health").status, 503)
            notice = server.request("GET", "/admin/auth/restore", headers=admin(server)).json
            self.assertIn("'mallory'", notice["takenBack"][0])
            server.process.stop()
        server.process = self.workspace.start("server", arguments)
        announcement(server.process)
        self.assertEqual(server.request("POST", "/admin/auth/restore", headers=admin(server)).status, 204)
        self.assertEqual(server.request("GET", "/health").status, 200)
        self.assertEqual(server.query("SELECT _id FROM cars"), [{"_id": "a"}])
        server.stop()
        server.start()


def admin(server):
    text = (server.data / "auth" / "admin.token").read_text().strip()
    return {"Authorization": f"Bearer {text}"}


class Damage(SystemTest):
    seconds = SECONDS

    def test_a_server_is_right_or_says_what_is_damaged_wherever_a_file_is_damaged(self):
        server = OneProcess(self.workspace).start()
        self.fill(server)
        # What was written so far is in the files; what comes now is in the write-ahead logs.
        server.stop()
        server.start()
        self.insert(server, range(60, 90))
        expected = self.answers(server)
        self.assertTrue(expected["revoked"])
        server.kill()
        original = self.workspace.directory / "original"
        shutil.copytree(server.data, original)
        files = sorted(str(path.relative_to(original)) for path in original.rglob("*") if path.is_file())
        self.assertTrue(any(name.endswith("log.sqlite-wal") for name in files), files)
        count = PLACES * 4 // 5
        outcomes = {}
        for place in places(original, files, count, random.Random(SEED)):
            self.restore(original, server.data)
            place.apply(server.data)
            outcome = self.outcome(server, expected)
            outcomes.setdefault(outcome, []).append(place)
        wrong = {outcome: found for outcome, found in outcomes.items() if "wrong" in outcome}
        report(", ".join(f"{len(found)} {outcome}" for outcome, found in sorted(outcomes.items()) if outcome not in wrong))
        self.assertFalse(wrong, "\n".join(f"{found}: {outcome}" for outcome, found in wrong.items()))

    def test_a_peer_is_right_or_refuses_to_open_wherever_its_store_is_damaged(self):
        server = OneProcess(self.workspace).start()
        peer = Peer(self.workspace, "a", server, ["SELECT * FROM cars"])
        for number in range(40):
            commit = peer.execute(f"INSERT INTO cars DOCUMENTS ({{'_id': 'p{number}', 't': '{'x' * 300}'}})")["commitID"]
        peer.wait_for_commit(commit, 60)
        server.stop()
        peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'local', 'n': 1})")
        rows = sorted(json.dumps(row, sort_keys=True) for row in peer.query("SELECT * FROM cars"))
        peer.kill()
        # Once as a kill leaves it, once closed in order, when everything is in one file.
        killed, closed = self.workspace.directory / "killed", self.workspace.directory / "closed"
        shutil.copytree(peer.store, killed)
        self.assertIsInstance(self.select(peer.store), list)
        shutil.copytree(peer.store, closed)
        refused = same = 0
        damages = [(original, place) for original in (killed, closed) for place in places(
            original, sorted(str(path.relative_to(original)) for path in original.rglob("*") if path.is_file()),
            PLACES // 10, random.Random(SEED))]
        store = next(path.relative_to(closed) for path in closed.rglob("replica.sqlite"))
        damages.append((closed, Place(store, "cut", 0)))
        for original, place in damages:
            self.restore(original, peer.store)
            place.apply(peer.store)
            answer = self.select(peer.store)
            if isinstance(answer, list):
                self.assertEqual(sorted(json.dumps(row, sort_keys=True) for row in answer), rows, place)
                same += 1
            else:
                self.assertRegex(answer, CODE, place)
                refused += 1
        report(f"{same} places without effect, {refused} refused")

    # What a server holds, and what it answers

    def fill(self, server):
        self.insert(server, range(60))
        self.blobs = {}
        for number in range(3):
            content = random.Random(number).randbytes(20_000)
            self.blobs[server.upload(content).json["id"]] = content
        peer = Peer(self.workspace, "filler", server, ["SELECT * FROM cars"])
        until(lambda: peer.count("cars") == 60, 60, "the peer did not sync")
        peer.kill()
        answer = server.request(
            "POST", f"/admin/auth/databases/{server.database}/revocations", {"kind": "user", "value": "mallory"},
            admin(server))
        self.assertEqual(answer.status, 201, answer.body)

    @staticmethod
    def insert(server, numbers):
        for number in numbers:
            color = random.Random(number).choice(["red", "blue"])
            car = {"_id": f"c{number}", "color": color, "t": "x" * 200 + str(number)}
            answer = server.post_statement("INSERT INTO cars DOCUMENTS (:car)", {"car": car})
            assert answer.status == 200, answer.body

    def answers(self, server):
        rows = sorted(json.dumps(row, sort_keys=True) for row in server.query("SELECT * FROM cars"))
        blobs = {blob: server.download(blob).body == content for blob, content in self.blobs.items()}
        revoked = server.request(
            "GET", f"/admin/auth/databases/{server.database}/revocations", headers=admin(server)).json
        return {"rows": rows, "blobs": blobs, "revoked": revoked.get("revocations")}

    @staticmethod
    def restore(original, data):
        shutil.rmtree(data)
        shutil.copytree(original, data)

    def outcome(self, server, expected):
        """healed, refused or without effect; anything else has the word wrong in it."""
        log = self.workspace.directory / "server.log"
        before = log.stat().st_size
        said = lambda: log.read_bytes()[before:].decode(errors="replace")
        arguments = [binary("mimeo"), "serve", "--data", server.data, "--listen", f"127.0.0.1:{server.port}"]
        server.process = self.workspace.start("server", arguments)
        try:
            values = announcement(server.process)
        except ServerFailed:
            try:
                server.process.wait(20)
            except subprocess.TimeoutExpired:
                return f"wrong: it neither starts nor ends: {essence(said())}"
            return "refused to start" if CODE.search(said()) else f"wrong: ended with {essence(said())}"
        try:
            server.database, server.token = values["database"], values["token"]
            server._access_token = None
            return self.judge(server, expected, said)
        finally:
            server.kill()

    def judge(self, server, expected, said):
        login = server.login()
        problems = []
        if login.status != 200:
            problems.append(login)
        else:
            server._access_token = login.json["accessToken"]
            answer = server.post_statement("SELECT * FROM cars")
            if answer.status != 200:
                problems.append(answer)
            elif sorted(json.dumps(row, sort_keys=True) for row in answer.json["items"]) != expected["rows"]:
                return f"wrong rows: {len(answer.json['items'])}"
            for blob, content in self.blobs.items():
                answer = server.download(blob)
                if answer.status != 200:
                    problems.append(answer)
                elif answer.body != content:
                    return "wrong bytes of an attachment"
            write = server.post_statement("INSERT INTO cars DOCUMENTS ({'_id': 'after'})")
            if write.status != 200:
                problems.append(write)
        for answer in problems:
            if not answer.error.get("code"):
                return f"wrong answer: {answer.status} {answer.body[:200]!r}"
            if answer.status < 500 and not answer.error["code"].startswith("AUTH-"):
                return f"wrong blame: {answer.status} {answer.body[:200]!r}"
        health = self.health(server)
        if not problems:
            if health.status != 200:
                # Found by itself, in what nobody has asked for here.
                return "told by health" if CODE.search(health.body.decode()) else f"wrong health: {health.body[:200]!r}"
            return "healed" if "is damaged and is rebuilt" in said() else "without effect"
        if health.status == 200:
            revoked = server.request(
                "GET", f"/admin/auth/databases/{server.database}/revocations", headers=admin(server))
            if revoked.status != 200:
                problems.append(revoked)
            elif revoked.json["revocations"] != expected["revoked"]:
                return f"wrong revocations: {revoked.body[:200]!r}"
            return f"wrong health: 200, but {problems[0].status} {problems[0].body[:200]!r}"
        return "refused"

    @staticmethod
    def health(server):
        return server.request("GET", "/health", seconds=10)

    def select(self, store):
        """The rows, or the text of the failure."""
        done = subprocess.run(
            [binary("mimeo"), "dql", "--store", str(store), "SELECT * FROM cars"], capture_output=True, text=True, timeout=60)
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            return done.stdout + done.stderr
        return answer["items"] if "items" in answer else json.dumps(answer)
