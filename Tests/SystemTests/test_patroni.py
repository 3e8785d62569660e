"""PostgreSQL under Patroni, as compose's cluster.yaml has it: nobody is awake, and nothing acknowledged is lost."""

import signal
import threading
import time
import unittest

from mimeo_harness import OneProcess, Peer, deep_only, until
from mimeo_harness.patroni import Cluster, is_installed
from system_test import SystemTest, report

LONG = 180
"""Seconds for a fail-over, or for a former leader to follow: Patroni's own patience is 20."""


@deep_only("test_failover promotes standbys by hand in front of the same services")
@unittest.skipUnless(is_installed(), "Patroni and etcd are not installed: scripts/setup cluster")
class Patroni(SystemTest):
    seconds = 900

    def setUp(self):
        super().setUp()
        self.cluster = Cluster(self.workspace)
        until(lambda: self.cluster.is_ready, LONG, self.cluster.log_tails, pause=0.5)
        self.server = OneProcess(self.workspace, extra_arguments=["--log", self.cluster.url]).start()
        self.written, self.tried, self.last = [], 0, None
        self.is_over = threading.Event()
        self.writer = threading.Thread(target=self.write, daemon=True)
        self.writer.start()
        self.addCleanup(self.rest)

    def rest(self):
        self.is_over.set()
        self.writer.join(60)

    def write(self):
        while not self.is_over.is_set():
            self.tried += 1
            number = self.tried
            try:
                answer = self.server.post_statement(f"INSERT INTO w DOCUMENTS ({{'_id': {number}}})", seconds=30)
                self.last = answer.status
                if answer.status == 200:
                    self.written.append(number)
            except (OSError, RuntimeError) as problem:
                self.last = problem
                time.sleep(0.05)

    def goes_on(self, what, since):
        """Writes are acknowledged again."""
        before = len(self.written)
        until(lambda: len(self.written) > before, LONG, lambda: f"{what}: {self.last}\n{self.cluster.log_tails()}")
        report(f"{what}: writes again after {time.monotonic() - since:.0f} s")

    def follows(self, what):
        """One member takes writes, and the other one follows it without a hand."""
        until(lambda: self.cluster.is_ready, LONG, lambda: f"{what}\n{self.cluster.log_tails()}", pause=0.5)
        self.assertEqual(sum(member.takes_writes for member in self.cluster.members), 1, what)

    def test_a_lost_leader_is_replaced_comes_back_as_the_standby_and_nothing_acknowledged_is_lost(self):
        peer = Peer(self.workspace, "peer", self.server, ["SELECT * FROM c"])
        peer.wait_for_commit(peer.execute("INSERT INTO c DOCUMENTS ({'_id': 'x'})")["commitID"], LONG)
        until(lambda: len(self.written) > 20, LONG, "nothing is written")

        leader = self.cluster.leader
        commit = peer.execute("UPDATE c APPLY n INCREMENT BY 1 WHERE _id = 'x'")["commitID"]
        since = time.monotonic()
        leader.kill()
        until(lambda: self.cluster.other(leader).takes_writes, LONG, self.cluster.log_tails, pause=0.5)
        self.goes_on("the leader's machine was lost", since)
        peer.wait_for_commit(commit, LONG)
        leader.start()
        self.follows("the lost machine came back")

        leader = self.cluster.leader
        since = time.monotonic()
        leader.signal(signal.SIGSTOP)
        until(lambda: self.cluster.other(leader).takes_writes, LONG, self.cluster.log_tails, pause=0.5)
        self.goes_on("the leader was paused", since)
        leader.signal(signal.SIGCONT)
        self.follows("the paused leader went on")
        self.assertIsNot(self.cluster.leader, leader, "it took the lead back, and what the other one has is lost")

        since = time.monotonic()
        self.cluster.other(self.cluster.leader).kill()
        self.goes_on("the standby was lost", since)
        for member in self.cluster.members:
            if not member.takes_writes:
                member.start()
        self.follows("the standby came back")

        since = time.monotonic()
        self.cluster.etcd.kill()
        time.sleep(30)  # Longer than the lead's life: the leader has to keep it by asking the members.
        self.goes_on("etcd was lost", since)
        self.cluster.etcd.start()

        self.rest()
        rows = {row["_id"] for row in self.server.query("SELECT _id FROM w")}
        self.assertEqual([number for number in self.written if number not in rows], [])
        until(lambda: self.server.query("SELECT n FROM c") == [{"n": 1}], 60, "the peer's write is not there")
        report(f"{len(self.written)} of {self.tried} writes acknowledged, each there")


@deep_only("the fail-overs above begin with an empty volume")
@unittest.skipUnless(is_installed(), "Patroni and etcd are not installed: scripts/setup cluster")
class Adopted(SystemTest):
    seconds = 400

    def test_a_server_that_ran_alone_goes_on_as_the_leader_and_is_copied(self):
        cluster = Cluster(self.workspace, alone=True)
        until(lambda: cluster.is_ready, LONG, cluster.log_tails, pause=0.5)
        first, second = cluster.members
        self.assertTrue(first.takes_writes)
        for member in (first, second):
            self.assertEqual(member.query("SELECT n FROM before"), [["1"]])
        first.kill()
        until(lambda: second.takes_writes, LONG, cluster.log_tails, pause=0.5)
        self.assertEqual(second.query("SELECT n FROM before"), [["1"]])
        first.start()
        until(lambda: cluster.is_ready, LONG, cluster.log_tails, pause=0.5)
        self.assertTrue(second.takes_writes)
