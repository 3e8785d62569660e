"""Malformed input: a clear refusal with a stable code, the server stays up, nothing is stored."""

import base64
import json
import os
import re
import urllib.parse
import uuid

from mimeo_harness import ROOT, OneProcess, Peer, WebSocket
from system_test import SystemTest

EXECUTE = "/api/v5/store/execute"
SYNC = "/_ditto/sync"
MEBIBYTE = 1 << 20


class BadInput(SystemTest):
    def setUp(self):
        super().setUp()
        self.server = OneProcess(self.workspace).start()
        self.addCleanup(self.assert_unharmed)  # cleanups run in reverse order: before the server is ended

    def assert_unharmed(self):
        """Whatever was sent: the process is the same one, answers, and holds nothing."""
        self.assertTrue(self.server.process.is_running, self.server.process.log_tail())
        self.assertEqual(self.server.query("SELECT * FROM cars"), [])


class Statements(BadInput):
    def post(self, body, **headers):
        return self.server.request("POST", EXECUTE, body, {**self.server.authorization(), **headers})

    def test_malformed_json(self):
        for body in ('{"statement": ', "", "[]", '"SELECT 1"', '{"statement": 7}', '{"args": {}}', b"\xff\xfe{}",
                     '{"statement": "SELECT * FROM cars", "args": [1]}', "[" * 100_000):
            with self.subTest(body[:40]):
                answer = self.post(body, **{"Content-Type": "application/json"})
                self.assert_refused(answer, 400)

    def test_a_statement_that_does_not_parse_has_a_position(self):
        for statement, column in (("INSERT INTO cars DOCUMENTS ({'_id': 1)", 37), ("SELEKT", 1), ("SELECT * FROM", 14)):
            with self.subTest(statement):
                answer = self.server.post_statement(statement)
                self.assert_refused(answer, 400)
                self.assertEqual(answer.error["line"], 1)
                self.assertAlmostEqual(answer.error["column"], column, delta=2)
                self.assertEqual(answer.json["items"], [])
                self.assertEqual(answer.json["mutatedDocumentIds"], [])

    def test_a_statement_without_its_parameter(self):
        self.assert_refused(self.server.post_statement("INSERT INTO cars DOCUMENTS (:car)", {}), 400)

    def test_evict_says_that_it_is_local_to_a_peer(self):
        answer = self.server.post_statement("EVICT FROM cars")
        self.assert_refused(answer, 400)

    def test_a_statement_of_two_documents_one_of_them_bad_stores_neither(self):
        answer = self.server.post_statement("INSERT INTO cars DOCUMENTS ({'_id': '1'}), ({'_id': 1.5})")
        self.assert_refused(answer, 400)

    def test_a_body_that_is_too_large(self):
        """Refused by its declared length or while it arrives, before anything is parsed."""
        statement = {"statement": "SELECT * FROM cars WHERE a = '" + "x" * (40 * MEBIBYTE) + "'"}
        answer = self.post(json.dumps(statement), **{"Content-Type": "application/json"})
        self.assert_refused(answer, 413)

    def test_a_path_and_a_method_that_do_not_exist(self):
        headers = self.server.authorization()
        self.assertEqual(self.server.request("GET", "/api/v5/nonsense", headers=headers).status, 404)
        self.assertIn(self.server.request("GET", EXECUTE, headers=headers).status, (404, 405))

    def test_no_request_at_all(self):
        """Bytes that are no HTTP end the connection, not the server."""
        with WebSocket(self.server.address, "/ HTTP/9.9\r\n\x00\x01 nonsense") as connection:
            self.assertNotEqual(connection.status, 101)


class Extremes(BadInput):
    """Numbers and times at the ends of their ranges and beyond: an answer or a refusal, and never a 5xx."""

    NUMBERS = (0, 1, -1, (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 53, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64,
               -(1 << 63), -(1 << 63) - 1, "1e300", "nan", "9" * 200)
    TIMES = ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:60Z", "0000-01-01T00:00:00Z", "1969-12-31T23:59:59Z",
             "9999-12-31T23:59:59-23:59", "-9999-01-01T00:00:00Z")

    def assert_answered(self, answer, what):
        self.assertLess(answer.status, 500, f"{what}: {answer.body[:300]!r}")
        if answer.status >= 400 and answer.status != 416:
            self.assertRegex(answer.error.get("code", ""), r"^[A-Z]+-\d{4}$", f"{what}: {answer.body[:300]!r}")

    def test_in_queries(self):
        paths = ["/api/v5/changes?until=0&since={}", "/api/v5/changes?since=0&feed=once&until={}",
                 "/api/v5/changes?since=0&until=0&limit={}", "/api/v5/history/cars/1?before={}",
                 "/api/v5/history/cars/1?limit={}", "/api/v5/history/cars/1?at={}"]
        for path in paths:
            for value in (*self.NUMBERS, *self.TIMES):
                with self.subTest(path, value=value):
                    whole = path.format(urllib.parse.quote(str(value)))
                    self.assert_answered(
                        self.server.request("GET", whole, headers=self.server.authorization()), whole)

    def test_in_header_fields(self):
        attachment = self.server.upload(b"x" * 1000).json["id"]
        tus = {"Tus-Resumable": "1.0.0"}
        uploads = "/api/v5/attachments/uploads"
        for value in self.NUMBERS:
            with self.subTest(value):
                for fields in ({"Range": f"bytes={value}-"}, {"Range": f"bytes=-{value}"},
                               {"Range": f"bytes=0-{value}"}, {"Range": f"bytes={value}-{value}"}):
                    self.assert_answered(self.server.request(
                        "GET", f"/api/v5/attachments/{attachment}",
                        headers={**self.server.authorization(), **fields}), fields)
                if value in (-1, (1 << 64) - 1, 1 << 64, "nan"):  # a statement waits for an offset to come
                    self.assert_answered(
                        self.post({"statement": "SELECT * FROM cars"}, **{"X-DITTO-TXN-ID": str(value)}), value)
                self.assert_answered(
                    self.post({"statement": "SELECT * FROM cars", "asOf": str(value)}), value)
                began = self.server.request(
                    "POST", uploads, "", {**self.server.authorization(), **tus, "Upload-Length": str(value)})
                self.assert_answered(began, value)
                piece = {"Upload-Offset": str(value), "Content-Type": "application/offset+octet-stream"}
                place = began.headers.get("Location", f"{uploads}/none")
                self.assert_answered(self.server.request(
                    "PATCH", place, "abc", {**self.server.authorization(), **tus, **piece}), value)
                self.server.request("DELETE", place, headers={**self.server.authorization(), **tus})

    def post(self, body, **headers):
        return self.server.request("POST", EXECUTE, body, {**self.server.authorization(), **headers})

    def test_in_statements(self):
        """Of values that statements calculate with, repeat, pad, move and convert by; literal and as arguments."""
        self.server.execute("INSERT INTO boats DOCUMENTS ({'_id': 1, 'n': 1, 't': 'x', 'l': [1]})")
        least, most = -(1 << 63), (1 << 63) - 1
        numbers = (least, least + 1, -1, 0, 1, 1 << 53, most - 1, most, 1e300, -1e300, 5e-324, 9.3e18)
        expressions = (
            ":x + :y", ":x - :y", ":x * :y", ":x / :y", ":x % :y", "-:x", "abs(:x)", ":x << :y", ":x >> :y",
            "CAST(:x AS integer)", "CAST(:x AS string)", "substr(t, :x, :y)", "lpad(t, :x, 'ab')", "rpad(t, :y)",
            "`repeat`(t, :x)", "l[:x]", "date_add(:x, 'year', :y)", "date_sub(:x, 'month', :y)",
            "date_add('9999-12-31T23:59:59Z', 'millisecond', :x)", "date_diff(:x, :y, 'month')",
            "date_range(0, :x, 'day', :y)", "date_trunc(:x, 'year')", "date_format(:x, '%F %j', '+23:59')",
            "duration_format(:x, 'day')", "duration_cast('9223372036854775807ns', 'day')", "ceil(:x)")
        for x in numbers:
            for y in (least, -1, 0, most, 1e300):
                together = ", ".join(f"{expression} AS v{place}" for place, expression in enumerate(expressions))
                answer = self.server.post_statement(
                    f"SELECT {together} FROM boats WHERE n < :x OR true", {"x": x, "y": y})
                self.assertEqual(answer.status, 200, f"{x} {y} {answer.body[:300]!r}")
        for x in (*numbers, None, "1"):
            for bounds in ("LIMIT :x", "LIMIT :x OFFSET :x", "LIMIT 1 OFFSET :x", "ORDER BY n LIMIT :x OFFSET 1"):
                self.assert_answered(
                    self.server.post_statement(f"SELECT * FROM boats {bounds}", {"x": x}), (bounds, x))
            self.assert_answered(self.server.post_statement(
                "UPDATE COLLECTION boats (c COUNTER) APPLY c INCREMENT BY :x WHERE _id = 1", {"x": x}), x)
            self.server.query("SELECT SUM(n), AVG(c) FROM COLLECTION boats (c COUNTER)")
        for pattern in ("(a{1000}){1000}", "a{1001}", "a{0,99999999999999999999}", "(" * 1000, "[" * 1000,
                        "\\x{FFFFFFFF}", "(a*)*" * 400):
            self.assert_answered(
                self.server.post_statement("SELECT regexp_like(t, :p) FROM boats", {"p": pattern}), pattern)

    def test_in_depth(self):
        for count in (64, 128, 129, 5_000, 100_000):
            for statement in ("(" * count + "1" + ")" * count, "- " * count + "1", "[" * count + "]" * count,
                              "NOT " * count + "true", " + ".join(["1"] * count), "abs(" * count + "1" + ")" * count,
                              "CASE WHEN true THEN " * count + "1" + " END" * count, "l" + "[0]" * count):
                text = f"SELECT {statement} FROM boats"
                if len(text) < MEBIBYTE:
                    self.assert_answered(self.server.post_statement(text), text[:30])
            for body, kind in ((b'{"statement":"SELECT 1","args":{"a":' + b"[" * count, "json"),
                               (b"\x81" * count + b"\x00", "cbor"), (b"\xc1" * count + b"\x00", "cbor")):
                self.assert_answered(self.post(body, **{"Content-Type": f"application/{kind}"}), body[:30])

    def test_in_lengths_of_cbor(self):
        for head in (0x1B, 0x3B, 0x5B, 0x7B, 0x9B, 0xBB, 0xDB):
            for number in (1 << 31, (1 << 63) - 1, 1 << 63, (1 << 64) - 1):
                body = b"\xa1\x69statement" + bytes([head]) + number.to_bytes(8, "big")
                self.assert_answered(self.post(body, **{"Content-Type": "application/cbor"}), body)

    def test_in_values_of_cbor(self):
        """Numbers that JSON cannot hold, and forms that CBOR has for one value, as an argument and as a document."""
        values = {
            "NaN": "f97e00", "NaN of 64 bits": "fb7ff8000000000001", "infinity": "f97c00", "less than all": "fbfff0000000000000",
            "-2^64": "3bffffffffffffffff", "2^64-1": "1bffffffffffffffff", "least": "3b7fffffffffffffff", "-0": "fb8000000000000000",
            "the least above 0": "fb0000000000000001", "a number in nine bytes": "1b0000000000000001", "a large integer": "c249010000000000000000",
            "a decimal": "c48221196ab3", "a decimal of a far power": "c4821b7fffffffffffffff01", "a time": "c1fb7e37e43c8800759c",
            "undefined": "f7", "a simple value": "f8ff", "text in parts": "7f61616162ff", "text that is none": "62c328", "bytes": "43010203",
            "a list without end": "9f01ff", "a map without end": "bf616101ff", "a key twice": "a2616101616102", "a key of a number": "a10101",
            "keys alike": "a2" + "e\u0301".encode().hex().join(["63", "01"]) + "é".encode().hex().join(["62", "02"]), "a break": "ff"}
        for name, value in values.items():
            for statement in ("SELECT :v AS v, -:v AS w, :v + 1 AS x, [:v] AS y FROM boats", "INSERT INTO boats DOCUMENTS ({'v': :v})",
                              "SELECT * FROM boats WHERE v = :v ORDER BY v LIMIT 1"):
                text = statement.encode()
                body = b"\xa2\x69statement\x78" + bytes([len(text)]) + text + b"\x64args\xa1\x61v" + bytes.fromhex(value)
                answer = self.post(body, **{"Content-Type": "application/cbor"})
                self.assert_answered(answer, f"{name} {statement}")
        self.assertEqual(self.server.post_statement("SELECT * FROM boats ORDER BY v").status, 200)

    def test_in_every_function(self):
        """Each function of DQL with each number of arguments, of every type and size, in any place."""
        described = (ROOT / "Shared/DQL/Functions.md").read_text()
        functions = re.findall(r"`([a-z0-9_]+)\((.*)\)`", "\n".join(re.findall(r"^### .*$", described, re.M)))
        self.assertGreater(len(functions), 60)
        texts = ["", "a", "é🇩🇪", "%", "(a+)+$", "day", "YYYY-MM-DD", "2026-11-28T10:00:00Z", "+99999999-01-01T00:00:00Z", "Europe/Berlin", "1e400"]
        numbers = [-(1 << 63), (1 << 63) - 1, -1, 0, 1, 1 << 62, 0.5, 1e308, -1e308, 1e19, 5e-324, 253_402_300_800_000]
        values = [*texts, *numbers, None, True, [], [[]], [1, "a", None], {}, {"a": -1}]
        arguments = {f"v{place}": value for place, value in enumerate(values)}
        terms = [*(f":{name}" for name in arguments), "(1e308 * 10)", "(1e308 * 10 - 1e308 * 10)", "missing"]
        self.server.execute("INSERT INTO boats DOCUMENTS ({'_id': 1})")
        for name, parameters in functions:
            count = parameters.count(",") + (parameters != "")
            for some in range(min(1, count), count + 2):
                calls = [", ".join(terms[(turn + place * 5) % len(terms)] for place in range(some)) for turn in range(len(terms))]
                columns = ", ".join(f"`{name}`({call}) AS c{place}" for place, call in enumerate(calls))
                self.assert_answered(self.server.post_statement(f"SELECT {columns} FROM boats", arguments), f"{name} of {some}")

    def test_in_every_parameter_of_every_route(self):
        """Each parameter and member that the description has, at its ends and of another type, one at a time."""
        routes = self.server.request("GET", "/openapi.json").json["paths"]
        admin = {"Authorization": "Bearer " + (self.server.data / "auth/admin.token").read_text().strip()}
        values = ("-1", "0", str(1 << 63), str(-(1 << 63)), str(1 << 64), "1e308", "0.5", "NaN", "null", "[]", "{}", "%00", "%F0%9F%87%A9", "a" * 2000, "9-1")
        # Left out: requests that stay open, and those that end what the others need.
        left_out = ("/live", "/feed", "restart", "drain", "shutdown", "revocations", "erasures", "rebuild", "signing-keys", "truncat")
        asked = 0
        for path, operations in routes.items():
            place = re.sub(r"{([^}]*)}", lambda name: self.server.database if "atabase" in name[1] else "cars", path)
            if any(word in path for word in left_out):
                continue
            fields = admin if path.startswith("/admin") else self.server.authorization()
            for method, operation in operations.items():
                if method not in ("get", "post", "put", "patch"):
                    continue
                for parameter in operation.get("parameters", []):
                    for value in values if parameter["in"] == "query" and method == "get" else ():
                        whole = f"{place}?{parameter['name']}={value}"
                        self.assert_answered(self.server.request("GET", whole, headers=fields), whole)
                        asked += 1
                body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
                for member in body.get("properties", {}):
                    for value in ("-9223372036854775808", "9223372036854775807", "18446744073709551616", "-1", "0.5", "1e400", "[[]]", '{"a":-1}', '""', "null"):
                        self.assert_answered(
                            self.server.request(method.upper(), place, f'{{"{member}":{value}}}', {**fields, "Content-Type": "application/json"}), f"{place} {member} {value}")
                        asked += 1
        self.assertGreater(asked, 500)


class Tokens(BadInput):
    def post_with(self, authorization):
        headers = {"Authorization": authorization} if authorization is not None else {}
        body = {"statement": "INSERT INTO cars DOCUMENTS ({'_id': '1'})"}
        return self.server.request("POST", EXECUTE, body, headers)

    @staticmethod
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    def test_no_token_a_garbage_token_and_a_wrong_scheme(self):
        for authorization in (None, "", "Bearer", "Bearer ", "Bearer x", "Bearer a.b.c", "Basic YTpi",
                              "Bearer " + "x" * 6000):
            with self.subTest(authorization and authorization[:30]):
                self.assert_refused(self.post_with(authorization), 401)

    def test_a_changed_token(self):
        """Another payload under the same signature, no signature, and an algorithm that is none."""
        header, payload, signature = self.server.access_token.split(".")
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        longer = self.part({**claims, "exp": claims["exp"] + 3600})
        unsigned = self.part({"alg": "none", "typ": "JWT"})
        for token in (f"{header}.{longer}.{signature}", f"{header}.{payload}.", f"{unsigned}.{payload}.",
                      f"{header}.{payload}.{signature[:-4]}AAAA", f"{header}.{payload}"):
            self.assert_refused(self.post_with(f"Bearer {token}"), 401, token)

    def test_the_token_of_another_server(self):
        other = OneProcess(self.workspace, "other").start()
        self.assert_refused(self.post_with(f"Bearer {other.access_token}"), 401)

    def test_wrong_secrets_at_login_are_refused_and_never_repeated(self):
        secret = "not-the-secret-" + uuid.uuid4().hex
        answer = self.server.login(token=secret)
        self.assert_refused(answer, 401)
        self.assertNotIn(secret, answer.body.decode())
        self.assertNotIn(secret, self.server.process.log_path.read_text())

    def test_an_unknown_database(self):
        self.assert_refused(self.server.login(database=str(uuid.uuid4())), 404)

    def test_an_unknown_provider(self):
        answer = self.server.login(provider="nobody")
        self.assertIn(answer.status, (401, 404))
        self.assert_refused(answer, answer.status)

    def test_a_malformed_login(self):
        for body in ("", "{", "[]", {}, {"databaseID": 7, "provider": [], "token": None}, "x" * 100_000):
            with self.subTest(str(body)[:40]):
                answer = self.server.request("POST", "/_ditto/auth/login", body)
                self.assertIn(answer.status, (400, 401, 413), answer.body[:300])
                self.assert_refused(answer, answer.status)


class Frames(BadInput):
    """What reaches a sync session ends that session only: another peer goes on through it all."""

    def setUp(self):
        super().setUp()
        self.peer = Peer(self.workspace, "a", self.server, ["SELECT * FROM boats"])

    def connect(self, token=None):
        token = self.server.access_token if token is None else token
        return WebSocket(self.server.address, SYNC, {"Authorization": f"Bearer {token}"})

    def assert_others_go_on(self, number):
        commit = self.peer.execute(f"INSERT INTO boats DOCUMENTS ({{'_id': 'b{number}'}})")["commitID"]
        self.peer.wait_for_commit(commit, 90)

    def test_without_a_token_there_is_no_session(self):
        for number, token in enumerate(("", "garbage")):
            with self.connect(token) as connection:
                if connection.status == 101:
                    connection.send(b"\x00")
                    connection.await_close()
                else:
                    self.assertEqual(connection.status, 401)
            self.assert_others_go_on(number)

    def test_garbage_frames(self):
        """Random bytes, an empty frame, text, CBOR of no meaning, CBOR nested too deep."""
        payloads = [os.urandom(100), b"", b"\xff" * 10, b"\xa1\x01\x02", b"\x81" * 5000, b"\x9b" + b"\xff" * 8,
                    b"\x5b" + b"\xff" * 8]
        for number, payload in enumerate(payloads):
            with self.subTest(payload[:10]), self.connect() as connection:
                self.assertEqual(connection.status, 101, connection.body)
                connection.send(payload)
                connection.await_close()
            self.assert_others_go_on(number)

    def test_a_text_frame_is_no_message(self):
        with self.connect() as connection:
            connection.send(b"hello", opcode=1)
            connection.await_close()
        self.assert_others_go_on(0)

    def test_a_frame_over_one_mebibyte(self):
        """Ends the session, whether the bytes come or are only promised."""
        with self.connect() as connection:
            try:
                connection.send(os.urandom(MEBIBYTE + 1))
            except (ConnectionError, BrokenPipeError):
                pass
            self.assertIn(connection.await_close(), (None, 1002, 1003, 1008, 1009))
        with self.connect() as connection:
            connection.send(b"x" * 10, declared_bytes=1 << 40)
            self.assertIn(connection.await_close(), (None, 1002, 1003, 1008, 1009))
        self.assert_others_go_on(0)

    def test_bytes_that_break_the_websocket_protocol(self):
        """Reserved bits, a reserved opcode, a frame that is not masked."""
        for number, raw in enumerate((b"\xf2\x85abcd12345", b"\x83\x80abcd", b"\x82\x05hello")):
            with self.connect() as connection:
                connection.send_raw(raw)
                connection.await_close()
            self.assert_others_go_on(number)
