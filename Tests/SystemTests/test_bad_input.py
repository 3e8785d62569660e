"""Malformed input: a clear refusal with a stable code, the server stays up, nothing is stored."""

import base64
import json
import os
import uuid

from mimeo_harness import OneProcess, Peer, WebSocket
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
