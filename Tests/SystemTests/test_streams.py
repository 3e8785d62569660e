"""Live queries and changes through real processes and clients: sockets, curl, urllib, the command line."""

import concurrent.futures
import json
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request

from mimeo_harness import IS_DEEP, FourProcesses, OneProcess, binary, mimeo, pick, until
from system_test import SystemTest

OBSERVE = "/api/v5/store/observe"
CHANGES = "/api/v5/changes"
IMPORT = "/api/v5/store/import?statement=INSERT+INTO+c+DOCUMENTS+(:documents)+ON+ID+CONFLICT+DO+NOTHING"
LINES = {"Accept": "application/x-ndjson"}


def resident(server):
    """Bytes of the server's own memory."""
    text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+)", text)[1]) << 10


def content(chunks):
    """The parts of a body in chunks; it has its end."""
    place = 0
    while True:
        line = chunks.index(b"\r\n", place)
        size = int(chunks[place:line], 16)
        if size == 0:
            return
        yield chunks[line + 2:line + 2 + size]
        place = line + 2 + size + 2


class Stream:
    """An open stream of JSON lines; `close` cuts it at any byte."""

    def __init__(self, server, path, body=None, headers=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            server.origin + path, data=data, headers={**server.authorization(), **LINES, **(headers or {})})
        self.answer = urllib.request.urlopen(request, timeout=60)

    def lines(self):
        for line in self.answer:
            if line.strip():
                yield json.loads(line)

    def take(self, count):
        taken = []
        for line in self.lines():
            taken.append(line)
            if len(taken) == count:
                break
        return taken

    def close(self):
        self.answer.close()


class OneServer(SystemTest):
    def setUp(self):
        super().setUp()
        self.server = OneProcess(self.workspace).start()

    def target(self):
        return ["--url", self.server.origin, "--database", self.server.database, "--token", self.server.token]


class CommandLine(OneServer):
    def test_changes_goes_on_where_it_was(self):
        cursor = self.workspace.directory / "cursor"
        self.server.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})")
        first = mimeo("changes", *self.target(), "--cursor", cursor, "--values", "none")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual([json.loads(line)["id"] for line in first.stdout.splitlines()], [1, 2])
        self.assertEqual(cursor.read_text(), "1\n")
        self.server.execute("DELETE FROM c WHERE _id = 1")
        second = mimeo("changes", *self.target(), "--cursor", cursor)
        self.assertEqual([json.loads(line)["method"] for line in second.stdout.splitlines()], ["remove"])
        filtered = mimeo("changes", *self.target(), "--where", "_id + 1 = 3", "--collection", "c")
        self.assertEqual([json.loads(line)["id"] for line in filtered.stdout.splitlines()], [2])

    def test_a_cursor_is_written_where_nothing_has_come(self):
        """`now` is a place, and so is the end of a snapshot: the next run goes on after it."""
        self.server.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})")
        for since, count in (("now", 0), ("snapshot", 2)):
            run = ["changes", *self.target(), "--collection", "c", "--since", since, "--cursor"]
            run.append(self.workspace.directory / since)
            self.assertEqual(len(mimeo(*run).stdout.splitlines()), count)
            self.server.execute(f"UPDATE c SET n = {count} WHERE _id = 1")
            self.assertEqual([json.loads(line)["method"] for line in mimeo(*run).stdout.splitlines()], ["update"])

    def test_what_the_server_refuses_is_told(self):
        for arguments, code in ((["--where", "n ="], "DQL-0107"), (["--since", "99"], "QUERY-0501")):
            done = mimeo("changes", *self.target(), *arguments)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(json.loads(done.stdout)["error"]["code"], code)
        done = mimeo("observe", *self.target(), "DELETE FROM c")
        self.assertEqual((done.returncode, json.loads(done.stdout)["error"]["code"]), (1, "QUERY-0101"))
        nobody = mimeo("observe", "--url", "http://127.0.0.1:1", "--database", "d", "--token", "t", "SELECT * FROM c")
        self.assertEqual(nobody.returncode, 3)

    def test_observe_outlasts_a_restart_of_the_server(self):
        self.server.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
        process = subprocess.Popen(
            [binary("mimeo"), "observe", *self.target(), "--count", "3", "SELECT SUM(n) AS s FROM c"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.kill)
        self.assertEqual(json.loads(process.stdout.readline())["items"], [{"s": 1}])
        self.server.execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'n': 2})")
        self.assertEqual(json.loads(process.stdout.readline())["items"], [{"s": 3}])
        self.server.kill()
        self.server.start()
        self.server.execute("INSERT INTO c DOCUMENTS ({'_id': 3, 'n': 4})")
        lines = [json.loads(line)["items"] for line in process.stdout]
        self.assertEqual(lines[-1], [{"s": 7}])
        self.assertEqual(process.wait(30), 0)


    def test_it_ends_with_the_reader_of_its_output(self):
        self.server.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2}), ({'_id': 3})")
        # No change comes: it is the pipe that says that nobody reads.
        for arguments in (["observe", *self.target(), "SELECT * FROM c"], ["changes", *self.target(), "--follow"]):
            process = subprocess.Popen([binary("mimeo"), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(process.kill)
            self.assertIn(b'"_id":1', process.stdout.readline())
            process.stdout.close()
            self.assertEqual(process.wait(30), -signal.SIGPIPE)
            self.assertEqual(process.stderr.read(), b"")
            process.stderr.close()
        head = f"{binary('mimeo')} changes {' '.join(map(str, self.target()))} | head -n 1"
        done = subprocess.run(["sh", "-c", head], capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual((done.stdout.count("\n"), done.stderr), (1, ""))
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [binary("mimeo"), "changes", *self.target()], stdout=full, stderr=subprocess.PIPE, text=True,
                timeout=30, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output cannot be written: No space left on device", done.stderr)


class Followers(OneServer):
    def test_curl_reads_events(self):
        self.server.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        curl = subprocess.Popen(
            ["curl", "-sN", self.server.origin + OBSERVE, "-H", f"Authorization: Bearer {self.server.access_token}",
             "-d", '{"statement": "SELECT * FROM c"}'], stdout=subprocess.PIPE, text=True)
        self.addCleanup(curl.kill)
        self.assertEqual([curl.stdout.readline().strip() for _ in range(2)], ["event: result", "id: 1"])
        self.server.execute("DELETE FROM c")
        text = "".join(curl.stdout.readline() for _ in range(5))
        self.assertIn("event: change\nid: 2\n", text)
        curl.kill()

    def test_a_follower_that_never_reads_is_cut_off_and_holds_up_nobody(self):
        self.server.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 't': :t})", {"t": "x" * 200_000})
        deaf = socket.socket()
        deaf.settimeout(90)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        deaf.connect(self.server.address)
        body = b'{"statement": "SELECT * FROM c"}'
        deaf.sendall(
            f"POST {OBSERVE} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.server.access_token}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        reader = Stream(self.server, OBSERVE, {"statement": "SELECT _id, n FROM c"})
        lines = reader.lines()
        self.assertEqual(next(lines)["event"], "result")
        for number in range(60):
            self.server.execute("UPDATE c SET n = :n, t = :t WHERE _id = 1", {"n": number, "t": f"{number}" * 100_000})
            began = time.monotonic()
            self.assertEqual(next(lines)["rows"], [[0, {"_id": 1, "n": number}]])
            self.assert_in_time(time.monotonic() - began, 10, "a change at its reader")
        if IS_DEEP:
            # The server closes the connection: what it had sent is read, and then the end comes.
            deaf.settimeout(60)
            time.sleep(35)
            try:
                while deaf.recv(1 << 20):
                    pass
            except ConnectionError:
                pass
        deaf.close()
        self.assertTrue(self.server.process.is_running)

    def test_a_client_that_reads_no_rows_costs_no_memory_and_holds_no_statement(self):
        side = pick(150, 400)
        self.server.execute("INSERT INTO s DOCUMENTS (:rows)", {"rows": [
            {"_id": number, "t": "x" * 400} for number in range(side)]})
        body = json.dumps({"statement": "SELECT a.t AS a, b.t AS b FROM s a JOIN s b USE INDEX '' ON a._id >= 0"}).encode()
        before = resident(self.server)
        deaf = []
        for _ in range(3):
            one = socket.create_connection(self.server.address, timeout=120)
            self.addCleanup(one.close)
            one.sendall(f"POST /api/v5/store/execute HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.server.access_token}\r\n"
                        f"Accept: application/x-ndjson\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            deaf.append(one)
        # The statements end although nobody reads.
        until(lambda: self.server.request("GET", "/api/v5/requests", None, self.server.authorization()).json["requests"] == [],
              60, "a statement waits for its client")
        self.assertLess(resident(self.server) - before, 64 << 20)
        self.assertEqual(self.server.query("SELECT RAW COUNT(*) FROM s"), [side])
        if IS_DEEP:
            # They are cut off: what was sent is read, and then the end comes, long before the last row.
            time.sleep(45)
            for one in deaf:
                received = 0
                try:
                    while part := one.recv(1 << 20):
                        received += len(part)
                except ConnectionError:
                    pass
                self.assertLess(received, 800 * side * side)

    def test_many_followers_of_one_query_hear_of_a_write_at_once(self):
        self.server.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 0})")
        streams = [Stream(self.server, OBSERVE, {"statement": "SELECT * FROM c"}) for _ in range(100)]
        heard = []

        def follow(stream):
            lines = stream.lines()
            next(lines)
            heard.append(next(lines)["rows"])

        threads = [threading.Thread(target=follow, args=(stream,)) for stream in streams]
        for thread in threads:
            thread.start()
        time.sleep(1)
        self.server.execute("UPDATE c SET n = 1")
        for thread in threads:
            thread.join(30)
        self.assertEqual(heard, [[[0, {"_id": 1, "n": 1}]]] * 100)


class LargeAnswers(OneServer):
    ROWS = 4_000

    def setUp(self):
        super().setUp()
        for first in range(0, self.ROWS, 500):
            self.server.execute("INSERT INTO c DOCUMENTS (:rows)", {"rows": [
                {"_id": 10_000 + number, "t": "x" * 4_000} for number in range(first, first + 500)]})

    def read(self, place):
        """One answer of 16 MB, by a client that does nothing else while it comes."""
        body = b'{"statement": "SELECT * FROM c"}'
        with socket.create_connection(self.server.address, timeout=60) as client:
            client.sendall(
                f"POST /api/v5/store/execute HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                f"Authorization: Bearer {self.server.access_token}\r\nAccept: application/x-ndjson\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            size = 0
            while count := client.recv_into(place[size:]):
                size += count
        head, _, chunks = bytes(place[:size]).partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 200 "), head)
        self.assertTrue(chunks.endswith(b"\r\n0\r\n\r\n"), "the answer breaks off")
        lines = b"".join(content(chunks)).splitlines()
        *rows, end = lines
        self.assertEqual(len(rows), self.ROWS)
        self.assertEqual({(row[:7], len(row)) for row in rows}, {(b'{"_id":', len(rows[0]))})
        self.assertEqual(json.loads(end)["queryType"], "select")

    def test_a_client_as_fast_as_the_server_gets_every_row_and_the_end(self):
        place = memoryview(bytearray(32 << 20))
        for _ in range(pick(40, 200)):
            self.read(place)
        self.assertTrue(self.server.process.is_running)

    def test_fast_clients_beside_each_other_get_every_row_and_the_end(self):
        def many(_):
            place = memoryview(bytearray(32 << 20))
            for _ in range(pick(10, 50)):
                self.read(place)

        with concurrent.futures.ThreadPoolExecutor(3) as clients:
            list(clients.map(many, range(3)))
        self.assertTrue(self.server.process.is_running)


def lines(count, padding=0):
    """The lines of so many documents, in pieces of a hundred."""
    text = "x" * padding
    for first in range(0, count, 100):
        yield "".join(f'{{"_id":{n},"t":"{text}"}}\n' for n in range(first, min(first + 100, count))).encode()


def send_lines(server, body):
    """The answer to an import of a body that is made as it is sent."""
    return server.request("POST", IMPORT, body, server.authorization(), 600)


class Imports(OneServer):
    def test_the_memory_of_an_import_is_that_of_a_group(self):
        before, count = resident(self.server), pick(20_000, 300_000)
        answer = send_lines(self.server, lines(count, 1_000))
        self.assertEqual((answer.status, answer.json["lines"], answer.json["documents"]), (200, count, count))
        self.assertEqual(self.server.count("c"), count)
        if IS_DEEP:
            self.assertLess(resident(self.server) - before, 128 << 20)

    def test_an_import_that_broke_off_is_sent_again(self):
        head = (f"POST {IMPORT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.server.access_token}\r\n"
                "Content-Length: 100000000\r\n\r\n").encode()
        with socket.create_connection(self.server.address, timeout=60) as client:
            client.sendall(head + b"".join(lines(2_500)))
            until(lambda: self.server.count("c") >= 1_000, 60, "a group")
        answer = send_lines(self.server, lines(5_000))
        self.assertEqual((answer.status, answer.json["lines"]), (200, 5_000))
        self.assertEqual(self.server.count("c"), 5_000)

    def test_a_server_that_is_killed_has_whole_groups_of_it(self):
        sent = threading.Event()

        def body():
            for number, piece in enumerate(lines(100_000)):
                if number == 100:
                    until(lambda: self.server.count("c") >= 5_000, 60, "five groups")
                    self.server.kill()
                    sent.set()
                yield piece

        with self.assertRaises(OSError):
            send_lines(self.server, body())
        self.assertTrue(sent.is_set())
        self.server.start()
        stored = self.server.count("c")
        self.assertTrue(stored >= 5_000 and stored % 1_000 == 0, stored)
        self.assertEqual(self.server.count("c", f"_id < {stored}"), stored)
        self.assertEqual(send_lines(self.server, lines(12_000)).json["lines"], 12_000)
        self.assertEqual(self.server.count("c"), 12_000)


class BehindNginx(SystemTest):
    """Four processes: nothing is held back on the way."""

    def test_lines_that_come_in(self):
        server = FourProcesses(self.workspace).start()
        answer = send_lines(server, lines(3_000))
        self.assertEqual((answer.status, answer.json["lines"], answer.json["transactionId"]), (200, 3_000, 3))
        wrong = send_lines(server, iter([b'{"_id":3000}\n', b"7\n", *lines(10_000)]))
        self.assertEqual((wrong.status, wrong.json["lines"], wrong.json["error"]["inputLine"]), (400, 1, 2))

    def test_streams(self):
        server = FourProcesses(self.workspace).start()
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'n': 0})")
        observed = Stream(server, OBSERVE, {"statement": "SELECT * FROM c ORDER BY _id"})
        events = observed.lines()
        self.assertEqual(next(events)["items"], [{"_id": 0, "n": 0}])
        changes = Stream(server, f"{CHANGES}?feed=continuous&values=both&since=0")
        feed = changes.lines()
        self.assertEqual(next(feed)["method"], "insert")
        for number in range(1, 4):
            began = time.monotonic()
            server.execute("UPDATE c SET n = :n WHERE _id = 0", {"n": number})
            self.assertEqual(next(events)["rows"], [[0, {"_id": 0, "n": number}]])
            line = next(feed)
            self.assertEqual((line["oldValue"]["n"], line["value"]["n"]), (number - 1, number))
            self.assert_in_time(time.monotonic() - began, 10, "a change at its reader")
        for path in ("/openapi.json", "/api/v5/docs"):
            self.assertEqual(server.request("GET", path).status, 200, path)
        past = server.post_statement("SELECT n FROM c", headers={}, version="v5")
        self.assertEqual(past.json["items"], [{"n": 3}])
        asked = server.request(
            "POST", "/api/v5/store/execute?asOf=2", {"statement": "SELECT n FROM c"}, server.authorization())
        self.assertEqual(asked.json["items"], [{"n": 1}])
