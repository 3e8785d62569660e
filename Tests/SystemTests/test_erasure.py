"""What is left of a deleted database: nothing, anywhere on the server, and its peers keep what is theirs."""

import pathlib
import secrets
import subprocess

from mimeo_harness import Client, FourProcesses, OneProcess, Peer, Postgres, deep_only, until
from system_test import SystemTest


def occurrences(folder, text):
    """The files below a folder that have the text in their name or bytes."""
    wanted = text.encode()
    return sorted(
        str(path) for path in pathlib.Path(folder).rglob("*")
        if path.is_file() and (text in path.name or wanted in path.read_bytes()))


class Databases(SystemTest):
    """A database is deleted; every service erases what it has of it, and says so."""

    seconds = 300

    def admin(self, method, path, body=None):
        token = (self.server.data / "auth" / "admin.token").read_text().strip()
        return self.server.request(
            method, f"/admin/auth/databases{path}", body, {"Authorization": f"Bearer {token}"})

    def receipts(self):
        answer = self.admin("GET", "/shop/erasure")
        self.assertEqual(answer.status, 200, answer.body)
        return {receipt["holder"] for receipt in answer.json["receipts"]}

    def fill(self):
        """A second database with documents, a blob, a peer's writes and an API key; a first one that stays."""
        self.secret = "secret" + secrets.token_hex(12)
        self.shop = self.open_shop()
        self.assertEqual(self.execute(
            self.shop, f"INSERT INTO people DOCUMENTS ({{'_id': 1, 'name': '{self.secret}'}})").status, 200)
        self.assertEqual(self.execute(
            self.server, "INSERT INTO people DOCUMENTS ({'_id': 1, 'name': 'stays'})").status, 200)
        self.blob = self.shop.upload(f"picture of {self.secret}".encode() * 1000).json["id"]
        self.peer = Peer(self.workspace, "till", self.shop, ["SELECT * FROM people"])
        until(lambda: self.peer.count("people") == 1, 60, "the peer has the document")
        self.peer.execute(f"INSERT INTO people DOCUMENTS ({{'_id': 2, 'name': '{self.secret} too'}})")
        until(lambda: len(self.names(self.shop)) == 2, 60, "the peer's document has arrived")
        # The attachment store folds a database for a reader of less than everything.
        key = self.admin("POST", "/shop/api-keys", {
            "name": "part", "permissions": {"read": {"everything": False, "queriesByCollection": {
                "people": ["_id == 1"]}}, "write": {"everything": False, "queriesByCollection": {}}}})
        self.assertEqual(key.status, 201, key.body)
        looked = self.shop.request("GET", f"/api/v5/attachments/{self.blob}", headers={
            "Authorization": f"Bearer {key.json['key']}"})
        self.assert_refused(looked, 404)

    def open_shop(self):
        made = self.admin("POST", "", {"id": "shop", "development": True})
        self.assertEqual(made.status, 201, made.body)
        return Client(self.server.origin, "shop", made.json["developmentToken"])

    def execute(self, client, statement):
        return client.request("POST", "/api/v5/store/execute", {"statement": statement}, client.authorization())

    def names(self, client):
        answer = self.execute(client, "SELECT name FROM people")
        return [item["name"] for item in answer.json.get("items", [])]

    def check(self, storages):
        """`storages` returns where the secret is found now."""
        self.fill()
        self.assertNotEqual(storages(), [])
        answer = self.admin("DELETE", "/shop")
        self.assertEqual((answer.status, answer.json["database"], answer.json["erases"]), (202, "shop", True))
        until(lambda: self.execute(self.shop, "SELECT * FROM people").status == 401, 30, "tokens are refused")
        holders = {"log", "replicator", "query-service", "attachment-store"}
        until(lambda: self.receipts() == holders, 60, lambda: f"receipts of all: {self.receipts()}")
        until(lambda: storages() == [], 30, lambda: f"the secret is gone, not in {storages()}")
        self.assert_refused(self.shop.download(self.blob), 401)
        # The others go on; the id is not free, since the peer still has its documents.
        self.assertEqual(self.names(self.server), ["stays"])
        self.assert_refused(self.admin("POST", "", {"id": "shop"}), 409)
        self.assert_refused(self.admin("DELETE", "/shop"), 404)
        self.assertEqual(self.peer.count("people"), 2)
        self.peer.execute(f"INSERT INTO people DOCUMENTS ({{'_id': 3, 'name': '{self.secret} again'}})")

    def test_one_process(self):
        self.server = OneProcess(self.workspace).start()
        self.check(lambda: occurrences(self.server.data, self.secret))
        # A folder that somebody puts back, and a start after the erasure.
        self.server.stop()
        put_back = self.server.data / "replicator" / "shop"
        put_back.mkdir()
        (put_back / "rest").write_text(self.secret)
        self.server.start()
        until(lambda: occurrences(self.server.data, self.secret) == [], 30, "what was put back is erased too")
        self.assertEqual(self.names(self.server), ["stays"])

    def test_killed_in_the_middle(self):
        self.server = OneProcess(self.workspace).start()
        self.fill()
        self.assertEqual(self.admin("DELETE", "/shop").status, 202)
        self.server.kill()
        self.server.start()
        until(lambda: occurrences(self.server.data, self.secret) == [], 60, "the start goes on with the erasure")
        until(lambda: "log" in self.receipts(), 30, "the log's receipt")

    def test_four_processes_and_postgres(self):
        postgres = Postgres(self.workspace)
        postgres.start()
        self.server = FourProcesses(self.workspace, log=postgres.url)
        self.server.extra_arguments["query-service"] = ["--projection", postgres.url]
        self.server.start()

        def storages():
            dump = subprocess.run(["pg_dump", "--inserts", postgres.url], capture_output=True, check=True).stdout
            places = occurrences(self.server.data, self.secret)
            # Bytes are printed as hexadecimal digits.
            found = self.secret.encode() in dump or self.secret.encode().hex().encode() in dump
            return places + (["the PostgreSQL database"] if found else [])

        self.check(storages)


class Documents(SystemTest):
    """An operator erases documents; peers that hold them, and write them while away, do not bring them back."""

    seconds = 300

    def setUp(self):
        super().setUp()
        self.server = OneProcess(self.workspace).start()
        self.secret = "secret" + secrets.token_hex(12)

    def admin(self, method, body=None):
        token = (self.server.data / "auth" / "admin.token").read_text().strip()
        path = f"/admin/replicator/databases/{self.server.database}/erasures"
        return self.server.request(method, path, body, {"Authorization": f"Bearer {token}"})

    def is_erased(self, erasure):
        known = {row["id"]: row for row in self.admin("GET").json["erasures"]}[erasure]
        holders = {receipt["holder"] for receipt in known["receipts"]}
        return known["erasedFromLogAt"] and holders == {"replicator", "query-service", "attachment-store"}

    def peer(self, name):
        peer = Peer(self.workspace, name, self.server, ["SELECT * FROM people"])
        until(lambda: peer.count("people") == 3, 60, f"{name} has all documents")
        return peer

    def fill(self):
        """Person 1 is to be forgotten, with a picture of her own; a picture that 2 has too stays."""
        self.own = self.server.upload(f"picture of {self.secret}".encode()).json
        self.shared = self.server.upload(b"picture of many").json
        for number, name, pictures in ((1, self.secret, [self.own, self.shared]), (2, "two", [self.shared]),
                                       (3, "three", [])):
            self.server.execute("INSERT INTO people DOCUMENTS (:d)", {"d": {"_id": number, "name": name}})
            for place, token in enumerate(pictures):
                self.server.execute(
                    f"UPDATE COLLECTION people (p{place} ATTACHMENT) SET p{place} = :t WHERE _id = {number}",
                    {"t": token})
        # An account that may read only a part makes the attachment store fold the database.
        self.server.execute("UPDATE people SET name = :n WHERE _id = 1", {"n": f"{self.secret}, changed"})

    def test_no_peer_brings_them_back(self):
        self.fill()
        present, writing, holding = self.peer("present"), self.peer("writing"), self.peer("holding")
        for away in (writing, holding):
            away.kill()
            away.start(offline=True)
        writing.execute("UPDATE people SET city = 'Bonn' WHERE _id = 1")
        writing.execute("UPDATE people SET city = 'Bonn' WHERE _id = 2")

        begun = self.admin("POST", {"collection": "people", "where": "name LIKE :n", "args": {"n": f"{self.secret}%"}})
        self.assertEqual((begun.status, begun.json["documents"]), (202, 1), begun.body)
        until(lambda: present.count("people") == 2, 60, "a peer that is there forgets at once")
        until(lambda: self.is_erased(begun.json["id"]), 60, lambda: self.admin("GET").body.decode())
        until(lambda: occurrences(self.server.data, self.secret) == [], 30,
              lambda: f"in {occurrences(self.server.data, self.secret)}")
        self.assertEqual(self.server.download(self.own["id"]).status, 404)
        self.assertEqual(self.server.download(self.shared["id"]).status, 200)

        for away in (writing, holding):
            away.start_sync()
            until(lambda: away.count("people", "_id = 1") == 0, 60, f"{away.name} forgets")
            self.assertEqual(away.count("people"), 2)
        until(lambda: self.server.count("people", "city = 'Bonn'") == 1, 60, "the other write is taken")
        self.assertEqual(self.server.query("SELECT _id FROM people WHERE city = 'Bonn'"), [{"_id": 2}])
        # The id takes no writes any more, from nobody; others do.
        self.assert_refused(self.server.post_statement("INSERT INTO people DOCUMENTS ({'_id': 1})"), 410)
        present.execute("INSERT INTO people DOCUMENTS ({'_id': 1, 'name': 'again'})")
        present.execute("INSERT INTO people DOCUMENTS ({'_id': 4})")
        until(lambda: self.server.count("people") == 3, 60, "a new document arrives")
        until(lambda: present.count("people", "_id = 1") == 0, 60, "the refused write is set aside")
        self.assertEqual(self.server.count("people", "_id = 1"), 0)

    @deep_only("the lease of the killed process lasts two minutes; test_no_peer_brings_them_back has the rest")
    def test_killed_in_the_middle(self):
        self.fill()
        begun = self.admin("POST", {"collection": "people", "ids": [1, "nobody"]})
        self.assertEqual((begun.status, begun.json["documents"]), (202, 2), begun.body)
        self.server.kill()
        self.server.start()
        until(lambda: self.is_erased(begun.json["id"]), 200, lambda: self.admin("GET").body.decode())
        self.assertEqual(occurrences(self.server.data, self.secret), [])
        self.assertEqual(self.server.count("people"), 2)
        # The log was truncated for it: who starts anew begins with the snapshot.
        self.assertEqual(Peer(self.workspace, "new", self.server).count("people"), 0)
        self.peer_count = Peer(self.workspace, "later", self.server, ["SELECT * FROM people"])
        until(lambda: self.peer_count.count("people") == 2, 60, "a new peer gets the others")

    def test_malformed(self):
        for body in ({}, {"collection": "people"}, {"collection": "people", "ids": 1}, {"collection": "", "ids": [1]},
                     {"collection": "people", "ids": [1.5]}, {"collection": "people", "ids": [1], "where": "true"},
                     {"collection": "people", "where": "name ="}, {"collection": "people", "where": "x = :y"},
                     {"collection": "people", "where": "true) OR (true", "limit": 1},
                     {"collection": "people", "ids": list(range(10_001))}):
            with self.subTest(str(body)[:80]):
                answer = self.admin("POST", body)
                self.assert_refused(answer, 413 if len(body.get("ids", []) if isinstance(
                    body.get("ids"), list) else []) > 100 else 400)
        self.assertEqual(self.admin("GET").json["erasures"], [])


if __name__ == "__main__":
    import unittest
    unittest.main()
