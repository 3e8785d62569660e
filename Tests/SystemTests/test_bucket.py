"""Attachments in a bucket: a server, and a second one, over moto's S3 server, which checks their signatures."""

import hashlib
import json
import os
import threading
import time

from mimeo_harness import Bucket, FaultProxy, FourProcesses, OneProcess, mimeo, pick, until, use_packages
from system_test import SystemTest

TOOLS = ("tuspy==1.1.0", "requests==2.34.2")
MIB = 1 << 20


class BucketTest(SystemTest):
    def setUp(self):
        super().setUp()
        self.bucket = Bucket(self.workspace)

    def store(self, server, content):
        answer = server.upload(content)
        self.assertEqual(answer.status, 200, answer.body[:300])
        return answer.json["id"]

    def assert_serves(self, server, attachment, content):
        answer = server.download(attachment)
        self.assertEqual((answer.status, answer.body == content), (200, True), answer.body[:300])

    def files(self, server):
        """Bytes of attachments on the server's own disk."""
        folder = server.data / "attachments"
        return [path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".json", ".credentials")]


class OneServer(BucketTest):
    def setUp(self):
        super().setUp()
        self.proxy = FaultProxy(self.workspace, self.bucket.address, buffer_bytes=MIB)
        self.server = OneProcess(self.workspace, extra_arguments=self.bucket.arguments(self.proxy.origin)).start()

    def test_attachments_are_in_the_bucket_whole_and_nowhere_else(self):
        for size in (0, 10, 9 * MIB + 1):
            content = os.urandom(size)
            attachment = self.store(self.server, content)
            self.assert_serves(self.server, attachment, content)
        part = self.server.download(attachment, (9 * MIB - 5, 10 * MIB))
        self.assertEqual((part.status, part.body), (206, content[9 * MIB - 5:]))
        chunks = self.server.request(
            "GET", f"/api/v5/attachments/{attachment}/chunks", headers=self.server.authorization()).json
        self.assertEqual((chunks["len"], len(chunks["chunks"])), (len(content), 10))
        blobs = [key for key in self.bucket.keys if "/blobs/" in key]
        self.assertEqual(len(blobs), 3)
        self.assertTrue(all(key.startswith(f"some/where/{self.server.database}/") for key in blobs))
        self.assertIn(hashlib.sha256(content).digest(), [
            hashlib.sha256(self.bucket.read(key)).digest() for key in blobs])
        self.assertEqual((self.files(self.server), self.bucket.unfinished), ([], []))

        # Another server on the bucket, after the first one's end: nothing was on its disk.
        self.server.kill()
        self.server.start()
        self.assert_serves(self.server, attachment, content)

        # A damaged object is set aside, and healed by the right bytes.
        key = next(key for key in blobs if attachment in key)
        self.bucket.write(key, b"x" * len(content))
        self.server.kill()
        self.server.start()
        answer = self.server.download(attachment)
        self.assertEqual((answer.status, answer.error["code"]), (500, "BLOB-0202"))
        self.assertTrue(any("/damaged/" in key for key in self.bucket.keys))
        self.assertEqual(self.server.request("GET", "/health").status, 503)
        self.assertEqual(self.store(self.server, content), attachment)
        self.assert_serves(self.server, attachment, content)
        self.assertEqual(self.server.request("GET", "/health").status, 200)

    def test_a_bucket_that_is_away_is_told_and_nothing_is_lost(self):
        content = os.urandom(9 * MIB)
        attachment = self.store(self.server, content)
        self.proxy.refusing = True
        self.proxy.reset()
        self.assert_refused(self.server.download(attachment), 503)
        self.assertEqual(self.server.upload(b"new").error["code"], "ATT-0401")
        until(lambda: self.server.request("GET", "/health").status == 503, 30, "health does not tell")
        self.proxy.refusing = False
        self.assert_serves(self.server, attachment, content)
        until(lambda: self.server.request("GET", "/health").status == 200, 30, "health does not recover")
        # The link breaks in the midst of an upload in parts, and of a download.
        self.proxy.life = 0.15
        statuses = [self.server.upload(os.urandom(9 * MIB)).status for _ in range(pick(fast=2, deep=30))]
        self.assertLessEqual(set(statuses), {200, 503})
        self.proxy.life = None
        self.assertEqual(self.files(self.server), [])
        self.assertLessEqual(len(self.bucket.unfinished), statuses.count(503))

    def assert_the_servers_bucket_is_told(self):
        """By tools whose own settings do not name it."""
        named = self.bucket.arguments(self.proxy.origin)
        to = ["--data", self.server.data, "--to", self.workspace.directory / "backups"]

        def doctor(*arguments):
            done = mimeo("doctor", "--json", "--data", self.server.data, *arguments)
            return [row for row in json.loads(done.stdout)["findings"] if row["code"] == "DOC-0802"]

        until(lambda: doctor(), 30, "the doctor does not know of the bucket")
        self.assertEqual([row["subject"] for row in doctor()], [named[1]])
        self.assertEqual(doctor(*named), [])
        done = mimeo("backup", "create", *to)
        self.assertEqual((done.returncode, named[1] in done.stderr), (0, True), done.stderr)
        done = mimeo("backup", "create", *to, "--with-attachments")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(named[1], done.stderr)
        self.assertIn("CLI-0101", done.stderr)
        done = mimeo("verify", "--data", self.server.data)
        self.assertIn(named[1], done.stderr)
        done = mimeo("backup", "create", *to, "--with-attachments", *named)
        self.assertEqual((done.returncode, named[1] in done.stderr), (0, False), done.stderr)

    def test_the_tools_name_the_servers_bucket_and_the_doctor_what_is_wrong_with_one(self):
        self.assert_the_servers_bucket_is_told()

        def doctor(*arguments):
            done = mimeo("doctor", "--json", "--data", self.server.data, *arguments)
            return [row for row in json.loads(done.stdout)["findings"] if row["code"] in ("DOC-0801", "DOC-0101")]

        self.assertEqual(doctor(*self.bucket.arguments()), [])
        self.bucket.credentials.chmod(0o644)
        self.assertIn("others can read", doctor(*self.bucket.arguments())[0]["message"])
        key = self.bucket.credentials.read_text().split()[0]
        self.bucket.credentials.write_text(f"{key}\nwrong\n")
        self.bucket.credentials.chmod(0o600)
        found = doctor(*self.bucket.arguments())
        self.assertIn("SignatureDoesNotMatch", found[0]["message"])
        self.assertNotIn("wrong", found[0]["message"])
        found = doctor("--attachment-bucket", "s3://blobs", "--attachment-bucket-credentials", "x")
        self.assertEqual(found[0]["code"], "DOC-0101")


class BackedUp(BucketTest):
    def run_mimeo(self, *arguments, expected=0):
        done = mimeo(*arguments)
        self.assertEqual(done.returncode, expected, f"{arguments}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1]), done.stderr

    def test_a_bucket_of_attachments_is_backed_up_verified_and_put_back(self):
        server = OneProcess(self.workspace, extra_arguments=self.bucket.arguments()).start()
        contents = [b"", os.urandom(70_000), os.urandom(9 * MIB + 1)]
        ids = [self.store(server, content) for content in contents]
        settings = self.workspace.directory / "settings.json"
        flags = self.bucket.arguments()
        settings.write_text(json.dumps(
            {"attachmentBucket": flags[1], "attachmentBucketCredentials": flags[3]}))
        folder = self.workspace.directory / "backups"
        create = ["backup", "create", "--data", server.data, "--to", folder]

        # A bucket that only the settings name is left out, and the backup says so.
        made, told = self.run_mimeo(*create, "--config", settings)
        self.assertEqual((made["attachments"], made["leftOut"]), (None, ["attachments", "key"]))
        self.assertIn("are in a bucket and are left out", told)
        made, told = self.run_mimeo(*create, *flags)
        self.assertEqual((made["attachments"]["count"], made["leftOut"]), (3, ["key"]))
        self.assertNotIn("left out; give", told)
        again, _ = self.run_mimeo(*create, *flags, "--incremental")
        path = f"attachments/{server.database}/{ids[2][:2]}/{ids[2]}"
        self.assertEqual(*((folder / backup["backup"] / path).stat().st_ino for backup in (made, again)))
        self.assertEqual((folder / made["backup"] / path).read_bytes(), contents[2])
        self.run_mimeo("backup", "verify", folder)

        # Both checks read every object. The one from outside leaves a damaged one where it is.
        verify = ["verify", "--data", server.data, *flags]
        self.assertEqual(self.run_mimeo(*verify)[0]["count"], 3)
        key = next(key for key in self.bucket.keys if ids[1] in key)
        self.bucket.write(key, contents[1][::-1])
        found, _ = self.run_mimeo(*verify, expected=1)
        self.assertEqual((found["well"], found["damaged"]), (False, [f"{server.database}/{ids[1]}"]))
        self.assertIn(key, self.bucket.keys)
        damaged, told = self.run_mimeo(*create, *flags)
        self.assertEqual((damaged["attachments"]["count"], len(damaged["attachments"]["damaged"])), (2, 1))
        admin = {"Authorization": "Bearer " + (server.data / "auth" / "admin.token").read_text().strip()}
        course = f"/admin/attachment-store/databases/{server.database}/verifications"
        self.assertEqual(server.request("POST", course, headers=admin).status, 202)
        until(lambda: server.request("GET", course, headers=admin).json.get("endedAt"), 60, "it does not end")
        done = server.request("GET", course, headers=admin).json
        self.assertEqual((done["checked"], done["damaged"], done["unread"], done["isWhole"]), (3, 1, 0, True))
        self.assertNotIn(key, self.bucket.keys)

        # Into another part of the bucket, and into a folder.
        server.stop()
        elsewhere = self.bucket.arguments(prefix="put/back")
        places = [("one", elsewhere, elsewhere), ("two", ["--attachments"], [])]
        for name, target, arguments in places:
            new = OneProcess(self.workspace, name, extra_arguments=arguments)
            target = target if len(target) > 1 else [*target, new.data / "attachments"]
            restored, _ = self.run_mimeo("restore", folder / made["backup"], "--data", new.data, *target)
            self.assertEqual(restored["attachments"], {"written": 3, "present": 0, "missing": []})
            secrets = new.data / "auth" / "secrets.key"
            secrets.parent.mkdir(parents=True, exist_ok=True)
            secrets.write_bytes((server.data / "auth" / "secrets.key").read_bytes())
            secrets.chmod(0o600)
            new.start()
            for attachment, content in zip(ids, contents):
                self.assert_serves(new, attachment, content)
            new.stop()


class Killed(BucketTest):
    def test_a_killed_server_leaves_no_wrong_byte_and_pieces_go_on(self):
        use_packages(*TOOLS)
        from tusclient import client as tus
        from tusclient.exceptions import TusCommunicationError
        import requests
        server = OneProcess(self.workspace, extra_arguments=self.bucket.arguments()).start()
        content = os.urandom(17 * MIB)
        path = self.workspace.directory / "file"
        path.write_bytes(content)
        done, headers = threading.Event(), server.authorization()

        def run():
            url = None
            speaker = tus.TusClient(f"{server.origin}/api/v5/attachments/uploads", headers=headers)
            while True:
                uploader = None
                try:
                    uploader = speaker.uploader(file_path=str(path), chunk_size=MIB, url=url, retries=0)
                    while uploader.offset < len(content):
                        uploader.upload_chunk()
                    return done.set()
                except (TusCommunicationError, requests.RequestException, OSError):
                    url = url or (uploader and uploader.url)
                    time.sleep(0.05)

        threading.Thread(target=run, daemon=True).start()
        for _ in range(pick(fast=2, deep=40)):
            time.sleep(0.3)
            server.kill()
            server.start()
        self.assertTrue(done.wait(120))
        found = server.request("GET", "/api/v5/attachments/" + self.store(server, content),
                               headers=server.authorization())
        self.assertEqual(found.body, content)
        self.assertEqual(self.files(server), [])


class TwoStores(BucketTest):
    def test_two_attachment_stores_share_a_bucket(self):
        cluster = FourProcesses(self.workspace)
        for label in ("attachment-store", "attachment-store-2"):
            cluster.extra_arguments[label] = self.bucket.arguments()
        cluster.start()
        cluster.start_service("attachment-store", "attachment-store-2")
        other = cluster.client_of("attachment-store-2")

        def healthy():
            try:
                return other.request("GET", "/health").status == 200
            except OSError:
                return False

        until(healthy, 60, "the second store is not healthy")
        content = os.urandom(100_000)
        attachment = self.store(cluster, content)
        answer = other.request("GET", f"/api/v5/attachments/{attachment}", headers=cluster.authorization())
        self.assertEqual((answer.status, answer.body), (200, content))
        # Both collect at once; what a document names stays, the other goes, once.
        other_id = self.store(cluster, b"nobody names me")
        cluster.execute(
            "INSERT INTO COLLECTION cars (photo ATTACHMENT) DOCUMENTS (:car)",
            {"car": {"_id": "1", "photo": {"id": attachment, "len": len(content), "metadata": {}}}})
        admin = (cluster.data / "auth" / "admin.token").read_text().strip()
        path = f"/admin/attachment-store/databases/{cluster.database}/collections?graceHours=0"
        answers = []

        def collect(client):
            answers.append(client.request("POST", path, headers={"Authorization": f"Bearer {admin}"}))

        threads = [threading.Thread(target=collect, args=(client,))
                   for client in (other, cluster.client_of("attachment-store"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertLessEqual({answer.status for answer in answers}, {200, 409}, [a.body for a in answers])
        self.assertIn(200, [answer.status for answer in answers])
        self.assertEqual(other.request(
            "GET", f"/api/v5/attachments/{other_id}", headers=cluster.authorization()).status, 410)
        self.assertEqual(cluster.request(
            "GET", f"/api/v5/attachments/{attachment}", headers=cluster.authorization()).body, content)
