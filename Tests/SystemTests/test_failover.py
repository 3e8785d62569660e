"""A standby takes over from a killed primary: one that lacks acknowledged writes, and one that has them all."""

import threading
import time

from mimeo_harness import FourProcesses, OneProcess, Peer, Postgres, deep_only, mimeo, until
from system_test import SystemTest, report

EVERYTHING = ["SELECT * FROM c"]
INCREMENT = "UPDATE c APPLY n INCREMENT BY 1 WHERE _id = 'x'"
FAILOVERS = 3


class Failover(SystemTest):
    seconds = 240

    def test_what_a_standby_lacks_is_given_back_and_counts_once(self):
        primary = Postgres(self.workspace, "primary").start()
        standby = Postgres(self.workspace, "standby", standby_of=primary).start()
        server = FourProcesses(self.workspace, log=primary.url_with(standby)).start()
        a, b = (Peer(self.workspace, name, server, EVERYTHING) for name in "ab")
        a.wait_for_commit(a.execute("INSERT INTO c DOCUMENTS ({'_id': 'x'})")["commitID"], 60)
        until(lambda: b.count("c") == 1, 60, "b never saw the document")
        for peer in (a, b):
            peer.wait_for_commit(peer.execute(INCREMENT)["commitID"], 60)
        self.part(primary, standby)
        # Acknowledged, and only at the primary and the peers.
        for _ in range(3):
            for peer in (a, b):
                peer.wait_for_commit(peer.execute(INCREMENT)["commitID"], 60)
        answer = server.post_statement("INSERT INTO c DOCUMENTS ({'_id': 'by the service'})", seconds=60)
        self.assertEqual(answer.status, 200)
        for peer in (a, b):
            until(lambda: peer.count("c") == 2, 60, "a peer never saw what the service wrote")
        lost = self.operations(primary) - self.operations(standby)
        primary.kill()
        commits = {peer: peer.execute(INCREMENT)["commitID"] for peer in (a, b)}
        standby.promote()
        for peer, commit in commits.items():
            peer.wait_for_commit(commit, 120)
        until(
            lambda: server.post_statement("INSERT INTO c DOCUMENTS ({'_id': 'behind it'})", seconds=60).status == 200,
            60, "writes are refused at the standby")
        seen = {}

        def agree():
            for name, side in {"server": server, "a": a, "b": b}.items():
                seen[name] = sorted((row["_id"], row.get("n")) for row in side.query("SELECT * FROM c"))
            return all(rows == [("behind it", None), ("by the service", None), ("x", 10)] for rows in seen.values())

        until(agree, 90, lambda: f"{seen}", pause=0.2)
        self.assertGreaterEqual(lost, 7)
        report(f"a standby that lacked {lost} acknowledged operations took over: all were given back, each once")

    def test_a_former_primary_that_comes_back_is_not_used(self):
        primary = Postgres(self.workspace, "primary").start()
        standby = Postgres(self.workspace, "standby", standby_of=primary).start()
        server = OneProcess(self.workspace, extra_arguments=["--log", primary.url_with(standby)]).start()
        self.assertEqual(server.post_statement("INSERT INTO c DOCUMENTS ({'_id': 'before'})", seconds=60).status, 200)
        until(lambda: self.operations(standby) == self.operations(primary), 60, "the standby does not follow")
        primary.kill()
        standby.promote()
        until(lambda: server.post_statement("INSERT INTO c DOCUMENTS ({'_id': 'after'})", seconds=60).status == 200,
              60, "writes are refused at the standby")
        timeline = self.timeline(server)
        # The new primary is away, and the former one is back, also for a server that keeps running.
        standby.kill()
        primary.start()
        had = self.operations(primary)
        until(lambda: b"LOG-0312" in server.request("GET", "/health").body, 60, "health does not tell")
        self.assertEqual(server.request("GET", "/health/ready").status, 503)
        self.assert_refused(server.post_statement("INSERT INTO c DOCUMENTS ({'_id': 'split'})", seconds=60), 503)
        server.stop()
        refused = mimeo("serve", "--data", server.data, "--listen", f"127.0.0.1:{server.port}",
                        "--log", primary.url_with(standby))
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("LOG-0312", refused.stderr + refused.stdout)
        self.assertEqual(self.operations(primary), had)
        primary.kill()
        standby.start()
        server.start()
        until(lambda: server.query("SELECT _id FROM c ORDER BY _id") == [{"_id": "after"}, {"_id": "before"}], 60,
              "the documents are not those of the new primary")
        self.assertEqual(self.timeline(server), timeline)

    @staticmethod
    def timeline(server):
        lines = server.request("GET", "/metrics").body.decode().splitlines()
        return next(line for line in lines if line.startswith("mimeo_postgres_timeline")).split()[-1]

    def part(self, primary, standby):
        """From here on the standby learns of nothing."""
        until(lambda: self.operations(standby) == self.operations(primary), 60, "the standby does not follow")
        standby.query("ALTER SYSTEM SET primary_conninfo = ''")
        standby.query("SELECT pg_reload_conf()")
        until(lambda: standby.query("SELECT count(*) FROM pg_stat_wal_receiver") == [["0"]], 60, "it still listens")

    @staticmethod
    def operations(postgres):
        return int(postgres.query("SELECT count(*) FROM mimeo_log.operations")[0][0])


@deep_only("the test above promotes a standby, and test_postgres_away takes PostgreSQL away under load")
class SynchronousStandby(SystemTest):
    """A standby that has every acknowledged write takes over under load: nothing is lost, nothing is doubled."""

    seconds = 240 + 60 * FAILOVERS

    def test_a_promoted_synchronous_standby_has_every_acknowledged_write_once(self):
        first = Postgres(self.workspace, "primary-0").start()
        second = Postgres(self.workspace, "standby-0", standby_of=first).start()
        self.await_synchronous(first)
        server = OneProcess(self.workspace, extra_arguments=["--log", first.url_with(second)]).start()
        peer = Peer(self.workspace, "peer", server, EVERYTHING)
        peer.wait_for_commit(peer.execute("INSERT INTO c DOCUMENTS ({'_id': 'x'})")["commitID"], 60)
        load = Load(server)
        try:
            for number in range(FAILOVERS):
                until(lambda: load.acknowledged > 20 * (number + 1), 60, "nothing is written")
                commits = [peer.execute(INCREMENT)["commitID"] for _ in range(5)]
                first.kill()
                killed = time.monotonic()
                second.promote()
                # Nobody is left to wait for.
                second.query("ALTER SYSTEM SET synchronous_standby_names = ''")
                second.query("SELECT pg_reload_conf()")
                before = load.acknowledged
                until(lambda: load.acknowledged > before, 90, lambda: f"no write after the fail-over: {load.last}")
                away = time.monotonic() - killed
                peer.wait_for_commit(commits[-1], 90)
                report(f"fail-over {number + 1}: writes answered again {away:.1f} s after the kill")
                if number + 1 == FAILOVERS:
                    break
                first, second = second, Postgres(self.workspace, f"standby-{number + 1}", standby_of=second).start()
                self.await_synchronous(first)
                server.stop()
                server = OneProcess(
                    self.workspace, extra_arguments=["--log", first.url_with(second)])
                server.port, server.origin = load.server.port, load.server.origin
                load.server = server.start()
        finally:
            load.stop()
        rows = {row["_id"]: row for row in server.query("SELECT * FROM w")}
        lost = [written for written in load.written if str(written) not in rows]
        self.assertEqual(lost, [], f"of {load.acknowledged} acknowledged writes")
        until(lambda: server.query("SELECT n FROM c WHERE _id = 'x'") == [{"n": 5 * FAILOVERS}], 60,
              lambda: f"{server.query('SELECT n FROM c')}")
        report(f"{load.acknowledged} of {load.tried} writes acknowledged, each there, over {FAILOVERS} fail-overs")

    @staticmethod
    def await_synchronous(primary):
        """Commits of the primary wait for its standby from here on."""
        until(lambda: primary.query("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == [["1"]],
              60, "the standby does not follow")
        primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.query("SELECT pg_reload_conf()")
        until(lambda: primary.query("SELECT sync_state FROM pg_stat_replication") == [["sync"]], 60,
              "the standby is not synchronous")


class Load:
    """Writes documents over HTTP, one after the other, and remembers those that were acknowledged."""

    def __init__(self, server):
        self.server = server
        self.written, self.tried, self.last = [], 0, None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def acknowledged(self):
        return len(self.written)

    def _run(self):
        while not self._is_over.is_set():
            self.tried += 1
            number = self.tried
            try:
                answer = self.server.post_statement(f"INSERT INTO w DOCUMENTS ({{'_id': '{number}'}})", seconds=30)
                self.last = answer.status
                if answer.status == 200:
                    self.written.append(number)
            except (OSError, RuntimeError) as problem:
                self.last = problem
                time.sleep(0.05)

    def stop(self):
        self._is_over.set()
        self._thread.join(60)
