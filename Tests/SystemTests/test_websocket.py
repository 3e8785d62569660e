"""RFC 6455 at the shipped server and the shipped client: the case list, the opening handshake, and foreign libraries."""

import base64
import hashlib
import json
import pathlib
import queue
import random
import socket
import sys
import threading

from mimeo_harness import IS_DEEP, SEED, OneProcess, Peer, use_packages
from system_test import SystemTest, report

use_packages()
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "Conformance"))

import cbor2  # noqa: E402
import websockets.sync.client  # noqa: E402
import websocket_cases  # noqa: E402
from websockets.frames import Opcode  # noqa: E402
from websockets.server import ServerProtocol  # noqa: E402
from websocket_cases import Broken, Line, cases, is_alive  # noqa: E402
from wsproto import ConnectionType, WSConnection  # noqa: E402
from wsproto.events import (  # noqa: E402
    AcceptConnection, BytesMessage, CloseConnection, Ping, Pong, Request)

SYNC = "/_ditto/sync"
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
WAIT_SECONDS = 60
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def padded(message, size):
    """A frame of exactly `size` bytes: unknown keys are ignored. None is as small as it gets."""
    data = cbor2.dumps(message, canonical=True)
    if size is None:
        return data
    for room in range(size):
        data = cbor2.dumps({**message, 99: bytes(max(0, size - len(cbor2.dumps(message)) - room))}, canonical=True)
        if len(data) == size:
            return data
    raise ValueError(f"no frame of {size} bytes")


class Cases(SystemTest):
    seconds = 240

    def run_cases(self, greeting, connect, what):
        every = list(cases(greeting))
        chosen = every if IS_DEEP else random.Random(SEED).sample(every, 30)
        for case in chosen:
            with self.subTest(case.name):
                line = connect()
                try:
                    case.act(line)
                except EOFError:
                    self.fail("the connection ended")
                except TimeoutError:
                    self.fail(f"nothing came within {WAIT_SECONDS} s")
                except Broken as broken:
                    self.fail(str(broken))
                finally:
                    line.socket.close()
        report(f"{len(chosen)} of {len(every)} cases of RFC 6455 against the shipped {what}")


class Server(Cases):
    def setUp(self):
        super().setUp()
        self.server = OneProcess(self.workspace).start()

    def greeting(self, size):
        return padded({0: 1, 1: 3, 2: self.server.database, 3: "", 4: 0, 5: 1 << 20, 6: []}, size)

    def upgrade(self, headers=(), method="GET", path=SYNC, left_out=()):
        """A socket behind its upgrade request, and (status, headers, what followed the head)."""
        connected = socket.create_connection(self.server.address, timeout=WAIT_SECONDS)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        fields = {"Host": "x", "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": KEY,
                  "Sec-WebSocket-Version": "13", "Sec-WebSocket-Protocol": "mimeo.sync.1",
                  "Authorization": f"Bearer {self.server.access_token}", **dict(headers)}
        lines = [f"{method} {path} HTTP/1.1"]
        lines += [f"{name}: {content}" for name, content in fields.items() if name not in left_out]
        connected.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        received = b""
        while b"\r\n\r\n" not in received:
            chunk = connected.recv(65536)
            if not chunk:
                break
            received += chunk
        head, _, rest = received.partition(b"\r\n\r\n")
        first, *others = head.decode().split("\r\n")
        answer = {name.lower(): content.strip() for name, content in (line.split(":", 1) for line in others)}
        return connected, int(first.split()[1]), answer, rest

    def connect(self):
        connected, status, _, rest = self.upgrade()
        self.assertEqual(status, 101)
        return Line(connected, rest, from_client=False)

    def test_the_case_list(self):
        self.run_cases(self.greeting, self.connect, "server")
        self.assertEqual(self.server.request("GET", "/health").status, 200)

    def test_the_opening_handshake(self):
        """Section 4.2: what is asked for, answered or refused."""
        good = [({}, (), "as it should be"), ({"Upgrade": "WebSocket"}, (), "in capitals"),
                ({"Connection": "keep-alive, Upgrade"}, (), "among other options"),
                ({"Sec-WebSocket-Protocol": "other, mimeo.sync.1"}, (), "second of two protocols"),
                ({"Sec-WebSocket-Extensions": "permessage-deflate"}, (), "an extension that is not spoken")]
        for headers, left_out, what in good:
            with self.subTest(what):
                connected, status, answer, _ = self.upgrade(headers, left_out=left_out)
                connected.close()
                self.assertEqual(status, 101)
                self.assertEqual(answer["sec-websocket-accept"], ACCEPT)
                self.assertEqual(answer["upgrade"].lower(), "websocket")
                self.assertEqual(answer["sec-websocket-protocol"], "mimeo.sync.1")
                self.assertNotIn("sec-websocket-extensions", answer)
        connected, status, answer, _ = self.upgrade(left_out=("Sec-WebSocket-Protocol",))
        connected.close()
        self.assertEqual((status, answer.get("sec-websocket-protocol")), (101, None))
        bad = [({}, ("Sec-WebSocket-Key",), {400}, "no key"), ({"Sec-WebSocket-Key": "short"}, (), {400}, "a short key"),
               ({"Sec-WebSocket-Key": "!" * 24}, (), {400}, "a key that is no base64"),
               ({}, ("Host",), {400}, "no host"), ({}, ("Upgrade",), {426}, "no upgrade"), ({"Upgrade": "h2c"}, (), {426}, "another protocol"),
               ({}, ("Authorization",), {401}, "no token")]
        for headers, left_out, statuses, what in bad:
            with self.subTest(what):
                connected, status, _, _ = self.upgrade(headers, left_out=left_out)
                connected.close()
                self.assertIn(status, statuses)
        for version in ("8", "12", "14", "x"):
            with self.subTest(f"version {version}"):
                connected, status, answer, _ = self.upgrade({"Sec-WebSocket-Version": version})
                connected.close()
                self.assertIn(status, (400, 426))
                self.assertEqual(answer.get("sec-websocket-version"), "13")
        connected, status, _, _ = self.upgrade(method="POST")
        connected.close()
        self.assertIn(status, (400, 405, 426))

    def test_pings_that_nobody_reads_the_answers_of(self):
        """The server keeps one answer, not all of them, and others go on."""
        line = self.connect()
        flood = b"".join(websocket_cases.frame(websocket_cases.PING, bytes(100), mask=bytes(4)) for _ in range(1000))
        line.socket.settimeout(3)
        before, sent = self.memory(), 0
        try:
            for _ in range(300):
                line.socket.sendall(flood)
                sent += 1000
        except TimeoutError:
            pass  # it is held back: that is as good
        grown = self.memory() - before
        report(f"{sent} pings unread: the server's memory grew by {grown / 1e6:.1f} MB")
        self.assertLess(grown, 24_000_000)
        is_alive(self.connect())
        line.socket.close()

    def memory(self):
        for entry in pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text().splitlines():
            if entry.startswith("RssAnon:"):
                return int(entry.split()[1]) * 1024
        raise AssertionError("no RssAnon")

    def test_websockets_of_python(self):
        """The library `websockets`, with fragments and pings of its own making."""
        url = self.server.origin.replace("http", "ws", 1) + SYNC
        with websockets.sync.client.connect(
                url, additional_headers={"Authorization": f"Bearer {self.server.access_token}"},
                subprotocols=["mimeo.sync.1"], max_size=1 << 21) as connection:
            greeting = self.greeting(None)
            connection.send([greeting[:5], greeting[5:9], greeting[9:]])
            self.assertEqual(cbor2.loads(connection.recv(WAIT_SECONDS))[0], 1)
            self.assertTrue(connection.ping(b"x").wait(WAIT_SECONDS))
        self.assertEqual(connection.close_code, 1000)

    def test_wsproto_of_python(self):
        """The library `wsproto`, which speaks over any bytes."""
        connected = socket.create_connection(self.server.address, timeout=WAIT_SECONDS)
        self.addCleanup(connected.close)
        protocol = WSConnection(ConnectionType.CLIENT)
        headers = [(b"Authorization", f"Bearer {self.server.access_token}".encode())]
        connected.sendall(protocol.send(
            Request(host="x", target=SYNC, subprotocols=["mimeo.sync.1"], extra_headers=headers)))
        waiting = []

        def event():
            while not waiting:
                protocol.receive_data(connected.recv(65536) or None)
                waiting.extend(protocol.events())
            return waiting.pop(0)

        self.assertIsInstance(event(), AcceptConnection)
        greeting = self.greeting(None)
        connected.sendall(protocol.send(BytesMessage(greeting[:7], message_finished=False)))
        connected.sendall(protocol.send(Ping(b"between")))
        connected.sendall(protocol.send(BytesMessage(greeting[7:], message_finished=True)))
        pong = event()
        self.assertIsInstance(pong, Pong)
        self.assertEqual(bytes(pong.payload), b"between")
        answer = event()
        self.assertIsInstance(answer, BytesMessage)
        self.assertEqual(cbor2.loads(bytes(answer.data))[0], 1)
        connected.sendall(protocol.send(CloseConnection(1000, "done")))
        last = event()
        self.assertIsInstance(last, CloseConnection)
        self.assertEqual(last.code, 1000)


class RawServer:
    """A server that logs everybody in and gives each upgraded socket to its test. `answer` makes its 101."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.database, self.token = "raw", "raw"
        self.upgraded = queue.Queue()
        self.answer = self.good_answer
        """Makes the 101; None leaves the request to the test."""
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self._listener.close()

    @staticmethod
    def good_answer(key):
        accept = base64.b64encode(hashlib.sha1(key + MAGIC).digest()).decode()
        return ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: mimeo.sync.1\r\n\r\n")

    def _serve(self):
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(connected,), daemon=True).start()

    def _one(self, connected):
        connected.settimeout(WAIT_SECONDS)
        received = b""
        try:
            while b"\r\n\r\n" not in received:
                chunk = connected.recv(65536)
                if not chunk:
                    return connected.close()
                received += chunk
        except OSError:
            return connected.close()
        head, _, rest = received.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        fields = {name.strip().lower(): content.strip() for name, content in (line.split(b":", 1) for line in lines)}
        if first.startswith(b"GET /_ditto/sync") and self.answer is None:
            return self.upgraded.put((connected, received, fields))
        if first.startswith(b"GET /_ditto/sync"):
            connected.sendall(self.answer(fields[b"sec-websocket-key"]).encode())
            return self.upgraded.put((connected, rest, fields))
        status, body = "404 Not Found", b'{"error":{"code":"X-0000","message":"no"}}'
        if first.startswith(b"POST /_ditto/auth/login"):
            status = "200 OK"
            body = json.dumps({"accessToken": "a.b.c", "expiresIn": 3600, "userID": "u", "clientInfo": {}}).encode()
        connected.sendall(f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
                          "Connection: close\r\n\r\n".encode() + body)
        return connected.close()


class ClientSide(Cases):
    """`mimeo peer` as the client; each case on a connection of its own, begun by `.sync start`."""

    def setUp(self):
        super().setUp()
        self.server = RawServer()
        self.addCleanup(self.server.close)
        self.peer = Peer(self.workspace, "client", self.server, ["SELECT * FROM cars"], offline=True)

    def connect(self):
        self.peer.stop_sync()
        while not self.server.upgraded.empty():
            self.server.upgraded.get()[0].close()
        self.peer.start_sync()
        while True:
            connected, rest, self.fields = self.server.upgraded.get(timeout=60)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line = Line(connected, rest, from_client=True)
            try:
                opcode, payload = line.next(websocket_cases.BINARY)
                break
            except (EOFError, OSError):
                connected.close()  # of the session before
        self.assertEqual(cbor2.loads(payload)[0], 1, opcode)
        return line

    @staticmethod
    def greeting(size):
        """A server's, to which the client answers with what it subscribes to."""
        position = [bytes(16), 0, bytes(8)]
        return padded({0: 1, 1: 3, 2: "raw", 3: "", 4: 0, 5: 1 << 20, 6: [], 7: position}, size)

    def test_the_case_list(self):
        self.run_cases(self.greeting, self.connect, "client")
        self.assertEqual(self.peer.query("SELECT * FROM cars"), [])

    def request(self):
        """A socket, and the bytes of the request that the client sends on it."""
        self.server.answer = None
        self.peer.stop_sync()
        while not self.server.upgraded.empty():
            self.server.upgraded.get()[0].close()
        self.peer.start_sync()
        connected, received, _ = self.server.upgraded.get(timeout=60)
        self.addCleanup(connected.close)
        return connected, received

    def test_websockets_of_python(self):
        """A server of the library `websockets`: fragments, a ping between them, and a close that it asks for."""
        connected, received = self.request()
        protocol = ServerProtocol(subprotocols=["mimeo.sync.1"], max_size=1 << 21)
        protocol.receive_data(received)
        (asked,) = protocol.events_received()
        protocol.send_response(protocol.accept(asked))
        greeting = self.greeting(None)
        frames = []

        def flush():
            connected.sendall(b"".join(protocol.data_to_send()))

        def until_frame(opcode):
            while not any(frame.opcode is opcode for frame in frames):
                protocol.receive_data(connected.recv(65536))
                frames.extend(protocol.events_received())
            return next(frame for frame in frames if frame.opcode is opcode)

        flush()
        self.assertEqual(cbor2.loads(until_frame(Opcode.BINARY).data)[0], 1)
        frames.clear()
        protocol.send_binary(greeting[:9], fin=False)
        protocol.send_ping(b"between")
        protocol.send_continuation(greeting[9:], fin=True)
        flush()
        self.assertEqual(until_frame(Opcode.PONG).data, b"between")
        self.assertEqual(cbor2.loads(until_frame(Opcode.BINARY).data)[0], 2)
        protocol.send_close(1001, "bye")
        flush()
        until_frame(Opcode.CLOSE)
        self.assertEqual((protocol.close_rcvd.code, protocol.close_rcvd_then_sent), (1001, False))

    def test_wsproto_of_python(self):
        """A server of the library `wsproto`, likewise."""
        connected, received = self.request()
        protocol = WSConnection(ConnectionType.SERVER)
        protocol.receive_data(received)
        waiting = list(protocol.events())

        def event(kind):
            while True:
                while not waiting:
                    protocol.receive_data(connected.recv(65536) or None)
                    waiting.extend(protocol.events())
                found = waiting.pop(0)
                if isinstance(found, kind):
                    return found

        self.assertEqual(event(Request).subprotocols, ["mimeo.sync.1"])
        connected.sendall(protocol.send(AcceptConnection(subprotocol="mimeo.sync.1")))
        self.assertEqual(cbor2.loads(bytes(event(BytesMessage).data))[0], 1)
        greeting = self.greeting(None)
        connected.sendall(protocol.send(BytesMessage(greeting[:9], message_finished=False)))
        connected.sendall(protocol.send(Ping(b"between")))
        connected.sendall(protocol.send(BytesMessage(greeting[9:], message_finished=True)))
        self.assertEqual(bytes(event(Pong).payload), b"between")
        self.assertEqual(cbor2.loads(bytes(event(BytesMessage).data))[0], 2)
        connected.sendall(protocol.send(CloseConnection(1001, "bye")))
        self.assertEqual(event(CloseConnection).code, 1001)

    def test_the_opening_handshake(self):
        """Section 4.1: what the client asks for, and what it takes for an answer."""
        self.connect()
        self.assertEqual(len(base64.b64decode(self.fields[b"sec-websocket-key"])), 16)
        self.assertEqual(self.fields[b"sec-websocket-version"], b"13")
        self.assertEqual(self.fields[b"upgrade"].lower(), b"websocket")
        self.assertIn(b"upgrade", self.fields[b"connection"].lower())
        first = self.fields[b"sec-websocket-key"]
        self.connect()
        self.assertNotEqual(first, self.fields[b"sec-websocket-key"])
        good = RawServer.good_answer
        for what, change in (
                ("another key's accept", lambda text, key: good(key + b"x")),
                ("no accept", lambda text, key: text.replace("Sec-WebSocket-Accept", "X-Accept")),
                ("a protocol nobody asked for", lambda text, key: text.replace("mimeo.sync.1", "mimeo.sync.9")),
                ("an extension nobody asked for", lambda text, key: text.replace(
                    "Upgrade: websocket", "Upgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate")),
                ("another protocol", lambda text, key: text.replace("Upgrade: websocket", "Upgrade: h2c"))):
            with self.subTest(what):
                self.server.answer = lambda key, change=change: change(good(key), key)
                self.peer.stop_sync()
                while not self.server.upgraded.empty():
                    self.server.upgraded.get()[0].close()
                self.peer.start_sync()
                connected, rest, _ = self.server.upgraded.get(timeout=60)
                try:
                    said = rest
                    while chunk := connected.recv(65536):
                        said += chunk
                except ConnectionResetError:
                    pass
                finally:
                    connected.close()
                # The client may say goodbye; it does not greet.
                self.assertFalse(said and said[0] & 15 == websocket_cases.BINARY, said[:20])
        self.server.answer = good
        self.connect()
