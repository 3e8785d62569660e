"""`mimeo verify` and `mimeo doctor` beside a running server, on both logs."""

import json
import sqlite3
import subprocess

from mimeo_harness import OneProcess, Postgres, mimeo, until
from system_test import SystemTest


class Doctor(SystemTest):
    def doctor(self, *arguments, expected=0):
        done = mimeo("doctor", "--json", *arguments)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        answer = json.loads(done.stdout)
        return {finding["code"]: finding for finding in answer["findings"]}

    def verify(self, server, *arguments, expected=0):
        done = mimeo("verify", "--data", server.data, *arguments)
        self.assertEqual(done.returncode, expected, done.stdout + done.stderr)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        return {answer.get("database", "attachments"): answer for answer in answers}

    def test_a_running_server_is_well_and_what_is_wrong_with_it_is_named(self):
        server = OneProcess(self.workspace).start()
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})")
        server.upload(b"a blob")
        # The disk of a test machine may be anything.
        ours = {"DOC-0203", "DOC-0204", "DOC-0205", "DOC-0402"}
        self.assertLessEqual(set(self.doctor("--data", server.data)), ours)
        found = self.verify(server, "--attachments", server.data / "attachments")
        self.assertTrue(all(answer["well"] for answer in found.values()), found)
        self.assertEqual(found[server.database]["documents"], 2)
        self.assertIsNone(found[server.database]["projectionAt"])
        server.stop()
        # Stopped, the projection's folder can be read.
        self.assertEqual(self.verify(server)[server.database]["projectionAt"], 1)

        certificate, key = self.certificate(days=3)
        found = self.doctor("--data", server.data, "--tls-certificate", certificate, "--tls-key", key, expected=1)
        self.assertIn("DOC-0304", found)
        certificate, key = self.certificate(days=20)
        found = self.doctor("--data", server.data, "--tls-certificate", certificate, "--tls-key", key)
        self.assertIn("DOC-0305", found)
        self.doctor(
            "--data", server.data, "--tls-certificate", certificate, "--tls-key", key, "--strict", expected=1)
        configuration = self.workspace.directory / "config.json"
        configuration.write_text(json.dumps({"data": str(server.data), "tlsKye": "x"}))
        self.assertIn("DOC-0101", self.doctor("--config", configuration, expected=1))
        (server.data / "auth" / "secrets.key").chmod(0o644)
        self.assertIn("DOC-0301", self.doctor("--data", server.data, expected=1))

        with sqlite3.connect(server.data / "log.sqlite") as log:
            log.execute("UPDATE operations SET bytes = zeroblob(length(bytes)) WHERE position % 16 = 1")
        damaged = self.verify(server, expected=1)
        codes = {finding["code"] for answer in damaged.values() for finding in answer["findings"]}
        self.assertEqual(codes, {"LOG-0401"})

    def certificate(self, days):
        names = [self.workspace.directory / f"{days}.{suffix}" for suffix in ("pem", "key")]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
             str(days), "-subj", "/CN=localhost", "-keyout", names[1], "-out", names[0]],
            check=True, capture_output=True)
        return names

    def test_a_projection_in_postgresql_is_compared_while_it_is_written(self):
        postgres = Postgres(self.workspace).start()
        storage = ["--log", postgres.url, "--projection", postgres.url]
        server = OneProcess(self.workspace, extra_arguments=storage).start()
        for number in range(5):
            server.execute(f"INSERT INTO c DOCUMENTS ({{'_id': {number}, 'n': {number}}})")
        server.execute("DELETE FROM c WHERE _id = 3")
        self.assertEqual(server.count("c"), 4)
        found = self.verify(server, *storage)[server.database]
        self.assertTrue(found["well"], found)
        self.assertEqual(found["projectionAt"], 6)
        found = self.doctor("--data", server.data, *storage)
        self.assertNotIn("DOC-0601", found)
        tables = postgres.query(
            "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname LIKE 'mimeo_g%'")
        for (table,) in tables:
            postgres.query(f"DELETE FROM {table} WHERE key LIKE '%2%'")
        found = self.verify(server, *storage, expected=1)[server.database]
        self.assertEqual([finding["code"] for finding in found["findings"]], ["BAK-0205"])
        standby = Postgres(self.workspace, "standby", standby_of=postgres).start()
        until(lambda: standby.query("SELECT 1") == [["1"]], 30, "the standby does not answer")
        found = self.doctor("--data", server.data, "--log", standby.url, expected=1)
        self.assertIn("DOC-0603", found)
