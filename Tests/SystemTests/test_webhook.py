"""Logins by a webhook: the guide's own answers from a process of its own, and what they let their users do."""

import concurrent.futures
import http.server
import json
import threading
import time

from mimeo_harness import FourProcesses, OneProcess, mimeo, until
from system_test import SystemTest, report

USERS = {
    "manager": {"read": {"everything": True, "queriesByCollection": {}},
                "write": {"everything": True, "queriesByCollection": {}}},
    "clerk": {"read": {"everything": False, "queriesByCollection": {"orders": ["true"], "docs": ["true"]}},
              "write": {"everything": False, "queriesByCollection": {"orders": ["true"]}}},
    "owner": {"read": {"everything": False, "queriesByCollection": {"docs": ["_id.userID == 'owner-1'"]}},
              "write": {"everything": False, "queriesByCollection": {"docs": ["_id.userID == 'owner-1'"]}}},
    # Its token has more than 8 KiB, which is what nginx takes of a header line unless told.
    "wide": {"read": {"everything": False, "queriesByCollection": {"docs": [
        f"_id.userID == '{number:040}'" for number in range(130)]}}, "write": {}},
}


class Handler(http.server.BaseHTTPRequestHandler):
    """The guide's handler: the token is JSON that names a user; whoever is not known gets its failure form."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked)
        time.sleep(getattr(self.server, "delay", 0))
        if asked["token"] == "hang":
            return self.server.ended.wait()
        if asked["token"] == "boom":
            return self.send_error(500)
        try:
            role = json.loads(asked["token"])["role"]
            answer = {"authenticate": True, "expirationSeconds": 28800, "userID": f"{role}-1", "role": role,
                      "permissions": USERS[role], "userInfo": {"greeting": f"Hello, {role}"}}
        except (ValueError, KeyError) as problem:
            answer = {"authenticate": {"name": type(problem).__name__}, "userInfo": "who are you?"}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Says nothing."""


class Webhook(SystemTest):
    def setUp(self):
        super().setUp()
        class Server(http.server.ThreadingHTTPServer):
            # A hundred logins come at once. Connections beyond the queue's five would be tried again after seconds.
            request_queue_size = 128

        self.webhook = Server(("127.0.0.1", 0), Handler)
        self.webhook.asked = []
        self.webhook.ended = threading.Event()
        thread = threading.Thread(target=self.webhook.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.webhook.server_close)
        self.addCleanup(self.webhook.shutdown)
        self.providers = self.workspace.directory / "providers.json"
        self.providers.write_text(json.dumps({"databases": {"shop": {"development": False, "providers": {
            "my-auth": {"webhookUrl": f"http://127.0.0.1:{self.webhook.server_port}/"}}}}}))

    def check(self, server):
        def login(token):
            return server.login(database="shop", token=token, provider="my-auth")

        def execute(role, statement):
            answer = login(json.dumps({"role": role}))
            self.assertEqual(answer.status, 200, answer.body)
            self.assertEqual(answer.json["userID"], f"{role}-1")
            self.assertEqual(answer.json["clientInfo"], {"greeting": f"Hello, {role}"})
            return server.request(
                "POST", "/api/v5/store/execute", {"statement": statement},
                {"Authorization": f"Bearer {answer.json['accessToken']}"})

        for collection in ("orders", "docs", "salaries"):
            written = execute("manager", f"INSERT INTO {collection} DOCUMENTS ({{'_id': 1}})")
            self.assertEqual(written.status, 200, written.body)
        self.assertEqual(execute("clerk", "SELECT * FROM docs").json["items"], [{"_id": 1}])
        self.assertEqual(execute("clerk", "UPDATE orders SET done = true").status, 200)
        self.assert_refused(execute("clerk", "UPDATE docs SET done = true"), 403)
        self.assert_refused(execute("clerk", "SELECT * FROM salaries"), 403)
        wide = login(json.dumps({"role": "wide"})).json["accessToken"]
        self.assertGreater(len(wide), 9_000)
        self.assertEqual(execute("wide", "SELECT * FROM docs").json["items"], [])
        stranger = login("nobody")
        self.assert_refused(stranger, 401)
        self.assertEqual(stranger.json["clientInfo"], "who are you?")
        self.assert_refused(server.login(database="shop", token="x", provider="development"), 404)
        self.assertEqual(self.webhook.asked[-1], {
            "appID": "shop", "databaseID": "shop", "version": "1", "provider": "my-auth", "token": "nobody"})

    def test_the_guides_webhook_in_one_process(self):
        server = OneProcess(self.workspace, extra_arguments=["--providers", self.providers]).start()
        self.check(server)
        # Nobody answers there any more: a refusal in time, and everything else goes on.
        self.webhook.shutdown()
        self.webhook.server_close()
        gone = server.login(database="shop", token="{}", provider="my-auth")
        self.assert_refused(gone, 503)
        self.assertEqual(gone.headers["Retry-After"], "1")
        self.assertEqual(server.login().status, 200)

    def test_a_hundred_people_log_in_at_once_at_a_webhook_that_takes_a_second(self):
        server = OneProcess(self.workspace, extra_arguments=["--providers", self.providers]).start()
        self.webhook.delay = 1
        began = time.monotonic()

        def login(_):
            return server.login(database="shop", token=json.dumps({"role": "clerk"}), provider="my-auth").status

        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            statuses = list(pool.map(login, range(100)))
        report(f"100 logins at once, each of 1 s at its webhook: {time.monotonic() - began:.1f} s")
        self.assertEqual(statuses, [200] * 100)

    def behind_proxy(self):
        """A server whose clients' addresses a proxy tells, and the status of a login from one of them."""
        server = OneProcess(
            self.workspace,
            extra_arguments=["--providers", self.providers, "--behind-proxy", "--development-login"]).start()

        def login(token, address):
            body = {"databaseID": "shop", "provider": "my-auth", "token": token}
            return server.request("POST", "/_ditto/auth/login", body, {"X-Forwarded-For": address}).status

        return server, login

    def test_logins_that_hang_at_a_webhook_end_and_hold_up_nobody_else(self):
        server, login = self.behind_proxy()
        self.addCleanup(self.webhook.ended.set)

        def hanging():
            return sum(asked["token"] == "hang" for asked in self.webhook.asked)

        with concurrent.futures.ThreadPoolExecutor(200) as pool:
            logins = [pool.submit(login, "hang", "10.0.0.1") for _ in range(200)]
            until(lambda: hanging() >= 64, 60, lambda: str(hanging()))
            self.assertEqual(login(json.dumps({"role": "clerk"}), "10.0.0.2"), 200)
            # The webhook has five seconds; beyond 128 at a time it is not asked.
            self.assertLessEqual({each.result() for each in logins}, {429, 503})

    def test_logins_that_make_a_webhook_fail_shut_out_nobody_else(self):
        _, login = self.behind_proxy()
        honest = json.dumps({"role": "clerk"})
        for number in range(8):
            self.assertEqual(login("boom", "10.0.0.1"), 503)
        # Neither the others nor whoever shares the address.
        self.assertEqual([login(honest, "10.0.0.2"), login(honest, "10.0.0.1")], [200, 200])
        for number in range(25):
            self.assertEqual(login("boom", "10.0.0.1"), 503)
        # By now that address is not asked about any more.
        asked = len(self.webhook.asked)
        self.assertEqual([login(honest, "10.0.0.1"), login(honest, "10.0.0.3")], [503, 200])
        self.assertEqual(len(self.webhook.asked), asked + 1)

    def test_a_peer_lists_each_write_that_was_refused(self):
        server = OneProcess(self.workspace, extra_arguments=["--providers", self.providers]).start()
        run = mimeo(
            "peer", "--store", self.workspace.directory / "clerk", "--url", server.origin, "--database", "shop",
            "--provider", "my-auth", "--token", json.dumps({"role": "clerk"}), given="""
                INSERT INTO docs DOCUMENTS ({'_id': 'a'})
                INSERT INTO salaries DOCUMENTS ({'_id': 'b'})
                INSERT INTO orders DOCUMENTS ({'_id': 'c'})
                .wait 3
                .status
            """)
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        self.assertEqual(lines[3], {"acknowledged": 3}, lines)
        refused = lines[4]["refused"]
        self.assertEqual([(entry["of"], entry["commitID"]) for entry in refused], [("write", 1), ("write", 2)])
        self.assertEqual([entry["error"]["code"] for entry in refused], ["SYNC-0401"] * 2)

    def test_the_guides_webhook_behind_nginx(self):
        server = FourProcesses(self.workspace)
        server.extra_arguments["auth-gateway"] = ["--providers", self.providers]
        self.check(server.start())
