"""Attachments between peers without a server: real processes, links over TCP on loopback ports, and kills."""

import hashlib
import os
import time

from mimeo_harness import FaultProxy, free_port, pick, until
from test_mesh import MeshTest

MIB = 1 << 20


def digest_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class LinkedAttachments(MeshTest):
    seconds = pick(fast=240, deep=7_200)

    def make(self, peer, size, name="one"):
        """An attachment of a file of random bytes, named in a document."""
        path = self.workspace.directory / f"{name}.bin"
        path.write_bytes(os.urandom(size))
        token = peer.execute(f".attach {path}")["attachment"]
        peer.execute(
            "INSERT INTO COLLECTION boats (photo ATTACHMENT) DOCUMENTS "
            f"({{'_id': '{name}', 'photo': {{'id': '{token['id']}', 'len': {token['len']}, 'metadata': {{}}}}}})")
        return path, token

    def fetch(self, peer, token, name):
        """Begins to fetch; returns the file to come."""
        path = self.workspace.directory / f"{name}.out"
        peer.execute(f".fetch {token['id']} {token['len']} {path}")
        return path

    def await_file(self, path, original, seconds=120):
        until(lambda: path.exists() and path.stat().st_size == original.stat().st_size, seconds,
              f"{path.name} does not come", pause=0.05)
        self.assertEqual(digest_of(path), digest_of(original))

    def left_overs(self, peer):
        """Files of transfers that are neither attachments nor lists of hashes."""
        folder = peer.store / "ditto_attachments"
        return [path for path in folder.rglob("*") if path.is_file()
                and path.parent.name in ("incoming", "downloads", "fetching", "damaged")]

    def test_a_blob_made_offline_at_one_peer_reaches_another_through_a_third(self):
        ports = [free_port() for _ in range(2)]
        a = self.peer("a", "--listen-tcp", f"127.0.0.1:{ports[0]}")
        path, token = self.make(a, 2 * MIB + 5)
        b = self.peer("b", "--connect", f"127.0.0.1:{ports[0]}", "--listen-tcp", f"127.0.0.1:{ports[1]}")
        c = self.peer("c", "--connect", f"127.0.0.1:{ports[1]}")
        until(lambda: c.count("boats") == 1, 60, "the document does not come")
        self.await_file(self.fetch(c, token, "c"), path)
        # Its maker may be gone: the peer in between has it now.
        a.stop()
        d = self.peer("d", "--connect", f"127.0.0.1:{ports[1]}")
        until(lambda: d.count("boats") == 1, 60, "the document does not come")
        self.await_file(self.fetch(d, token, "d"), path)

    def test_kills_of_both_ends_cost_no_wrong_byte_and_a_piece_at_most(self):
        port = free_port()
        proxy = FaultProxy(self.workspace, ("127.0.0.1", port))
        a = self.peer("a", "--listen-tcp", f"127.0.0.1:{port}")
        size = pick(fast=6 * MIB, deep=32 * MIB)
        path, token = self.make(a, size)
        b = self.peer("b", "--connect", f"127.0.0.1:{proxy.port}")
        until(lambda: b.count("boats") == 1, 60, "the document does not come")
        proxy.rate = pick(fast=4 * MIB, deep=2 * MIB)
        kills = pick(fast=4, deep=100)
        before = proxy.sent["down"]
        target = self.fetch(b, token, "b")
        for number in range(kills):
            time.sleep(0.3)
            victim = (a, b)[number % 2]
            victim.kill()
            victim.start()
            if victim is b and not target.exists():
                self.fetch(b, token, "b")
        self.await_file(target, path, 600)
        # What came before a kill came once: a chunk for each kill, and the frames of documents.
        self.assertLess(proxy.sent["down"] - before, size + (kills + 1) * 1.2 * MIB + kills * 100_000)
        self.assertEqual(self.left_overs(b), [])
