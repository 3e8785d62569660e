"""A standby that lacks acknowledged writes takes over from a killed primary: what is lost, the peers give back."""

from mimeo_harness import FourProcesses, Peer, Postgres, until
from system_test import SystemTest, report

EVERYTHING = ["SELECT * FROM c"]
INCREMENT = "UPDATE c APPLY n INCREMENT BY 1 WHERE _id = 'x'"


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

    def part(self, primary, standby):
        """From here on the standby learns of nothing."""
        until(lambda: self.operations(standby) == self.operations(primary), 60, "the standby does not follow")
        standby.query("ALTER SYSTEM SET primary_conninfo = ''")
        standby.query("SELECT pg_reload_conf()")
        until(lambda: standby.query("SELECT count(*) FROM pg_stat_wal_receiver") == [["0"]], 60, "it still listens")

    @staticmethod
    def operations(postgres):
        return int(postgres.query("SELECT count(*) FROM mimeo_log.operations")[0][0])
