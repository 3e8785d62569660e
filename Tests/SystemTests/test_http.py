"""What every HTTP request has in common, tried with real clients: sockets, http.client, urllib, requests and curl."""

import gzip
import http.client
import json
import shutil
import socket
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.request

from mimeo_harness import FourProcesses, OneProcess, use_packages
from system_test import SystemTest, report

EXECUTE = "/api/v5/store/execute"
UPLOAD = "/api/v5/attachments/upload"
LOGIN = "/_ditto/auth/login"
MEBIBYTE = 1 << 20
PAGE = "https://app.example.org"


def exchange(address, *pieces, pause=0, half_close=False, seconds=60):
    """Sends bytes and returns all that comes until the server closes, and how long that took."""
    began = time.monotonic()
    with socket.create_connection(address, timeout=seconds) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        except ConnectionError:
            pass  # the answer may have come before the last piece
        received = b""
        while part := connection.recv(65536):
            received += part
    return received, time.monotonic() - began


def status(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else None


def head(method, path, *fields, version="1.1"):
    return "\r\n".join([f"{method} {path} HTTP/{version}", "Host: x", *fields, "", ""]).encode()


class HTTP(SystemTest):
    def setUp(self):
        super().setUp()
        self.server = OneProcess(self.workspace, extra_arguments=["--cors-origin", PAGE]).start()
        self.server.execute("INSERT INTO ones DOCUMENTS ({'_id': '1', 'n': 1})")
        self.bearer = f"Authorization: Bearer {self.server.access_token}"
        self.addCleanup(self.assert_serves)

    def assert_serves(self):
        self.assertTrue(self.server.process.is_running, self.server.process.log_tail())
        self.assertEqual(self.server.query("SELECT n FROM ones"), [{"n": 1}])

    def exchange(self, *pieces, **options):
        return exchange(self.server.address, *pieces, **options)

    def post(self, body, path=EXECUTE, **headers):
        return self.server.request("POST", path, body, {**self.server.authorization(), **headers})


class EarlyAnswers(HTTP):
    """An answer that comes before the body has been read reaches a client that writes all before it reads."""

    large = b"x" * (64 * MEBIBYTE)
    routes = ((EXECUTE, 413, "SRV-0413"), (LOGIN, 413, "SRV-0413"), ("/admin/auth/databases", 401, "AUTH-0407"),
              ("/nothing", 404, "SRV-0404"), ("/health", 405, "SRV-0405"))

    def test_urllib(self):
        for path, expected, code in self.routes:
            with self.subTest(path):
                request = urllib.request.Request(
                    self.server.origin + path, data=self.large, headers=self.headers(path), method="POST")
                began = time.monotonic()
                with self.assertRaises(urllib.error.HTTPError) as caught:
                    urllib.request.urlopen(request, timeout=30)
                self.assertEqual(caught.exception.code, expected)
                self.assertEqual(json.loads(caught.exception.read())["error"]["code"], code)
                self.assert_in_time(time.monotonic() - began, 15, f"a refusal of {path}")

    def headers(self, path):
        return {} if path.startswith("/admin") else self.server.authorization()

    def test_http_client_with_chunks_of_unknown_length(self):
        connection = http.client.HTTPConnection(*self.server.address, timeout=30)
        pieces = (b"y" * MEBIBYTE for _ in range(40))
        connection.request("POST", EXECUTE, body=pieces, headers=self.server.authorization(), encode_chunked=True)
        self.assertEqual(connection.getresponse().status, 413)

    def test_requests(self):
        use_packages()
        import requests
        for path, expected, code in self.routes:
            with self.subTest(path):
                answer = requests.post(self.server.origin + path, data=self.large, headers=self.headers(path), timeout=30)
                self.assertEqual((answer.status_code, answer.json()["error"]["code"]), (expected, code))

    def test_an_answered_body_that_never_ends_is_given_up(self):
        answer, seconds = self.exchange(head("POST", "/nothing", "Content-Length: 1000000"), b"z" * 1000)
        self.assertEqual(status(answer), 404)
        self.assert_in_time(seconds, 10, "a body that never ends is given up")

    def test_a_connection_goes_on_behind_a_body_that_nobody_read(self):
        connection = http.client.HTTPConnection(*self.server.address, timeout=30)
        for _ in range(3):
            connection.request("POST", "/nothing", body=b"w" * (5 * MEBIBYTE))
            answer = connection.getresponse()
            self.assertEqual(answer.status, 404)
            answer.read()
            socket_before = connection.sock
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().read()[:10], b'{"checks":')
            self.assertIs(connection.sock, socket_before)

    def test_a_dripping_one_too(self):
        ended = threading.Event()
        with socket.create_connection(self.server.address, timeout=60) as connection:
            connection.sendall(head("POST", "/nothing", "Transfer-Encoding: chunked"))
            began = time.monotonic()

            def drip():
                try:
                    while not ended.wait(0.3):
                        connection.sendall(b"1\r\nq\r\n")
                except OSError:
                    ended.set()

            thread = threading.Thread(target=drip)
            thread.start()
            self.assertTrue(ended.wait(40), "the connection is still open")
            thread.join()
            report(f"a dripping body is given up after {time.monotonic() - began:.1f} s")


class Expectations(HTTP):
    def test_a_refusal_comes_instead_of_100(self):
        answer, _ = self.exchange(head("POST", UPLOAD, "Expect: 100-continue", f"Content-Length: {MEBIBYTE}"))
        self.assertEqual(status(answer), 401)

    def test_100_comes_when_the_body_is_wanted(self):
        with socket.create_connection(self.server.address, timeout=20) as connection:
            connection.sendall(
                head("POST", UPLOAD, self.bearer, "Expect: 100-continue", "Content-Length: 5", "Connection: close"))
            self.assertEqual(connection.recv(1000), b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.sendall(b"hello")
            answer = b""
            while part := connection.recv(1000):
                answer += part
        self.assertEqual(status(answer), 200)
        self.assertIn(b'"len":5', answer)

    def test_curl_does_not_wait(self):
        curl = shutil.which("curl")
        if not curl:
            self.skipTest("curl is not installed")
        for bearer, expected in ((self.bearer, "200"), ("Authorization: Bearer no", "401")):
            done = subprocess.run(
                [curl, "-sS", "-o", "/dev/null", "-w", "%{http_code} %{time_total}", "-H", bearer, "-H", "Content-Type: x/y",
                 "--data-binary", "@-", self.server.origin + UPLOAD],
                input=b"c" * (3 * MEBIBYTE), capture_output=True, check=True, timeout=60)
            code, seconds = done.stdout.decode().split()
            self.assertEqual(code, expected)
            self.assert_in_time(float(seconds), 0.9, "curl has its answer")


class Origins(HTTP):
    def options(self, path, origin=PAGE, method="POST", asked="authorization,content-type"):
        return self.server.request(
            "OPTIONS", path, headers={
                "Origin": origin, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": asked})

    def test_a_preflight_on_every_kind_of_route_without_a_credential(self):
        for path in (EXECUTE, "/api/v4/store/execute", LOGIN, UPLOAD, "/api/v5/attachments/x", "/admin/auth/databases",
                     "/admin/replicator/drain", "/health", "/_ditto/sync"):
            with self.subTest(path):
                answer = self.options(path)
                self.assertEqual(answer.status, 204)
                self.assertEqual(answer.headers["Access-Control-Allow-Origin"], PAGE)
                self.assertEqual(answer.headers["Access-Control-Allow-Methods"], answer.headers["Allow"])
                self.assertEqual(answer.headers["Access-Control-Allow-Headers"], "authorization,content-type")

    def test_answers_and_errors_name_the_origin_and_others_get_nothing(self):
        fine = self.server.post_statement("SELECT n FROM ones", headers={"Origin": PAGE})
        refused = self.server.request("POST", EXECUTE, {"statement": "SELECT n FROM ones"}, {"Origin": PAGE})
        missing = self.server.request("GET", "/nothing", headers={"Origin": PAGE})
        self.assertEqual((fine.status, refused.status, missing.status), (200, 401, 404))
        for answer in (fine, refused, missing):
            self.assertEqual(answer.headers["Access-Control-Allow-Origin"], PAGE)
            self.assertIn("X-Request-ID", answer.headers["Access-Control-Expose-Headers"])
        other = self.server.post_statement("SELECT n FROM ones", headers={"Origin": "https://evil.example"})
        self.assertEqual(other.status, 200)
        self.assertIsNone(other.headers["Access-Control-Allow-Origin"])
        self.assertIsNone(self.options(EXECUTE, "https://evil.example").headers["Access-Control-Allow-Origin"])

    def test_everybody_and_nobody(self):
        anyone = OneProcess(self.workspace, "anyone", ["--cors-origin", "*"]).start()
        answer = anyone.request("GET", "/health", headers={"Origin": "https://a.example"})
        self.assertEqual(answer.headers["Access-Control-Allow-Origin"], "*")
        nobody = OneProcess(self.workspace, "nobody").start()
        answer = nobody.request("GET", "/health", headers={"Origin": PAGE})
        self.assertIsNone(answer.headers["Access-Control-Allow-Origin"])


class Connections(HTTP):
    def test_http_1_0_without_keep_alive_is_closed_and_with_it_is_not(self):
        answer, seconds = self.exchange(head("GET", "/health", version="1.0"))
        self.assertEqual(status(answer), 200)
        self.assert_in_time(seconds, 5, "a connection of HTTP 1.0 is closed")
        both, _ = self.exchange(
            head("GET", "/health", "Connection: keep-alive", version="1.0") + head("GET", "/health", version="1.0"))
        self.assertEqual(both.count(b"200 OK"), 2)

    def test_http_1_0_gets_no_chunks(self):
        body = json.dumps({"statement": "SELECT * FROM system:collections"})
        answer, _ = self.exchange(
            head("POST", EXECUTE, self.bearer, "Accept-Encoding: gzip", f"Content-Length: {len(body)}", version="1.0")
            + body.encode())
        self.assertEqual(status(answer), 200)
        self.assertNotIn(b"transfer-encoding", answer.lower())

    def test_a_head_and_a_body_that_stop_are_a_408(self):
        results = {}

        def run(name, *pieces):
            results[name] = self.exchange(*pieces)

        threads = [
            threading.Thread(target=run, args=("head", b"GET /health HTTP/1.1\r\nHost: x\r\nX-Half")),
            threading.Thread(target=run, args=("body", head("POST", EXECUTE, self.bearer, "Content-Length: 100"), b"{")),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name, (answer, seconds) in results.items():
            self.assertEqual(status(answer), 408, name)
            self.assertIn(b"SRV-0408", answer)
            self.assertTrue(25 < seconds < 50, (name, seconds))

    def test_a_body_shorter_than_it_says(self):
        for path in (EXECUTE, UPLOAD):
            answer, _ = self.exchange(
                head("POST", path, self.bearer, "Content-Length: 500"), b'{"statement":', half_close=True)
            self.assertEqual(status(answer), 400, path)
            self.assertIn(b"SRV-0400", answer)
        answer, _ = self.exchange(
            head("POST", EXECUTE, self.bearer, "Transfer-Encoding: chunked"), b"5\r\n{", half_close=True)
        self.assertEqual(status(answer), 400)

    def test_lengths_that_contradict_each_other(self):
        for fields in (["Content-Length: 3", "Content-Length: 4"], ["Content-Length: 3", "Content-Length: 3"],
                       ["Content-Length: 3", "Transfer-Encoding: chunked"], ["Content-Length: -1"],
                       ["Content-Length: three"], ["Transfer-Encoding: gzip, chunked"], ["Host: y"]):
            with self.subTest(fields):
                answer, _ = self.exchange(head("POST", EXECUTE, self.bearer, *fields), b"{}}\r\n")
                self.assertEqual(status(answer), 400, answer)
                self.assertIn(b"SRV-0400", answer)

    def test_a_head_that_is_too_large(self):
        long = "a" * 200_000
        many = [f"X-{number}: {'b' * 2000}" for number in range(100)]
        for path, fields, expected in ((f"/{long}", [], 414), (f"/{long[:70_000]}", [], 414), ("/health", [f"X-Long: {long}"], 431),
                                       ("/health", many, 431), ("/health", ["X-A: 1"] * 2000, 431)):
            answer, _ = self.exchange(head("GET", path, *fields))
            self.assertEqual(status(answer), expected)
            self.assertIn(f"SRV-0{expected}".encode(), answer)

    def test_the_second_request_of_a_connection_is_answered_after_the_first(self):
        answer, _ = self.exchange(head("GET", "/health") + b"nonsense\r\n\r\n")
        self.assertEqual([int(part[:3]) for part in answer.split(b"HTTP/1.1 ")[1:]], [200, 400])


class Routes(HTTP):
    def test_head_options_405_and_a_trailing_slash(self):
        self.assertEqual(self.server.request("HEAD", "/health").status, 200)
        self.assertEqual(self.server.request("HEAD", "/health").body, b"")
        self.assertEqual(self.server.request("GET", "/health/").status, 200)
        self.assertEqual(self.server.request("OPTIONS", EXECUTE).headers["Allow"], "OPTIONS, POST")
        for method in ("GET", "DELETE", "PROPFIND"):
            answer = self.server.request(method, EXECUTE)
            self.assertEqual((answer.status, answer.headers["Allow"]), (405, "OPTIONS, POST"), method)
        self.assertEqual(self.server.request("OPTIONS", "/nothing").status, 404)
        slash = self.post({"statement": "SELECT n FROM ones"}, EXECUTE + "/")
        self.assertEqual(slash.status, 200)

    def test_a_path_is_decoded_once(self):
        self.assertEqual(self.server.request("GET", "/he%61lth").status, 200)
        for path, expected in (("/api/v5/attachments/%zz", 400), ("/api/v5/attachments/%ff", 400),
                               ("/api/v5/attachments/a%2Fb", 400), ("/api/v5%2Fattachments/a", 404)):
            answer = self.server.request("GET", path, headers=self.server.authorization())
            self.assertEqual(answer.status, expected, path)

    def test_an_unknown_query_parameter_is_named(self):
        answer = self.post({"statement": "SELECT n FROM ones"}, EXECUTE + "?asOff=7")
        self.assert_refused(answer, 400)
        self.assertIn('did you mean "asOf"', answer.error["message"])
        self.assertEqual(answer.json["items"], [])
        secret = (self.server.data / "auth/admin.token").read_text().strip()
        answer = self.server.request(
            "GET", "/admin/replicator/databases?limitt=3", headers={"Authorization": f"Bearer {secret}"})
        self.assert_refused(answer, 400)
        self.assertIn('did you mean "limit"', answer.error["message"])

    def test_request_ids(self):
        for given, taken in (("my-id_7", True), ("x" * 128, True), ("x" * 129, False), ("two words", False)):
            answer = self.server.request("GET", "/nothing", headers={"X-Request-ID": given})
            self.assertEqual(answer.headers["X-Request-ID"] == given, taken)
        made = self.server.request("GET", "/nothing").headers["X-Request-ID"]
        self.assertRegex(made, "^[0-9a-f]{32}$")
        log = self.server.process.log_path.read_text()
        self.assertIn("my-id_7", log)
        self.assertIn(made, log)
        self.assertNotIn("two words", log)


class Bodies(HTTP):
    def test_gzip_goes_in_and_comes_out(self):
        rows = [{"_id": f"d{number}", "text": "word " * 20} for number in range(300)]
        body = json.dumps({"statement": "INSERT INTO notes DOCUMENTS :rows", "args": {"rows": rows}}).encode()
        self.assertIn(self.post(gzip.compress(body), **{"Content-Encoding": "gzip"}).status, (200, 400))
        one = json.dumps({"statement": "INSERT INTO notes DOCUMENTS (:row)", "args": {"row": {"_id": "g", "n": 1}}})
        self.assertEqual(self.post(gzip.compress(one.encode()), **{"Content-Encoding": "gzip"}).status, 200)
        select = {"statement": "SELECT :text AS text FROM ones", "args": {"text": "word " * 2000}}
        packed = self.post(select, **{"Accept-Encoding": "deflate, gzip"})
        self.assertEqual(packed.headers["Content-Encoding"], "gzip")
        self.assertLess(len(packed.body), 2000)
        self.assertEqual(json.loads(gzip.decompress(packed.body))["items"], [{"text": "word " * 2000}])
        for accept in ("identity", "gzip;q=0", "br"):
            self.assertIsNone(self.post(select, **{"Accept-Encoding": accept}).headers["Content-Encoding"], accept)

    def test_a_bomb_a_broken_one_and_another_encoding(self):
        bomb = gzip.compress(b"[" + b" " * (200 * MEBIBYTE) + b"]")
        self.assert_refused(self.post(bomb, **{"Content-Encoding": "gzip"}), 413)
        self.assert_refused(self.post(bomb[:100], **{"Content-Encoding": "gzip"}), 400)
        self.assert_refused(self.post(b"no gzip", **{"Content-Encoding": "gzip"}), 400)
        answer = self.post(b"{}", **{"Content-Encoding": "br"})
        self.assert_refused(answer, 415)
        self.assertEqual(answer.headers["Accept-Encoding"], "gzip")

    def test_an_attachment_is_stored_unpacked(self):
        content = b"the same bytes " * 10_000
        plain = self.post(content, UPLOAD, **{"Content-Type": "x/y"}).json
        self.assertEqual(self.post(gzip.compress(content), UPLOAD, **{"Content-Type": "x/y", "Content-Encoding": "gzip"}).json, plain)
        self.assertEqual(self.server.download(plain["id"]).body, content)

    def test_a_byte_order_mark_is_skipped(self):
        for body, path in (({"statement": "SELECT n FROM ones"}, EXECUTE),
                           ({"databaseID": self.server.database, "provider": "development", "token": self.server.token}, LOGIN)):
            self.assertEqual(self.post(b"\xef\xbb\xbf" + json.dumps(body).encode(), path).status, 200)

    def test_slips_in_json_are_named(self):
        for body, named in (('{"statement":"SELECT n FROM ones","arguments":{}}', 'did you mean "args"'),
                            ('{"statement":"SELECT n FROM ones","statement":"SELECT * FROM ones"}', '"statement" appears twice'),
                            ('{"statement":"SELECT :a","args":{"a":{"b":1,"\\u0062":2}}}', '"b" appears twice'),
                            ('{"statement":"SELECT :a AS a FROM ones","args":{"a":9223372036854775808}}', "9223372036854775808"),
                            ('{"statement":"SELECT :a AS a FROM ones","args":{"a":[-9223372036854775809]}}', "-9223372036854775809")):
            with self.subTest(body):
                answer = self.post(body)
                self.assert_refused(answer, 400)
                self.assertIn(named, answer.error["message"])
        kept = self.post('{"statement":"SELECT :a AS a FROM ones","args":{"a":[9223372036854775807,-9223372036854775808,1.0,1e3]}}')
        self.assertIn(b"[9223372036854775807,-9223372036854775808,1.0,1000.0]", kept.body)

    def test_other_requests_name_slips_too(self):
        login = {"databaseID": self.server.database, "provider": "development", "token": self.server.token}
        answer = self.server.request("POST", LOGIN, {**login, "peerkey": "x"})
        self.assert_refused(answer, 400)
        self.assertIn('did you mean "peerKey"', answer.error["message"])
        twice = json.dumps(login)[:-1] + ',"token":"x"}'
        self.assertIn('"token" appears twice', self.server.request("POST", LOGIN, twice).error["message"])
        secret = (self.server.data / "auth/admin.token").read_text().strip()
        for path, body, named in (("/admin/auth/databases", {"ident": "x"}, '"ident"'),
                                  ("/admin/auth/sealing-key", {"now": True}, '"now"'),
                                  ("/admin/replicator/drain", {"seconds": 3}, '"seconds"')):
            answer = self.server.request("POST", path, body, {"Authorization": f"Bearer {secret}"})
            self.assert_refused(answer, 400, path)
            self.assertIn(named, answer.error["message"])


class BehindNginx(SystemTest):
    """The same through the front of four processes."""

    def test_what_requests_have_in_common(self):
        cluster = FourProcesses(self.workspace)
        for service in cluster.services:
            cluster.extra_arguments[service] = ["--cors-origin", PAGE]
        cluster.start()
        cluster.execute("INSERT INTO ones DOCUMENTS ({'_id': '1', 'n': 1})")
        authorization = cluster.authorization()
        for path in (EXECUTE, LOGIN):
            request = urllib.request.Request(cluster.origin + path, data=EarlyAnswers.large, headers=authorization)
            with self.assertRaises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(request, timeout=60)
            self.assertEqual(caught.exception.code, 413, path)
        request = urllib.request.Request(cluster.origin + UPLOAD, data=EarlyAnswers.large)
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=60)
        self.assertEqual(caught.exception.code, 401)
        preflight = {"Origin": PAGE, "Access-Control-Request-Method": "POST"}
        for path in (EXECUTE, LOGIN, UPLOAD, "/admin/auth/databases", "/admin/replicator/drain", "/_ditto/sync"):
            answer = cluster.request("OPTIONS", path, headers=preflight)
            self.assertEqual((answer.status, answer.headers["Access-Control-Allow-Origin"]), (204, PAGE), path)
        answer = cluster.post_statement("SELECT n FROM ones", headers={"X-Request-ID": "through-the-front"})
        self.assertEqual(answer.headers["X-Request-ID"], "through-the-front")
        packed = cluster.request(
            "POST", EXECUTE, gzip.compress(json.dumps({"statement": "SELECT :t AS t FROM ones", "args": {"t": "t" * 9000}}).encode()),
            {**authorization, "Content-Encoding": "gzip", "Accept-Encoding": "gzip"})
        self.assertEqual(json.loads(gzip.decompress(packed.body))["items"], [{"t": "t" * 9000}])
        self.assertEqual(cluster.request("HEAD", "/health").status, 200)
        for fields, expected in (([f"X-Long: {'a' * 200_000}"], 431), (["Content-Length: x"], 400)):
            answer, _ = exchange(cluster.address, head("GET", "/health", *fields, "Connection: close"))
            self.assertEqual(status(answer), expected)
            self.assertIn(f"SRV-0{expected}".encode(), answer)
        answer, _ = exchange(cluster.address, head("GET", "/" + "a" * 200_000, "Connection: close"))
        self.assertEqual(status(answer), 414)
        self.assertIn(b"SRV-0414", answer)
        for nonsense in (b"nonsense\r\n\r\n", b"GET /health HTTP/1.1\r\n\r\n"):
            answer, _ = exchange(cluster.address, nonsense)
            self.assertEqual(status(answer), 400)
            self.assertIn(b"SRV-0400", answer)
        self.assert_refused(cluster.request("GET", "/metrics"), 404)
        cluster.processes["query-service"].kill()
        answer = cluster.request("POST", EXECUTE, {"statement": "SELECT n FROM ones"}, authorization)
        self.assert_refused(answer, 502)


if __name__ == "__main__":
    unittest.main()
