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
import pathlib
import random
import sqlite3
import sys
import time

from fault_loop import FaultLoop, Service
from load import Writer
from mimeo_harness import SEED, FaultProxy, FourProcesses, Peer, Postgres, digest, pick, until, use_packages
from system_test import report

use_packages()
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "Conformance"))
from wire_peer import WirePeer  # noqa: E402

KILLS = pick(fast=8, deep=1_000)
HOUSEKEEPING = ["--snapshot-operations", "60", "--kept-operations", "30", "--housekeeping-seconds", "1"]


class KillLoop(FaultLoop):
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
        self.all_write(writers)
        kills = self.kill({**services, **peers, **victims}, network)
        self.all_write(writers)
        for writer in writers:
            writer.stop()
            self.assertIsNone(writer.problem)
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

    def all_write(self, writers):
        """Waits until each writer has had one more write acknowledged."""
        before = {writer: len(writer.acknowledged) for writer in writers}

        def missing():
            return [writer.name for writer in writers if len(writer.acknowledged) == before[writer] and not writer.problem]

        until(lambda: not missing(), 90, lambda: f"no write of {missing()} is acknowledged", pause=0.02)

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
