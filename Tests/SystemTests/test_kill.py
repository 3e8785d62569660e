"""kill -9 in the middle of the demo's load: nothing acknowledged is lost, and everything converges."""

import random
import time

from load import Writer
from mimeo_harness import SEED, OneProcess, Peer, digest, iso_codes, mimeo, until
from system_test import SystemTest, report

COLLECTIONS = ("countries", "subdivisions", "languages", "notes")
KILLS = 8
CONVERGENCE_SECONDS = 150


class KillNine(SystemTest):
    seconds = 300

    def test_three_peers_and_a_server_killed_in_the_middle_of_the_load(self):
        server = OneProcess(self.workspace).start()
        self.load_into_store("peer-a")
        everything = [f"SELECT * FROM {collection}" for collection in COLLECTIONS]
        peers = {name: Peer(self.workspace, name, server, everything) for name in "abc"}
        writers = [Writer(name, peer.execute) for name, peer in peers.items()] + [Writer("http", server.execute)]
        for writer in writers:
            writer.start()
        self.kill_and_restart(server, peers)
        for writer in writers:
            writer.stop()
            self.assertIsNone(writer.problem)
            self.assertGreater(len(writer.acknowledged), 0)
        for peer in peers.values():
            commit = peer.execute(f"INSERT INTO notes DOCUMENTS ({{'_id': 'last-{peer.name}'}})")["commitID"]
            peer.wait_for_commit(commit, 120)
        self.assert_converged(server, peers)
        notes = {item["_id"] for item in server.query("SELECT _id FROM notes")}
        lost = [identifier for writer in writers for identifier in writer.acknowledged if identifier not in notes]
        self.assertEqual(lost, [])
        known = {identifier for writer in writers for identifier in writer.attempted} | {f"last-{n}" for n in peers}
        self.assertEqual(notes - known, set())
        report(f"{KILLS} kills, {sum(len(writer.acknowledged) for writer in writers)} acknowledged writes, none lost")

    def load_into_store(self, name):
        self.expected = {}
        for collection in COLLECTIONS[:3]:
            rows, path, field = iso_codes(collection)
            store = self.workspace.directory / name
            run = mimeo("import", "--store", store, "--collection", collection, "--id", field, path)
            self.assertEqual(run.returncode, 0, run.stderr)
            self.expected[collection] = len(rows)

    def kill_and_restart(self, server, peers):
        """Server and peers by turns, so that each dies at least once, at moments that vary by seed."""
        dice = random.Random(SEED)
        victims = [server, *peers.values(), server, server, peers["a"], peers["b"]][:KILLS]
        for victim in victims:
            time.sleep(dice.uniform(0.2, 1.0))
            victim.kill()
            time.sleep(dice.uniform(0.0, 0.3))
            victim.start()

    def assert_converged(self, server, peers):
        sides = {"server": server, **peers}
        counts = {}

        def loaded():
            for name, side in sides.items():
                counts[name] = {collection: side.count(collection) for collection in self.expected}
            return all(found == self.expected for found in counts.values())

        until(loaded, CONVERGENCE_SECONDS, lambda: f"{counts} is not {self.expected}", pause=0.5)
        for collection in reversed(COLLECTIONS):
            digests = {}

            def agree():
                for name, side in sides.items():
                    digests[name] = digest(side.query(f"SELECT * FROM {collection}"))
                return len(set(digests.values())) == 1

            until(agree, 60, lambda: f"{collection} differs: {digests}", pause=0.3)
