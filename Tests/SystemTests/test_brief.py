"""What a short read costs the server, in counts and not in time: they are the same on a busy machine.

A read of one document, or of one index range, is answered on the event loop of its connection. Nothing else tells
whether it still is: the other way gives the same answers, at several times the cost.
"""

import json
import pathlib
import re
import socket
import struct
import subprocess

from mimeo_harness import OneProcess, until
from mimeo_harness.preload import preload
from mimeo_harness.processes import ROOT
from system_test import SystemTest, report

BATCHES = 8
REQUESTS = 250
MOST_SWITCHES = 2
"""For each request, of all threads of the process. The loop sleeps once until the next request comes."""
MOST_ALLOCATIONS = {"point": 100, "range": 160}
POINT = {"statement": "SELECT * FROM orders WHERE _id = :i", "args": {"i": "o7"}}
RANGE = {"statement": "SELECT * FROM orders WHERE customer = :c", "args": {"c": "c3"}}
OTHER_WAY = "traceparent: none\r\n"
"""A field that asks for a trace, with a text that names none."""


class Costs(SystemTest):
    def setUp(self):
        super().setUp()
        self.counter = self.workspace.directory / "allocations"
        self.counter.write_bytes(bytes(8))
        preload(self.workspace, "allocation_count", {"MIMEO_TEST_ALLOCATIONS": self.counter})
        self.server = OneProcess(self.workspace).start()
        rows = [{"_id": f"o{number}", "customer": f"c{number % 50}", "note": "x" * 100} for number in range(500)]
        self.server.execute("INSERT INTO orders DOCUMENTS (:rows)", {"rows": rows})
        self.server.execute("CREATE INDEX by_customer ON orders (customer)", {})
        self.connection = socket.create_connection(self.server.address, timeout=60)
        self.addCleanup(self.connection.close)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = self.connection.makefile("rb")
        self.addCleanup(self.input.close)

    def ask(self, statement, fields=""):
        body = json.dumps(statement)
        self.connection.sendall((
            f"POST /api/v5/store/execute HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.server.access_token}\r\n"
            f"Content-Length: {len(body)}\r\n{fields}\r\n{body}").encode())
        status = self.input.readline()
        self.assertIn(b" 200 ", status)
        length = 0
        while (line := self.input.readline().strip().lower()):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return self.input.read(length)

    def switches(self):
        """The times that threads of the server have gone to sleep. One that ended counts no more."""
        found = {}
        for task in pathlib.Path(f"/proc/{self.server.process.pid}/task").iterdir():
            try:
                text = (task / "status").read_text()
            except OSError:
                continue
            found[task.name] = int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0])
        return found

    def allocations(self):
        return struct.unpack("Q", self.counter.read_bytes())[0]

    def cost(self, statement, fields=""):
        """The least switches and allocations of a request, of several batches: the server has work of its own too."""
        for _ in range(REQUESTS):
            self.ask(statement, fields)
        batches = []
        for _ in range(BATCHES):
            switched, allocated = self.switches(), self.allocations()
            for _ in range(REQUESTS):
                self.ask(statement, fields)
            slept = sum(count - switched.get(task, 0) for task, count in self.switches().items())
            batches.append((slept / REQUESTS, (self.allocations() - allocated) / REQUESTS))
        return tuple(map(min, zip(*batches)))

    def test_a_read_of_one_document_wakes_no_other_thread(self):
        for name, statement in (("point", POINT), ("range", RANGE)):
            answer = self.ask(statement, OTHER_WAY)
            switches, allocations = self.cost(statement)
            self.assertEqual(self.ask(statement), answer)
            other = self.cost(statement, OTHER_WAY)
            report(f"{name}: {switches:.1f} switches and {allocations:.0f} allocations, the other way "
                   f"{other[0]:.1f} and {other[1]:.0f}")
            self.assertLess(switches, MOST_SWITCHES, name)
            self.assertLess(allocations, MOST_ALLOCATIONS[name], name)
            self.assertLess(allocations, other[1], name)


class StatementsInPostgres(SystemTest):
    """The statements that PostgreSQL executes for a read, as its own log tells them."""

    def sql(self, text):
        command = ["psql", "--no-psqlrc", "-At", "-c", text, self.url]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    def test_a_read_of_one_document_is_one_statement(self):
        command = [ROOT / "scripts" / "with-postgres", "sh", "-c", "echo $MIMEO_TEST_POSTGRES; exec cat"]
        cluster = self.workspace.start("postgres", command)
        self.url = cluster.line(0, 60).strip()
        # It stops the cluster when its command has ended.
        self.addCleanup(lambda: (cluster.close_input(), cluster.wait(60)))
        server = OneProcess(self.workspace, extra_arguments=["--log", self.url, "--projection", self.url]).start()
        rows = [{"_id": f"o{number}", "customer": f"c{number % 50}"} for number in range(500)]
        server.execute("INSERT INTO orders DOCUMENTS (:rows)", {"rows": rows})

        def ask():
            for _ in range(REQUESTS):
                answer = server.execute(POINT["statement"], POINT["args"])
                self.assertEqual(answer["items"], [rows[7]])

        # Each connection of the server looks for the table once.
        ask()
        self.sql("ALTER SYSTEM SET log_statement = 'all'")
        self.sql("SELECT pg_reload_conf()")
        log = pathlib.Path(self.sql("SHOW data_directory")).parent / "log"
        mark = "SELECT 'the first read'"
        until(lambda: self.sql(mark) and mark in log.read_text(errors="replace"), 60, "no statement is logged")
        start = len(log.read_text(errors="replace"))
        ask()
        told = log.read_text(errors="replace")[start:]
        reads, begun = len(re.findall(r"SELECT state FROM mimeo_g", told)), len(re.findall(r": BEGIN", told))
        report(f"{REQUESTS} reads: {reads} statements for a document, {begun} transactions")
        self.assertEqual(reads, REQUESTS)
        # The server looks at its log now and then.
        self.assertLess(begun + told.count("d.truncated_hash"), REQUESTS / 2)
