"""Backups of a running server: restored elsewhere, killed at any moment, refused over live data."""

import json
import random
import threading
import time
import unittest

from mimeo_harness import SEED, Bucket, OneProcess, Peer, Postgres, binary, deep_only, mimeo, pick, until
from system_test import SystemTest, report

EVERYTHING = ["SELECT * FROM c"]
INCREMENT = "UPDATE c APPLY n INCREMENT BY 1 WHERE _id = 'x'"
KILLS = pick(fast=3, deep=60)


class BackupTest(SystemTest):
    seconds = 300

    def run_mimeo(self, *arguments, expected=0):
        done = mimeo(*arguments)
        self.assertEqual(done.returncode, expected, f"{arguments}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1]) if expected == 0 else done.stderr

    def setUp(self):
        super().setUp()
        self.folder = self.workspace.directory / "backups"
        self.passphrase = self.workspace.directory / "passphrase"
        self.passphrase.write_text("a passphrase of some length\n")

    def create(self, server, *arguments):
        return self.run_mimeo(
            "backup", "create", "--data", server.data, "--to", self.folder, "--attachments",
            server.data / "attachments", "--passphrase-file", self.passphrase, *arguments)

    def restore(self, server, *arguments, expected=0):
        return self.run_mimeo(
            "restore", self.folder, "--data", server.data, "--attachments", server.data / "attachments",
            "--passphrase-file", self.passphrase, *arguments, expected=expected)


class Backups(BackupTest):
    def test_a_server_is_restored_elsewhere_and_peers_ahead_behind_and_unknown_agree(self):
        server = OneProcess(self.workspace).start()
        ahead, behind = (Peer(self.workspace, name, server, EVERYTHING) for name in ("ahead", "behind"))
        ahead.wait_for_commit(ahead.execute("INSERT INTO c DOCUMENTS ({'_id': 'x'})")["commitID"])
        until(lambda: behind.count("c") == 1, 60, "the peer never saw the document")
        attachment = server.upload(b"a blob of the first backup").json["id"]
        self.create(server)
        behind.wait_for_commit(behind.execute(INCREMENT)["commitID"])
        behind.kill()
        is_over = threading.Event()
        writer = threading.Thread(target=self.write_until, args=(server, is_over))
        writer.start()
        try:
            made = self.create(server, "--incremental")
        finally:
            is_over.set()
            writer.join()
        self.assertEqual(made["kind"], "incremental")
        for _ in range(3):
            commit = ahead.execute(INCREMENT)["commitID"]
        ahead.wait_for_commit(commit)
        server.stop()
        verified = self.run_mimeo("backup", "verify", self.folder)
        self.assertTrue(all(database["compared"] for database in verified["databases"]), verified)

        second = OneProcess(self.workspace, "second")
        second.port, second.origin = server.port, server.origin
        restored = self.restore(second)
        self.assertEqual(
            [(part["database"], part["digest"]) for part in restored["databases"]],
            [(part["database"], part["digest"]) for part in made["databases"]])
        self.assertTrue(restored["key"])
        second.start()
        self.assertEqual(second.download(attachment).body, b"a blob of the first backup")
        behind.start()
        unknown = Peer(self.workspace, "unknown", second, EVERYTHING)
        sides = {"server": second, "ahead": ahead, "behind": behind, "unknown": unknown}
        seen = {}

        def agree():
            for name, side in sides.items():
                seen[name] = sorted((row["_id"], row.get("n")) for row in side.query("SELECT * FROM c"))
            return len({str(rows) for rows in seen.values()}) == 1 and ("x", 4) in seen["server"]

        until(agree, 90, lambda: f"{seen}", pause=0.2)
        commit = ahead.execute(INCREMENT)["commitID"]
        ahead.wait_for_commit(commit)
        until(lambda: unknown.query("SELECT n FROM c WHERE _id = 'x'") == [{"n": 5}], 60, "nothing goes on")

    @staticmethod
    def write_until(server, is_over):
        number = 0
        while not is_over.is_set():
            number += 1
            server.execute(f"INSERT INTO c DOCUMENTS ({{'_id': 'under load {number}'}})")
            server.written = number

    def test_a_restore_goes_to_a_time_and_a_copy_beside_and_never_over_live_data(self):
        server = OneProcess(self.workspace).start()
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 'early'})")
        time.sleep(0.05)
        point = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{int(time.time() % 1 * 1000):03d}Z"
        time.sleep(0.05)
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 'late'})")
        self.create(server)
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 'live'})")
        for arguments, code in (((), "BAK-0401"), (("--replace",), "BAK-0402")):
            self.assertIn(code, self.run_mimeo("restore", self.folder, "--data", server.data, *arguments, expected=1))
        self.assertEqual(server.count("c"), 3)
        copied = self.run_mimeo(
            "restore", self.folder, "--data", server.data, "--database", server.database, "--as", "copy", "--to", point)
        self.assertEqual([part["documents"] for part in copied["databases"]], [1])
        # The running server serves the copy without another word, to whoever has a key for it.
        headers = {"Authorization": f"Bearer {(server.data / 'auth' / 'admin.token').read_text().strip()}", "Content-Type": "application/json"}
        whole = {"read": {"everything": True}, "write": {"everything": False}}
        keys = "/admin/auth/databases/copy/api-keys"
        make = lambda: server.request("POST", keys, json.dumps({"name": "look", "permissions": whole}).encode(), headers)
        made = until(lambda: next((answer.json for answer in [make()] if answer.status == 201), None), 20, "the copy is not served")
        answer = server.request("POST", "/api/v5/store/execute", b'{"statement": "SELECT RAW _id FROM c"}', {"Authorization": f"Bearer {made['key']}", "Content-Type": "application/json"})
        self.assertEqual(answer.json["items"], ["early"])
        # The id of a deleted database is not used again, and nothing is written for it.
        self.assertEqual(server.request("DELETE", "/admin/auth/databases/copy", None, headers).status, 202)
        refused = self.run_mimeo("restore", self.folder, "--data", server.data, "--database", server.database, "--as", "copy", expected=2)
        self.assertIn("which is never used again", refused)
        server.stop()
        self.run_mimeo("restore", self.folder, "--data", server.data, "--replace", "--dry-run")
        # In place: the key that the backup has is there already.
        self.restore(server, "--replace", "--to", point)
        # The services had folded more than the log has now: an operator has to say that this is meant.
        server = OneProcess(self.workspace, extra_arguments=["--accept-restore"])
        server.start()
        self.assertEqual([row["_id"] for row in server.query("SELECT * FROM c")], ["early"])

    def test_a_backup_that_is_killed_leaves_none_that_is_listed_and_broken(self):
        server = OneProcess(self.workspace).start()
        for number in range(20):
            server.execute(f"INSERT INTO c DOCUMENTS ({{'_id': {number}}})")
            server.upload(f"blob {number}".encode() * 1000)
        started = time.monotonic()
        self.create(server)
        seconds = time.monotonic() - started
        draw = random.Random(SEED)
        arguments = [binary("mimeo"), "backup", "create", "--data", server.data, "--to", self.folder, "--attachments",
                     server.data / "attachments", "--passphrase-file", self.passphrase]
        listed = 0
        for number in range(KILLS):
            process = self.workspace.start(f"backup-{number}", arguments + ["--incremental"] * (number % 2))
            time.sleep(draw.uniform(0.2, 1.1) * seconds)
            process.kill()
            answers = [json.loads(line) for line in mimeo("backup", "list", self.folder).stdout.splitlines()]
            self.assertTrue(all("error" not in answer for answer in answers), answers)
            listed = len(answers)
        self.create(server)
        self.run_mimeo("backup", "verify", self.folder)
        self.assertEqual(
            [path.name for path in self.folder.iterdir() if path.name.startswith(".")], [".lock"])
        removed = self.run_mimeo("backup", "prune", self.folder, "--keep-last", "1")["removed"]
        self.run_mimeo("backup", "verify", self.folder)
        report(f"{KILLS} backups killed, {listed} listed and whole, {len(removed)} pruned")


class AtThreePoints(BackupTest):
    """Three backups under load, each restored elsewhere, into the other kind of log, and compared by digest."""

    def back_up_three_times(self, server, folder, log):
        is_over = threading.Event()
        writer = threading.Thread(target=Backups.write_until, args=(server, is_over))
        writer.start()
        made = []
        try:
            for number in range(3):
                time.sleep(0.7)
                made.append(self.run_mimeo(
                    "backup", "create", *log, "--to", folder, *["--incremental"] * (number > 0)))
        finally:
            is_over.set()
            writer.join()
        server.stop()
        counts = [self.of(server, backup)["documents"] for backup in made]
        self.assertTrue(0 < counts[0] < counts[1] < counts[2] < server.written, counts)
        return made

    @staticmethod
    def of(server, answer):
        return next(part for part in answer["databases"] if part["database"] == server.database)

    def compare(self, made, restored, log):
        """A restore's answer, and what its log then has, with the backup's own digests."""
        wanted = sorted((part["database"], part["digest"]) for part in made["databases"])
        self.assertEqual(sorted((part["database"], part["digest"]) for part in restored["databases"]), wanted)
        lines = [json.loads(line) for line in mimeo("verify", *log).stdout.splitlines()]
        self.assertEqual(sorted((line["database"], line["digest"]) for line in lines if "database" in line), wanted)

    def test_from_postgresql_into_files(self):
        self.skip_unless_drawn(0)
        postgres = Postgres(self.workspace).start()
        there = ["--log", postgres.url, "--data", self.workspace.directory / "there"]
        server = OneProcess(self.workspace, extra_arguments=["--log", postgres.url]).start()
        for number, made in enumerate(self.back_up_three_times(server, self.folder, there)):
            here = ["--data", self.workspace.directory / f"here-{number}"]
            self.compare(made, self.run_mimeo("restore", self.folder / made["backup"], *here), here)

    def test_from_a_file_into_postgresql_over_what_is_there(self):
        self.skip_unless_drawn(1)
        postgres = Postgres(self.workspace).start()
        there = ["--log", postgres.url, "--data", self.workspace.directory / "there"]
        server = OneProcess(self.workspace).start()
        made = self.back_up_three_times(server, self.folder, ["--data", server.data])
        self.compare(made[0], self.run_mimeo("restore", self.folder / made[0]["backup"], *there), there)
        for later in made[1:]:
            refused = self.run_mimeo("restore", self.folder / later["backup"], *there, expected=1)
            self.assertIn("BAK-0401", refused)
            self.compare(later, self.run_mimeo("restore", self.folder / later["backup"], *there, "--replace"), there)

    def skip_unless_drawn(self, number):
        if pick(fast=SEED % 2, deep=number) != number:
            raise unittest.SkipTest("the other direction was drawn; in full both are tried")


class FollowedBackups(BackupTest):
    def test_they_show_as_metrics_and_hold_the_log_for_the_next_one(self):
        server = OneProcess(self.workspace, extra_arguments=[
            "--snapshot-operations", "10", "--kept-operations", "0", "--housekeeping-seconds", "1"]).start()

        def metric(name, labels=f'{{database="{server.database}"}}'):
            for line in server.request("GET", "/metrics").body.decode().splitlines():
                if line.startswith(f"{name}{labels} "):
                    return float(line.split()[-1])
            return -1

        def backups():
            return [json.loads(line) for line in mimeo("backup", "list", self.folder).stdout.splitlines()]

        def end(backup):
            return next(part["through"] for part in backup["databases"] if part["database"] == server.database)

        def base(backup):
            return next(part["base"] for part in backup["databases"] if part["database"] == server.database)

        def write(count):
            for _ in range(count):
                server.execute("INSERT INTO c DOCUMENTS ({'n': 1})")

        place = ["--data", server.data, "--to", self.folder]
        write(1)
        self.folder.mkdir()
        follower = self.workspace.start("follow", [binary("mimeo"), "backup", "follow", *place, "--every", "1"])
        until(lambda: metric("mimeo_backup_last_success_timestamp_seconds", '{kind="full"}') > 0, 60, follower.log_tail)
        write(2)
        until(lambda: metric("mimeo_backup_last_size_bytes", '{kind="incremental"}') > 0, 60, follower.log_tail)
        until(lambda: end(backups()[-1]) == 3, 60, lambda: f"{backups()}")
        # The notes alone are no reason for another one.
        count = len(backups())
        time.sleep(3)
        self.assertEqual(len(backups()), count)
        follower.kill()

        write(40)
        until(lambda: metric("mimeo_log_snapshot_offset") >= 30, 60, "no snapshot is written")
        time.sleep(3)
        self.assertLessEqual(metric("mimeo_log_oldest_offset"), 3)
        made = self.run_mimeo("backup", "create", *place, "--incremental", "--quick")
        self.assertEqual((base(made), end(made)), ("parent", 43))
        # That one holds nothing, so the log is truncated as usual.
        write(30)
        until(lambda: metric("mimeo_log_oldest_offset") > 43, 60, "the log is still held")
        made = self.run_mimeo("backup", "create", *place, "--incremental", "--quick")
        self.assertEqual(base(made), "snapshot")
        self.run_mimeo("backup", "verify", self.folder, "--data", server.data)
        until(lambda: metric("mimeo_backup_last_verified_timestamp_seconds", "") > 0, 30, "no check is told")
        self.assertEqual(metric("mimeo_backup_last_failure_timestamp_seconds", ""), -1)
        file = self.folder / made["backup"] / f"log-{server.database}.bin"
        file.write_bytes(file.read_bytes()[:-3])
        told = self.run_mimeo("backup", "verify", self.folder, "--data", server.data, expected=1)
        self.assertIn("BAK-0202", told)
        until(lambda: metric("mimeo_backup_last_failure_timestamp_seconds", "") > 0, 30, "no failure is told")


class BackupsInABucket(BackupTest):
    """moto's S3 server checks the signature of every request."""

    def setUp(self):
        super().setUp()
        self.bucket = Bucket(self.workspace)
        self.place = f"s3://{self.bucket.name}/back/ups"
        self.access = ["--endpoint", f"http://127.0.0.1:{self.bucket.port}", "--credentials", self.bucket.credentials]

    def back_up(self, server, *arguments, expected=0):
        return self.run_mimeo(
            "backup", "create", "--data", server.data, "--to", self.place, *self.access, "--attachments",
            server.data / "attachments", "--passphrase-file", self.passphrase, *arguments, expected=expected)

    def test_a_chain_in_a_bucket_is_verified_and_restored_elsewhere(self):
        server = OneProcess(self.workspace).start()
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 'x', 'n': 1})")
        contents = [b"a blob", b"b" * (9 << 20)]
        blobs = [server.upload(content).json["id"] for content in contents]
        first = self.back_up(server)
        server.execute("UPDATE c SET n = 2 WHERE _id = 'x'")
        second = self.back_up(server, "--incremental")
        self.assertEqual((second["kind"], second["continues"]), ("incremental", first["backup"]))
        # The blobs are there once, and nothing waits for its end.
        self.assertEqual(len([key for key in self.bucket.keys if "/blobs/" in key]), 2)
        self.assertEqual((self.bucket.unfinished, [key for key in self.bucket.keys if "/turn/" in key]), ([], []))
        listed = mimeo("backup", "list", self.place, *self.access).stdout.splitlines()
        self.assertEqual([json.loads(line)["backup"] for line in listed], [first["backup"], second["backup"]])
        verified = self.run_mimeo("backup", "verify", self.place, *self.access)
        self.assertEqual((verified["backup"], verified["verified"]), (second["backup"], True))
        server.stop()
        for name, made, n in (("newest", None, 2), ("first", first["backup"], 1)):
            other = OneProcess(self.workspace, name)
            restored = self.run_mimeo(
                "restore", self.place + (f"/{made}" if made else ""), *self.access, "--data", other.data, "--attachments",
                other.data / "attachments", "--passphrase-file", self.passphrase)
            wanted = (first if made else second)["databases"]
            self.assertEqual([part["digest"] for part in restored["databases"]], [part["digest"] for part in wanted])
            other.start()
            self.assertEqual(other.query("SELECT n FROM c"), [{"n": n}])
            for blob, content in zip(blobs, contents):
                self.assertEqual(other.download(blob).body, content)
            other.stop()

    @deep_only("a chain in a bucket is verified and restored, and BucketBackupTests alter objects, in make test")
    def test_wrong_credentials_a_bucket_that_is_away_and_an_altered_object_are_told(self):
        server = OneProcess(self.workspace).start()
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 'x'})")
        made = self.back_up(server)
        key = next(key for key in self.bucket.keys if key.endswith(f"log-{server.database}.bin"))
        content = self.bucket.read(key)
        self.bucket.write(key, content[:-9])
        told = self.run_mimeo("backup", "verify", self.place, *self.access, expected=1)
        self.assertIn("BAK-0202", told)
        self.assertIn(f"{made['backup']}/log-{server.database}.bin", told)
        self.bucket.write(key, content)
        self.run_mimeo("backup", "verify", self.place, *self.access)
        secret = self.bucket.credentials.read_text()
        self.bucket.credentials.write_text(secret.split()[0] + "\nwrong\n")
        told = self.back_up(server, "--incremental", expected=1)
        self.assertIn("BAK-0103", told)
        self.assertIn("SignatureDoesNotMatch", told)
        self.bucket.credentials.write_text(secret)
        away = ["--endpoint", "http://127.0.0.1:9", "--credentials", self.bucket.credentials]
        self.assertIn("BAK-0103", self.run_mimeo("backup", "list", self.place, *away, expected=1))
        self.assertIn("CLI-0101", self.run_mimeo("backup", "list", self.place, expected=2))
        self.back_up(server, "--incremental")
        self.run_mimeo("backup", "verify", self.place, *self.access)
