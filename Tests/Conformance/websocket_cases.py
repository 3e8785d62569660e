"""What RFC 6455 asks of an endpoint, as cases in the categories of the Autobahn test suite, for either side.

A case is bytes that the other side of a connection sends, and what the endpoint has to do then. Our endpoints speak sync
and not echo, so the message that is sent is a greeting, and being answered by a message is what an echo is elsewhere.
Standard library only.
"""

import os
import socket
import struct

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
LIMIT_BYTES = 1024 * 1024 + 4096
"""The largest message that our endpoints take."""


def frame(opcode, payload=b"", fin=True, reserved=0, mask=None, length_bytes=None, declared=None):
    """One frame. `mask` is four bytes or None; `length_bytes` (1, 2 or 8) writes the length longer than need be."""
    length = len(payload) if declared is None else declared
    form = length_bytes or (1 if length < 126 else 2 if length < 65536 else 8)
    flag = 0x80 if mask else 0
    head = bytes([(0x80 if fin else 0) | reserved << 4 | opcode])
    head += {1: lambda: bytes([flag | length]), 2: lambda: struct.pack("!BH", flag | 126, length),
             8: lambda: struct.pack("!BQ", flag | 127, length)}[form]()
    if not mask:
        return head + payload
    whole = mask * (len(payload) // 4 + 1)
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(whole[:len(payload)], "big")
    return head + mask + masked.to_bytes(len(payload), "big")


class Broken(AssertionError):
    """The endpoint did something that RFC 6455 forbids."""


class Line:
    """The other side of a connection to an endpoint, which looks at each frame that comes from it."""

    def __init__(self, connected, received, from_client):
        self.socket = connected
        self._received = received
        self._from_client = from_client
        self._partial = None
        self._has_closed = False

    def mask(self):
        """What our own frames are masked with: clients mask, servers do not."""
        return None if self._from_client else os.urandom(4)

    def send(self, opcode, payload=b"", **options):
        options.setdefault("mask", self.mask())
        self._has_closed = self._has_closed or opcode == CLOSE
        self.send_bytes(frame(opcode, payload, **options))

    def send_bytes(self, data):
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # closed while the rest was sent

    def _exactly(self, count):
        while len(self._received) < count:
            chunk = self.socket.recv(65536)
            if not chunk:
                raise EOFError
            self._received += chunk
        data, self._received = self._received[:count], self._received[count:]
        return data

    def frame(self):
        """(opcode, payload, fin) of the next frame; EOFError at the end of the connection."""
        first, second = self._exactly(2)
        if first & 0x70:
            raise Broken("a reserved bit is set")
        if bool(second & 0x80) != self._from_client:
            raise Broken("clients mask, servers do not")
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", self._exactly(2))
            if length < 126:
                raise Broken("a length is longer than need be")
        elif length == 127:
            (length,) = struct.unpack("!Q", self._exactly(8))
            if length < 65536:
                raise Broken("a length is longer than need be")
        key = self._exactly(4) if self._from_client else None
        payload = self._exactly(length)
        if key:
            payload = frame(BINARY, payload, mask=key)[-length:] if length else b""
        opcode, fin = first & 15, bool(first & 0x80)
        if opcode >= 8 and (not fin or length > 125):
            raise Broken("a control frame is in pieces or too long")
        if opcode not in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
            raise Broken(f"opcode {opcode}")
        if opcode == CLOSE and length == 1:
            raise Broken("a close code of one byte")
        return opcode, payload, fin

    def next(self, *kinds):
        """The next frame of one of these kinds; pings in between are answered, as they must be."""
        while True:
            opcode, payload, _ = self.frame()
            if opcode in kinds:
                return opcode, payload
            if opcode == PING:
                self.send(PONG, payload)
            elif opcode == CLOSE:
                raise Broken(f"closed: {payload!r}")

    def closing(self):
        """The code of the close frame that has to come now, None for one without; then the end of the connection."""
        try:
            _, payload = self.next(CLOSE)
        except EOFError:
            raise Broken("the connection ended without a close frame") from None
        code = struct.unpack("!H", payload[:2])[0] if payload else None
        reason = payload[2:].decode()
        # An answer repeats the code and needs no reason.
        if code in (1002, 1003, 1009) and not self._has_closed and not reason.startswith("WS-"):
            raise Broken(f"closed with {code} for no reason: {reason!r}")
        self.send(CLOSE, payload[:2])
        try:
            self.socket.shutdown(socket.SHUT_WR)
            while self.socket.recv(65536):
                pass
        except OSError:
            pass
        return code


class Case:
    def __init__(self, name, act):
        self.name, self.act = name, act


def equal(found, expected, what="the answer"):
    if found != expected:
        raise Broken(f"{what} is {found!r}, not {expected!r}")


def is_alive(line):
    """A ping with bytes of its own is answered, so the connection is whole."""
    probe = os.urandom(8)
    line.send(PING, probe)
    while True:
        if line.next(PONG)[1] == probe:
            return


def answered(line):
    """The greeting was taken: a message comes back, and the connection is whole."""
    line.next(BINARY)
    is_alive(line)


def sending(*frames):
    """Frames as (opcode, payload, options), masked as the side has to."""
    def act(line):
        for opcode, payload, *options in frames:
            line.send(opcode, payload, **(options[0] if options else {}))
    return act


def cases(greeting):
    """All cases for an endpoint. `greeting(size)` is a message that it answers, of that many bytes (None for any)."""
    small = greeting(None)
    found = []

    def case(name, act):
        found.append(Case(name, act))

    def closes(name, act, *codes):
        def run(line):
            act(line)
            code = line.closing()
            if code not in codes:
                raise Broken(f"closed with {code}, not {' or '.join(map(str, codes))}")
        case(name, run)

    def answers(name, act):
        def run(line):
            act(line)
            answered(line)
        case(name, run)

    def ponged(name, act, *payloads):
        def run(line):
            act(line)
            for payload in payloads:
                equal(line.next(PONG)[1], payload, "the pong")
            is_alive(line)
        case(name, run)

    _framing(case, answers, closes, greeting)
    _pings(ponged, answers, closes, small)
    for bits in range(1, 8):
        for opcode, payload in ((BINARY, small), (PING, b"x"), (CLOSE, b"\x03\xe8"), (PONG, b""), (TEXT, b"x")):
            closes(f"3 reserved bits {bits:03b} on opcode {opcode:x}",
                   sending((opcode, payload, {"reserved": bits})), 1002)
    for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15):
        closes(f"4 opcode {opcode:x}", sending((opcode, b"")), 1002)
        closes(f"4 opcode {opcode:x} with bytes, behind a message", sending((BINARY, small), (opcode, b"abc")), 1002)
    _fragments(case, answers, closes, small)
    _texts(closes)
    _closing(case, closes, small)
    _limits(answers, closes, greeting)
    _masks(closes, answers, small)
    return found


def _framing(case, answers, closes, greeting):
    for size in (125, 126, 127, 128, 65535, 65536, 65537, 1 << 20):
        answers(f"1 a message of {size} bytes", sending((BINARY, greeting(size))))
    for size, piece in ((200, 1), (65536, 997), (65536, 1024), (1 << 20, 4096)):
        def chopped(line, size=size, piece=piece):
            data = frame(BINARY, greeting(size), mask=line.mask())
            for place in range(0, len(data), piece):
                line.send_bytes(data[place:place + piece])
        answers(f"1 a message of {size} bytes in writes of {piece}", chopped)

    # Section 5.2: the minimal number of bytes MUST be used.
    for size, form in ((0, 2), (5, 2), (120, 2), (125, 8), (126, 8), (200, 8), (65535, 8)):
        closes(f"1 a message of {size} bytes, its length written in {form}",
               sending((BINARY, greeting(size) if size > 100 else bytes(size), {"length_bytes": form})), 1002)
    for kind, opcode in (("ping", PING), ("pong", PONG), ("close", CLOSE)):
        closes(f"1 a {kind} of 2 bytes, its length written in 2",
               sending((opcode, struct.pack("!H", 1000), {"length_bytes": 2})), 1002)

    def late(line):
        """The header comes byte by byte, behind a frame that is sound."""
        line.send(PING, b"before")
        for byte in frame(PING, b"x", mask=line.mask(), length_bytes=8):
            line.send_bytes(bytes([byte]))
        equal(line.next(PONG)[1], b"before")
        equal(line.closing(), 1002, "the close code")

    case("1 a length longer than need be, byte by byte", late)


def _pings(ponged, answers, closes, small):
    for payload in (b"", b"\x00", b"hello", b"\x00\xff\xfe\xfd\xfc\xfb\x00\xff", b"\xfe" * 125):
        ponged(f"2 a ping of {len(payload)} bytes {payload[:2].hex()}", sending((PING, payload)), payload)
    closes("2 a ping of 126 bytes", sending((PING, b"\xfe" * 126)), 1002)
    closes("2 a ping of 65536 bytes", sending((PING, b"\xfe" * 65536)), 1002)

    def slowly(line):
        for byte in frame(PING, b"\xfe" * 125, mask=line.mask()):
            line.send_bytes(bytes([byte]))
    ponged("2 a ping byte by byte", slowly, b"\xfe" * 125)
    answers("2 a pong nobody asked for", sending((PONG, b""), (BINARY, small)))
    answers("2 a pong nobody asked for, with bytes", sending((PONG, b"unsolicited"), (BINARY, small)))
    ponged("2 a pong nobody asked for, then a ping", sending((PONG, b"unsolicited"), (PING, b"asked")), b"asked")
    ten = [bytes([65 + number]) * 3 for number in range(10)]
    ponged("2 ten pings", sending(*[(PING, payload) for payload in ten]), *ten)
    closes("2 a pong of 126 bytes", sending((PONG, b"\xfe" * 126)), 1002)


def _fragments(case, answers, closes, small):
    def pieces(count):
        step = -(-len(small) // count)
        return [small[place:place + step] for place in range(0, len(small), step)]

    def fragments(parts, between=()):
        """The parts as one message, with whole frames behind the first."""
        last = len(parts) - 1
        frames = [(BINARY if number == 0 else CONTINUATION, part, {"fin": number == last})
                  for number, part in enumerate(parts)]
        return sending(frames[0], *between, *frames[1:])

    for kind, name in ((PING, "ping"), (PONG, "pong")):
        closes(f"5 a {name} in two fragments", sending((kind, b"a", {"fin": False}), (CONTINUATION, b"b")), 1002)
    closes("5 a close in two fragments", sending((CLOSE, b"\x03", {"fin": False}), (CONTINUATION, b"\xe8")), 1002)
    for count in (2, 3, 10, len(small)):
        answers(f"5 a message in {count} fragments", fragments(pieces(count)))
    answers("5 a message with empty fragments", fragments([b"", small, b""]))
    answers("5 a message that begins empty", fragments([b"", b"", small]))
    answers("5 a pong between fragments", fragments(pieces(2), [(PONG, b"x")]))

    def pinged(count):
        def run(line):
            fragments(pieces(2), [(PING, bytes([number])) for number in range(count)])(line)
            for number in range(count):
                equal(line.next(PONG)[1], bytes([number]), "the pong")
            answered(line)
        return run
    case("5 a ping between fragments", pinged(1))
    case("5 ten pings between fragments", pinged(10))

    def byte_by_byte(line):
        data = b"".join(frame(BINARY if number == 0 else CONTINUATION, part, fin=number == 2, mask=line.mask())
                        for number, part in enumerate(pieces(3)))
        for byte in data:
            line.send_bytes(bytes([byte]))
    answers("5 fragments byte by byte", byte_by_byte)
    closes("5 a continuation without a beginning", sending((CONTINUATION, small)), 1002)
    closes("5 a continuation without a beginning, to be continued", sending((CONTINUATION, b"", {"fin": False})), 1002)
    closes("5 a continuation behind a whole message", sending((BINARY, small), (CONTINUATION, b"a")), 1002)
    closes("5 a message in the midst of another", sending((BINARY, b"a", {"fin": False}), (BINARY, small)), 1002)
    closes("5 a fragmented message in the midst of another",
           sending((BINARY, b"a", {"fin": False}), (BINARY, b"b", {"fin": False}), (CONTINUATION, b"c")), 1002)
    closes("5 text in the midst of a message", sending((BINARY, b"a", {"fin": False}), (TEXT, b"x")), 1002, 1003)
    closes("5 a close between fragments", sending((BINARY, b"a", {"fin": False}), (CLOSE, b"\x03\xe8")), 1000)
    # An endpoint holds one unfinished message, bounded.
    closes("5 fragments without an end", lambda line: [
        line.send(CONTINUATION if number else BINARY, bytes(65536), fin=False) for number in range(40)], 1009)


def _texts(closes):
    for name, payload in (("ASCII", b"hello"), ("nothing", b""), ("UTF-8", "κόσμε".encode()), ("no UTF-8", b"\xff\xfe")):
        closes(f"6 text, which is not spoken: {name}", sending((TEXT, payload)), 1003, 1007)
    closes("6 text in fragments, which is not spoken",
           sending((TEXT, b"a", {"fin": False}), (CONTINUATION, b"b")), 1003, 1007)


INVALID_TEXT = {
    "a lonely continuation": b"\x80", "a start that ends": b"\xc3", "an overlong slash": b"\xc0\xaf",
    "an overlong of three": b"\xe0\x80\xaf", "an overlong of four": b"\xf0\x80\x80\xaf", "a surrogate": b"\xed\xa0\x80",
    "beyond Unicode": b"\xf4\x90\x80\x80", "a byte of no meaning": b"\xff", "five bytes": b"\xf8\x88\x80\x80\x80",
    "good, then bad": "κόσμε".encode() + b"\xed\xa0\x80edited",
}
VALID_TEXT = {"ASCII": b"goodbye", "two bytes": "é".encode(), "three bytes": "\u0800\uffff".encode(),
              "four bytes": "\U00010000\U0010ffff".encode(), "123 bytes": b"x" * 123, "a null": b"\x00"}


def _closing(case, closes, small):
    closes("7 a close without a code", sending((CLOSE, b"")), None)
    closes("7 a close of one byte", sending((CLOSE, b"\x03")), 1002)
    closes("7 a close of 125 bytes", sending((CLOSE, b"\x03\xe8" + b"x" * 123)), 1000)
    closes("7 a close of 126 bytes", sending((CLOSE, b"\x03\xe8" + b"x" * 124)), 1002)
    for code in (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999):
        closes(f"7 a close with {code}", sending((CLOSE, struct.pack("!H", code))), code)
    for code in (0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 1999, 2000, 2999, 5000, 65535):
        closes(f"7 a close with {code}, which nobody may send", sending((CLOSE, struct.pack("!H", code))), 1002)
    for name, reason in VALID_TEXT.items():
        closes(f"7 a reason: {name}", sending((CLOSE, b"\x03\xe8" + reason)), 1000)
    for name, reason in INVALID_TEXT.items():
        closes(f"7 a reason that is no UTF-8: {name}", sending((CLOSE, b"\x03\xe8" + reason)), 1002, 1007)
    closes("7 what follows a close is not looked at", sending((CLOSE, b"\x03\xe8"), (BINARY, small), (PING, b"x")), 1000)
    closes("7 two closes", sending((CLOSE, b"\x03\xe8"), (CLOSE, b"\x03\xe9")), 1000)

    def bare_end(line):
        line.socket.shutdown(socket.SHUT_WR)
        try:
            while line.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass
    case("7 an end without a close", bare_end)


def _limits(answers, closes, greeting):
    answers("9 a message of the largest size in one frame", sending((BINARY, greeting(1 << 20))))
    closes("9 a frame over the limit", sending((BINARY, bytes(LIMIT_BYTES + 1))), 1009)
    closes("9 a frame whose length is over the limit, and nothing of it",
           sending((BINARY, b"", {"declared": LIMIT_BYTES + 1, "length_bytes": 8})), 1009)
    for length in (1 << 31, 1 << 32, 1 << 62, (1 << 63) - 1):
        closes(f"9 a frame that says {length} bytes", sending((BINARY, b"", {"declared": length, "length_bytes": 8})), 1009)
    for length in (1 << 63, (1 << 64) - 1):
        closes(f"9 a length with its highest bit set {length}",
               sending((BINARY, b"", {"declared": length, "length_bytes": 8})), 1002, 1009)
    closes("9 fragments that come to more than the limit",
           sending((BINARY, bytes(1 << 20), {"fin": False}), (CONTINUATION, bytes(8192))), 1009)

    def large(line):
        data, step = greeting(1 << 20), 64 * 1024
        for place in range(0, len(data), step):
            line.send(BINARY if place == 0 else CONTINUATION, data[place:place + step], fin=place + step >= len(data))
    answers("9 a mebibyte in fragments of 64 KiB", large)


def _masks(closes, answers, small):
    def wrongly(opcode, payload):
        """Masked where it must not be, and bare where it has to be masked."""
        def act(line):
            line.send(opcode, payload, mask=None if line.mask() else os.urandom(4))
        return act

    for opcode, payload, name in ((BINARY, small, "a message"), (PING, b"x", "a ping"), (PONG, b"x", "a pong"),
                                  (CLOSE, b"\x03\xe8", "a close"), (BINARY, b"", "an empty message")):
        closes(f"masking {name}, wrongly", wrongly(opcode, payload), 1002)
    for mask in (bytes(4), b"\xff" * 4, b"\x01\x02\x03\x04"):
        answers(f"masking with {mask.hex()}, where it is due",
                lambda line, mask=mask: line.send(BINARY, small, mask=mask if line.mask() else None))
