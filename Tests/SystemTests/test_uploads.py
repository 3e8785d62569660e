"""Resumable uploads: a public tus client over links that break and servers that are killed."""

import base64
import hashlib
import os
import threading
import time

from mimeo_harness import FaultProxy, OneProcess, pick, use_packages
from system_test import SystemTest

# Its dependencies stand here too, so that each run has the same ones.
TOOLS = ("tuspy==1.1.0", "requests==2.34.2")
MIB = 1 << 20


class ResumableUploads(SystemTest):
    seconds = pick(fast=240, deep=2_400)

    def setUp(self):
        super().setUp()
        use_packages(*TOOLS)
        self.server = OneProcess(self.workspace).start()

    def write_file(self, size):
        """A file of so many bytes, and the attachment id that they have."""
        path, digest, left = self.workspace.directory / "file", hashlib.sha256(), size
        with open(path, "wb") as file:
            while left:
                block = os.urandom(min(left, MIB))
                digest.update(block)
                file.write(block)
                left -= len(block)
        return path, base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()

    def upload(self, origin, path, pieces, headers):
        """Uploads with tuspy until it is done, as an application would: a new client after each failure."""
        from tusclient import client as tus
        from tusclient.exceptions import TusCommunicationError
        import requests
        speaker = tus.TusClient(f"{origin}/api/v5/attachments/uploads", headers=headers)
        url, failures = None, 0
        end = time.monotonic() + pick(fast=100, deep=1_500)
        while True:
            uploader = None
            try:
                uploader = speaker.uploader(file_path=str(path), chunk_size=pieces, url=url, retries=0)
                while uploader.offset < uploader.get_file_size():
                    uploader.upload_chunk()
                return failures
            except (TusCommunicationError, requests.RequestException, OSError) as problem:
                url = url or (uploader and uploader.url)
                failures += 1
                self.assertLess(time.monotonic(), end, f"{failures} failures, the last one {problem}")
                time.sleep(0.05)

    def assert_is_whole(self, path, attachment):
        answer = self.server.request(
            "GET", f"/api/v5/attachments/{attachment}", headers=self.server.authorization(), seconds=600)
        self.assertEqual(answer.status, 200, answer.body[:300])
        self.assertEqual(answer.body, path.read_bytes())

    def test_a_public_client_uploads_over_a_link_that_breaks(self):
        path, attachment = self.write_file(pick(fast=16 * MIB, deep=1024 * MIB))
        proxy = FaultProxy(self.workspace, self.server.address)
        proxy.rate, proxy.life = pick(fast=12 * MIB, deep=64 * MIB), pick(fast=0.4, deep=2)
        # Pieces that take longer than the link lasts: what arrived of them counts.
        failures = self.upload(
            proxy.origin, path, pick(fast=8 * MIB, deep=512 * MIB), self.server.authorization())
        self.assertGreater(failures, 0)
        self.assert_is_whole(path, attachment)
        # Hardly anything was sent twice: only what was under way when the link broke.
        self.assertLess(proxy.sent["up"], path.stat().st_size + (failures + 2) * MIB)

    def test_a_killed_server_goes_on_at_the_byte(self):
        path, attachment = self.write_file(4 * MIB)
        proxy = FaultProxy(self.workspace, self.server.address)
        proxy.rate = 4 * MIB
        done, headers = threading.Event(), self.server.authorization()

        def run():
            self.upload(proxy.origin, path, 4 * MIB, headers)
            done.set()

        threading.Thread(target=run, daemon=True).start()
        for _ in range(pick(fast=2, deep=40)):
            time.sleep(0.25)
            self.server.kill()
            self.server.start()
        self.assertTrue(done.wait(120))
        self.assert_is_whole(path, attachment)
        # An upload whose beginning was lost with the server's answer is known, and ends by itself.
        names = set(os.listdir(next((self.server.data / "attachments").iterdir()) / "uploads"))
        unknown = [name for name in names if f"{name.split('.')[0]}.json" not in names]
        self.assertEqual(unknown, [])
