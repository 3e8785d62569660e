"""The replicator over sockets, beside Redis and the disk of the same minute: `scripts/bench-network [--only c,d,e,f]`.

    (c) one durable write to the last of 100 subscribers, beside Redis (`appendfsync always`, XADD and PUBLISH); of 1,000
    (d) what a write costs with 10,000 distinct equality subscriptions, beside what it costs with 10: arrival, processor
    (e) the memory of 10,000 idle sessions, and of 100 subscribers with 100,000 documents
    (f) a durable write at one peer to the observer at another, in fsyncs of the same minute

Receivers are bare sockets behind one `select`, and the bytes of a write are made before the clock starts, for Redis as
for ours, so that what is measured is the server. Pairs are interleaved; medians. (a) and (b), a new peer that receives
and one that uploads, stand in `bench.py`.
"""

import argparse
import base64
import os
import pathlib
import resource
import selectors
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests" / "Support"), str(ROOT / "Tests" / "Conformance")]

import mimeo_harness as harness  # noqa: E402

harness.use_packages()

import cbor2  # noqa: E402
import wire_peer  # noqa: E402

GREETING = 1 << 30
"""The credit that a receiver gives: it gives none back while it is measured."""


class Suite:
    """auth-gateway and replicator in processes of their own."""

    def __init__(self, workspace):
        self.workspace = workspace
        self.cluster = harness.FourProcesses(workspace)
        gateway = self.cluster.start_service("auth-gateway")
        values = harness.servers.announcement(gateway)
        self.cluster.database, self.cluster.token = values["database"], values["token"]
        self.client = self.cluster.client_of("replicator")
        self.replicator = self.cluster.start_service("replicator")
        harness.servers.await_health(self.replicator, self.client)
        self.token = self.client.access_token

    @property
    def address(self):
        return self.cluster.address_of("replicator")

    def memory(self):
        """Resident bytes of the replicator that are its own."""
        for line in pathlib.Path(f"/proc/{self.replicator.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no RssAnon")

    def session(self, statements=(), credit=GREETING):
        return Session(self.address, self.cluster.database, self.token, statements, credit)


class Session:
    """A bare socket that has greeted and subscribed."""

    def __init__(self, address, database, token, statements, credit):
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((
            f"GET /_ditto/sync HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mimeo.sync.1\r\n"
            f"Authorization: Bearer {token}\r\n\r\n").encode())
        self.received = b""
        while b"\r\n\r\n" not in self.received:
            self._more()
        head, _, self.received = self.received.partition(b"\r\n\r\n")
        if b" 101 " not in head:
            raise RuntimeError(head)
        self.send({0: 1, 1: 3, 2: database, 3: "", 4: int(time.time() * 1000), 5: credit, 6: []})
        self.hello = self.frame()
        for number, (statement, arguments) in enumerate(statements, 1):
            self.send({0: 2, 1: number, 2: statement, 3: arguments})
        waiting = len(statements)
        while waiting:
            frame = self.frame()
            if frame[0] == 5 and 4 in frame:
                waiting -= 1
        self.position = None

    def _more(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("closed")
        self.received += data

    def send(self, frame):
        self.socket.sendall(self.message(frame))

    @staticmethod
    def message(frame):
        """The bytes of a frame on the socket."""
        data = cbor2.dumps(frame, canonical=True)
        head = b"\x82" + (bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack("!H", len(data))
                          if len(data) < 65536 else b"\xff" + struct.pack("!Q", len(data)))
        return head + bytes(4) + data  # a mask of zeros

    def frame(self):
        """The next binary message; pings are answered."""
        while True:
            while len(self.received) < 2:
                self._more()
            opcode, length, place = self.received[0] & 15, self.received[1] & 127, 2
            if length > 125:
                width = 2 if length == 126 else 8
                while len(self.received) < 2 + width:
                    self._more()
                length, place = int.from_bytes(self.received[2:2 + width], "big"), 2 + width
            while len(self.received) < place + length:
                self._more()
            data, self.received = self.received[place:place + length], self.received[place + length:]
            if opcode == 9:
                self.socket.sendall(b"\x8a" + bytes([0x80 | len(data)]) + bytes(4) + data)
            elif opcode == 2:
                return cbor2.loads(data)
            elif opcode == 8:
                raise ConnectionError(f"closed: {data!r}")


class Writer:
    """Uploads documents of about 300 bytes, one operation each."""

    def __init__(self, suite):
        self.session = suite.session()
        self.actor = int.from_bytes(os.urandom(8), "big")
        self.sequence = 0
        self.clock = 0

    def prepare(self, fields, marker):
        """What sends one document; it does not wait."""
        self.sequence += 1
        self.clock = max(self.clock + 1, int(time.time() * 1000) << 16)
        content = wire_peer.delta({**fields, "marker": marker}, {}, self.actor, self.clock, inserts=True)
        identifier = cbor2.dumps(f"{self.actor:x}-{self.sequence}")
        data = wire_peer.operation(self.actor, self.sequence, self.clock, "cars", [(identifier, content)])
        message = self.session.message({0: 8, 1: [data]})
        return lambda: self.session.socket.sendall(message)

    def acknowledged(self):
        while True:
            frame = self.session.frame()
            if frame[0] == 9 and frame[1][-1][1] >= self.sequence:
                return
            if frame[0] in (14, 15):
                raise RuntimeError(frame)


# Before each write of a measurement of (c), in seconds.
PAUSE = 0.01
FIELDS = {"owner": "nobody", "text": "t" * 200, "reading": 17, "unit": "celsius"}


class Receivers:
    """Sockets behind one select."""

    def __init__(self, sockets):
        self.selector = selectors.DefaultSelector()
        for number, one in enumerate(sockets):
            self.selector.register(one, selectors.EVENT_READ, number)
        self.count = len(sockets)

    def until_all_have(self, marker):
        missing = set(range(self.count))
        tails = {}
        while missing:
            for key, _ in self.selector.select(10):
                data = tails.get(key.data, b"") + key.fileobj.recv(65536)
                if marker in data:
                    missing.discard(key.data)
                tails[key.data] = data[-len(marker):]


class Redis:
    def __init__(self, workspace, subscribers):
        folder = workspace.directory / "redis"
        folder.mkdir(exist_ok=True)
        self.port = harness.free_port()
        self.process = workspace.start("redis", [
            shutil.which("redis-server"), "--bind", "127.0.0.1", "--port", self.port, "--dir", folder, "--appendonly",
            "yes", "--appendfsync", "always", "--save", ""])
        harness.until(self._answers, 10, "redis to answer")
        self.writer = self._connect()
        sockets = []
        for _ in range(subscribers):
            one = self._connect()
            one.sendall(b"SUBSCRIBE c\r\n")
            one.recv(4096)
            sockets.append(one)
        self.receivers = Receivers(sockets)

    def _connect(self):
        return socket.create_connection(("127.0.0.1", self.port))

    def _answers(self):
        try:
            self._connect().close()
            return True
        except OSError:
            return False

    def prepare(self, marker):
        """What stores a message and sends it to the subscribers; it does not wait."""
        body = b"x" * 280 + marker
        def command(*words):
            return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
        message = (command(b"MULTI") + command(b"XADD", b"log", b"*", b"d", body)
                   + command(b"PUBLISH", b"c", body) + command(b"EXEC"))
        return lambda: self.writer.sendall(message)


def milliseconds(seconds):
    return f"{1000 * statistics.median(seconds):.2f} ms"


def row(what, ours, reference, ratio, goal):
    print(f"| {what} | {ours} | {reference} | {ratio} | {goal} |", flush=True)


def fan_out(workspace, rounds):
    suite = Suite(workspace)
    writer = Writer(suite)
    sessions = [suite.session([("SELECT * FROM cars", {})]) for _ in range(100)]
    receivers = Receivers([one.socket for one in sessions])
    redis = Redis(workspace, 100) if shutil.which("redis-server") else None
    ours, theirs = [], []
    for number in range(rounds):
        marker = b"mark-%08d" % number
        send = writer.prepare(FIELDS, marker.decode())
        time.sleep(PAUSE)
        started = time.perf_counter()
        send()
        receivers.until_all_have(marker)
        ours.append(time.perf_counter() - started)
        writer.acknowledged()
        if redis:
            send = redis.prepare(marker)
            # As ours does, it begins behind a pause, on processors that have gone to sleep.
            time.sleep(PAUSE)
            started = time.perf_counter()
            send()
            redis.receivers.until_all_have(marker)
            theirs.append(time.perf_counter() - started)
            redis.writer.recv(65536)
    ratio = f"{statistics.median(ours) / statistics.median(theirs):.2f}" if theirs else ""
    row("(c) one durable write to the last of 100 subscribers", milliseconds(ours),
        f"Redis {milliseconds(theirs)}" if theirs else "no redis-server here", ratio, "≤ 1")
    more = [suite.session([("SELECT * FROM cars", {})]) for _ in range(900)]
    receivers = Receivers([one.socket for one in sessions + more])
    ours = []
    for number in range(rounds // 2):
        marker = b"more-%08d" % number
        send = writer.prepare(FIELDS, marker.decode())
        started = time.perf_counter()
        send()
        receivers.until_all_have(marker)
        ours.append(time.perf_counter() - started)
        writer.acknowledged()
        time.sleep(0.05)
    row("(c) the same to the last of 1,000", milliseconds(ours), "", "", "≤ 50 ms")


def equality(workspace, rounds):
    """Writes that one subscription each matches: until they arrive there, and the server's processor time."""
    suite = Suite(workspace)
    writer = Writer(suite)
    statement = "SELECT * FROM cars WHERE owner = :owner"
    held = [suite.session([(statement, {"owner": f"o{number}"})]) for number in range(10)]

    def measure(owners):
        cpu, wall = suite.replicator.processor_seconds(), []
        for number in range(rounds):
            owner = number * 7919 % owners
            receiver = Receivers([(held[owner] if owner < 10 else held[10 + (owner - 10) // 100]).socket])
            marker = b"%d-%d-" % (owners, number)
            send = writer.prepare({**FIELDS, "owner": f"o{owner}"}, marker.decode())
            started = time.perf_counter()
            send()
            receiver.until_all_have(marker)
            wall.append(time.perf_counter() - started)
            writer.acknowledged()
        time.sleep(0.5)
        return statistics.median(wall), (suite.replicator.processor_seconds() - cpu) / rounds

    measure(10)
    few = measure(10)
    held += [suite.session([(statement, {"owner": f"o{number}"}) for number in range(start, min(start + 100, 10_000))])
             for start in range(10, 10_000, 100)]
    many = measure(10_000)
    row("(d) a write with 10,000 distinct equality subscriptions, to the one that it matches",
        f"{1000 * many[0]:.2f} ms", f"with 10: {1000 * few[0]:.2f} ms", f"{many[0] / few[0]:.2f}", "≤ 2")
    row("(d) the same in the replicator's processor time", f"{1000 * many[1]:.2f} ms", f"with 10: {1000 * few[1]:.2f} ms",
        f"{many[1] / few[1]:.2f}", "≤ 2")


def memory(workspace, sessions):
    suite = Suite(workspace)
    warm = [suite.session() for _ in range(200)]
    time.sleep(1)
    before = suite.memory()
    idle = [suite.session() for _ in range(sessions)]
    time.sleep(2)
    each = (suite.memory() - before) / sessions
    row(f"(e) an idle session of {sessions:,}", f"{each / 1024:.1f} KB", "", "", "< 10 KB")
    for one in warm + idle:
        one.socket.close()


def loaded(workspace, documents):
    suite = Suite(workspace)
    writer = Writer(suite)
    for start in range(0, documents, 1000):
        writer.sequence += 1
        writer.clock = max(writer.clock + 1, int(time.time() * 1000) << 16)
        changes = [(cbor2.dumps(f"{number:08}"), wire_peer.delta(
            {"owner": f"o{number % 1000}", "text": "t" * 230}, {}, writer.actor, writer.clock, True))
            for number in range(start, start + 1000)]
        writer.session.send({0: 8, 1: [wire_peer.operation(
            writer.actor, writer.sequence, writer.clock, "cars", changes)]})
        writer.acknowledged()
    held = [suite.session([("SELECT * FROM cars WHERE owner = :owner", {"owner": f"o{number}"})])
            for number in range(100)]
    time.sleep(5)
    row(f"(e) the replicator with {documents:,} documents and 100 subscribers", f"{suite.memory() / 1e6:.1f} MB", "", "",
        "< 40 MB")
    del held


class BarePeer:
    """A peer behind bare pipes: no thread of ours stands between it and what is measured."""

    def __init__(self, workspace, name, server):
        arguments = harness.peer_command(workspace.directory / f"peer-{name}", server, ["SELECT * FROM cars"])
        log = open(workspace.directory / f"peer-{name}.log", "wb")
        self.process = subprocess.Popen(
            [str(one) for one in arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0)
        workspace.on_close(self.process.wait)
        workspace.on_close(self.process.kill)

    def tell(self, line):
        self.process.stdin.write(line.encode() + b"\n")

    def until_says(self, words):
        said = b""
        while words not in said:
            more = self.process.stdout.read(65536)
            if not more:
                raise RuntimeError("the peer ended")
            said += more


def fsync(file):
    """Seconds of one write and fdatasync of 4 KiB."""
    started = time.perf_counter()
    file.write(b"x" * 4096)
    os.fdatasync(file.fileno())
    return time.perf_counter() - started


def observer(workspace, rounds):
    """Writes and fsyncs by turns, each behind the same pause, which makes both slower: so that one is measured in the
    other. Three fsyncs without a pause stand beside it."""
    server = harness.OneProcess(workspace).start()
    a, b = BarePeer(workspace, "a", server), BarePeer(workspace, "b", server)
    a.tell("INSERT INTO cars DOCUMENTS ({'_id': 'seen', 'n': -1})")
    b.tell(".observe SELECT * FROM cars WHERE _id = 'seen'")
    b.until_says(b'"n":-1')
    taken, probes, quick = [], [], []
    with open(workspace.directory / "probe", "wb", buffering=0) as probe:
        for number in range(rounds):
            time.sleep(0.02)
            probes.append(fsync(probe))
            quick += [fsync(probe) for _ in range(3)]
            time.sleep(0.02)
            started = time.perf_counter()
            a.tell(f"UPDATE cars SET n = {number} WHERE _id = 'seen'")
            b.until_says(b'"n":%d}' % number)
            taken.append(time.perf_counter() - started)
            a.until_says(b"\n")
    sync, goal = statistics.median(probes), 1.5 * statistics.median(probes) + 0.001
    row("(f) a durable write at A to the observer at B", milliseconds(taken),
        f"fsync {1000 * sync:.2f} ms (without a pause {milliseconds(quick)})",
        f"{statistics.median(taken) / goal:.2f} of 1.5 fsync + 1 ms", "≤ 1")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="c,d,e,f")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=100_000)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    del soft
    works = {"c": [lambda w: fan_out(w, options.rounds)], "d": [lambda w: equality(w, 5 * options.rounds)],
             "e": [lambda w: memory(w, options.sessions), lambda w: loaded(w, options.documents)],
             "f": [lambda w: observer(w, options.rounds)]}
    print("| what | ours | reference | ratio | goal |\n|---|---|---|---|---|")
    for name in options.only.split(","):
        for work in works[name]:
            with harness.Workspace() as workspace:
                work(workspace)


if __name__ == "__main__":
    main()
