"""Attachments at their limits: a disk that fills within a piece, lengths beyond 5 GiB, a hundred slow readers."""

import base64
import hashlib
import os
import pathlib
import socket
import unittest

from mimeo_harness import OneProcess, deep_only, pick
from system_test import SystemTest, report
from test_disk_full import SmallDisk

MIB = 1 << 20
MOST = 5 * 1024 * MIB
TUS = {"Tus-Resumable": "1.0.0"}


class Limits(SystemTest):
    seconds = pick(fast=240, deep=1_800)

    def tus(self, server, method, path, body=None, **fields):
        headers = {**server.authorization(), **TUS, **{name.replace("_", "-"): str(value) for name, value in fields.items()}}
        return server.request(method, path, body, headers=headers)

    def begin(self, server, length):
        answer = self.tus(server, "POST", "/api/v5/attachments/uploads", Upload_Length=length)
        self.assertEqual(answer.status, 201, answer.body)
        return answer.headers["Location"]

    def offset(self, server, place):
        return int(self.tus(server, "HEAD", place).headers["Upload-Offset"])

    def piece(self, server, place, offset, content, **fields):
        return self.tus(server, "PATCH", place, content, Upload_Offset=offset,
                        Content_Type="application/offset+octet-stream", **fields)

    @unittest.skipIf(os.geteuid() != 0, "only root may mount a small file system")
    def test_a_disk_that_fills_within_a_piece_takes_nothing_that_was_told(self):
        server = OneProcess(self.workspace, extra_arguments=["--disk-reserve-percent", "0"])
        disk = SmallDisk(self.workspace, server.data / "attachments")
        server.start()
        content = os.urandom(5 * MIB)
        place = self.begin(server, len(content))
        self.assertEqual(self.piece(server, place, 0, content[:MIB]).status, 204)
        disk.fill(left_kib=700)
        answer = self.piece(server, place, MIB, content[MIB:])
        self.assertEqual((answer.status, answer.error["code"]), (507, "BLOB-0203"))
        offset = self.offset(server, place)
        self.assertLessEqual(MIB, offset)
        # A piece that has a checksum counts as a whole or not at all.
        checksum = base64.b64encode(hashlib.sha1(content[offset:]).digest()).decode()
        answer = self.piece(server, place, offset, content[offset:], Upload_Checksum=f"sha1 {checksum}")
        self.assertEqual(answer.status, 507)
        self.assertEqual(self.offset(server, place), offset)
        disk.clear()
        answer = self.piece(server, place, offset, content[offset:])
        self.assertEqual(answer.status, 204, answer.body)
        self.assertEqual(server.download(answer.headers["Mimeo-Attachment-Id"]).body, content)

    def test_a_byte_more_than_the_limit_is_refused_before_it_comes(self):
        server = OneProcess(self.workspace).start()
        answer = self.tus(server, "POST", "/api/v5/attachments/uploads", Upload_Length=MOST + 1)
        self.assertEqual((answer.status, answer.error["code"]), (413, "BLOB-0103"))
        for length in (MOST + 1, 1 << 62):
            with socket.create_connection(server.address, timeout=60) as link:
                link.sendall((f"POST /api/v5/attachments/upload HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n"
                              f"Authorization: Bearer {server.access_token}\r\n\r\n").encode())
                self.assertIn(b" 413 ", link.recv(4_096).split(b"\r\n")[0])
        # Exactly the limit is begun: the bytes may come.
        self.assertEqual(self.offset(server, self.begin(server, MOST)), 0)

    @deep_only("the limit itself is in the test before; the bytes take minutes")
    def test_five_gibibytes_and_a_byte_from_a_sparse_file(self):
        server = OneProcess(self.workspace, extra_arguments=["--max-attachment-bytes", str(MOST + 1)]).start()
        place, left = self.begin(server, MOST + 1), MOST + 1
        block = bytes(64 * MIB)
        digest = hashlib.sha256()
        while left:
            part = block[:min(left, len(block))]
            digest.update(part)
            answer = self.piece(server, place, MOST + 1 - left, part)
            self.assertEqual(answer.status, 204, answer.body)
            left -= len(part)
        name = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
        self.assertEqual(answer.headers["Mimeo-Attachment-Id"], name)
        self.assertEqual(server.download(name, (MOST, MOST + 5)).body, b"\0")

    def test_a_hundred_slow_readers_cost_little_memory(self):
        server = OneProcess(self.workspace).start()
        content = os.urandom(24 * MIB)
        attachment = server.upload(content).json["id"]
        self.assertEqual(server.download(attachment, (0, 0)).body, content[:1])
        before = self.memory(server)
        links = []
        for _ in range(100):
            link = socket.create_connection(server.address, timeout=120)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            link.sendall((f"GET /api/v5/attachments/{attachment} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                          f"Authorization: Bearer {server.access_token}\r\n\r\n").encode())
            links.append(link)
            self.addCleanup(link.close)
        # All of them have begun, and wait for their readers.
        for link in links:
            self.assertIn(b" 200 ", link.recv(64))
        grown = self.memory(server) - before
        report(f"{grown / MIB:.0f} MiB for 100 downloads of 24 MiB that wait")
        # Each has one piece of 256 KiB on the way, and its connection; the whole would be 2,400 MiB.
        self.assertLess(grown, 100 * 0.75 * MIB)
        whole = b""
        while part := links[0].recv(MIB):
            whole += part
        self.assertTrue(whole.endswith(content[-MIB:]))

    def memory(self, server):
        for line in pathlib.Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no RssAnon")
