"""Rounds of faults on a whole installation: kill -9, SIGSTOP, partitions, and a standby that is promoted.

Three replicators and two query-services behind nginx on one log, two peers and two HTTP clients that write all the time.
Each round does something to one part, for a time that the dice decide, and heals it. Afterwards no acknowledged write is
missing, none was taken twice, the log is whole, and everybody has the same documents. Says how long HTTP writes stood
still.

MIMEO_ROUNDS=N plays N rounds on each kind of log instead of 30.
"""

import os
import random
import signal
import statistics
import threading
import time

from fault_loop import FaultLoop, Service
from load import Writer
from mimeo_harness import SEED, Client, FaultProxy, FourProcesses, Peer, Postgres, deep_only, digest, until
from system_test import report

ROUNDS = int(os.environ.get("MIMEO_ROUNDS", "30"))
REPLICATORS = ("replicator", "replicator-2", "replicator-3")
QUERIES = ("query-service", "query-service-2")
HOUSEKEEPING = ["--snapshot-operations", "200", "--kept-operations", "100", "--housekeeping-seconds", "2"]


class Pair:
    """Two PostgreSQL servers: commits wait for the standby, which takes over when the primary is lost."""

    def __init__(self, workspace):
        self._workspace = workspace
        self._number = 0
        self.primary = Postgres(workspace, "server-0").start()
        self.standby = None
        self.proxies = {}
        self.follow()

    def url_for(self, label):
        """The log's URL for one service: its own way to whichever server is the primary."""
        self.proxies[label] = self.primary.proxy()
        return Postgres.url_through(self.proxies[label])

    def follow(self):
        """Starts a standby and has commits wait for it."""
        self._number += 1
        self.standby = Postgres(self._workspace, f"server-{self._number}", standby_of=self.primary).start()
        until(lambda: self.primary.query("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"), 60,
              "the standby does not follow")
        self._wait_for_standby("*")

    def promote(self):
        """Loses the primary for good."""
        self.primary.kill()
        self.standby.promote()
        self.primary, self.standby = self.standby, None
        self._wait_for_standby("")
        for proxy in self.proxies.values():
            proxy.target = self.primary.proxy_target
            proxy.reset()

    def _wait_for_standby(self, names):
        self.primary.query(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.primary.query("SELECT pg_reload_conf()")


class Gaps:
    """How long nobody got a write acknowledged over HTTP, by round."""

    def __init__(self, writers):
        self._writers = writers
        self._longest = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        count, since = 0, time.monotonic()
        while not self._stopping.wait(0.02):
            now = sum(len(writer.acknowledged) for writer in self._writers)
            if now != count:
                count, since = now, time.monotonic()
            self._longest = max(self._longest, time.monotonic() - since)

    def take(self):
        """The longest standstill since the last call, in seconds."""
        longest, self._longest = self._longest, 0.0
        return longest

    def stop(self):
        self._stopping.set()
        self._thread.join(10)


@deep_only("test_kill_loop kills the same parts in `make test`")
class Rounds(FaultLoop):
    seconds = 300 + 40 * ROUNDS

    def test_on_sqlite(self):
        self.play(None)

    def test_on_postgresql(self):
        self.play(Pair(self.workspace))

    def play(self, pair):
        dice = random.Random(SEED)
        self.start(pair)
        select = ["SELECT * FROM notes", "SELECT * FROM tallies"]
        peers = {name: Peer(self.workspace, name, self.cluster, select) for name in "ab"}
        over_http = {f"http-{number}": Client(self.cluster.origin, self.cluster.database, self.cluster.token)
                     for number in range(2)}
        writers = [Writer(name, self.writing(name, side.execute)) for name, side in {**peers, **over_http}.items()]
        for writer in writers:
            writer.start()
        gaps = Gaps(writers[2:])
        standstills = {}
        for _ in range(ROUNDS):
            time.sleep(dice.uniform(0.5, 2))
            gaps.take()
            kind = dice.choice(["kill", "stop", "cut off"] + ["promote", "freeze the log", "lose the log"] * bool(pair))
            self.disturb(kind, dice, peers, pair)
            self.await_progress(writers[2:], kind)
            standstills.setdefault(kind, []).append(gaps.take())
        gaps.stop()
        for writer in writers:
            writer.stop()
            self.assertIsNone(writer.problem)
            self.assertGreater(len(writer.acknowledged), 0)
        self.finish(writers, peers, pair)
        for kind, seconds in sorted(standstills.items()):
            report(f"{kind}: {len(seconds)} rounds, HTTP writes stood still for {statistics.median(seconds):.1f} s, "
                   f"at most {max(seconds):.1f} s")
        acknowledged = sum(len(writer.acknowledged) for writer in writers)
        report(f"{ROUNDS} rounds, {acknowledged} acknowledged writes, none lost, none twice")

    def start(self, pair):
        self.cluster = FourProcesses(self.workspace)
        labels = ("auth-gateway", "attachment-store", *REPLICATORS, *QUERIES)
        if pair:
            self.cluster.logs = {label: pair.url_for(label) for label in labels}
        self.cluster.extra_arguments = {
            label: [*HOUSEKEEPING, "--data", self.workspace.directory / label] for label in REPLICATORS}
        ways = {label: FaultProxy(self.workspace, self.cluster.address_of(label), seed=SEED) for label in REPLICATORS}
        self.cluster.fronts["replicator"] = [way.address for way in ways.values()]
        self.cluster.fronts["query-service"] = [self.cluster.address_of(label) for label in QUERIES]
        self.ways = ways
        self.cluster.start()
        for label in (*REPLICATORS[1:], *QUERIES[1:]):
            Service(self.cluster, label).start()
        for label in QUERIES:
            client = self.cluster.client_of(label)
            until(lambda: self.answers(client), 90, f"{label} does not answer")

    def disturb(self, kind, dice, peers, pair):
        """Does one thing to one part, and heals it."""
        services = {name: Service(self.cluster, name) for name in (*REPLICATORS, *QUERIES)}
        if kind == "kill":
            victim = dice.choice([*services.values(), *peers.values()])
            victim.kill()
            time.sleep(dice.uniform(0, 1))
            victim.start()
        elif kind == "stop":
            process = dice.choice([self.cluster.processes[name] for name in services])
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(dice.uniform(1, 8))
            os.kill(process.pid, signal.SIGCONT)
        elif kind == "cut off":
            ways = dice.sample(sorted(self.ways), dice.choice([1, 2, 3]))
            for name in ways:
                self.ways[name].cut()
            time.sleep(dice.uniform(0.5, 5))
            for name in ways:
                self.ways[name].mend()
        elif kind == "lose the log":
            names = dice.sample(sorted(pair.proxies), dice.choice([1, 2, len(pair.proxies)]))
            for name in names:
                pair.proxies[name].cut()
            time.sleep(dice.uniform(0.5, 12))
            for name in names:
                pair.proxies[name].mend()
        elif kind == "freeze the log":
            pair.primary.freeze()
            time.sleep(dice.uniform(0.5, 5))
            pair.primary.thaw()
        else:
            pair.promote()
            self.await_progress([], kind)
            pair.follow()

    def await_progress(self, writers, kind):
        """Writes over HTTP are acknowledged again."""
        before = [len(writer.acknowledged) for writer in writers]
        until(lambda: all(len(writer.acknowledged) > count for writer, count in zip(writers, before, strict=True)), 90,
              lambda: f"no write is acknowledged after: {kind}")

    def finish(self, writers, peers, pair):
        queries = {name: self.cluster.client_of(name) for name in QUERIES}
        self.settle((*REPLICATORS, *QUERIES), peers, queries)
        self.assert_nothing_lost(writers, queries[QUERIES[0]])
        for collection in ("notes", "tallies"):
            found = {}

            def agree():
                for name, side in {**queries, **peers}.items():
                    found[name] = digest(side.query(f"SELECT * FROM {collection}"))
                return len(set(found.values())) == 1

            until(agree, 90, lambda: f"{collection} differs: {found}", pause=0.3)
        self.assert_log_whole(self.log_rows({"postgres": pair.primary} if pair else {}))
