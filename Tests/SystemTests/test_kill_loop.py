"""kill -9 in a loop, of everything that appends to, reads and keeps the log, on both kinds of log.

Peers reach the two replicators over a network that is no good: what they say is delayed, throttled, held up, reset and
led to the other replicator, all through the loop.

The log is kept short meanwhile: two replicators take turns at writing snapshots and truncating the log behind them, so
that whoever comes back is often behind the truncation.

Eight kills per log in `make test`, 1,000 in `make test-deep`. Afterwards:
- no acknowledged write is missing, none that was never attempted is there, and none was taken twice;
- the log has every offset from the first kept one to its head once, and every actor's sequences without a gap;
- every materialization equals the fold of the log: that of a query-service which begins with nothing, compared byte for
  byte in their files and as rows through DQL.
"""

import asyncio
import os
import pathlib
import random
import shutil
import sqlite3
import sys
import time

from load import Writer
from mimeo_harness import SEED, FaultProxy, FourProcesses, Peer, Postgres, digest, pick, until, use_packages
from system_test import SystemTest, report

use_packages()
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "Conformance"))
from wire_peer import WirePeer  # noqa: E402

KILLS = pick(fast=8, deep=1_000)
HOUSEKEEPING = ["--snapshot-operations", "60", "--kept-operations", "30", "--housekeeping-seconds", "1"]
OFFSET_BITS = 40
"""As `LogKey` of the SQLite log has it: the database's number stands above the offset."""


class KillLoop(SystemTest):
    seconds = 240 + 6 * KILLS

    def test_on_sqlite(self):
        self.loop(log=None, victims={})

    def test_on_postgresql(self):
        """Two more query-services share a projection in PostgreSQL, of which one is its worker at a time."""
        postgres = Postgres(self.workspace).start()
        self.loop(postgres.url, {"postgres": postgres}, projected=("query-service-3", "query-service-4"))

    def loop(self, log, victims, projected=()):
        started = time.monotonic()
        self.cluster = FourProcesses(self.workspace, log=log)
        self.cluster.extra_arguments = {name: ["--projection", log] for name in projected}
        self.cluster.extra_arguments["replicator"] = HOUSEKEEPING
        network = Network(self.workspace, self.cluster)
        other_folder = self.workspace.directory / "other"
        self.cluster.extra_arguments["replicator-2"] = [*HOUSEKEEPING, "--data", other_folder]
        self.cluster.start()
        self.cluster.start_service("replicator", "replicator-2")
        names = ("query-service", "query-service-2", *projected)
        for name in names[1:]:
            self.cluster.start_service("query-service", name)
        queries = {name: self.cluster.client_of(name) for name in names}
        select = ["SELECT * FROM notes", "SELECT * FROM tallies"]
        peers = {name: Peer(self.workspace, name, self.cluster, select) for name in "ab"}
        for client in queries.values():
            until(lambda: self.answers(client), 90, "a query-service does not answer")
        writers = [Writer(name, self.writing(name, side.execute)) for name, side in {**peers, **queries}.items()]
        for writer in writers:
            writer.start()
        services = {name: Service(self.cluster, name) for name in ("replicator", "replicator-2", *queries)}
        kills = self.kill({**services, **peers, **victims}, network)
        for writer in writers:
            writer.stop()
            self.assertIsNone(writer.problem)
            self.assertGreater(len(writer.acknowledged), 0)
        self.settle(services, peers, queries)
        until(lambda: self.truncated(victims) > 0, 120, "the log is not truncated", pause=0.5)
        snapshots = self.snapshots(victims)
        self.assert_nothing_lost(writers, queries["query-service"])
        documents = self.assert_materializations_equal(peers, queries)
        if projected:
            self.assert_projection_equal(victims["postgres"], documents)
        rows = self.log_rows(victims)
        self.assert_log_whole(rows)
        self.assertGreater(rows[0][0], 1, "the log was never truncated: this run shows less than it should")
        acknowledged = sum(len(writer.acknowledged) for writer in writers)
        report(f"{sum(kills.values())} kills in {time.monotonic() - started:.0f} s ({kills}), {network.faults} faults of "
               f"the network over {network.proxy.accepted} connections, {acknowledged} acknowledged writes, none lost; operations {rows[0][0]} to {rows[-1][0]} in the log, none missing; "
               f"{snapshots} snapshots")

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

    def kill(self, victims, network):
        """Kills one after the other at moments that the dice decide, and starts each again at once or soon."""
        dice = random.Random(SEED)
        kills = dict.fromkeys(victims, 0)
        for _ in range(KILLS):
            name = dice.choice(sorted(victims))
            network.disturb(dice)
            time.sleep(dice.uniform(0.05, 0.6))
            victims[name].kill()
            kills[name] += 1
            time.sleep(dice.uniform(0.0, 0.15))
            victims[name].start()
        network.heal()
        return kills

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

    def assert_materializations_equal(self, peers, queries):
        self.cluster.start_service("query-service", "query-service-fresh")
        fresh = self.cluster.client_of("query-service-fresh")
        until(lambda: self.answers(fresh), 60, "the fresh query-service does not answer")
        sides = {"fresh": fresh, **queries, **peers}
        for collection in ("notes", "tallies"):
            found = {}

            def agree():
                for name, side in sides.items():
                    found[name] = digest(side.query(f"SELECT * FROM {collection}"))
                return len(set(found.values())) == 1

            until(agree, 60, lambda: f"{collection} differs: {found}", pause=0.3)
        # A replicator that nobody came to since it was started again has folded nothing yet.
        for name in ("replicator", "replicator-2"):
            asyncio.run(self.visit(name))
        for name in ("replicator", "replicator-2", *queries, "query-service-fresh"):
            self.cluster.processes[name].stop()
        files = sorted(self.cluster.data.glob("query/*/replica.sqlite"))
        files += sorted(self.cluster.data.glob("replicator/*/replica.sqlite"))
        # The replicator, whose folder is the cluster's, has the system database and the audit there too.
        files = [path for path in files if not path.parent.name.startswith("mimeo.")]
        self.assertEqual(len(files), 4, files)
        contents = {str(path.parent): self.documents(path) for path in files}
        first = next(iter(contents.values()))
        self.assertGreater(len(first), 0)
        for name, content in contents.items():
            other = [key for key in first.keys() | content.keys() if first.get(key) != content.get(key)]
            pairs = "; ".join(f"{key}: {first.get(key)} and {content.get(key)}" for key in sorted(other)[:2])
            self.assertTrue(not other, f"{name} differs from {files[0].parent} in {len(other)} documents: {pairs}")
        return first

    async def visit(self, name):
        """Asks a replicator, and no other, for something: it folds the whole log before it answers."""
        client = self.cluster.client_of(name)
        peer = WirePeer(client.origin, self.cluster.database, self.cluster.token)
        await peer.connect(client.access_token)
        await peer.subscribe("SELECT * FROM notes")
        await peer.until(lambda: peer.live)
        await peer.disconnect()

    def assert_projection_equal(self, postgres, documents):
        """The tables in PostgreSQL hold the same states as of the same offsets, and the checkpoint is the head."""
        found = {}
        rows = postgres.query("""
            SELECT c.generation, c.number, encode(c.name, 'hex') FROM mimeo_projection.collections c
            JOIN mimeo_projection.databases d ON d.generation = c.generation""")
        for generation, number, name in rows:
            collection = bytes.fromhex(name).decode()
            table = f"mimeo_g{generation}.c{number}"
            for row in postgres.query(
                    f"""SELECT encode(id, 'hex'), "offset", live::int, encode(state, 'hex') FROM {table}"""):
                found[(collection, bytes.fromhex(row[0]))] = (int(row[1]), int(row[2]), bytes.fromhex(row[3]))
        self.assertTrue(found == documents, "the projection differs from the materializations")
        head = postgres.query("""SELECT g."offset", l.head FROM mimeo_projection.databases d
            JOIN mimeo_projection.generations g ON g.number = d.generation JOIN mimeo_log.databases l ON l.id = d.id""")
        self.assertEqual(len({*head[0]}), 1, head)

    @staticmethod
    def documents(path):
        """collection, id -> offset and state of every document of a materialization that is closed."""
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            documents = {}
            for number, collection in connection.execute("SELECT number, name FROM collection").fetchall():
                rows = connection.execute(f"SELECT id, position, live, state FROM documents_{number}")
                documents.update({(collection, row[0]): row[1:] for row in rows})
            return documents
        finally:
            connection.close()

    def truncated(self, victims):
        """The offset through which the log was truncated."""
        return self.ask_log(victims, "SELECT coalesce(max(truncated), 0) FROM {}databases")

    def snapshots(self, victims):
        """How many were begun: they are numbered."""
        return self.ask_log(victims, "SELECT coalesce(max(number), 0) FROM {}snapshots")

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


class Network:
    """What lies between nginx and the replicators: one proxy, which leads to one of them at a time."""

    def __init__(self, workspace, cluster):
        self._targets = [cluster.address_of(label) for label in ("replicator", "replicator-2")]
        self.proxy = FaultProxy(workspace, self._targets[0], seed=SEED)
        cluster.fronts["replicator"] = [self.proxy.address]
        self.faults = 0

    def disturb(self, dice):
        """One fault more, or one less."""
        self.faults += 1
        self.proxy.thaw()
        self.proxy.delay = dice.choice((0, 0, 0.02, 0.1))
        self.proxy.rate = dice.choice((None, None, 20_000, 200_000))
        dice.choice((self.proxy.reset, self.proxy.drop, self.proxy.freeze, self._turn))()

    def _turn(self):
        """New connections go to the other replicator; some of the old ones stay where they are."""
        self._targets.reverse()
        self.proxy.target = self._targets[0]

    def heal(self):
        self.proxy.thaw()
        self.proxy.delay, self.proxy.rate = 0, None


class Service:
    """One of the cluster's executables as a victim: it keeps its port and folder."""

    def __init__(self, cluster, label):
        self._cluster = cluster
        self._label = label

    def kill(self):
        self._cluster.processes[self._label].kill()

    def start(self):
        self._cluster.start_service(self._label.rstrip("-0123456789"), self._label)
