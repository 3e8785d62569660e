"""The life of `mimeo serve`: what it prints, how it ends, what it costs at rest."""

import contextlib
import os
import pathlib
import resource
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.parse

from mimeo_harness import FourProcesses, OneProcess, Peer, WebSocket, binary, free_port, mimeo, pick, until
from mimeo_harness.disk import FaultyFolder
from system_test import SystemTest, report

IDLE_SECONDS = 10
IDLE_RATIO_BOUND = 0.05
"""Ten times the goal of 0.5 % of a core: other work on the machine must not fail this; the figure is reported."""


@contextlib.contextmanager
def few_files(count):
    """Processes that are started meanwhile may open so many files, unless they ask for more."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


class Lifetime(SystemTest):
    def test_the_same_database_after_every_restart(self):
        """Id, address and token stay, also after kill -9, and so do the documents."""
        server = OneProcess(self.workspace).start()
        first = (server.announced_url, server.database, server.token)
        self.assertEqual(urllib.parse.urlsplit(server.announced_url).port, server.port)
        server.execute("INSERT INTO cars DOCUMENTS ({'_id': '1'})")
        self.assertEqual(server.stop(), 0)
        server.start()
        self.assertEqual((server.announced_url, server.database, server.token), first)
        server.kill()
        server.start()
        self.assertEqual((server.announced_url, server.database, server.token), first)
        self.assertEqual(server.query("SELECT * FROM cars"), [{"_id": "1"}])

    def test_an_interrupt_a_termination_and_a_hangup_end_it_cleanly(self):
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(sent):
                server = OneProcess(self.workspace, sent.name.lower()).start()
                self.assertEqual(server.stop(sent), 0, server.process.log_tail())

    def test_it_may_open_as_many_files_as_the_system_lets_it(self):
        """A session is a file, and shells begin with 1,024."""
        with few_files(512) as most:
            for server in (OneProcess(self.workspace), FourProcesses(self.workspace)):
                server.start()
                for name in server.own_origins():
                    limits = pathlib.Path(f"/proc/{server.processes[name].pid}/limits").read_text(encoding="ascii")
                    line = next(line for line in limits.splitlines() if line.startswith("Max open files"))
                    with self.subTest(name):
                        self.assertEqual(line.split()[3:5], [str(most)] * 2, name)
                server.stop()

    def test_a_port_in_use_is_a_clear_error(self):
        server = OneProcess(self.workspace).start()
        run = subprocess.run(
            [binary("mimeo"), "serve", "--data", self.workspace.directory / "second", "--listen",
             f"127.0.0.1:{server.port}"], capture_output=True, text=True, timeout=30, check=False)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn(str(server.port), run.stderr)
        self.assertRegex(run.stderr.lower(), "in use")

    def test_a_second_server_on_the_same_data_folder_does_no_harm(self):
        """Either it is refused or both work; the documents stay whole."""
        server = OneProcess(self.workspace).start()
        second = self.workspace.start("second", [
            binary("mimeo"), "serve", "--data", server.data, "--listen", f"127.0.0.1:{free_port()}"])
        second.line(2, 10)
        server.execute("INSERT INTO cars DOCUMENTS ({'_id': '1'})")
        second.kill()
        self.assertEqual(server.query("SELECT * FROM cars"), [{"_id": "1"}])

    def test_secrets_are_for_their_owner_only(self):
        server = OneProcess(self.workspace).start()
        self.assertEqual((server.data / "auth").stat().st_mode & 0o777, 0o700)
        self.assertNotIn(server.token, server.process.log_path.read_text())


class Crash(SystemTest):
    """A crash ends a process at once: nobody waits for a backtrace on its open sockets."""

    GONE_SECONDS = pick(fast=60, deep=5)
    """A backtrace takes ten seconds and more, on a busy machine minutes. The goal is one second; it is reported."""

    def crash(self, process, address, sent):
        with socket.create_connection(address, timeout=30) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertTrue(client.recv(1))
            began = time.monotonic()
            os.kill(process.pid, sent)
            self.assertEqual(process.wait(self.GONE_SECONDS), -sent, process.log_tail())
            report(f"{process.name} is gone {1000 * (time.monotonic() - began):.0f} ms after {sent.name}")
            with contextlib.suppress(ConnectionResetError):
                while client.recv(1 << 16):
                    pass
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(address, timeout=30)
        self.assertNotIn("Backtrace", process.log_path.read_text())
        last = process.log_tail(1)
        self.assertRegex(last, rf"^mimeo \d+\.\d+\.\d+.*: ended by {sent.name}$", process.log_tail())

    def test_one_process_is_gone_at_once_and_says_by_which_signal(self):
        server = OneProcess(self.workspace)
        for sent in (signal.SIGSEGV, signal.SIGILL, signal.SIGABRT):
            with self.subTest(sent.name):
                server.start()
                self.crash(server.process, server.address, sent)

    def test_each_of_four_services_is_gone_at_once(self):
        cluster = FourProcesses(self.workspace).start()
        for service in FourProcesses.services:
            with self.subTest(service):
                self.crash(cluster.processes[service], cluster.address_of(service), signal.SIGILL)


class Observability(SystemTest):
    def check(self, client, name):
        with self.subTest(name):
            self.assertEqual(client.request("GET", "/health").status, 200)
            metrics = client.request("GET", "/metrics")
            self.assertEqual(metrics.status, 200)
            self.assertIn("text/plain", metrics.headers["Content-Type"])
            self.assertRegex(metrics.body.decode(), r"(?m)^[a-z_]+(\{[^}]*\})? [0-9.e+-]+$")

    def test_one_process_answers_for_all_and_for_each(self):
        server = OneProcess(self.workspace).start()
        self.check(server, "mimeo")
        for service in FourProcesses.services:
            self.assertEqual(server.request("GET", f"/admin/{service}/health").status, 200, service)

    def test_each_of_four_processes_answers_for_itself_and_behind_nginx(self):
        cluster = FourProcesses(self.workspace).start()
        for service, client in cluster.own_origins().items():
            self.check(client, service)
            self.assertEqual(cluster.request("GET", f"/admin/{service}/health").status, 200, service)
        codes = cluster.stop()
        self.assertEqual(set(codes.values()), {0}, codes)


class Rest(SystemTest):
    def measure(self, server):
        processes = [process for name, process in server.processes.items() if name != "nginx"]
        for _ in range(3):
            time.sleep(2)  # what starting left over
            before = sum(process.processor_seconds() for process in processes)
            time.sleep(IDLE_SECONDS)
            ratio = (sum(process.processor_seconds() for process in processes) - before) / IDLE_SECONDS
            if ratio < IDLE_RATIO_BOUND:
                break
        report(f"{len(processes)} idle process(es) use {100 * ratio:.2f} % of a core over {IDLE_SECONDS} s")
        self.assertLess(ratio, IDLE_RATIO_BOUND)

    def test_an_idle_server_rests(self):
        self.measure(OneProcess(self.workspace).start())

    def test_four_idle_processes_rest(self):
        self.measure(FourProcesses(self.workspace).start())


class Unopenable(SystemTest):
    """What is in the way of a database's folder keeps sessions and statements out, with a reason, until it is gone."""

    def test_a_session_is_told_why_and_comes_back_by_itself(self):
        server = OneProcess(self.workspace).start()
        server.execute("INSERT INTO cars DOCUMENTS ({'_id': 1})")
        server.stop()
        folder = server.data / "replicator" / server.database
        shutil.rmtree(folder, ignore_errors=True)
        folder.write_text("not a folder")
        server.start()
        with WebSocket(server.address, "/_ditto/sync", {**server.authorization(),
                                                        "Sec-WebSocket-Protocol": "mimeo.sync.1"}) as connection:
            self.assertEqual(connection.status, 101)
            opcode, reason = connection.receive()
            self.assertEqual((opcode, reason), (8, struct.pack("!H", 1011) + b"SYNC-0501"))
        peer = Peer(self.workspace, "a", server, ["SELECT * FROM cars"])
        # One fold serves all: statements say so too, and the server's health.
        answer = server.post_statement("SELECT * FROM cars")
        self.assertEqual((answer.status, answer.error["code"]), (503, "QUERY-0304"), answer.body)
        self.assertEqual(peer.count("cars"), 0)
        folder.unlink()
        until(lambda: server.post_statement("SELECT * FROM cars").status == 200, 60, "statements run again")
        self.assertEqual(server.query("SELECT * FROM cars"), [{"_id": 1}])
        until(lambda: peer.count("cars") == 1, 60, "the peer to come back")


class Stopping(SystemTest):
    """A stop while the disk does not answer: a write stands still, and with it the fold that waits for it."""

    FOREVER_MILLISECONDS = 3_600_000

    def standing_still(self, *arguments):
        """A server with one document whose next write does not end."""
        disk = FaultyFolder(self.workspace, self.workspace.directory / "server")
        server = OneProcess(self.workspace, extra_arguments=arguments).start()
        server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'kept'})")
        disk.be_slow(self.FOREVER_MILLISECONDS)
        written = server.data / "log.sqlite-wal"
        before = written.stat().st_mtime_ns
        threading.Thread(target=self.write, args=(server,), daemon=True).start()
        # The sync is the next step.
        until(lambda: written.stat().st_mtime_ns != before, 30, "nothing is written")
        return server, disk

    def write(self, server):
        with contextlib.suppress(OSError):
            server.post_statement("INSERT INTO cars DOCUMENTS ({'_id': 'unheard'})")

    def is_stopping(self, server):
        try:
            socket.create_connection(server.address, timeout=30).close()
        except ConnectionRefusedError:
            return True
        return False

    def assert_kept(self, server, disk):
        disk.be_well()
        server.start()
        self.assertIn("kept", [row["_id"] for row in server.query("SELECT _id FROM cars")])

    def test_the_process_ends_though_its_stop_stands_still_and_nothing_is_lost(self):
        server, disk = self.standing_still("--stop-seconds", "1")
        self.assertEqual(server.stop(signal.SIGTERM), 1)
        self.assertIn("it had not stopped 6 s after it was asked to", server.process.log_tail())
        self.assert_kept(server, disk)

    def test_a_second_signal_ends_the_process_at_once(self):
        server, disk = self.standing_still("--stop-seconds", "3600")
        os.kill(server.process.pid, signal.SIGTERM)
        until(lambda: self.is_stopping(server), 30, "it does not begin to stop")
        self.assertEqual(server.stop(signal.SIGTERM), 128 + signal.SIGTERM)
        self.assertIn("a second signal", server.process.log_tail())
        self.assert_kept(server, disk)


class Restart(SystemTest):
    """Commands without an address find the server of ./mimeo-data, also right after it came back."""

    WRITERS = 10

    def serve(self):
        arguments = [binary("mimeo"), "serve", "--listen", "127.0.0.1:0"]
        process = self.workspace.start("server", arguments)
        self.assertIsNotNone(process.line(2, 60), process.log_tail())
        return process

    def write(self, name):
        return subprocess.Popen(
            [binary("mimeo"), "dql", f"INSERT INTO cars DOCUMENTS ({{'_id': '{name}'}})"], cwd=self.workspace.directory,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def test_ten_writers_at_once_find_the_server_after_a_stop_and_after_a_kill(self):
        process, names = self.serve(), []
        for end in (lambda: process.stop(signal.SIGTERM), lambda: process.kill(), lambda: process.stop()):
            end()
            process = self.serve()
            batch = [f"{len(names) + number}" for number in range(self.WRITERS)]
            writers = [self.write(name) for name in batch]
            for writer in writers:
                said, _ = writer.communicate(timeout=60)
                self.assertEqual(writer.returncode, 0, said)
            names += batch
        counted = mimeo("dql", "SELECT COUNT(*) AS n FROM cars", cwd=self.workspace.directory)
        self.assertIn(str(len(names)), counted.stdout)
