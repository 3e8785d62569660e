"""Attachments over HTTP: whole, in part, and what is refused."""

import base64
import hashlib
import json
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

    def sign(self, token, **members):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        return self.server.request("POST", "/_ditto/auth/attachment-urls", json.dumps(members).encode(), headers)

    def test_a_signed_url_needs_no_token_and_ends_with_its_signer_or_the_key(self):
        content = os.urandom(100_000)
        stored = self.upload(content)
        self.server.execute("INSERT INTO COLLECTION cars (photo ATTACHMENT) DOCUMENTS (:d)", {"d": {"_id": "a", "photo": {**stored, "metadata": {"mime_type": "image/png"}}}})
        admin = {"Authorization": f"Bearer {(self.server.data / 'auth' / 'admin.token').read_text().strip()}", "Content-Type": "application/json"}
        database = f"/admin/auth/databases/{self.server.database}"
        reading = {"read": {"everything": False, "queriesByCollection": {"cars": ["true"]}}, "write": {"everything": False, "queriesByCollection": {}}}
        key = self.server.request("POST", f"{database}/api-keys", json.dumps({"name": "page", "permissions": reading}).encode(), admin).json
        answer = self.sign(key["key"], ids=[stored["id"], "A" * 43], seconds=60)
        self.assertEqual(answer.status, 200, answer.body)
        url, unknown = [one["url"] for one in answer.json["urls"]]
        found = self.server.request("GET", url)
        self.assertEqual((found.status, found.body, found.headers["Content-Type"]), (200, content, "image/png"))
        part = self.server.request("GET", url, None, {"Range": "bytes=0-9"})
        self.assertEqual((part.status, part.body), (206, content[:10]))
        self.assert_refused(self.server.request("GET", unknown), 404)
        self.assert_refused(self.server.request("GET", url.replace(stored["id"], "A" * 43)), 401)
        for members in ({}, {"ids": []}, {"ids": ["../x"]}, {"ids": [7]}, {"ids": ["A"] * 101}, {"ids": ["A"], "seconds": 0}, {"ids": ["A"], "seconds": 3601}, {"ids": ["A"], "more": 1}):
            with self.subTest(members=str(members)[:60]):
                self.assertEqual(self.sign(key["key"], **members).error.get("code"), "AUTH-0401")
        # The log of requests and the audit have no URL with its signature.
        self.assertNotIn(url.split("signed=")[1], self.server.process.log_path.read_text(errors="replace"))
        own = self.sign(self.server.access_token, ids=[stored["id"]]).json["urls"][0]["url"]
        self.assertEqual(self.server.request("GET", own).status, 200)
        self.assertEqual(self.server.request("DELETE", f"{database}/api-keys/{key['id']}", None, admin).status, 204)
        self.assertEqual(self.server.request("GET", url).error["code"], "AUTH-0111")
        self.assertEqual(self.server.request("GET", own).status, 200)
        self.assertEqual(self.server.request("POST", f"{database}/keys", b'{"overlapSeconds": 0}', admin).status, 201)
        self.assertEqual(self.server.request("GET", own).error["code"], "AUTH-0103")
