"""What an operator does from a shell: mimeo admin, roles, readiness, levels of the log, metrics, a support bundle."""

import json
import pathlib
import re
import tarfile

from admin_shell import AdminShell
from mimeo_harness import ROOT, Peer, until

RARE = {"mimeo_tls_certificate_expiry_timestamp_seconds", "mimeo_sync_refused_writes_total",
        "mimeo_webhook_deliveries_total", "mimeo_log_errors_total", "mimeo_log_recoveries_total",
        "mimeo_log_snapshot_offset", "mimeo_query_slow_total",
        "mimeo_attachments_collected_total", "mimeo_attachment_bucket_requests_total", "mimeo_trace_spans_total",
        "mimeo_backup_last_success_timestamp_seconds", "mimeo_backup_last_duration_seconds", "mimeo_backup_last_size_bytes",
        "mimeo_backup_last_verified_timestamp_seconds", "mimeo_backup_last_failure_timestamp_seconds",
        "mimeo_budget_refused_total", "mimeo_limit_used", "mimeo_limit_most", "mimeo_limit_refused_total",
        "mimeo_postgres_timeline", "mimeo_postgres_wal_bytes", "mimeo_postgres_standbys", "mimeo_postgres_standby_lag_bytes",
        "mimeo_canary_seconds", "mimeo_canary_failures_total"}
"""Metrics of what does not happen here."""


class AdminTest(AdminShell):
    arguments = ["--log-format", "json"]

    def test_a_shell_administers_a_server(self):
        self.run_mimeo("admin", "databases", "list", exit_code=2)
        self.run_mimeo("admin", "login", "--url", self.server.origin, exit_code=3, given="x" * 43 + "\n")
        told = self.run_mimeo("admin", "login", "--url", self.server.origin, given=self.root.read_text())
        self.assertIn("role own", told.stdout)
        self.assertNotIn(self.root.read_text().strip(), told.stdout + told.stderr)
        profiles = pathlib.Path(self.environment["XDG_CONFIG_HOME"]) / "mimeo" / "profiles.json"
        self.assertEqual(profiles.stat().st_mode & 0o777, 0o600)

        self.assertEqual(self.admin("databases", "create", "--id", "fleet")["id"], "fleet")
        self.assertIn("fleet", [row["id"] for row in self.admin("databases", "list")["databases"]])
        self.assertRegex(self.run_mimeo("admin", "databases", "list", "--format", "table").stdout, r"id +createdAt")
        self.run_mimeo("admin", "databases", "delete", "fleet", exit_code=2)
        self.assertEqual(self.admin("databases", "delete", "fleet", "--yes", "--wait")["database"], "fleet")
        self.assertEqual(self.admin("databases", "show", "fleet", exit_code=1)["error"]["code"], "AUTH-0402")

        made = self.admin("credentials", "create", "--name", "watch", "--role", "read")
        secret = self.workspace.directory / "watch.token"
        secret.write_text(made["credential"])
        reader = ["--url", self.server.origin, "--admin-credential-file", secret]
        self.assertEqual(self.admin("credentials", "whoami", *reader)["name"], "watch")
        refused = self.admin("databases", "create", *reader, exit_code=1)
        self.assertEqual(refused["error"]["code"], "SRV-0403")
        audit = self.admin("audit", "list", "--where", "action = 'POST /admin/auth/credentials'")["entries"]
        self.assertEqual([entry["user"] for entry in audit], ["admin"])
        self.admin("credentials", "delete", made["id"], "--yes")
        self.run_mimeo("admin", "databases", "list", *reader, exit_code=3)

        settings = {row["name"]: row for row in self.admin("server", "settings")["settings"]}
        self.assertEqual((settings["logFormat"]["value"], settings["logFormat"]["origin"]), ("json", "flag"))
        self.assertEqual(settings["stopSeconds"]["origin"], "default")

    def test_lines_are_json_and_their_level_can_be_changed(self):
        self.know()
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        self.admin("query-service", "set-log-level", "--level", "debug", "--seconds", "60")
        self.server.request("POST", "/api/v5/store/execute", {"statement": "SELECT 1"},
                            {**self.server.authorization(), "X-Request-ID": "mine-7", "traceparent": trace})
        peer = Peer(self.workspace, "a", self.server, subscribe=["SELECT * FROM cars"])
        until(lambda: peer.execute(".status")["connected"], 30, "the peer is not connected")
        peer.stop()

        def lines():
            return [json.loads(line) for line in self.admin("replicator", "log-lines")["lines"]]

        until(lambda: any(line["message"] == "a session ended" for line in lines()), 30, "no line of a session's end")
        found = lines()
        request = [line for line in found if line.get("request") == "mine-7" and line["message"] == "request"]
        self.assertEqual([line["trace"] for line in request], [trace.split("-")[1]])
        self.assertIsInstance(request[0]["duration_ms"], int)
        sessions = [line for line in found if line["message"] in ("a session begins", "a session ended")]
        self.assertEqual(len({line["session"] for line in sessions}), 1, sessions)
        self.assertEqual([line["service"] for line in sessions], ["replicator"] * 2)
        self.assertIn("code", sessions[1])

    def assert_peers_are_listed(self, peer):
        """What a peer has told of itself, after it has gone too."""
        database = self.server.database
        peer.execute("ALTER SYSTEM SET small_peer_info_publish_interval_secs = 1")
        # It looks at the interval when its connection changes.
        for session in self.admin("sessions", "list", database)["sessions"]:
            self.admin("sessions", "disconnect", database, str(session["number"]), "--yes")
        until(lambda: self.admin("peers", "list", database)["peers"], 60, "it tells nothing")
        peer.stop()
        rows = self.admin("peers", "list", database)["peers"]
        self.assertEqual([(row["subscriptions"], row["collections"]["cars"]) for row in rows], [(["SELECT * FROM cars"], 1)])
        self.assertRegex(rows[0]["reportedAt"], r"^20..-..-..T.*Z$")
        self.assertNotIn("metadata", rows[0])
        self.assertEqual(self.admin("peers", "list", database, "--limit", "1"), {"peers": rows, "more": False})
        self.assertEqual(self.admin("peers", "list", database, "--after", rows[0]["peer"])["peers"], [])
        self.assertIn("deviceName", self.run_mimeo("admin", "peers", "list", database, "--format", "table").stdout)

    def test_every_metric_of_the_page_is_served_and_peers_tell_of_themselves(self):
        self.know()
        until(lambda: self.server.request("GET", "/health/ready").status == 200, 30, "not ready")
        self.assertEqual(self.server.request("GET", "/health/live").json["status"], "live")
        self.server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
        attachment = self.server.upload(b"some bytes")
        gone = Peer(self.workspace, "b", self.server, subscribe=["SELECT * FROM cars"])
        until(lambda: gone.count("cars") == 1, 30, "the peer has no document")
        gone.stop()
        peer = Peer(self.workspace, "a", self.server, subscribe=["SELECT * FROM cars"])
        until(lambda: peer.count("cars") == 1, 30, "the peer has no document")
        self.server.request("GET", "/admin/settings", headers={"Authorization": "Bearer " + self.root.read_text().strip()})
        page = (ROOT / "Docs" / "metrics.md").read_text()
        wanted = set(re.findall(r"^\| `((?:mimeo|process)_\w+)`", page, re.M))
        rare = RARE | {name for name in wanted if "damage" in name}

        def served():
            text = self.server.request("GET", "/metrics").body.decode()
            names = {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}
            return names | {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}

        until(lambda: not wanted - rare - served(), 40, lambda: f"not served: {sorted(wanted - rare - served())}")
        self.assertTrue(attachment)
        self.assert_peers_are_listed(peer)

    def test_a_support_bundle_has_no_secret(self):
        self.know()
        self.server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a', 'plate': 'B-HIDDEN-7'})")
        self.run_mimeo("support-bundle", "--output", "bundle.tar")
        with tarfile.open(self.workspace.directory / "bundle.tar") as archive:
            files = {member.name: archive.extractfile(member).read().decode() for member in archive}
        self.assertIn("mimeo_ready 1", files["mimeo-support/metrics.txt"])
        self.assertIn(self.server.database, files["mimeo-support/log-databases.json"])
        text = "".join(files.values())
        for secret in ("B-HIDDEN-7", self.root.read_text().strip(), self.server.token):
            self.assertNotIn(secret, text)
