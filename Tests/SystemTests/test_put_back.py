"""A peer's folder that is copied after kill -9 and put back later: every increment counts once."""

import shutil
import time

from mimeo_harness import OneProcess, Peer, pick, until
from system_test import SystemTest, report

EVERYTHING = ["SELECT * FROM c"]
INCREMENT = "UPDATE c APPLY n INCREMENT BY 1 WHERE _id = 'x'"
ROUNDS = pick(fast=3, deep=30)


class PutBack(SystemTest):
    seconds = 240 + 10 * ROUNDS

    def test_a_store_put_back_after_it_went_on_counts_every_increment_once(self):
        server = OneProcess(self.workspace).start()
        a = Peer(self.workspace, "a", server, EVERYTHING)
        b = Peer(self.workspace, "b", server, EVERYTHING)
        a.execute("INSERT INTO c DOCUMENTS ({'_id': 'x'})")
        until(lambda: b.count("c") == 1, 90, "b never saw the document")
        expected = 0
        for number in range(ROUNDS):
            # Written while the server is away, so that the copy holds what is not acknowledged.
            server.kill()
            a.execute(INCREMENT)
            expected += 1
            if number % 2:
                server.start()
                time.sleep(0.02 * number)
            a.kill()
            copy = self.copy_of(a, number)
            if not number % 2:
                server.start()
            a.start()
            for _ in range(3):
                commit = a.execute(INCREMENT)["commitID"]
            a.wait_for_commit(commit, 60)
            expected += 3
            a.kill()
            self.put_back(a, copy, in_place=number % 3 == 0)
            a.start()
            for peer in (a, b):
                for _ in range(2):
                    commit = peer.execute(INCREMENT)["commitID"]
                expected += 2
                peer.wait_for_commit(commit, 60)
            sums = {}

            def exact():
                for name, side in {"server": server, "a": a, "b": b}.items():
                    sums[name] = side.query("SELECT n FROM c WHERE _id = 'x'")[0].get("n")
                return set(sums.values()) == {expected}

            until(exact, 90, lambda: f"round {number}: {sums}, not {expected}", pause=0.1)
        report(f"{ROUNDS} stores put back, {expected} increments, each counted once")

    def copy_of(self, peer, number):
        copy = self.workspace.directory / f"copy-{number}"
        shutil.copytree(peer.store, copy)
        return copy

    @staticmethod
    def put_back(peer, copy, in_place):
        """In place the files keep their inodes, so that nothing but the server can tell what happened."""
        if not in_place:
            shutil.rmtree(peer.store)
            shutil.copytree(copy, peer.store)
            return
        for file in peer.store.iterdir():
            if file.is_file() and not (copy / file.name).exists():
                file.unlink()
        for file in copy.iterdir():
            if not file.is_file():
                continue  # who the peer is does not change
            with open(file, "rb") as source, open(peer.store / file.name, "wb") as target:
                shutil.copyfileobj(source, target)
