"""Two query-services on one projection in PostgreSQL, killed with kill -9, PostgreSQL's own processes too.

The PostgreSQL is this test's own: the kills restart it.
"""

import contextlib
import os
import random
import signal
import subprocess
import threading
import time

from mimeo_harness import SEED, Client, binary, free_port, pick, until
from mimeo_harness.processes import ROOT
from mimeo_harness.servers import announcement, await_health
from system_test import SystemTest, report

CYCLES = pick(fast=6, deep=300)
SERVICES = ("one", "two")


class Writer(threading.Thread):
    """Inserts pairs of documents, one statement each, over the death of whom it writes to."""

    def __init__(self, name, client):
        super().__init__(daemon=True)
        self._label = name
        self._client = client
        self._stopping = threading.Event()
        self.acknowledged = []

    def run(self):
        number = 0
        while not self._stopping.is_set():
            identifier = f"{self._label}-{number:05}"
            number += 1
            pair = ", ".join(f"({{'_id': '{identifier}-{half}', 'n': {number}}})" for half in "ab")
            try:
                answer = self._client.post_statement(f"INSERT INTO notes DOCUMENTS {pair}", seconds=15)
                if answer.status == 200:
                    self.acknowledged.append(identifier)
            except OSError:
                time.sleep(0.02)  # killed; it comes back

    def stop(self):
        self._stopping.set()
        self.join(60)


class ProjectionInPostgres(SystemTest):
    seconds = 600 + 4 * CYCLES

    def test_services_and_backends_killed_in_a_loop(self):
        self.start_postgres()
        self.ports = {name: free_port() for name in ("auth-gateway", *SERVICES, "embedded")}
        self.processes = {}
        gateway = self.start("auth-gateway", "auth-gateway")
        values = announcement(gateway)
        self.database, self.token = values["database"], values["token"]
        await_health(gateway, Client(self.origin("auth-gateway")))
        for name in SERVICES:
            self.start_query_service(name)
        clients = [self.client(name) for name in SERVICES]
        for client in clients:
            until(lambda: client.post_statement("SELECT * FROM notes").status == 200, 60, "no first answer")
        writers = [Writer(name, self.client(name)) for name in SERVICES]
        for writer in writers:
            writer.start()
        self.kill_again_and_again()
        for writer in writers:
            writer.stop()
        acknowledged = {f"{pair}-{half}" for writer in writers for pair in writer.acknowledged for half in "ab"}
        self.assertGreater(len(acknowledged), 20)
        self.start_query_service("embedded", projected=False)
        expected = self.rows("embedded")
        for name in SERVICES:
            self.assertEqual(self.rows(name), expected)
        self.assertEqual(acknowledged - expected.keys(), set())
        halves = {identifier[:-2] for identifier in expected}
        self.assertEqual(len(expected), 2 * len(halves), "half of a statement is there")
        views = self.sql("SELECT view_schema FROM mimeo_projection.databases")
        in_sql = self.sql(f"SELECT _id, document ->> 'n' FROM \"{views}\".notes ORDER BY _id COLLATE \"C\"")
        self.assertEqual(in_sql.splitlines(), [f"{key}|{expected[key]}" for key in sorted(expected)])
        report(f"{CYCLES} kills, {len(expected)} documents, {len(acknowledged)} acknowledged, none lost or halved")

    def kill_again_and_again(self):
        randomly = random.Random(SEED)
        for cycle in range(CYCLES):
            time.sleep(randomly.uniform(0.1, 0.6))
            if cycle % 6 == 5:
                self.kill_backend(randomly)
            else:
                name = randomly.choice(SERVICES)
                self.processes[name].kill()
                self.start_query_service(name, awaited=False)

    def kill_backend(self, randomly):
        """PostgreSQL then ends all its processes and recovers from its write-ahead log."""
        backends = "SELECT pid FROM pg_stat_activity WHERE application_name = 'mimeo'"
        try:
            pids = self.sql(backends).split()
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return  # still recovering
        if pids:
            with contextlib.suppress(ProcessLookupError):  # one of a service that was killed just now
                os.kill(int(randomly.choice(pids)), signal.SIGKILL)

    def rows(self, name):
        def answer():
            try:
                response = self.client(name).post_statement("SELECT * FROM notes")
            except (OSError, RuntimeError):
                return None  # starting
            return response.json if response.status == 200 else None

        return {item["_id"]: item["n"] for item in until(answer, 90, f"{name} does not answer")["items"]}

    # Processes

    def start_postgres(self):
        command = [ROOT / "scripts" / "with-postgres", "sh", "-c", "echo $MIMEO_TEST_POSTGRES; exec cat"]
        server = self.workspace.start("postgres", command)
        self.url = server.line(0, 60).strip()
        # It stops the cluster when its command has ended.
        self.addCleanup(lambda: (server.close_input(), server.wait(60)))

    def sql(self, text):
        command = ["psql", "--no-psqlrc", "-At", "-c", text, self.url]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    def origin(self, name):
        return f"http://127.0.0.1:{self.ports[name]}"

    def client(self, name):
        return Client(self.origin(name), self.database, self.token, issuer=self.origin("auth-gateway"))

    def start(self, name, executable, *arguments):
        data = self.workspace.directory / name
        fixed = ["--data", data, "--listen", f"127.0.0.1:{self.ports[name]}", "--log", self.url]
        self.processes[name] = self.workspace.start(name, [binary(executable), *fixed, *arguments])
        return self.processes[name]

    def start_query_service(self, name, projected=True, awaited=True):
        place = ["--projection", self.url] if projected else []
        process = self.start(name, "query-service", "--issuer", self.origin("auth-gateway"), *place)
        if awaited:
            await_health(process, self.client(name))
