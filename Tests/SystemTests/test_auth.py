"""What an operator does: databases, providers, API keys, revocations and key rotation, seen from every service."""

import http.server
import json
import random
import threading
import time

from mimeo_harness import SEED, FourProcesses, OneProcess, pick, until
from system_test import SystemTest, report
from test_webhook import Handler

EVERYTHING = {"read": {"everything": True}, "write": {"everything": True}}


class Auth(SystemTest):
    seconds = 240

    def setUp(self):
        super().setUp()
        self.webhook = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.webhook.asked = []
        thread = threading.Thread(target=self.webhook.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.webhook.server_close)
        self.addCleanup(self.webhook.shutdown)

    def admin(self, method, path, body=None):
        token = (self.server.data / "auth" / "admin.token").read_text().strip()
        return self.server.request(
            method, f"/admin/auth/databases{path}", body, {"Authorization": f"Bearer {token}"})

    def made(self, path, body):
        answer = self.admin("POST", path, body)
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json

    def execute(self, credential, statement):
        return self.server.request(
            "POST", "/api/v5/store/execute", {"statement": statement}, {"Authorization": f"Bearer {credential}"})

    def login(self, role):
        token = json.dumps({"role": role})
        answer = self.server.login(database="shop", token=token, provider="my-auth")
        return answer.json.get("accessToken"), answer

    def check(self, server):
        self.server = server
        self.made("", {"id": "shop"})
        self.made("/shop/providers", {"name": "my-auth", "webhookUrl": f"http://127.0.0.1:{self.webhook.server_port}/"})
        key = self.made("/shop/api-keys", {"name": "import", "permissions": EVERYTHING})
        # What was just made counts in every service at once.
        written = self.execute(key["key"], "INSERT INTO docs DOCUMENTS ({'_id': {'userID': 'owner-1'}}), ({'_id': 2})")
        self.assertEqual(written.status, 200, written.body)
        # The guide's permissions by user: `_id.userID == '<id>'`.
        owner, _ = self.login("owner")
        self.assertEqual(self.execute(owner, "SELECT * FROM docs").json["items"], [{"_id": {"userID": "owner-1"}}])
        self.assert_refused(self.execute(owner, "INSERT INTO docs DOCUMENTS ({'_id': {'userID': 'else'}})"), 403)
        upload = server.request(
            "POST", "/api/v5/attachments/upload", b"blob",
            {"Authorization": f"Bearer {key['key']}", "Content-Type": "application/octet-stream"})
        self.assertEqual(upload.status, 200, upload.body)

        revocation = self.made("/shop/revocations", {"kind": "user", "value": "owner-1"})
        for path, method, body in (("/api/v5/store/execute", "POST", {"statement": "SELECT * FROM docs"}),
                                   (f"/api/v5/attachments/{upload.json['id']}", "GET", None)):
            def refused():
                headers = {"Authorization": f"Bearer {owner}"}
                return server.request(method, path, body, headers).error.get("code") == "AUTH-0112"
            until(refused, 90, path)
        self.assertEqual(self.login("owner")[1].error["code"], "AUTH-0408")
        self.assertEqual(self.admin("DELETE", f"/shop/revocations/{revocation['id']}").status, 204)

        manager, _ = self.login("manager")
        self.assertEqual(self.made("/shop/keys", {"overlapSeconds": 3600})["id"], "shop.2")
        for token in (manager, self.login("manager")[0]):
            self.assertEqual(self.execute(token, "SELECT * FROM docs").status, 200)
        self.made("/shop/keys", {"overlapSeconds": 0})
        until(lambda: self.execute(manager, "SELECT * FROM docs").status == 401, 90, "the first key has retired")

        for credential in (key["key"], manager, "x"):
            refused = server.request(
                "GET", "/admin/auth/databases", headers={"Authorization": f"Bearer {credential}"})
            self.assert_refused(refused, 401)
        self.assertEqual(self.admin("DELETE", f"/shop/api-keys/{key['id']}").status, 204)
        until(lambda: self.execute(key["key"], "SELECT * FROM docs").status == 401, 90, "the API key is gone")
        self.assertEqual(self.admin("DELETE", "/shop").status, 202)
        self.assert_refused(self.login("manager")[1], 404)

    def test_an_operators_day_in_one_process(self):
        self.check(OneProcess(self.workspace).start())

    def test_an_operators_day_behind_nginx(self):
        self.check(FourProcesses(self.workspace).start())


class SealingKey(SystemTest):
    """The key that secrets are sealed under is changed, and the server killed in the midst of it, again and again."""

    kills = pick(fast=3, deep=60)
    seconds = 240 + 10 * kills
    databases = pick(fast=15, deep=40)

    def admin(self, method, path, body=None):
        token = (self.server.data / "auth" / "admin.token").read_text().strip()
        return self.server.request(method, f"/admin/auth/{path}", body, {"Authorization": f"Bearer {token}"})

    def assert_everything_opens(self):
        for number in range(self.databases):
            self.assertEqual(self.admin("GET", f"databases/db{number}").json["developmentToken"], self.tokens[number])
        number = random.randrange(self.databases)
        login = self.server.login(database=f"db{number}", token=self.tokens[number])
        self.assertEqual(login.status, 200, login.body)

    def test_changed_and_killed(self):
        self.server = OneProcess(self.workspace).start()
        self.tokens = [self.admin("POST", "databases", {"id": f"db{number}"}).json["developmentToken"]
                       for number in range(self.databases)]
        key = self.server.data / "auth" / "secrets.key"
        first, changed = key.read_text(), 0
        generator = random.Random(SEED)
        for kill in range(self.kills):
            with self.subTest(kill=kill, seed=SEED):
                before = key.read_text()

                def change():
                    try:
                        self.admin("DELETE", "sealing-key/previous")
                        self.admin("POST", "sealing-key")
                    except OSError:
                        pass  # The server was killed.

                thread = threading.Thread(target=change)
                thread.start()
                time.sleep(generator.uniform(0, 0.25))
                self.server.kill()
                thread.join()
                changed += key.read_text() != before
                self.server.start()
                self.assert_everything_opens()
                self.assertEqual(self.admin("GET", "sealing-key").json["outdated"], 0)
        # At the end everything is under one key, which is another one than at first.
        self.admin("DELETE", "sealing-key/previous")
        self.assertEqual(self.admin("POST", "sealing-key").status, 201)
        self.assertEqual(self.admin("DELETE", "sealing-key/previous").status, 204)
        self.assertNotEqual(key.read_text(), first)
        self.assertFalse((key.parent / "secrets.key.previous").exists())
        self.server.stop()
        self.server.start()
        self.assert_everything_opens()
        report(f"{self.kills} kills, {changed} keys changed among them, every secret opens")
