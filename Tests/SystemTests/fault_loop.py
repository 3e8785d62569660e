"""What loops of faults have in common: writers, what they may count on, and the log in the end."""

import os
import shutil
import sqlite3

from mimeo_harness import until
from system_test import SystemTest

OFFSET_BITS = 40
"""As `LogKey` of the SQLite log has it: the database's number stands above the offset."""


class FaultLoop(SystemTest):
    """A cluster of four processes or more, `cluster`, whose parts are killed, stopped and cut off."""

    def writing(self, name, execute):
        """Two statements per write: a document of its own, and one that everybody counts in."""
        tally = f"UPDATE tallies APPLY n INCREMENT BY 1 WHERE _id = '{name}'"
        made = []

        def write(statement):
            if not made:
                execute(f"INSERT INTO tallies DOCUMENTS ({{'_id': '{name}'}}) ON ID CONFLICT DO NOTHING")
                made.append(True)
            execute(statement)
            self.attempts[name] = self.attempts.get(name, 0) + 1
            execute(tally)
            self.counted[name] = self.counted.get(name, 0) + 1

        return write

    def setUp(self):
        super().setUp()
        self.attempts, self.counted = {}, {}

    @staticmethod
    def answers(client):
        try:
            return client.post_statement("SELECT * FROM notes LIMIT 1", seconds=5).status == 200
        except (OSError, RuntimeError):
            return False

    def settle(self, services, peers, queries):
        """Everything runs, the peers' writes are in the log, and both query-services have read it."""
        for name in services:
            client = self.cluster.client_of(name)
            until(lambda: self.is_healthy(client), 60, lambda: f"{name} is not healthy: {self.state(name, client)}")
        for peer in peers.values():
            commit = peer.execute(f"INSERT INTO notes DOCUMENTS ({{'_id': 'last-{peer.name}'}})")["commitID"]
            peer.wait_for_commit(commit, 120)
        written = queries["query-service"].execute("INSERT INTO notes DOCUMENTS ({'_id': 'last-http'})")
        headers = {"X-DITTO-TXN-ID": str(written["transactionId"])}
        for client in queries.values():
            client.execute("SELECT * FROM notes LIMIT 1", headers=headers)

    def state(self, name, client):
        """What a service says of itself."""
        try:
            says = client.request("GET", "/health", seconds=5).body.decode(errors="replace")
        except OSError as error:
            says = str(error)
        return f"{says}\n{self.cluster.processes[name].log_tail(40)}"

    @staticmethod
    def is_healthy(client):
        try:
            return client.request("GET", "/health", seconds=5).status == 200
        except OSError:
            return False

    def assert_nothing_lost(self, writers, client):
        notes = {item["_id"] for item in client.query("SELECT _id FROM notes")}
        lost = [name for writer in writers for name in writer.acknowledged if name not in notes]
        self.assertEqual(lost, [])
        known = {name for writer in writers for name in writer.attempted} | {"last-a", "last-b", "last-http"}
        self.assertEqual(notes - known, set())
        for tally in client.query("SELECT _id, n FROM tallies"):
            name, count = tally["_id"], tally.get("n", 0)
            self.assertGreaterEqual(count, self.counted.get(name, 0), name)
            self.assertLessEqual(count, self.attempts.get(name, 0), name)

    def ask_log(self, victims, question):
        if "postgres" in victims:
            return int(victims["postgres"].query(question.format("mimeo_log."))[0][0])
        connection = sqlite3.connect(f"file:{self.cluster.data}/log.sqlite?mode=ro", uri=True, timeout=30)
        try:
            return connection.execute(question.format("")).fetchone()[0]
        finally:
            connection.close()

    def log_rows(self, victims):
        """(offset, actor, sequence) of every operation of the applications' database, in order of offset."""
        if "postgres" in victims:
            rows = victims["postgres"].query('''
                SELECT o."offset", o.actor, o.sequence FROM mimeo_log.operations o
                JOIN mimeo_log.databases d ON d.number = o.database WHERE d.id NOT LIKE 'mimeo.%' ORDER BY 1''')
            return [tuple(map(int, row)) for row in rows]
        copy = self.workspace.directory / "copy.sqlite"
        for suffix in ("", "-wal"):
            if os.path.exists(f"{self.cluster.data}/log.sqlite{suffix}"):
                shutil.copy(f"{self.cluster.data}/log.sqlite{suffix}", f"{copy}{suffix}")
        connection = sqlite3.connect(copy)
        try:
            self.assertEqual(connection.execute("PRAGMA integrity_check").fetchone()[0], "ok")
            number = connection.execute("SELECT number FROM databases WHERE id NOT LIKE 'mimeo.%'").fetchone()[0]
            rows = connection.execute("SELECT position, actor, sequence FROM operations ORDER BY position").fetchall()
            own = [row for row in rows if row[0] >> OFFSET_BITS == number]
            return [(row[0] & ((1 << OFFSET_BITS) - 1), row[1], row[2]) for row in own]
        finally:
            connection.close()

    def assert_log_whole(self, rows):
        offsets = [row[0] for row in rows]
        self.assertEqual(offsets, list(range(offsets[0], offsets[0] + len(rows))))
        last = {}
        for offset, actor, sequence in rows:
            self.assertEqual(sequence, last.get(actor, sequence - 1) + 1, f"offset {offset}")
            last[actor] = sequence


class Service:
    """One of the cluster's executables as a victim: it keeps its port and folder."""

    def __init__(self, cluster, label):
        self._cluster = cluster
        self._label = label

    def kill(self):
        self._cluster.processes[self._label].kill()

    def start(self):
        self._cluster.start_service(self._label.rstrip("-0123456789"), self._label)
