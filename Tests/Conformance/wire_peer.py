"""A small peer in another language, written from Shared/Sync/Wire/wire.cddl and the encodings it names alone.

It logs in, greets, subscribes, keeps what it is sent, writes and learns what became of it; it goes on where it was
after a lost connection. CBOR and WebSocket are those of PyPI (`cbor2`, `websockets`), so nothing is shared with the
Swift code. It keeps everything in memory, and asks for a document's state where another peer would apply a delta.

    peer = WirePeer(origin, database, token)
    await peer.connect()
    await peer.subscribe("SELECT * FROM cars")
    await peer.until(lambda: peer.live)
    await peer.write("cars", "fiat", {"seats": 4})
    await peer.until(lambda: peer.acknowledged == peer.sequence)
"""

import asyncio
import json
import os
import struct
import time
import urllib.error
import urllib.request

import cbor2
import document_decoder
import websockets

(HELLO, SUBSCRIBE, UNSUBSCRIBE, SUBSCRIPTION_REFUSED, CATCH_UP, OPERATIONS, PROGRESS, UPLOAD, ACKNOWLEDGED, WANT, STATES,
 CREDIT, CHUNK, REFUSED, CLOSE, HOLDINGS, RECONCILED, LIST, HELD, GRANTED, RENEWAL) = range(1, 22)

VERSION = 3
CREDIT_BYTES = 4 << 20
FRAME_BYTES = 1 << 20
CHUNK_BYTES = 700_000


class Closed(Exception):
    """The session is over. `code` is what its close frame named, None when none came; `status` the WebSocket's."""

    def __init__(self, code, message, status=None):
        super().__init__(f"{code}: {message} ({status})")
        self.code, self.message, self.status = code, message, status


class NotAllowed(Exception):
    """An HTTP refusal, of the login or of the upgrade."""

    def __init__(self, status, code):
        super().__init__(f"{status} {code}")
        self.status, self.code = status, code


# MARK: what an operation looks like (Shared/CRDT/Encoding.md)


def varint(number):
    out = bytearray()
    while True:
        part, number = number & 0x7F, number >> 7
        out.append(part | (0x80 if number else 0))
        if not number:
            return bytes(out)


def text(string):
    data = string.encode()
    return varint(len(data)) + data


def value(content):
    if content is None:
        return b"\x00"
    if isinstance(content, bool):
        return b"\x02" if content else b"\x01"
    if isinstance(content, int):
        if 0 <= content <= 127:
            return bytes([0x80 + content])
        return b"\x03" + varint(2 * content if content >= 0 else -2 * content - 1)
    if isinstance(content, float):
        return b"\x04" + struct.pack(">d", content)
    data = content.encode()
    return (bytes([0x40 + len(data)]) if len(data) < 64 else b"\x05" + varint(len(data))) + data


def delta(fields, vector, actor, stamp, inserts):
    """Registers of the root written on a base: `vector` is the document's, {actor: time}."""
    own = vector.get(actor)
    out = b"\x01" + (b"\x01" + varint(stamp - own) if own is not None else b"\x00")
    others = sorted(other for other in vector if other != actor)
    out += varint(len(others))
    for other in others:
        out += other.to_bytes(8, "big") + varint(stamp - vector[other])
    out += b"\x06" if inserts else b"\x04"
    out += varint(len(fields))
    for key in sorted(fields, key=str.encode):
        out += text(key) + b"\x02" + value(fields[key])
    return out


def operation(actor, sequence, stamp, collection, changes):
    """One operation of (document id, content) in one collection."""
    out = b"\x01\x00" + actor.to_bytes(8, "big") + varint(sequence) + stamp.to_bytes(8, "big")
    out += varint(1) + text(collection) + varint(len(changes))
    for identifier, content in changes:
        out += varint(len(identifier)) + identifier + varint(len(content)) + content
    return out


class Stored:
    """A document as it is held: the bytes of its state, and what they say."""

    def __init__(self, state):
        self.state = state
        read = document_decoder.Document(state)
        self.vector = dict(read.vector)
        self.value = read.visible(read.root) if read.root["greatest"] >= 0 else None

    def covers(self, vector):
        return all(self.vector.get(actor, -1) >= stamp for actor, stamp in vector.items())


class Subscription:
    def __init__(self, statement, arguments):
        self.statement, self.arguments = statement, arguments
        self.collection = statement.split("FROM", 1)[1].split()[0]
        self.cursor = self.rights = self.resume = self.refused = None
        self.live = False
        self.staged = []


class WirePeer:
    """`documents` holds what is visible, by (collection, id); `received` counts the bytes of the session's frames."""

    def __init__(self, origin, database, token, provider="development"):
        self.origin, self.database, self.token, self.provider = origin, database, token, provider
        self.actor = int.from_bytes(os.urandom(8), "big") or 1
        self.operations = []
        self.acknowledged = 0
        self.refusals = []
        self.documents = {}
        self.pending = {}
        self.subscriptions = {}
        self.seen = None
        self.received = 0
        self.frames = {}
        self.listed = 0
        self.closed = None
        self.gives_credit = True
        self._owed = 0
        self._clock = 0
        self._next_id = 0
        self._changed = asyncio.Event()

    # MARK: connecting

    def log_in(self):
        """An access token, by HTTP."""
        body = json.dumps({"databaseID": self.database, "provider": self.provider, "token": self.token}).encode()
        request = urllib.request.Request(
            f"{self.origin}/_ditto/auth/login", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)["accessToken"]
        except urllib.error.HTTPError as refusal:
            raise NotAllowed(refusal.code, json.load(refusal)["error"]["code"]) from None

    async def connect(self, access_token=None, database=None, version=VERSION):
        """Connects and greets; what was subscribed to and not acknowledged goes on."""
        if access_token is None:
            access_token = await asyncio.get_running_loop().run_in_executor(None, self.log_in)
        url = self.origin.replace("http", "ws", 1) + "/_ditto/sync"
        try:
            self._socket = await websockets.connect(
                url, additional_headers={"Authorization": f"Bearer {access_token}"}, subprotocols=["mimeo.sync.1"],
                max_size=FRAME_BYTES, compression=None, open_timeout=30)
        except websockets.InvalidStatus as refusal:
            body = refusal.response.body
            raise NotAllowed(
                refusal.response.status_code, json.loads(body)["error"]["code"] if body else None) from None
        self.closed = None
        self._credit = self._owed = 0
        self._chunks = b""
        self._ids = {}
        self._is_greeted = False
        heads = []
        if self.operations:
            last = document_decoder.xxh64(self.operations[-1]).to_bytes(8, "big")
            heads = [[self._actor_bytes, len(self.operations), last]]
        greeting = {0: HELLO, 1: version, 2: database or self.database, 3: "", 4: int(time.time() * 1000),
                    5: CREDIT_BYTES, 6: heads}
        if self.seen:
            greeting[7] = self.seen
        if self.acknowledged:
            greeting[9] = [[self._actor_bytes, self.acknowledged]]
        await self.send(greeting)
        self._reader = asyncio.create_task(self._read())
        await self.until(lambda: self._is_greeted)
        for key in list(self.subscriptions):
            await self._ask(key)
        await self._upload_rest()
        return self

    async def disconnect(self):
        await self._socket.close()
        await asyncio.wait([self._reader])

    def cut(self):
        """Loses the connection without a word."""
        self._reader.cancel()
        self._socket.transport.abort()

    @property
    def sequence(self):
        return len(self.operations)

    @property
    def live(self):
        return all(one.live for one in self.subscriptions.values())

    @property
    def _actor_bytes(self):
        return self.actor.to_bytes(8, "big")

    async def send(self, frame):
        """One frame as it is; a large one in chunks."""
        data = cbor2.dumps(frame, canonical=True)
        if len(data) <= FRAME_BYTES:
            return await self._socket.send(data)
        name = document_decoder.xxh64(data).to_bytes(8, "big")
        for place in range(0, len(data), CHUNK_BYTES):
            piece = data[place:place + CHUNK_BYTES]
            chunk = {0: CHUNK, 1: place + len(piece) == len(data), 2: piece, 3: name, 4: place}
            await self._socket.send(cbor2.dumps(chunk, canonical=True))
        return None

    async def send_bytes(self, data):
        await self._socket.send(data)

    async def until(self, condition, seconds=60):
        """Returns when it holds; raises `Closed` when the session ends before."""
        async def wait():
            while not condition():
                if self.closed:
                    raise self.closed
                self._changed.clear()
                await self._changed.wait()

        await asyncio.wait_for(wait(), seconds)

    async def until_closed(self, seconds=30):
        """How the session ended."""
        await asyncio.wait_for(asyncio.wait([self._reader]), seconds)
        return self.closed

    # MARK: subscribing and writing

    async def subscribe(self, statement, arguments=None):
        subscription = Subscription(statement, arguments or {})
        key = len(self.subscriptions)
        self.subscriptions[key] = subscription
        await self._ask(key)
        return subscription

    async def _ask(self, key):
        one = self.subscriptions[key]
        one.live = False
        self._next_id += 1
        self._ids[self._next_id] = key
        frame = {0: SUBSCRIBE, 1: self._next_id, 2: one.statement, 3: one.arguments}
        if one.cursor:
            frame[4] = one.cursor
        if one.resume is not None:
            frame[5] = one.resume
        else:
            one.staged = []
        if one.cursor is None and self.documents:
            frame[6] = True
        if one.rights is not None:
            frame[7] = one.rights
        await self.send(frame)

    async def write(self, collection, name, fields):
        """Writes registers of one document, and sends the operation; its sequence."""
        identifier = cbor2.dumps(name, canonical=True)
        held = self.documents.get((collection, identifier))
        vector = dict(held.vector) if held else {}
        vector.update(self.pending.get((collection, identifier), {}))
        self._clock = max(self._clock + 1, int(time.time() * 1000) << 16, *(stamp + 1 for stamp in vector.values()), 0)
        content = delta(fields, vector, self.actor, self._clock, inserts=not vector)
        data = operation(self.actor, self.sequence + 1, self._clock, collection, [(identifier, content)])
        self.operations.append(data)
        self.pending[(collection, identifier)] = {**vector, self.actor: self._clock}
        await self._upload([data])
        return self.sequence

    async def _upload(self, operations):
        frame = {0: UPLOAD, 1: operations}
        await self.until(lambda: self._credit > 0)
        self._credit -= len(cbor2.dumps(frame, canonical=True))
        await self.send(frame)

    async def _upload_rest(self):
        rest = self.operations[self._frontier:]
        if rest:
            await self._upload(rest)

    # MARK: receiving

    async def _read(self):
        try:
            async for data in self._socket:
                self.received += len(data)
                frame = cbor2.loads(data)
                if frame[0] == CHUNK:
                    self._chunks += frame[2]
                    if not frame[1]:
                        continue
                    data, self._chunks = self._chunks, b""
                    frame = cbor2.loads(data)
                self.frames[frame[0]] = self.frames.get(frame[0], 0) + 1
                await self._take(frame, len(data))
                self._changed.set()
            raise Closed(None, "no close frame", self._socket.close_code)
        except websockets.ConnectionClosed as end:
            self.closed = self.closed or Closed(None, str(end), self._socket.close_code)
        except Closed as end:
            self.closed = self.closed or end
        finally:
            if self.closed:
                self.closed.status = self._socket.close_code
            self._changed.set()

    async def _take(self, frame, size):
        kind = frame[0]
        if kind == HELLO:
            self._greeted(frame)
        elif kind == CLOSE:
            self.closed = Closed(frame[1], frame[2])
        elif kind == CREDIT:
            self._credit += frame[1]
        elif kind == SUBSCRIPTION_REFUSED:
            self.subscriptions[self._ids[frame[1]]].refused = frame[2]
        elif kind == CATCH_UP:
            await self._caught_up(frame)
        elif kind == OPERATIONS:
            await self._follow(frame[1], frame[2])
        elif kind == PROGRESS:
            await self._follow(frame[1], [])
        elif kind == ACKNOWLEDGED:
            for actor, sequence in frame[1]:
                if actor == self._actor_bytes:
                    self.acknowledged = max(self.acknowledged, sequence)
        elif kind == REFUSED:
            self.refusals.append((frame[2], frame[3]))
        elif kind == STATES:
            for collection, identifier, state in frame[1]:
                if state is not None:
                    self._keep(collection, identifier, state)
        elif kind == LIST:
            await self._tell_held(frame)
        if kind in (CATCH_UP, OPERATIONS):
            self._owed += size
            if self.gives_credit:
                await self.give_back()

    async def give_back(self):
        """Gives credit for all that was stored."""
        while self._owed:
            part = min(self._owed, CREDIT_BYTES)
            self._owed -= part
            await self.send({0: CREDIT, 1: part})

    def _greeted(self, frame):
        self._credit = frame[5]
        self._frontier = 0
        for actor, sequence, _ in frame[6]:
            if actor == self._actor_bytes:
                self._frontier = sequence
                self.acknowledged = max(self.acknowledged, sequence)
        self._is_greeted = True

    async def _caught_up(self, frame):
        """Pages stand aside until the last one, which shows all of them at once."""
        one = self.subscriptions.get(self._ids.get(frame[1]))
        if one is None:
            return
        one.live = False
        one.staged += [(state, False) for state in frame[2]] + [(item, True) for item in frame.get(5, [])]
        await self._want([(collection, identifier) for collection, identifier, vector in frame[3]
                          if (collection, identifier) in self.documents
                          and not self.documents[(collection, identifier)].covers(self._vector(vector))])
        if 7 in frame:
            one.resume = frame[7]
        if 9 in frame:
            self.seen = frame[9]
        if 4 in frame:
            for (collection, identifier, content), is_gone in one.staged:
                if is_gone:
                    self.documents.pop((collection, identifier), None)
                else:
                    self._keep(collection, identifier, content)
            one.staged, one.resume, one.live = [], None, True
            one.cursor = self.seen = frame[4]
            one.rights = frame.get(8)

    async def _follow(self, position, updates):
        wanted = []
        for update in updates:
            collection, identifier, content = update[:3]
            if len(update) == 5:
                wanted.append((collection, identifier))
            elif len(update) == 4:
                self.documents.pop((collection, identifier), None)
            else:
                self._keep(collection, identifier, content)
        await self._want(wanted)
        self.seen = position
        for one in self.subscriptions.values():
            if one.live:
                one.cursor = position

    async def _want(self, keys):
        if keys:
            await self.send({0: WANT, 1: [list(key) for key in dict.fromkeys(keys)]})

    async def _tell_held(self, frame):
        """Every living document held of the subscription's collection, in one page."""
        self.listed += 1
        after = frame.get(2)
        collection = self.subscriptions[self._ids[frame[1]]].collection
        held = {identifier: one for (name, identifier), one in self.documents.items() if name == collection
                and one.value is not None and (after is None or identifier > after)}
        page = [[collection, identifier, self._encoded(held[identifier].vector)] for identifier in sorted(held)]
        await self.send({0: HELD, 1: frame[1], 2: page, 3: True})

    def _keep(self, collection, identifier, state):
        """Takes a state, unless an own write that it does not have would be lost of sight: the merged one follows."""
        new = Stored(state)
        pending = self.pending.get((collection, identifier))
        if pending and new.covers(pending):
            del self.pending[(collection, identifier)]
        self._clock = max(self._clock, *new.vector.values(), 0)
        self.documents[(collection, identifier)] = new

    @staticmethod
    def _vector(data):
        reader = document_decoder.Reader(data)
        return dict(document_decoder.vector(reader))

    @staticmethod
    def _encoded(vector):
        actors = sorted(vector)
        return varint(len(actors)) + b"".join(a.to_bytes(8, "big") for a in actors) + b"".join(
            vector[a].to_bytes(8, "big") for a in actors)

    def values(self, collection):
        """Visible values by id, tombstones left out."""
        return {cbor2.loads(identifier): one.value for (name, identifier), one in self.documents.items()
                if name == collection and one.value is not None}
