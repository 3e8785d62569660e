"""Planted secrets: nothing that a run prints, logs, answers or counts has one of them in it."""

import base64
import http.server
import json
import os
import threading
import unittest.mock

from mimeo_harness import FourProcesses, OneProcess, Peer
from system_test import SystemTest


class Handler(http.server.BaseHTTPRequestHandler):
    """A webhook that answers as it is told to by the login's token, with a secret in what is no answer."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        good = {"authenticated": True, "userID": "u", "expirationSeconds": 600, "permissions": {
            "read": {"everything": True}, "write": {"everything": True}}}
        status, body = {
            "good": (200, json.dumps(good)), "refuses": (200, '{"authenticated": false}'),
            "garbage": (200, "{PLANTED-ANSWER-garbage"), "fails": (500, "PLANTED-ANSWER-fails"),
            "shape": (200, '{"authenticated": true, "userID": {"x": "PLANTED-ANSWER-shape"}}'),
        }[asked["token"].split(" ")[0]]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        """Says nothing."""


class Secrecy(SystemTest):
    seconds = 240

    def setUp(self):
        super().setUp()
        level = unittest.mock.patch.dict(os.environ, {"LOG_LEVEL": "trace"})
        level.start()
        self.addCleanup(level.stop)
        self.webhook = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=self.webhook.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.webhook.server_close)
        self.addCleanup(self.webhook.shutdown)

    def ask(self, method, path, body=None, credential=None):
        """A request whose answer may hold no secret."""
        headers = {"Authorization": f"Bearer {credential}"} if credential else {}
        answer = self.server.request(method, path, body, headers)
        self.answers.append(f"{method} {path} {answer.status} {answer.headers} {answer.body!r}")
        return answer

    def tell(self, method, path, body=None, credential=None):
        """A request whose answer tells a secret, to whoever asks for it and to nobody else."""
        answer = self.server.request(
            method, path, body, {"Authorization": f"Bearer {credential}"} if credential else {})
        self.assertIn(answer.status, (200, 201), answer.body)
        return answer.json

    def check(self, server):
        self.server, self.answers = server, []
        self.secrets = [(server.data / "auth" / name).read_text().strip() for name in ("admin.token", "secrets.key")]
        admin = self.secrets[0]
        signing = base64.b64encode(b"PLANTED-SIGNING-0123456789-0123456789").decode()
        shared = "PLANTED-SHARED-0123456789"
        self.tell("POST", "/admin/auth/databases", {"id": "shop"}, admin)
        for provider in ({"name": "hook", "webhookUrl": f"http://127.0.0.1:{self.webhook.server_port}/PLANTED-PATH",
                          "signingSecrets": [{"secret": signing}]},
                         {"name": "desk", "anonymous": {"sharedToken": shared, "permission": "readWrite"}},
                         {"name": "bad", "anonymous": {"sharedToken": "PLANTED-BAD", "permission": "readWrite"}},
                         {"name": "worse", "webhookUrl": "gopher://PLANTED-URL"}):
            self.ask("POST", "/admin/auth/databases/shop/providers", provider, admin)
        self.secrets += [signing, shared, "PLANTED-SIGNING", "PLANTED-PATH", "PLANTED-BAD", "PLANTED-URL"]
        self.secrets += ["PLANTED-ANSWER", "PLANTED-LOGIN", "PLANTED-CREDENTIAL", "PLANTED-BODY"]
        made = self.tell("POST", "/admin/auth/databases/shop/providers/hook/secrets", {}, admin)
        self.secrets.append(made["secret"])
        key = self.tell("POST", "/admin/auth/databases/shop/api-keys", {
            "name": "k", "permissions": {"read": {"everything": True}, "write": {"everything": True}}}, admin)["key"]
        self.secrets += [key, key.split("_", 2)[2]]
        self.secrets.append(self.tell("GET", "/admin/auth/databases/shop", None, admin)["developmentToken"])

        def login(provider, token, ask):
            return ask("POST", "/_ditto/auth/login", {"databaseID": "shop", "provider": provider, "token": token})

        for token in ("refuses", "garbage", "fails", "shape"):
            login("hook", f"{token} PLANTED-LOGIN", self.ask)
        login("desk", "PLANTED-LOGIN", self.ask)
        login("nobody", "PLANTED-LOGIN", self.ask)
        tokens = [login("hook", "good PLANTED-LOGIN", self.tell)["accessToken"],
                  login("desk", shared, self.tell)["accessToken"]]
        self.secrets += tokens
        self.ask("POST", "/_ditto/auth/login", b'{"token": "PLANTED-BODY', None)
        for credential in (*tokens, key, "PLANTED-CREDENTIAL", "mimeo_x_PLANTED-CREDENTIAL", "a.PLANTED-CREDENTIAL.c"):
            self.ask("POST", "/api/v5/store/execute", {"statement": "SELECT * FROM cars"}, credential)
            self.ask("POST", "/api/v5/store/execute", {"statement": "no statement"}, credential)
            self.ask("GET", "/api/v5/attachments/none", None, credential)
            self.ask("GET", "/_ditto/sync", None, credential)
            self.ask("POST", "/_ditto/auth/cert", {"request": "PLANTED-BODY"}, credential)
            self.ask("GET", "/admin/auth/databases", None, credential)
        for path in ("databases", "databases/shop/providers", "databases/shop/providers/hook/secrets",
                     "databases/shop/api-keys", "databases/shop/keys", "databases/shop/revocations", "sealing-key"):
            self.ask("GET", f"/admin/auth/{path}", None, admin)
        self.ask("POST", "/admin/auth/databases/shop/revocations", {"kind": "token", "value": "x"}, admin)
        self.ask("POST", "/admin/auth/sealing-key", None, admin)
        self.secrets.append((server.data / "auth" / "secrets.key").read_text().strip())
        self.ask("DELETE", "/admin/auth/sealing-key/previous", None, admin)

        # A peer logs in, proves its key, asks for a certificate and syncs; what it keeps is its own.
        peer = Peer(self.workspace, "a", server)
        commit = peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 1})")["commitID"]
        peer.wait_for_commit(commit)
        kept = list(peer.store.rglob("ditto_auth/*"))
        self.assertGreaterEqual(len(kept), 2)
        session = json.loads(next(path for path in kept if path.name == "session.json").read_text())
        private = next(path for path in kept if path.name == "peer-key.pem").read_text().splitlines()[1]
        self.secrets += [session["accessToken"], private, "PRIVATE KEY"]
        for name, client in server.own_origins().items():
            answer = client.request("GET", "/metrics")
            self.answers.append(f"{name} {answer.body!r}")
        self.server.login(database="shop", token="fails PLANTED-LOGIN", provider="hook")
        peer.stop()
        server.stop()
        self.assert_nowhere(server, peer)

    def assert_nowhere(self, server, peer):
        printed = {f"answer {number}": answer for number, answer in enumerate(self.answers)}
        for path in self.workspace.directory.rglob("*.log"):
            printed[str(path)] = path.read_text(errors="replace")
        for path in peer.store.rglob("ditto_logs/*"):
            printed[str(path)] = path.read_bytes().decode(errors="replace")
        self.assertGreater(sum(len(text) for text in printed.values()), 2_000)
        self.assertGreater(len(self.secrets), 15)
        for secret in self.secrets:
            self.assertGreaterEqual(len(secret), 8)
            places = [place for place, text in printed.items() if secret in text]
            self.assertEqual(places, [], f"a secret that begins with {secret[:12]}")
        # Nor on standard output; but for the development database's token, which is what a start is asked for.
        for process in server.processes.values():
            for line in (process.line(index, 0) or "" for index in range(200)):
                self.assertFalse([secret[:12] for secret in self.secrets if secret in line], line[:80])

    def test_in_one_process(self):
        self.check(OneProcess(self.workspace).start())

    def test_behind_nginx(self):
        self.check(FourProcesses(self.workspace).start())
