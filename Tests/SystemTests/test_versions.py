"""An earlier version beside this one: a rolling upgrade on one log, under load, with peers of both versions.

MIMEO_BEFORE names a folder with the executables of the earlier version. Two instances of each service begin with those.
One after the other is replaced by this version's. At each step every instance and every peer has the same documents, and
in the end no acknowledged write is missing. The earlier version refuses a store that this one has written, and leaves
it as it is.
"""

import hashlib
import os
import pathlib
import subprocess
import unittest

from fault_loop import FaultLoop
from load import Writer
from mimeo_harness import FourProcesses, Peer, Postgres, binary, digest, until
from system_test import report

BEFORE = os.environ.get("MIMEO_BEFORE")
SERVICES = ("auth-gateway", "attachment-store", "query-service", "replicator")
FORMAT_REFUSED = "STORE-0103"


class Mixed(FourProcesses):
    """Each instance is of the version that `old` says. Options that the earlier version does not know are left out."""

    def __init__(self, workspace, log):
        super().__init__(workspace, log=log)
        self.old = {f"{service}{suffix}" for service in SERVICES for suffix in ("", "-2")}

    def command(self, service, label, arguments):
        if label not in self.old:
            return super().command(service, label, arguments)
        path = pathlib.Path(BEFORE) / service
        known = subprocess.run([path, "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
        kept, skip = [], False
        for index, argument in enumerate(map(str, arguments)):
            if argument.startswith("--"):
                skip = argument not in known
            elif index == 0 or not str(arguments[index - 1]).startswith("--"):
                skip = False
            if not skip:
                kept.append(argument)
        # Later versions name the token's file; the first ones only show it.
        return [path, *kept, *(["--show-token"] if service == "auth-gateway" and "--show-token" in known else [])]


class OldPeer(Peer):
    """A peer of the earlier version."""

    executable = f"{BEFORE}/mimeo"


@unittest.skipUnless(BEFORE, "MIMEO_BEFORE names no folder with the executables of an earlier version")
class Versions(FaultLoop):
    seconds = 600

    def test_on_sqlite(self):
        self.upgrade(None)

    def test_on_postgresql(self):
        self.upgrade(Postgres(self.workspace).start())

    def upgrade(self, postgres):
        cluster = self.cluster = Mixed(self.workspace, postgres.url if postgres else None)
        for service in SERVICES:
            cluster.fronts[service] = [cluster.address_of(service), cluster.address_of(f"{service}-2")]
            cluster.extra_arguments[f"{service}-2"] = []
        cluster.extra_arguments["replicator-2"] = ["--data", self.workspace.directory / "replicator-2"]
        cluster.start()
        for service in SERVICES:
            cluster.start_service(service, f"{service}-2")
            self.await_health(f"{service}-2")
        select = ["SELECT * FROM notes", "SELECT * FROM tallies"]
        self.peers = {"a": OldPeer(self.workspace, "a", cluster, select), "b": Peer(self.workspace, "b", cluster, select)}
        self.queries = {name: cluster.client_of(name) for name in ("query-service", "query-service-2")}
        sides = {**self.peers, **self.queries}
        writers = [Writer(name, self.writing(name, side.execute)) for name, side in sides.items()]
        for writer in writers:
            writer.start()
        self.await_agreement("both instances of the earlier version")
        for suffix in ("-2", ""):
            for service in SERVICES:
                label = f"{service}{suffix}"
                cluster.processes[label].stop()
                cluster.old.discard(label)
                cluster.start_service(service, label)
                self.await_health(label)
                self.await_agreement(f"{label} is of this version")
        for writer in writers:
            writer.stop()
            self.assertIsNone(writer.problem)
        self.settle([f"{service}{suffix}" for service in SERVICES for suffix in ("", "-2")], self.peers, self.queries)
        self.assert_nothing_lost(writers, self.queries["query-service"])
        self.assert_log_whole(self.log_rows({"postgres": postgres} if postgres else {}))
        self.upgrade_the_peer()
        report(f"{sum(len(writer.acknowledged) for writer in writers)} acknowledged writes while "
               f"{2 * len(SERVICES)} instances were replaced, none lost")

    def await_health(self, label):
        client = self.cluster.client_of(label)
        until(lambda: self.is_healthy(client), 60, lambda: f"{label}: {self.state(label, client)}")

    def await_agreement(self, when):
        """A write of each side reaches every side."""
        marks = []
        for name, side in {**self.peers, **self.queries}.items():
            marks.append(f"{name}: {when}")
            side.execute(f"INSERT INTO marks DOCUMENTS ({{'_id': '{marks[-1]}'}})")
        for name, side in self.queries.items():
            until(lambda: {row["_id"] for row in side.query("SELECT _id FROM marks")}.issuperset(marks), 60,
                  f"{name} lacks a write: {when}")
        counts = {}

        def agree():
            for name, side in {**self.peers, **self.queries}.items():
                rows = side.query("SELECT * FROM tallies")
                counts[name] = {row["_id"] for row in rows}
            return len({frozenset(ids) for ids in counts.values()}) == 1

        until(agree, 60, lambda: f"{when}: {counts}", pause=0.2)

    def upgrade_the_peer(self):
        """This version opens the earlier one's store with everything in it; the earlier one refuses it afterwards."""
        peer = self.peers["a"]
        before = digest(peer.query("SELECT * FROM notes"))
        peer.stop()
        peer.executable = binary("mimeo")
        peer.start(offline=True)
        self.assertEqual(digest(peer.query("SELECT * FROM notes")), before)
        peer.stop()
        files = self.contents(peer.store)
        peer.executable = OldPeer.executable
        peer.start(offline=True)
        code = peer.process.wait(60)
        refusal = peer.process.log_tail()
        if code == 0 or FORMAT_REFUSED not in refusal:
            self.assertEqual(self.contents(peer.store), files)
            report("the store's format is the same in both versions")
            return
        self.assertEqual(self.contents(peer.store), files, refusal)
        report(f"the earlier version refuses the store and leaves it alone: {refusal.splitlines()[-1]}")

    @staticmethod
    def contents(store):
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(store.glob("*.sqlite"))}
