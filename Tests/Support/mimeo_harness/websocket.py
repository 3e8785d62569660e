"""A WebSocket client (RFC 6455) that can also break the protocol."""

import base64
import os
import socket
import struct

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA


class WebSocket:
    """A connection after its upgrade. `status` is the HTTP status of the answer, 101 if the upgrade succeeded."""

    def __init__(self, address, path, headers=None, seconds=60):
        self._socket = socket.create_connection(address, timeout=seconds)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {path} HTTP/1.1", f"Host: {address[0]}:{address[1]}", "Upgrade: websocket", "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13",
        ]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self._socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self._received = b""
        head = self._head()
        self.status = int(head.split(b" ", 2)[1]) if head.startswith(b"HTTP/") else 0
        self.body = self._received

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()

    def _head(self):
        while b"\r\n\r\n" not in self._received:
            chunk = self._socket.recv(65536)
            if not chunk:
                break
            self._received += chunk
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        return head

    def send(self, payload, opcode=BINARY, masked=True, declared_bytes=None):
        """Sends one frame; `declared_bytes` declares a false length."""
        length = len(payload) if declared_bytes is None else declared_bytes
        flag = 0x80 if masked else 0
        if length < 126:
            header = struct.pack("!BB", 0x80 | opcode, flag | length)
        elif length < 65536:
            header = struct.pack("!BBH", 0x80 | opcode, flag | 126, length)
        else:
            header = struct.pack("!BBQ", 0x80 | opcode, flag | 127, length)
        mask = os.urandom(4) if masked else b""
        self._socket.sendall(header + mask + (self._masked(payload, mask) if masked else payload))

    def send_raw(self, data):
        self._socket.sendall(data)

    @staticmethod
    def _masked(payload, mask):
        repeated = mask * (len(payload) // 4 + 1)
        number = int.from_bytes(payload, "big") ^ int.from_bytes(repeated[: len(payload)], "big")
        return number.to_bytes(len(payload), "big")

    def _exactly(self, count):
        while len(self._received) < count:
            chunk = self._socket.recv(65536)
            if not chunk:
                raise ConnectionError("closed")
            self._received += chunk
        data, self._received = self._received[:count], self._received[count:]
        return data

    def receive(self):
        """(opcode, payload) of the next frame; ConnectionError if the server closed the connection."""
        first, second = self._exactly(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", self._exactly(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", self._exactly(8))
        return first & 0x0F, self._exactly(length)

    def await_close(self):
        """Reads until the server ends the session; returns its close code, or None if it sent no close frame."""
        try:
            while True:
                opcode, payload = self.receive()
                if opcode == CLOSE:
                    return struct.unpack("!H", payload[:2])[0] if len(payload) >= 2 else None
        except (ConnectionError, BrokenPipeError):
            return None
