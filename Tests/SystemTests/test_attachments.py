"""Attachments over HTTP: whole, in part, and what is refused."""

import base64
import hashlib
import os

from mimeo_harness import OneProcess
from system_test import SystemTest


class Attachments(SystemTest):
    def setUp(self):
        super().setUp()
        self.server = OneProcess(self.workspace).start()

    def upload(self, content):
        answer = self.server.upload(content)
        self.assertEqual(answer.status, 200, answer.body[:300])
        return answer.json

    def test_up_down_and_in_part(self):
        content = os.urandom(3_000_000)
        token = self.upload(content)
        self.assertEqual(token["len"], len(content))
        expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.assertEqual(token["id"], expected)
        self.assertEqual(self.server.download(token["id"]).body, content)
        part = self.server.download(token["id"], (2_999_990, 3_000_100))
        self.assertEqual((part.status, part.body), (206, content[2_999_990:]))
        self.assertEqual(part.headers["Content-Range"], "bytes 2999990-2999999/3000000")

    def test_the_same_content_is_the_same_attachment_and_survives_a_kill(self):
        first = self.upload(b"twice")
        self.assertEqual(self.upload(b"twice")["id"], first["id"])
        self.server.kill()
        self.server.start()
        self.assertEqual(self.server.download(first["id"]).body, b"twice")

    def test_what_cannot_be_served(self):
        token = self.upload(b"0123456789")
        self.assertEqual(self.server.download(token["id"], (10, 20)).status, 416)
        self.assert_refused(self.server.download("A" * 43), 404)
        for nonsense in ("..%2f..%2fauth", "short", "A" * 5000):
            with self.subTest(nonsense[:20]):
                self.assertIn(self.server.download(nonsense).status, (400, 404, 414))

    def test_without_a_token_there_is_nothing(self):
        token = self.upload(b"secret")
        answer = self.server.request("GET", f"/api/v5/attachments/{token['id']}")
        self.assert_refused(answer, 401)
        answer = self.server.request("POST", "/api/v5/attachments/upload", b"x")
        self.assert_refused(answer, 401)
