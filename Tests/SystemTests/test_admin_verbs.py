"""Every command of `mimeo admin`: one right use with its outcome, one wrong use with its code.

`check_commands` of scripts/run_tests.py misses a command that no test runs.
"""

import threading

from admin_shell import AdminShell
from mimeo_harness import Peer, until

EVERYTHING = '{"read": {"everything": true, "queriesByCollection": {}}, "write": {"everything": true, "queriesByCollection": {}}}'
SERVICES = ("attachment-store", "auth-gateway", "query-service", "replicator")
ELSEWHERE = "http://127.0.0.1:9/"
"""Nobody listens there."""
ENDLESS = "SELECT * FROM cars WHERE ANY p IN :l SATISFIES (ANY q IN :l SATISFIES p + q < 0 END) END"


class AdminVerbs(AdminShell):
    def setUp(self):
        super().setUp()
        self.know()
        self.database = self.server.database

    def insert_cars(self):
        self.server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'fiat', 'color': 'red', 'seats': 4}), "
                            "({'_id': 'vw', 'color': 'blue'})")

    def peer(self):
        """A device that has the red car."""
        peer = Peer(self.workspace, "a", self.server, subscribe=["SELECT * FROM cars WHERE color = 'red'"])
        until(lambda: peer.count("cars") == 1, 30, "the peer has no document")
        return peer

    def only(self, name, *arguments):
        """The one row of a list."""
        rows = self.admin(*arguments)[name]
        self.assertEqual(len(rows), 1, rows)
        return rows[0]

    def test_each_part_tells_its_health_settings_and_log_and_takes_a_level(self):
        for service in SERVICES:
            settings = {row["name"]: row["value"] for row in self.admin(service, "settings")["settings"]}
            self.assertEqual(settings["listen"], f"127.0.0.1:{self.server.port}")
            self.refused("CLI-0101", service, "settings", "listen")
            self.assertEqual(self.admin(service, "log-level"), {"level": "info", "seconds": None})
            self.refused("CLI-0101", service, "log-level", "debug")
            self.assertEqual(self.admin(service, "set-log-level", "--level", "debug", "--seconds", "60")["level"], "debug")
            self.assertEqual(self.admin(service, "log-level")["level"], "debug")
            self.refused("SRV-0400", service, "set-log-level", "--level", "loud")
            self.assertEqual(len(self.admin(service, "log-lines", "--limit", "1")["lines"]), 1)
            self.refused("SRV-0400", service, "log-lines", "--limit", "0")
        for part in (*SERVICES, "console", "storage", "system-database"):
            self.assertEqual(self.admin(part, "health")["checks"][part], {"status": "ok"})
            self.refused("CLI-0101", part, "health", "now")
        data = {row["name"]: row["value"] for row in self.admin("server", "settings")["settings"]}["data"]
        self.assertEqual(data, str(self.server.data))
        self.refused("CLI-0101", "server", "settings", "data")

    def test_access_and_api_keys(self):
        self.insert_cars()
        document = ("--collection", "cars", "--id", "fiat")
        told = self.admin("access", "explain", self.database, "--permissions", EVERYTHING, *document)
        self.assertEqual((told["read"]["allowed"], told["write"]["allowed"]), (True, True), told)
        self.refused("AUTH-0401", "access", "explain", self.database, *document)
        key = self.admin("api-keys", "create", self.database, "--name", "import", "--permissions", EVERYTHING)
        asked = self.server.request("POST", "/api/v5/store/execute", {"statement": "SELECT COUNT(*) AS n FROM cars"},
                                    {"Authorization": f"Bearer {key['key']}"})
        self.assertEqual(asked.json["items"], [{"n": 2}])
        self.refused("AUTH-0401", "api-keys", "create", self.database, "--name", "import", "--permissions", "[]")
        row = self.only("apiKeys", "api-keys", "list", self.database)
        self.assertEqual((row["id"], row["name"]), (key["id"], "import"))
        self.refused("AUTH-0402", "api-keys", "list", "none")
        self.admin("api-keys", "delete", self.database, key["id"], "--yes")
        self.assertEqual(self.admin("api-keys", "list", self.database)["apiKeys"], [])
        self.refused("AUTH-0411", "api-keys", "delete", self.database, key["id"], "--yes")

    def test_attachments(self):
        file = self.server.upload(b"some bytes").json
        self.assertEqual(self.only("attachments", "attachments", "list", self.database)["id"], file["id"])
        usage = self.admin("attachments", "usage", self.database)
        self.assertEqual((usage["attachments"], usage["bytes"]), (1, 10))
        self.assertEqual(self.admin("attachments", "verification", self.database), {"running": False})
        self.admin("attachments", "verify", self.database)
        found = until(lambda: self.verified(), 30, "the verification goes on")
        self.assertEqual((found["checked"], found["damaged"], found["isWhole"]), (1, 0, True))
        collected = self.admin("attachments", "collect", self.database, "--grace-hours", "0", "--yes")
        self.assertEqual((collected["removed"], collected["removedBytes"]), (1, 10))
        self.assertEqual(self.admin("attachments", "list", self.database)["attachments"], [])
        for verb in ("list", "usage", "verification", "verify"):
            self.refused("ATT-0303", "attachments", verb, "none")
        self.refused("CLI-0101", "attachments", "collect", self.database)

    def verified(self):
        """The latest verification, if it has ended."""
        found = self.admin("attachments", "verification", self.database)
        return None if found["running"] else found

    def test_the_audit_and_credentials(self):
        self.assertEqual(self.admin("credentials", "whoami"), {"name": None, "role": "own", "expiresAt": None})
        self.refused("CLI-0101", "credentials", "whoami", "me")
        made = self.admin("credentials", "create", "--name", "watch", "--role", "read")
        self.refused("AUTH-0401", "credentials", "create", "--name", "watch", "--role", "boss")
        row = self.only("credentials", "credentials", "list")
        self.assertEqual((row["id"], row["role"]), (made["id"], "read"))
        self.assertNotIn("credential", row)
        self.refused("CLI-0101", "credentials", "list", "all")
        self.admin("credentials", "delete", made["id"], "--yes")
        self.refused("AUTH-0411", "credentials", "delete", made["id"], "--yes")
        action = "POST /admin/auth/credentials"
        entries = self.admin("audit", "list", "--where", f"action = '{action}'")["entries"]
        self.assertEqual([entry["result"] for entry in entries], ["refused", "ok"])
        self.refused("AUTH-0401", "audit", "list", "--where", "action = (")
        counted = self.admin("audit", "query", "--statement", f"SELECT COUNT(*) AS n FROM audit WHERE action = '{action}'")
        self.assertEqual(counted["items"], [{"n": 2}])
        self.refused("CLI-0101", "audit", "query")

    def test_databases(self):
        made = self.admin("databases", "create", "--id", "fleet")
        self.refused("AUTH-0409", "databases", "create", "--id", "fleet")
        self.assertEqual({row["id"] for row in self.admin("databases", "list")["databases"]}, {"fleet", self.database})
        self.refused("CLI-0101", "databases", "list", "fleet")
        self.assertEqual(self.admin("databases", "show", "fleet"), made)
        self.refused("AUTH-0402", "databases", "show", "none")
        self.admin("databases", "delete", "fleet", "--yes", "--wait")
        holders = {row["holder"] for row in self.admin("databases", "erasure", "fleet")["receipts"]}
        self.assertEqual(holders, {"attachment-store", "log", "query-service", "replicator"})
        self.refused("AUTH-0402", "databases", "delete", "none", "--yes")
        self.refused("AUTH-0402", "databases", "erasure", "none")

    def test_collections_indexes_and_erasures(self):
        self.insert_cars()
        self.server.execute("CREATE INDEX by_color ON cars (color)")
        sizes = {row["name"]: row["documents"] for row in self.admin("collections", "list", self.database)["collections"]}
        self.assertEqual(sizes["cars"], 2)
        self.refused("QUERY-0201", "collections", "list", "none")
        shape = {row["path"][0]: row["count"] for row in self.admin("collections", "shape", self.database, "cars")["keys"]}
        self.assertEqual(shape, {"_id": 2, "color": 2, "seats": 1})
        self.refused("SRV-0400", "collections", "shape", self.database, "cars", "--sample", "0")
        indexes = self.admin("indexes", "list", self.database, "--collection", "cars")["indexes"]
        self.assertEqual([(row["name"], row["kind"]) for row in indexes], [("_id", "primary"), ("by_color", "declared")])
        self.refused("QUERY-0201", "indexes", "list", "none")
        begun = self.admin("erasures", "create", self.database, "--collection", "cars", "--ids", '["vw"]', "--yes")
        until(lambda: self.server.count("cars") == 1, 30, "the document is still there")
        row = self.only("erasures", "erasures", "list", self.database)
        self.assertEqual((row["id"], row["documents"]), (begun["id"], 1))
        self.refused("REPL-0206", "erasures", "create", self.database, "--collection", "cars", "--yes")
        self.refused("REPL-0101", "erasures", "list", "none")

    def test_keys_revocations_and_the_sealing_key(self):
        self.assertEqual(self.server.login().status, 200)
        before = self.only("keys", "keys", "list", self.database)
        self.refused("AUTH-0402", "keys", "list", "none")
        self.admin("keys", "rotate", self.database, "--overlap-seconds", "60", "--yes")
        after = self.admin("keys", "list", self.database)["keys"]
        self.assertEqual(len(after), 2)
        self.assertIn(before["id"], [row["id"] for row in after])
        self.refused("AUTH-0401", "keys", "rotate", self.database, "--overlap-seconds", "-1", "--yes")
        made = self.admin("revocations", "create", self.database, "--kind", "user", "--value", "mallory", "--yes")
        self.refused("AUTH-0401", "revocations", "create", self.database, "--kind", "hat", "--value", "red", "--yes")
        self.admin("revocations", "lift", self.database, made["id"], "--yes")
        row = self.only("revocations", "revocations", "list", self.database)
        self.assertEqual((row["value"], row["liftedAt"] is None), ("mallory", False))
        self.refused("AUTH-0411", "revocations", "lift", self.database, "none", "--yes")
        self.refused("AUTH-0402", "revocations", "list", "none")
        self.refused("AUTH-0411", "sealing-key", "forget", "--yes")
        self.assertGreater(self.admin("sealing-key", "change", "--yes")["sealed"], 0)
        self.assertEqual(self.admin("sealing-key", "show"), {"changing": True, "outdated": 0})
        self.refused("AUTH-0412", "sealing-key", "change", "--yes")
        self.admin("sealing-key", "forget", "--yes")
        self.assertEqual(self.admin("sealing-key", "show"), {"changing": False, "outdated": 0})
        self.refused("CLI-0101", "sealing-key", "show", "all")

    def test_providers_and_secrets(self):
        provider = (self.database, "own")
        self.admin("providers", "create", self.database, "--name", "own", "--webhook-url", ELSEWHERE)
        self.refused("AUTH-0401", "providers", "create", self.database, "--name", "own", "--webhook-url", "ftp://a/")
        self.assertEqual(self.only("providers", "providers", "list", self.database)["name"], "own")
        self.refused("AUTH-0402", "providers", "list", "none")
        self.admin("providers", "change", *provider, "--webhook-url", "http://127.0.0.1:8/")
        self.assertEqual(self.admin("providers", "show", *provider)["webhookUrl"], "http://127.0.0.1:8/")
        self.refused("AUTH-0411", "providers", "show", self.database, "none")
        self.refused("AUTH-0411", "providers", "change", self.database, "none", "--webhook-url", ELSEWHERE)
        made = self.admin("secrets", "create", *provider)
        row = self.only("secrets", "secrets", "list", *provider)
        self.assertEqual((row["id"], "secret" in row), (made["id"], False))
        for verb in ("create", "list"):
            self.refused("AUTH-0411", "secrets", verb, self.database, "none")
        self.admin("secrets", "delete", *provider, made["id"], "--yes")
        self.refused("AUTH-0411", "secrets", "delete", *provider, made["id"], "--yes")
        self.admin("providers", "delete", *provider, "--yes")
        self.assertEqual(self.admin("providers", "list", self.database)["providers"], [])
        self.refused("AUTH-0411", "providers", "delete", *provider, "--yes")

    def test_the_log_and_projections(self):
        self.insert_cars()
        row = next(each for each in self.admin("log", "databases")["databases"] if each["id"] == self.database)
        self.assertEqual((row["head"], row["truncated"]), (1, 0))
        self.refused("REPL-0202", "log", "databases", "--limit", "0")
        operation = self.only("operations", "log", "read", self.database)
        self.assertEqual([each["id"] for each in operation["documents"]], ["fiat", "vw"])
        self.assertEqual(self.admin("log", "snapshot", self.database)["offset"], 1)
        self.assertEqual(self.admin("log", "truncate", self.database, "--keep", "0", "--yes")["truncated"], 1)
        for verb in (("read",), ("snapshot",), ("truncate", "--yes")):
            self.refused("REPL-0101", "log", verb[0], "none", *verb[1:])
        listed = {each["id"] for each in self.admin("projections", "list")["databases"]}
        self.assertIn(self.database, listed)
        self.refused("SRV-0400", "projections", "list", "--limit", "0")
        before = self.admin("projections", "show", self.database)["generation"]
        self.admin("projections", "rebuild", self.database, "--wait")
        self.assertEqual(self.server.count("cars"), 2)
        self.assertEqual(self.admin("projections", "show", self.database)["generation"], before + 1)
        for verb in ("show", "rebuild"):
            self.refused("QUERY-0201", "projections", verb, "none")

    def test_what_a_restore_takes_back_and_metrics(self):
        self.assertEqual(self.admin("restore", "show"), {"accepted": True, "takenBack": [], "others": 0})
        self.refused("CLI-0101", "restore", "show", "all")
        self.assertEqual(self.admin("restore", "accept", "--yes"), {"done": True})
        self.refused("CLI-0101", "restore", "accept")
        until(lambda: self.admin("metrics", "series", "--name", "mimeo_ready")["series"][0]["points"], 30, "no reading")
        self.refused("SRV-0400", "metrics", "series", "--step", "7")

    def test_sessions_peers_and_subscriptions(self):
        self.insert_cars()
        device = self.peer()
        first = self.only("sessions", "sessions", "list", self.database)
        shown = self.admin("sessions", "show", self.database, first["number"])
        self.assertEqual([each["collection"] for each in shown["subscriptions"]], ["cars"])
        presence = self.admin("presence", "show", self.database)
        self.assertEqual([each["sessions"] for each in presence["peers"]], [[first["session"]]])
        device.execute("ALTER SYSTEM SET small_peer_info_publish_interval_secs = 1")
        self.admin("sessions", "disconnect", self.database, first["number"], "--yes")
        row = until(lambda: self.admin("peers", "list", self.database)["peers"], 60, "it tells nothing of itself")[0]
        self.assertEqual(row["collections"]["cars"], 1)
        until(lambda: [row for row in self.admin("sessions", "list", self.database)["sessions"]
                       if row["session"] != first["session"]], 30, "it does not connect again")
        self.admin("sessions", "drain", "--yes", "--wait")
        self.assertEqual(self.admin("sessions", "list", self.database)["sessions"], [])
        self.assertEqual(self.admin("sessions", "undrain")["draining"], False)
        told = self.admin("subscriptions", "explain", self.database, "--subscription",
                          "SELECT * FROM cars WHERE color = 'red'", "--collection", "cars", "--id", "vw")
        self.assertEqual((told["belongs"], told["checks"][-1]["check"]), (False, "condition"))
        for verb in (("sessions", "list"), ("presence", "show")):
            self.refused("REPL-0101", *verb, "none")
        for verb in ("show", "disconnect"):
            self.refused("REPL-0201", "sessions", verb, self.database, "1", *(["--yes"] if verb == "disconnect" else []))
        self.refused("QUERY-0201", "peers", "list", "none")
        self.refused("CLI-0101", "sessions", "drain")
        self.refused("CLI-0101", "sessions", "undrain", self.database)
        self.refused("DQL-0105", "subscriptions", "explain", self.database, "--subscription", "cars", "--collection", "cars",
                     "--id", "vw")

    def test_statements(self):
        self.insert_cars()
        answers = []
        asking = threading.Thread(
            target=lambda: answers.append(self.server.post_statement(ENDLESS, {"l": list(range(8_000))})), daemon=True)
        asking.start()
        # A statement is slow from half a second.
        running = until(lambda: [row for row in self.admin("statements", "list", self.database)["requests"]
                                 if row["milliseconds"] > 500], 30, "no statement runs")
        self.admin("statements", "cancel", self.database, running[0]["id"], "--yes")
        asking.join(60)
        self.assertEqual(answers[0].error["code"], "QUERY-0402", answers[0].body)
        slow = self.only("statements", "statements", "slow", self.database)
        self.assertIn("SELECT", slow["statement"])
        self.refused("QUERY-0201", "statements", "list", "none")
        self.refused("QUERY-0404", "statements", "cancel", self.database, running[0]["id"], "--yes")
        self.refused("SRV-0400", "statements", "slow", self.database, "--limit", "0")

    def test_webhooks(self):
        made = self.admin("webhooks", "create", self.database, "--webhook-url", ELSEWHERE)
        self.refused("QUERY-0101", "webhooks", "create", self.database, "--webhook-url", "ftp://a/")
        row = self.only("webhooks", "webhooks", "list", self.database)
        self.assertEqual((row["url"], "secret" in row), (ELSEWHERE, False))
        self.refused("QUERY-0201", "webhooks", "list", "none")
        self.admin("webhooks", "delete", self.database, made["id"], "--yes")
        self.assertEqual(self.admin("webhooks", "list", self.database)["webhooks"], [])
        self.refused("QUERY-0601", "webhooks", "delete", self.database, made["id"], "--yes")

    def test_profiles(self):
        self.run_mimeo("admin", "login")
        self.assertEqual(self.only("profiles", "profiles"), {"name": "default", "url": self.server.origin, "usual": True})
        self.refused("CLI-0101", "login", "now")
        self.refused("CLI-0101", "profiles", "all")
        self.run_mimeo("admin", "logout")
        self.assertEqual(self.admin("profiles")["profiles"], [])
        self.refused("CLI-0101", "logout")
