"""kill -9 of the store, of peers and of a tus client while attachments are on their way, in turn, again and again."""

import base64
import hashlib
import os
import random
import sys
import threading
import time

from mimeo_harness import (
    SEED, FaultProxy, OneProcess, PeerGone, Through, deep_only, free_port, pick, until, use_packages)
from mimeo_harness.packages import packages_folder
from system_test import report
from test_mesh import MeshTest
from test_uploads import TOOLS

MIB = 1 << 20
AT_ONCE = 4
"""Downloads that one peer has under way."""
RATE = 4 * MIB
"""Bytes a second of each connection, so that a kill meets transfers that are under way."""

CLIENT = """
import os, pathlib, sys, time
from tusclient import client as tus
from tusclient.exceptions import TusCommunicationError
import requests
origin, bearer, folder, piece = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4])
speaker = tus.TusClient(f"{origin}/api/v5/attachments/uploads", headers={"Authorization": bearer})
for path in sorted(folder.glob("*.bin")):
    place, done = path.with_suffix(".url"), path.with_suffix(".done")
    while not done.exists():
        try:
            url = place.read_text() if place.exists() else None
            uploader = speaker.uploader(file_path=str(path), chunk_size=piece, url=url, retries=0)
            if url is None:
                uploader.set_url(uploader.create_url())
                uploader.offset = 0
                place.with_suffix(".new").write_text(uploader.url)
                os.replace(place.with_suffix(".new"), place)
            while uploader.offset < uploader.get_file_size():
                uploader.upload_chunk()
            done.touch()
        except (TusCommunicationError, requests.RequestException, OSError):
            time.sleep(0.05)
"""
"""A tus client as a process of its own, which keeps the URLs of its uploads in files: so it goes on after a kill."""


class Client:
    """The process of the tus client, which is killed and started again like a server."""

    def __init__(self, workspace, arguments):
        self._workspace = workspace
        self._arguments = arguments
        self.start()

    def start(self):
        self.process = self._workspace.start(
            "client", [sys.executable, "-c", CLIENT, *self._arguments], {"PYTHONPATH": str(packages_folder(TOOLS))})

    def kill(self):
        self.process.kill()


class Kills(MeshTest):
    seconds = pick(fast=240, deep=3_600)

    def setUp(self):
        super().setUp()
        use_packages(*TOOLS)
        self.dice = random.Random(SEED)
        self.server = OneProcess(self.workspace).start()
        port = free_port()
        self.up, self.down, self.tus = (FaultProxy(self.workspace, self.server.address) for _ in range(3))
        self.link = FaultProxy(self.workspace, ("127.0.0.1", port))
        for proxy in (self.up, self.down, self.tus, self.link):
            proxy.rate = RATE
        self.a = self.peer("a", "--listen-tcp", f"127.0.0.1:{port}", server=Through(self.server, self.up))
        self.b = self.peer("b", "--connect", f"127.0.0.1:{self.link.port}", server=Through(self.server, self.down))

    def files(self, folder, count, most):
        """Files of random bytes, by name, and their bytes together."""
        folder = self.workspace.directory / folder
        folder.mkdir()
        paths = [folder / f"{number:04}.bin" for number in range(count)]
        for path in paths:
            path.write_bytes(os.urandom(self.dice.choice((5, 70_000, most // 2, most))))
        return paths, sum(path.stat().st_size for path in paths)

    def surely(self, peer, line):
        """The answer to a line that is given again when the peer is killed before it answers."""
        while True:
            try:
                return peer.execute(line)
            except PeerGone:
                time.sleep(0.1)

    def attach(self, paths):
        try:
            for path in paths:
                token = self.surely(self.a, f".attach {path}")["attachment"]
                self.surely(self.a, (
                    "INSERT INTO COLLECTION boats (photo ATTACHMENT) DOCUMENTS "
                    f"({{'_id': '{path.stem}', 'photo': {{'id': '{token['id']}', 'len': {token['len']}, "
                    "'metadata': {}}}) ON ID CONFLICT DO UPDATE"))
                self.tokens[path] = token
        except Exception as problem:
            self.problem = repr(problem)

    def fetch_all(self, paths):
        """Fetches what has a token, a few at a time, until all is here."""
        waiting, asked, done = list(paths), {}, set()
        while len(done) < len(paths):
            self.assertIsNone(self.problem, self.problem)
            process = self.b.process
            for path in list(waiting):
                if len(asked) < AT_ONCE and path in self.tokens:
                    token = self.tokens[path]
                    try:
                        self.b.execute(f".fetch {token['id']} {token['len']} {path.with_suffix('.out')}")
                    except PeerGone:
                        break
                    waiting.remove(path)
                    asked[path] = process
            time.sleep(0.05)
            for path, asker in list(asked.items()):
                target = path.with_suffix(".out")
                if target.exists() and target.stat().st_size == path.stat().st_size:
                    # Bytes that came are right, however often they were interrupted.
                    self.assertEqual(target.read_bytes(), path.read_bytes())
                    done.add(path)
                    del asked[path]
                elif asker is not self.b.process:
                    waiting.insert(0, path)
                    del asked[path]

    def kill_in_turn(self, least, most, over):
        """Kills one after the other until everything has arrived, within these bounds."""
        victims = [self.server, self.a, self.b, self.client]
        try:
            while self.kills < least or self.kills < most and not over.is_set():
                time.sleep(self.dice.uniform(0.1, 0.8))
                victim = victims[self.kills % len(victims)]
                victim.kill()
                victim.start()
                self.kills += 1
        except Exception as problem:
            self.problem = repr(problem)

    def run_transfers(self, transfers, least, most):
        """Of five attachments' transfers two go up and down again between peers, one goes up from the tus client."""
        self.tokens, self.kills, self.problem, over = {}, 0, None, threading.Event()
        size = pick(fast=MIB, deep=3 * MIB)
        shared, shared_bytes = self.files("shared", transfers * 2 // 5, size)
        own, own_bytes = self.files("own", transfers // 5, size)
        before = {proxy: dict(proxy.sent) for proxy in (self.up, self.down, self.tus, self.link)}
        self.client = Client(self.workspace, [
            self.tus.origin, self.server.authorization()["Authorization"], own[0].parent, MIB])
        threads = [threading.Thread(target=self.attach, args=(shared,), daemon=True),
                   threading.Thread(target=self.kill_in_turn, args=(least, most, over), daemon=True)]
        for thread in threads:
            thread.start()
        self.fetch_all(shared)
        outgoing = self.a.store / "ditto_attachments" / "outgoing"
        until(lambda: not any(outgoing.iterdir()) and all(path.with_suffix(".done").exists() for path in own),
              self.seconds / 2, lambda: f"uploads do not end {self.problem}", pause=0.1)
        over.set()
        for thread in threads:
            thread.join(300)
        self.assertIsNone(self.problem, self.problem)

        for path in shared + own:
            name = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
            answer = self.server.request(
                "GET", f"/api/v5/attachments/{name}", headers=self.server.authorization(), seconds=120)
            self.assertEqual((answer.status, answer.body == path.read_bytes()), (200, True), path)
        self.assertEqual([], self.left_over())
        # A transfer that a kill has met sends a chunk again at most. Beside it are documents, heads, lists of hashes.
        room = (transfers + 10 * self.kills) * 20_000
        sent = {
            "from the client": self.tus.sent["up"] - before[self.tus]["up"] - own_bytes,
            "from the peer to the store": self.up.sent["up"] - before[self.up]["up"] - shared_bytes,
            "to the peer": sum(
                proxy.sent["down"] - before[proxy]["down"] for proxy in (self.down, self.link)) - shared_bytes}
        report(f"{transfers} transfers of {(2 * shared_bytes + own_bytes) / MIB:.0f} MiB, {self.kills} kills; "
               "more than once: " + ", ".join(f"{count / MIB:.2f} MiB {name}" for name, count in sent.items()))
        for name, count in sent.items():
            under_way = AT_ONCE if name == "to the peer" else 1
            self.assertLess(count, self.kills * under_way * MIB + room, name)

    def left_over(self):
        """Files that are neither attachments nor known to be of use."""
        folders = [self.server.data / "attachments" / self.server.database] + [
            peer.store / "ditto_attachments" for peer in (self.a, self.b)]
        left = []
        for folder in folders:
            for name in ("incoming", "downloads", "damaged", "outgoing"):
                left += [path for path in (folder / name).rglob("*") if path.is_file()]
        # A client that is killed before it has kept the place of an upload leaves one without a byte, for a day.
        uploads = folders[0] / "uploads"
        return left + [path for path in uploads.iterdir() if path.suffix == "" and path.stat().st_size > 0]

    def test_kills_of_store_peers_and_client_cost_no_byte_and_a_chunk_at_most(self):
        # Each of the four twice, or for as long as anything is under way.
        self.run_transfers(pick(fast=20, deep=200), least=pick(fast=8, deep=40), most=pick(fast=8, deep=10_000))

    @deep_only("the test before has the same kills, fewer of them")
    def test_a_thousand_transfers_under_kills(self):
        self.run_transfers(1_000, least=200, most=10_000)
