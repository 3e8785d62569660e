"""A disk that is full, fails, is read-only, slow or stands still: refused with a reason, reads go on, and when it is well
again everything goes on without a restart.

Log, projection and attachments each have a small file system of their own in memory; a file in it takes the space away
and gives it back. A library between the server and the system makes a disk read-only or slow beneath open files.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import threading
import unittest

from mimeo_harness import FourProcesses, OneProcess, Peer, Postgres, mimeo, pick, until
from mimeo_harness.disk import FaultyFolder
from system_test import SystemTest

SPACE_KIB = 12 * 1024
LEFT_KIB = 400
"""What is left when a disk is about to be full: some documents, but soon not one more."""


class SmallDisk:
    """A folder with a file system of its own that holds `SPACE_KIB`."""

    def __init__(self, workspace, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._ballast = folder / "ballast"
        options = f"size={SPACE_KIB}k,mode=0700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True, timeout=30)
        workspace.on_close(lambda: subprocess.run(["umount", "-l", folder], check=False, timeout=30))

    @property
    def free_kib(self):
        state = os.statvfs(self.folder)
        return state.f_bavail * state.f_frsize // 1024

    def fill(self, left_kib=LEFT_KIB):
        with open(self._ballast, "wb") as ballast:
            ballast.write(bytes(max(0, self.free_kib - left_kib) * 1024))

    def clear(self):
        self._ballast.unlink()


class DiskFull(SystemTest):
    seconds = 240

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root may mount a small file system")

    def start(self, disk=None, log=None, reserve=0):
        """A cluster whose data folder has a small disk at `disk`, or the log in it.

        Without a reserve: these tests are about a disk that is full, not nearly.
        """
        cluster = FourProcesses(self.workspace, log=f"sqlite:{log}" if log else None)
        for service in cluster.services:
            cluster.extra_arguments[service] = ["--disk-reserve-percent", str(reserve)]
        small = SmallDisk(self.workspace, cluster.data / disk)
        return cluster.start(), small

    def insert(self, server, name, kib=20):
        # Nothing that could be compressed away.
        text = random.Random(name).randbytes(kib * 512).hex()
        return server.post_statement("INSERT INTO cars DOCUMENTS (:car)", {"car": {"_id": name, "t": text}}, seconds=30)

    def insert_until_refused(self, server):
        """The ids that were taken, and the first answer that was no."""
        taken = []
        for number in range(300):
            answer = self.insert(server, f"full-{number}")
            if answer.status != 200:
                return taken, answer
            taken.append(f"full-{number}")
        self.fail("the disk was never full")

    def test_a_full_log_refuses_writes_serves_reads_and_goes_on_when_there_is_space(self):
        log = self.workspace.directory / "cluster" / "log" / "log.sqlite"
        server, disk = self.start("log", log)
        peer = Peer(self.workspace, "a", server, ["SELECT * FROM cars"])
        self.assertEqual(self.insert(server, "first").status, 200)
        disk.fill()
        taken, refusal = self.insert_until_refused(server)
        self.assert_refused(refusal, 503)
        self.assertIn("LOG-0301", refusal.error["message"])
        self.assertEqual(self.ids(server), sorted(["first", *taken]))
        commit = peer.execute("INSERT INTO cars DOCUMENTS (:car)".replace(
            ":car", "{'_id': 'local', 't': '" + "x" * 50_000 + "'}"))["commitID"]
        self.assertIn("local", self.ids(peer))
        disk.clear()
        peer.wait_for_commit(commit, 60)
        until(lambda: self.insert(server, "last").status == 200, 90, "writes are still refused")
        expected = sorted(["first", "last", "local", *taken])
        for side in (server, peer):
            until(lambda: self.ids(side) == expected, 90, lambda: f"{self.ids(side)}, not {expected}")

    def test_a_nearly_full_disk_refuses_writes_keeps_the_reserve_says_so_and_goes_on_by_itself(self):
        log = self.workspace.directory / "cluster" / "log" / "log.sqlite"
        server, disk = self.start("log", log, reserve=20)
        kept = server.upload(b"kept").json
        disk.fill(left_kib=SPACE_KIB // 4)
        taken, refusal = self.insert_until_refused(server)
        self.assert_refused(refusal, 503)
        self.assertIn("LOG-0310", refusal.error["message"])
        self.assertGreater(disk.free_kib, SPACE_KIB // 10)
        self.assertEqual(self.ids(server), sorted(taken))
        self.assertEqual(server.download(kept["id"]).body, b"kept")
        self.assert_refused(server.upload(b"more"), 507)
        token = (server.data / "auth" / "admin.token").read_text().strip()
        revoked = server.request(
            "POST", f"/admin/auth/databases/{server.database}/revocations", {"kind": "user", "value": "eve"},
            {"Authorization": f"Bearer {token}"})
        self.assertEqual(revoked.status, 201, revoked.body)
        for service in server.services:
            health = server.client_of(service).request("GET", "/health")
            self.assertEqual((health.status, b"LOG-0310" in health.body), (503, True), health.body)
        metrics = server.client_of("query-service").request("GET", "/metrics").body.decode()
        self.assertIn("disk_nearly_full 1", metrics)
        disk.clear()
        until(lambda: self.insert(server, "last").status == 200, 30, "writes are still refused")
        until(lambda: self.is_well(server.client_of("replicator")), 30, "it is not healthy again")

    def test_a_full_tablespace_of_postgresql_refuses_writes_serves_reads_and_goes_on(self):
        postgres = Postgres(self.workspace).start()
        disk = SmallDisk(self.workspace, self.workspace.directory / "tablespace")
        shutil.chown(disk.folder, "postgres", "postgres")
        postgres.query(f"CREATE TABLESPACE small LOCATION '{disk.folder}'")
        postgres.query("ALTER SYSTEM SET default_tablespace = small")
        postgres.query("SELECT pg_reload_conf()")
        server = FourProcesses(self.workspace, log=postgres.url).start()
        self.assertEqual(self.insert(server, "first").status, 200)
        disk.fill()
        taken, refusal = self.insert_until_refused(server)
        self.assert_refused(refusal, 503)
        self.assertIn("LOG-0301", refusal.error["message"])
        self.assertEqual(self.ids(server), sorted(["first", *taken]))
        disk.clear()
        until(lambda: self.insert(server, "last").status == 200, 90, "writes are still refused")
        self.assertEqual(self.ids(server), sorted(["first", "last", *taken]))

    def test_a_full_projection_says_so_holds_up_nobody_else_and_catches_up_when_there_is_space(self):
        """It answers at the log's head or not at all: an older state would hide writes that were acknowledged."""
        server, disk = self.start("query")
        self.assertEqual(self.insert(server, "first").status, 200)
        disk.fill(left_kib=100)
        writer, reader = (Peer(self.workspace, name, server, ["SELECT * FROM cars"]) for name in "ab")
        for number in range(40):
            statement = f"INSERT INTO cars DOCUMENTS ({{'_id': 'p-{number}', 't': '{'x' * 20_000}'}})"
            commit = writer.execute(statement)["commitID"]
        writer.wait_for_commit(commit, 60)
        expected = sorted(["first", *(f"p-{number}" for number in range(40))])
        until(lambda: self.ids(reader) == expected, 90, lambda: f"{len(self.ids(reader))} of {len(expected)}")
        self.assert_refused(server.post_statement("SELECT _id FROM cars", seconds=30), 503)
        health = server.client_of("query-service").request("GET", "/health", seconds=10)
        self.assertEqual(health.status, 503, health.body)
        disk.clear()
        until(lambda: self.is_well(server.client_of("query-service")), 60, "the query-service is not healthy again")
        self.assertEqual(self.ids(server), expected)
        self.assertEqual(self.insert(server, "last").status, 200)

    def test_a_full_attachment_store_keeps_what_it_has_and_nothing_half(self):
        server, disk = self.start("attachments")
        first = server.upload(os.urandom(100_000)).json
        disk.fill()
        before = disk.free_kib
        refusal = server.upload(os.urandom(2_000_000))
        self.assert_refused(refusal, 507)
        self.assertEqual(server.download(first["id"]).status, 200)
        until(lambda: disk.free_kib >= before - 8, 10, lambda: f"{before - disk.free_kib} KiB of it stayed")
        disk.clear()
        content = os.urandom(2_000_000)
        answer = server.upload(content)
        self.assertEqual(answer.status, 200, answer.body)
        self.assertEqual(server.download(answer.json["id"]).body, content)

    @staticmethod
    def is_well(client):
        return client.request("GET", "/health", seconds=10).status == 200

    @staticmethod
    def ids(side):
        return sorted(item["_id"] for item in side.query("SELECT _id FROM cars"))


class DiskFails(SystemTest):
    """A thinly provisioned disk whose pool is full: a file system that has room, and whose syncs fail.

    The file system is on a loop device, its image in a small file system in memory. What a failed sync leaves is in the
    kernel's cache and not on the disk.
    """

    seconds = 120

    def test_a_failed_commit_is_recovered_from_without_a_restart(self):
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root may mount a file system")
        pool = SmallDisk(self.workspace, self.workspace.directory / "pool")
        folder, image = self.workspace.directory / "server", pool.folder / "image"
        folder.mkdir()
        subprocess.run(["truncate", "-s", "200M", image], check=True)
        # Without a journal, which would make the file system read-only for good.
        subprocess.run(["mkfs.ext4", "-q", "-O", "^has_journal", image], check=True, timeout=60)
        self.mount(image, folder)
        server = OneProcess(self.workspace).start()
        peer = Peer(self.workspace, "a", server, ["SELECT * FROM cars"])
        text = random.Random(0).randbytes(20_000).hex()

        def insert(name):
            return server.post_statement("INSERT INTO cars DOCUMENTS (:car)", {"car": {"_id": name, "t": text}}, seconds=30)

        taken = ["first"]
        self.assertEqual(insert("first").status, 200)
        pool.fill(left_kib=0)
        for number in range(200):
            refusal = insert(f"d-{number}")
            if refusal.status != 200:
                break
            taken.append(f"d-{number}")
        self.assert_refused(refusal, 503)
        self.assertRegex(refusal.error["message"], "LOG-030[34]")
        refused = insert("later")
        self.assert_refused(refused, 503)
        self.assertIn("LOG-0304", refused.body.decode())
        ready = server.request("GET", "/health/ready")
        self.assertEqual(ready.status, 503)
        self.assertIn("LOG-0304", [row["code"] for row in ready.json["reasons"]])
        self.assertIn("\nmimeo_log_refusing 1", server.request("GET", "/metrics").body.decode())
        commit = peer.execute(f"INSERT INTO cars DOCUMENTS ({{'_id': 'local', 't': '{text}'}})")["commitID"]
        pool.clear()
        until(lambda: server.request("GET", "/health/ready").status == 200, 60, "it is not ready again")
        peer.wait_for_commit(commit, 60)
        self.assertEqual(insert("last").status, 200)
        # The write whose outcome nobody knew is repeated: it is there once.
        server.execute("INSERT INTO cars DOCUMENTS (:car) ON ID CONFLICT DO NOTHING", {"car": {"_id": f"d-{number}"}})
        expected = sorted([*taken, "local", "last", f"d-{number}"])
        self.assertEqual(self.ids(server), expected)
        self.assertRegex(server.request("GET", "/metrics").body.decode(), r"\nmimeo_log_recoveries_total [1-9]")
        # What the kernel has in its cache does not count: the disk has it.
        server.kill()
        subprocess.run(["umount", folder], check=True, timeout=60)
        self.mount(image, folder)
        server.start()
        self.assertEqual(self.ids(server), expected)
        until(lambda: self.ids(peer) == expected, 60, lambda: f"{self.ids(peer)}")

    def mount(self, image, folder):
        if subprocess.run(["mount", "-o", "loop,errors=continue", image, folder], check=False, timeout=60).returncode:
            raise unittest.SkipTest("there is no loop device")
        self.workspace.on_close(
            lambda: subprocess.run(["umount", "-l", folder], check=False, timeout=30, capture_output=True))

    @staticmethod
    def ids(side):
        return sorted(item["_id"] for item in side.query("SELECT _id FROM cars"))


def findings(server):
    """Codes of `mimeo doctor` and its messages."""
    told = json.loads(mimeo("doctor", "--json", "--data", server.data).stdout)
    return {finding["code"]: finding["message"] for finding in told["findings"]}


def metric(server, name):
    lines = server.request("GET", "/metrics").body.decode().splitlines()
    return float(next(line for line in lines if line.startswith(name)).split()[-1])


class DiskChanges(SystemTest):
    """A disk that becomes read-only, or slow, and well again beneath the open files of a server."""

    seconds = 120

    def setUp(self):
        super().setUp()
        self.disk = FaultyFolder(self.workspace, self.workspace.directory / "server")
        self.server = OneProcess(self.workspace).start()

    def insert(self, name):
        return self.server.post_statement("INSERT INTO cars DOCUMENTS (:car)", {"car": {"_id": name}}, seconds=60)

    def health(self):
        answer = self.server.request("GET", "/health")
        return answer.status, answer.body.decode()

    def reasons(self):
        return {row["code"] for row in self.server.request("GET", "/health/ready").json["reasons"]}

    def ids(self, side):
        return sorted(row["_id"] for row in side.query("SELECT _id FROM cars"))

    def test_a_read_only_disk_refuses_writes_says_so_and_is_used_again_by_itself(self):
        server = self.server
        peer = Peer(self.workspace, "a", server, ["SELECT * FROM cars"])
        self.assertEqual(self.insert("first").status, 200)
        blob = server.upload(b"kept").json["id"]
        until(lambda: self.ids(peer) == ["first"], 30, "the peer has nothing")
        self.disk.be_read_only()
        refusal = self.insert("refused")
        self.assert_refused(refusal, 503)
        self.assertRegex(refusal.error["message"], "LOG-030[347]")
        until(lambda: "LOG-0304" in self.reasons(), 30, lambda: f"{self.reasons()}")
        self.assertIn("SRV-0203", self.reasons())
        self.assertEqual(self.health()[0], 503)
        self.assertEqual(metric(server, "mimeo_log_refusing"), 1)
        self.assertIn("read-only", findings(server)["DOC-0206"])
        self.assertGreaterEqual(server.upload(b"more").status, 500)
        # What is there is read, and a device goes on by itself.
        self.assertEqual((self.ids(server), server.download(blob).body), (["first"], b"kept"))
        commit = peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'local'})")["commitID"]
        self.disk.be_well()
        until(lambda: self.reasons() == set(), 60, lambda: f"{self.reasons()}")
        peer.wait_for_commit(commit, 60)
        until(lambda: self.insert("last").status == 200, 30, "writes are still refused")
        self.assertEqual(server.upload(b"more").status, 200)
        until(lambda: self.health()[0] == 200, 30, lambda: self.health()[1])
        self.assertGreaterEqual(metric(server, "mimeo_log_recoveries_total"), 1)
        for side in (server, peer):
            until(lambda: self.ids(side) == ["first", "last", "local"], 60, lambda: f"{self.ids(side)}")
        self.assertEqual(server.stop(), 0)
        server.start()
        self.assertEqual(self.ids(server), ["first", "last", "local"])

    def test_a_slow_disk_is_told_refuses_nothing_and_is_well_again_with_faster_commits(self):
        if not pick(fast=False, deep=True):
            raise unittest.SkipTest("in full only; StorageTests have storage that is slow in make test")
        taken = []

        def told():
            """What health says after one more write, which is taken."""
            taken.append(f"c-{len(taken):02}")
            self.assertEqual(self.insert(taken[-1]).status, 200)
            return self.health()

        self.assertEqual(told()[0], 200)
        self.disk.be_slow(1_100)
        until(lambda: "SRV-0205" in told()[1], 60, lambda: f"{self.health()}")
        self.assertEqual((self.health()[0], self.reasons()), (503, set()))
        self.assertGreater(metric(self.server, "mimeo_log_append_duration_seconds_sum"), 5)
        self.assertIn("a sync to the disk takes", findings(self.server)["DOC-0205"])
        self.disk.be_well()
        until(lambda: told()[0] == 200, 60, lambda: f"{self.health()}")
        self.assertEqual(self.ids(self.server), taken)


class DiskTurnsReadOnly(SystemTest):
    """A file system that makes itself read-only after an error, as ext4 does: for good, until it is mounted again."""

    seconds = 120

    def test_it_is_told_reads_go_on_and_after_a_new_mount_everything_acknowledged_is_there(self):
        if not pick(fast=False, deep=True):
            raise unittest.SkipTest("in full only; DiskChanges has a read-only disk in make test")
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root may mount a file system")
        folder, image = self.workspace.directory / "server", self.workspace.directory / "image"
        folder.mkdir()
        subprocess.run(["truncate", "-s", "200M", image], check=True)
        subprocess.run(["mkfs.ext4", "-q", image], check=True, timeout=60)
        mount = ["mount", "-o", "loop,errors=remount-ro", image, folder]
        if subprocess.run(mount, check=False, timeout=60).returncode:
            raise unittest.SkipTest("there is no loop device")
        self.workspace.on_close(
            lambda: subprocess.run(["umount", "-l", folder], check=False, timeout=30, capture_output=True))
        source = subprocess.run(
            ["findmnt", "-no", "SOURCE", folder], check=True, capture_output=True, text=True).stdout.strip()
        trigger = pathlib.Path("/sys/fs/ext4") / pathlib.Path(source).name / "trigger_fs_error"
        if not trigger.exists():
            raise unittest.SkipTest("this kernel makes no error for a test")
        server = OneProcess(self.workspace).start()
        self.assertEqual(server.post_statement("INSERT INTO cars DOCUMENTS ({'_id': 'first'})").status, 200)
        trigger.write_text("a test")
        refusal = server.post_statement("INSERT INTO cars DOCUMENTS ({'_id': 'refused'})")
        self.assert_refused(refusal, 503)
        self.assertIn("LOG-03", refusal.error["message"])
        until(lambda: server.request("GET", "/health/ready").status == 503, 30, "it says that it is ready")
        self.assertEqual(metric(server, "mimeo_log_refusing"), 1)
        self.assertIn("DOC-0206", findings(server))
        self.assertEqual(server.query("SELECT _id FROM cars"), [{"_id": "first"}])
        server.stop()
        subprocess.run(["umount", folder], check=True, timeout=60)
        subprocess.run(["e2fsck", "-p", image], check=False, timeout=60, capture_output=True)
        subprocess.run(mount, check=True, timeout=60)
        server.start()
        self.assertEqual(server.query("SELECT _id FROM cars"), [{"_id": "first"}])
        self.assertEqual(server.post_statement("INSERT INTO cars DOCUMENTS ({'_id': 'last'})").status, 200)


class DiskStandsStill(SystemTest):
    """A file system of its own on a loop device, which is frozen: calls that write wait, none fails."""

    def test_it_is_told_and_everything_goes_on_without_a_restart(self):
        if not pick(fast=False, deep=True):
            raise unittest.SkipTest("in full only: it waits for half a minute")
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root may freeze a file system")
        folder, image = self.workspace.directory / "server", self.workspace.directory / "image"
        folder.mkdir()
        subprocess.run(["truncate", "-s", "200M", image], check=True)
        subprocess.run(["mkfs.ext4", "-q", image], check=True, timeout=60)
        if subprocess.run(["mount", "-o", "loop", image, folder], check=False, timeout=60).returncode:
            raise unittest.SkipTest("there is no loop device")
        self.workspace.on_close(lambda: subprocess.run(["umount", "-l", folder], check=False, timeout=30))
        server = OneProcess(self.workspace).start()
        server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
        subprocess.run(["fsfreeze", "-f", folder], check=True, timeout=30)
        self.addCleanup(subprocess.run, ["fsfreeze", "-u", folder], check=False, timeout=30)
        answers = []
        waiting = threading.Thread(
            target=lambda: answers.append(server.post_statement("INSERT INTO cars DOCUMENTS ({'_id': 'b'})", seconds=120)))
        waiting.start()

        def reasons():
            return [row["code"] for row in server.request("GET", "/health/ready").json["reasons"]]

        until(lambda: "LOG-0311" in reasons(), 30, lambda: f"{reasons()}")
        self.assertEqual(server.request("GET", "/health").status, 503)
        age = next(line for line in server.request("GET", "/metrics").body.decode().splitlines()
                   if line.startswith("mimeo_log_append_age_seconds"))
        self.assertGreaterEqual(float(age.split()[1]), 5)

        def refusal():
            answer = server.post_statement("INSERT INTO cars DOCUMENTS ({'_id': 'c'})", seconds=5)
            return answer.status == 503 and "LOG-0311" in answer.body.decode()

        def refused():
            try:
                return refusal()
            except OSError:
                return False

        until(refused, 60, "later writes are not refused")
        subprocess.run(["fsfreeze", "-u", folder], check=True, timeout=30)
        waiting.join(60)
        until(lambda: reasons() == [], 30, lambda: f"{reasons()}")
        server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'd'})")
        # It waited as long as a statement may, or for the disk: an answer either way, and a true one.
        self.assertIn(answers[0].status, (200, 400, 503), answers[0].body)
        found = [row["_id"] for row in server.query("SELECT _id FROM cars ORDER BY _id")]
        self.assertEqual(found, ["a", *["b"] * (answers[0].status == 200), "d"], answers[0].body)
