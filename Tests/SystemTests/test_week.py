"""A week of clock: days pass for a server and its peers while they write, and everything that has a date goes on.

The clock of day moves in steps, for all processes at once; pauses and timeouts are real ones. Tokens and peer
certificates end and are renewed, the log is retained by age, snapshots and deletions are forgotten, keys rotate, a
certificate is renewed before its end, backups are made and pruned, a webhook gets every change.
"""

import http.server
import json
import subprocess
import threading

from mimeo_harness import IS_DEEP, OneProcess, Peer, binary, mimeo, pick, until
from mimeo_harness.clock import Clock
from system_test import SystemTest, report

STEP_HOURS = 8
STEPS = pick(fast=3, deep=21)
"""A day in `make test`, a week in full."""

BULK = pick(fast=0, deep=150)
"""Further operations of a step: the log measures its age in steps of 256."""


class Receiver(http.server.BaseHTTPRequestHandler):
    """Takes changes, and notes the documents."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.bodies.append(body)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        """Says nothing."""


class Week(SystemTest):
    seconds = 120 + 12 * STEPS

    def setUp(self):
        super().setUp()
        self.clock = Clock(self.workspace)
        self.receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self.receiver.bodies = []
        thread = threading.Thread(target=self.receiver.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.receiver.server_close)
        self.addCleanup(self.receiver.shutdown)

    def admin(self, *arguments):
        done = mimeo("admin", *arguments, "--url", self.server.origin,
                     "--admin-credential-file", self.server.data / "auth" / "admin.token")
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout) if done.stdout.startswith("{") else None

    def log_row(self):
        return next(row for row in self.admin("log", "databases")["databases"] if row["id"] == self.server.database)

    def write(self, peers, number):
        """A document of each peer, one of an HTTP client, and the deletion of an early one."""
        for name, peer in peers.items():
            commit = peer.execute(f"INSERT INTO notes DOCUMENTS ({{'_id': '{name}-{number}'}})")["commitID"]
            peer.wait_for_commit(commit, 60)
        self.server._access_token = None
        self.server.execute(f"INSERT INTO notes DOCUMENTS ({{'_id': 'http-{number}'}})")
        if number > 0:
            self.server.execute(f"DELETE FROM notes WHERE _id = 'http-{number - 1}'")
        for further in range(BULK):
            commit = peers["a"].execute(f"INSERT INTO bulk DOCUMENTS ({{'_id': {number * BULK + further}}})")["commitID"]

    def test_everything_with_a_date_goes_on(self):
        self.server = OneProcess(self.workspace, extra_arguments=[
            "--housekeeping-seconds", "1", "--snapshot-operations", "10", "--kept-operations", "4",
            "--log-keep-hours", "24", "--tombstone-ttl-hours", "36"]).start()
        server, backups = self.server, self.workspace.directory / "backups"
        self.admin("webhooks", "create", server.database, "--body", json.dumps({"url": f"http://127.0.0.1:{self.receiver.server_port}/"}))
        peers = {name: Peer(self.workspace, name, server, ["SELECT * FROM notes"]) for name in "ab"}
        first_token = server.access_token
        self.write(peers, 0)
        for step in range(1, STEPS + 1):
            self.clock.advance(STEP_HOURS)
            self.write(peers, step)
            if step % 3 == 0:
                self.admin("keys", "rotate", server.database, "--yes")
                self.back_up(server, backups, incremental=step > 3)
        self.assert_nothing_lost(peers)
        self.assert_refused(server.request(
            "POST", "/api/v5/store/execute", {"statement": "SELECT 1"}, {"Authorization": f"Bearer {first_token}"}), 401)
        if IS_DEEP:
            until(lambda: self.log_row()["truncated"] > 0, 30, lambda: f"the log keeps all: {self.log_row()}")
            self.assert_retained()
        self.assert_webhook_got_all()
        self.assert_backups(backups)
        keys = self.admin("keys", "list", server.database)["keys"]
        self.assertGreaterEqual(len(keys), 2 if STEPS > 3 else 1, keys)
        self.assertEqual(server.request("GET", "/health/ready").json, {"status": "ready", "reasons": []})
        # A restart finds nothing of it strange, a peer that was away for the last step neither.
        self.assertEqual(server.stop(), 0)
        server.start()
        self.write(peers, STEPS + 1)
        report(f"{STEPS * STEP_HOURS / 24:g} days of clock, {3 * (STEPS + 2)} writes, none lost")

    def back_up(self, server, backups, incremental):
        done = mimeo("backup", "create", "--data", server.data, "--to", backups, *["--incremental"] * incremental)
        self.assertEqual(done.returncode, 0, done.stderr)

    def assert_nothing_lost(self, peers):
        expected = sorted(f"{name}-{step}" for name in "ab" for step in range(STEPS + 1)) + [f"http-{STEPS}"]
        for side in (self.server, *peers.values()):
            def ids(side=side):
                return [row["_id"] for row in side.query("SELECT _id FROM notes ORDER BY _id")]

            until(lambda: ids() == sorted(expected), 60, lambda: f"{ids()}")

    def assert_retained(self):
        """The entries of the last day are there, and the older ones not, as far as steps of the measure tell."""
        row = self.log_row()
        kept, of_a_day = row["head"] - row["truncated"], 24 // STEP_HOURS * (BULK + 4)
        self.assertGreaterEqual(kept, of_a_day, row)
        self.assertLessEqual(kept, of_a_day + BULK + 4 + 2 * 256, row)

    def assert_webhook_got_all(self):
        def missing():
            got = "".join(self.receiver.bodies)
            wanted = [f"{name}-{step}" for name in ("a", "b", "http") for step in range(STEPS + 1)]
            return [name for name in wanted if f'"{name}"' not in got]

        until(lambda: not missing(), 60, lambda: f"the webhook lacks {missing()}")

    def assert_backups(self, backups):
        done = mimeo("backup", "verify", backups)
        self.assertEqual(done.returncode, 0, done.stderr)
        listed = [json.loads(line) for line in mimeo("backup", "list", backups).stdout.splitlines()]
        self.assertEqual(len(listed), STEPS // 3)
        self.assertEqual(len({row["createdAt"][:10] for row in listed}), len(listed), "one a day")
        done = mimeo("backup", "prune", backups, "--keep-daily", "2")
        self.assertEqual(done.returncode, 0, done.stderr)


class Certificate(SystemTest):
    """A certificate of three days: the doctor and the server say when it ends, and a renewed one needs no restart."""

    def setUp(self):
        super().setUp()
        self.clock = Clock(self.workspace)

    def issue(self, days):
        folder = self.workspace.directory
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
             str(days), "-subj", "/CN=localhost", "-keyout", "tls.key", "-out", "tls.pem"],
            cwd=folder, check=True, capture_output=True, timeout=30)
        return ["--tls-certificate", folder / "tls.pem", "--tls-key", folder / "tls.key"]

    def doctor(self, flags):
        done = mimeo("doctor", "--json", "--data", self.workspace.directory / "server", *flags)
        return {row["code"]: row["message"] for row in json.loads(done.stdout)["findings"]}

    def test_it_is_told_before_and_after_its_end(self):
        flags = self.issue(33)
        self.assertNotIn("DOC-0305", self.doctor(flags))
        self.clock.advance(4 * 24)
        self.assertIn("DOC-0305", self.doctor(flags))
        self.clock.advance(24 * 24)
        self.assertIn("DOC-0304", self.doctor(flags))
        self.clock.advance(6 * 24)
        self.assertEqual(self.doctor(flags)["DOC-0304"], "the certificate has ended")
        process = self.workspace.start("server", [
            binary("mimeo"), "serve", "--data", self.workspace.directory / "server", "--listen", "127.0.0.1:0", *flags])
        until(lambda: "SRV-0109" in process.log_tail(40), 60, lambda: process.log_tail(40))
        refused = mimeo("dql", "--url", process.line(0, 60).split(": ")[1], "--database", "x", "--token", "x", "SELECT 1")
        self.assertEqual(refused.returncode, 3, refused.stdout + refused.stderr)
        self.assertRegex(refused.stdout + refused.stderr, r"CLI-0301.*(?i:certificate)")
        process.stop()
