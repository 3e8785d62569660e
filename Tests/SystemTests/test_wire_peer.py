"""A peer in Python, written from the wire's description, beside peers and server of ours.

It shows that the description is enough, and it can say what no peer of ours would: what is not right is refused by
name, and costs its own session only.
"""

import asyncio
import contextlib
import pathlib
import sys
import time

from mimeo_harness import OneProcess, Peer, use_packages
from system_test import SystemTest

use_packages()
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "Conformance"))

import cbor2  # noqa: E402
import websockets  # noqa: E402
import wire_peer  # noqa: E402
from wire_peer import Closed, NotAllowed, WirePeer  # noqa: E402

MEBIBYTE = 1 << 20
SELECT = "SELECT * FROM cars"


class WireTest(SystemTest):
    seconds = 240

    def setUp(self):
        super().setUp()
        self.server = OneProcess(self.workspace).start()

    def peer(self):
        return WirePeer(self.server.origin, self.server.database, self.server.token)

    def run_async(self, work):
        asyncio.run(work)

    def api_key(self, read, write, seconds=3600):
        """A credential with rights of its own."""
        def rights(queries):
            return {"everything": False, "queriesByCollection": queries}

        admin = (self.server.data / "auth" / "admin.token").read_text().strip()
        answer = self.server.request(
            "POST", f"/admin/auth/databases/{self.server.database}/api-keys",
            {"name": "test", "permissions": {"read": rights(read), "write": rights(write)},
             "expiresAt": int(time.time()) + seconds}, {"Authorization": f"Bearer {admin}"})
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json["key"]


class WirePeers(WireTest):
    def test_it_logs_in_subscribes_writes_and_is_acknowledged(self):
        self.run_async(self.both_ways())

    async def both_ways(self):
        self.server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a', 'n': 1}), ({'_id': 'b', 'n': 2})")
        peer = await self.peer().connect()
        await peer.subscribe(SELECT)
        await peer.until(lambda: peer.live)
        self.assertEqual(peer.values("cars"), {"a": {"n": 1}, "b": {"n": 2}})
        await peer.write("cars", "c", {"n": 3, "text": "é" * 40, "f": 0.5, "none": None, "big": 1 << 40, "yes": True})
        await peer.write("cars", "a", {"n": 10})
        await peer.until(lambda: peer.acknowledged == 2)
        expected = [{"_id": "a", "n": 10}, {"_id": "b", "n": 2},
                    {"_id": "c", "n": 3, "text": "é" * 40, "f": 0.5, "none": None, "big": 1 << 40, "yes": True}]
        self.assertEqual(self.server.query(f"{SELECT} ORDER BY _id"), expected)
        ours = Peer(self.workspace, "ours", self.server, [SELECT])
        await asyncio.to_thread(lambda: ours.execute("INSERT INTO cars DOCUMENTS ({'_id': 'd', 'n': 4})"))
        await peer.until(lambda: peer.values("cars").get("d") == {"n": 4})
        commit = ours.execute("UPDATE cars SET n = 5 WHERE _id = 'd'")["commitID"]
        ours.wait_for_commit(commit)
        await peer.until(lambda: peer.values("cars").get("d") == {"n": 5})
        await peer.write("cars", "d", {"m": 6})
        await peer.until(lambda: peer.acknowledged == 3)
        self.server.execute("DELETE FROM cars WHERE _id = 'b'")
        await peer.until(lambda: "b" not in peer.values("cars"))
        self.assertEqual(self.server.query(f"{SELECT} WHERE _id = 'd'"), [{"_id": "d", "n": 5, "m": 6}])
        self.assertEqual(peer.refusals, [])
        await peer.disconnect()
        self.assertEqual(peer.closed.status, 1000)

    def test_it_goes_on_where_it_was(self):
        self.run_async(self.go_on())

    async def go_on(self):
        for number in range(200):
            self.server.execute("INSERT INTO cars DOCUMENTS (:d)", {"d": {"_id": number, "text": "x" * 200}})
        peer = await self.peer().connect()
        await peer.subscribe(SELECT)
        await peer.until(lambda: peer.live)
        whole = peer.received
        peer.cut()
        self.server.execute("UPDATE cars SET text = 'y' WHERE _id = 7")
        peer.received = 0
        await peer.connect()
        await peer.until(lambda: peer.live)
        self.assertEqual(peer.values("cars")[7], {"text": "y"})
        self.assertEqual(len(peer.values("cars")), 200)
        self.assertLess(peer.received, whole / 20)
        self.assertEqual(peer.listed, 0)
        # A write whose acknowledgement never came is sent again, and counts once.
        await peer.write("cars", "mine", {"n": 1})
        peer.cut()
        peer.acknowledged = 0
        await peer.connect()
        await peer.until(lambda: peer.acknowledged == 1)
        self.assertEqual(self.server.count("cars"), 201)
        await peer.disconnect()

    def test_large_documents_travel_in_chunks(self):
        self.run_async(self.large())

    async def large(self):
        peer = await self.peer().connect()
        await peer.subscribe(SELECT)
        self.server.execute("INSERT INTO cars DOCUMENTS (:d)", {"d": {"_id": "down", "text": "d" * (3 * MEBIBYTE // 2)}})
        await peer.until(lambda: "down" in peer.values("cars"))
        self.assertEqual(len(peer.values("cars")["down"]["text"]), 3 * MEBIBYTE // 2)
        await peer.write("cars", "up", {"text": "u" * (3 * MEBIBYTE // 2)})
        await peer.until(lambda: peer.acknowledged == 1)
        (found,) = self.server.query(f"{SELECT} WHERE _id = 'up'")
        self.assertEqual(found["text"], "u" * (3 * MEBIBYTE // 2))
        await peer.disconnect()


class Refusals(WireTest):
    """Each names its reason, and another session goes on through all of them."""

    def setUp(self):
        super().setUp()
        self.server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
        self.witness = Peer(self.workspace, "witness", self.server, [SELECT])
        self.writes = 0

    def assert_others_go_on(self):
        self.writes += 1
        commit = self.witness.execute(f"INSERT INTO cars DOCUMENTS ({{'_id': 'w{self.writes}'}})")["commitID"]
        self.witness.wait_for_commit(commit, 90)

    @contextlib.asynccontextmanager
    async def session(self, credential=None):
        peer = self.peer()
        await peer.connect(credential)
        yield peer
        if not peer.closed:
            await peer.disconnect()

    async def assert_closed(self, code, act, what, status=None):
        with self.subTest(what):
            async with self.session() as peer:
                await act(peer)
                end = await peer.until_closed()
                self.assertEqual(end.code, code, f"{what}: {end}")
                if status:
                    self.assertEqual(end.status, status, what)
        self.assert_others_go_on()

    def test_frames_that_are_not_right_end_their_session_with_a_code(self):
        self.run_async(self.bad_frames())

    async def bad_frames(self):
        def raw(data):
            return lambda peer: peer.send_bytes(data)

        def frame(content):
            return lambda peer: peer.send(content)

        actor = bytes(8)
        for code, act, what in (
                ("SYNC-0101", raw(b"\xff" * 10), "no CBOR"),
                ("SYNC-0101", raw(b""), "nothing"),
                ("SYNC-0101", raw(b"\x81" * 5000), "nested too deep"),
                ("SYNC-0101", raw(b"\x9b" + b"\xff" * 8), "a length nobody has"),
                ("SYNC-0101", raw(cbor2.dumps({0: wire_peer.SUBSCRIBE, 1: "one"})), "a field of another type"),
                ("SYNC-0101", frame({0: wire_peer.SUBSCRIBE, 1: 1, 2: SELECT}), "a field that is missing"),
                ("SYNC-0102", frame({0: 99}), "a type nobody knows"),
                ("SYNC-0104", frame({0: wire_peer.ACKNOWLEDGED, 1: []}), "what only a server says"),
                ("SYNC-0104", frame({0: wire_peer.HELLO, 1: 3, 2: self.server.database, 3: "", 4: 0, 5: 1, 6: []}),
                 "a second greeting"),
                ("SYNC-0402", frame({0: wire_peer.UPLOAD, 1: [b"nonsense"]}), "an operation that is none"),
                ("SYNC-0504", frame({0: wire_peer.RENEWAL, 1: "a.b.c"}), "a newer token that is none"),
                ("SYNC-0101", frame({0: wire_peer.CREDIT, 1: 1 << 62}), "credit beyond all bounds")):
            await self.assert_closed(code, act, what)
        await self.assert_closed("SYNC-0101", raw(b"\xa1\x00"), "cut off", status=1002)
        self.assertEqual(self.server.count("cars", f"_id = '{actor.hex()}'"), 0)

    def test_numbers_at_the_ends_of_their_ranges_cost_their_own_session_at_most(self):
        self.run_async(self.extremes())

    async def extremes(self):
        most, actor = (1 << 64) - 1, b"\xaa" * 8
        async with self.session() as peer:
            await peer.subscribe(SELECT)
            await peer.until(lambda: peer.live)
            log, offset, mark = peer.subscriptions[0].cursor
            rights = peer.subscriptions[0].rights
        numbers = (0, 1, (1 << 63) - 1, 1 << 63, most)
        frames = []
        for number in numbers:
            signed = number - (1 << 64) if number >> 63 else number
            last = int.from_bytes(mark, "big", signed=True)
            resume = [cbor2.dumps([log, at, last, names, rights], canonical=True)
                      for at in (offset, signed) for names in (signed, b"\x00")]
            subscribe = {0: wire_peer.SUBSCRIBE, 1: most, 2: SELECT, 3: {}, 7: rights}
            frames += [{**subscribe, 4: [log, number, mark]}, *({**subscribe, 5: token} for token in resume)]
            for stamp in (0, int(time.time() * 1000) << 16, most):
                delta = b"\x01\x00\x00\x06\x01\x01n\x02\x81"
                frames.append({0: wire_peer.UPLOAD, 1: [
                    wire_peer.operation(0xAAAA, number, stamp, "cars", [(b"\x61x", delta)])]})
            frames += [{0: wire_peer.CREDIT, 1: number}, {0: wire_peer.UNSUBSCRIBE, 1: number},
                       {0: wire_peer.CHUNK, 1: False, 2: bytes(5000), 3: actor, 4: number},
                       {0: wire_peer.HELD, 1: number, 2: [], 3: True, 4: [number]},
                       {0: 31, 1: [[actor, [number, actor], number]], 2: [[[b"\xa0", bytes(64)], number]]}]
        token = await asyncio.get_running_loop().run_in_executor(None, self.peer().log_in)
        plain = {0: wire_peer.HELLO, 1: 3, 2: self.server.database, 3: "", 4: 0, 5: 1 << 20, 6: []}
        for frame in frames:
            self.assertRegex(await self.end_of([plain, frame], token), r"^SYNC-0(?!501)\d{3}$", frame)
        vectors = [b"\x01" + actor + stamp.to_bytes(8, "big") for stamp in numbers]
        holdings = {0: wire_peer.HOLDINGS, 1: [["cars", b"\x61x", vector] for vector in vectors], 2: True}
        for number in numbers:
            greeting = {**plain, 1: most, 4: number, 5: number, 6: [[actor, number, actor]], 7: [log, number, mark],
                        9: [[actor, number]], 11: [actor, number], 15: True, 16: True, 17: True}
            self.assertRegex(await self.end_of([greeting, holdings], token), r"^SYNC-0(?!501)\d{3}$", greeting)
        self.assertTrue(self.server.process.is_running, self.server.process.log_tail())
        self.assert_others_go_on()

    async def end_of(self, frames, token):
        """The code with which a session of these frames ends; one of a type nobody knows follows them."""
        code = ""
        async with websockets.connect(
                self.server.origin.replace("http", "ws", 1) + "/_ditto/sync", subprotocols=["mimeo.sync.1"],
                additional_headers={"Authorization": f"Bearer {token}"}, compression=None) as socket:
            # The server may have closed before the last one is sent; what it said is still read.
            with contextlib.suppress(websockets.ConnectionClosed):
                for frame in (*frames, {0: 99}):
                    await socket.send(cbor2.dumps(frame, canonical=True))
            with contextlib.suppress(websockets.ConnectionClosed):
                async for data in socket:
                    told = cbor2.loads(data)
                    code = told[1] if told[0] == wire_peer.CLOSE else code
        return code

    def test_greetings_that_do_not_fit(self):
        self.run_async(self.bad_greetings())

    async def bad_greetings(self):
        for code, arguments, what in (("SYNC-0202", {"database": "another"}, "another database"),
                                      ("SYNC-0201", {"version": 2}, "a version that is not spoken any more")):
            with self.subTest(what), self.assertRaises(Closed) as raised:
                await self.peer().connect(**arguments)
            self.assertEqual(raised.exception.code, code)
            self.assert_others_go_on()

    def test_tokens_that_do_not_count(self):
        self.run_async(self.bad_tokens())

    async def bad_tokens(self):
        other = OneProcess(self.workspace, "other").start()
        for token, what in ((other.access_token, "a foreign one"), ("a.b.c", "none"), ("", "an empty one")):
            with self.subTest(what), self.assertRaises(NotAllowed) as raised:
                await self.peer().connect(token)
            self.assertEqual(raised.exception.status, 401)
            self.assertRegex(raised.exception.code or "", r"^AUTH-\d{4}$")
            self.assert_others_go_on()
        key = self.api_key({"cars": ["true"]}, {}, seconds=3)
        async with self.session(key) as peer:
            end = await peer.until_closed(60)
            self.assertEqual((end.code, end.status), ("SYNC-0502", 1001))
        with self.assertRaises(NotAllowed) as raised:
            await self.peer().connect(key)
        self.assertEqual(raised.exception.status, 401)
        self.assert_others_go_on()

    def test_subscriptions_and_writes_are_refused_by_name_and_the_session_goes_on(self):
        self.run_async(self.refused())

    async def refused(self):
        self.server.execute("INSERT INTO boats DOCUMENTS ({'_id': 'secret'})")
        key = self.api_key({"cars": ["true"]}, {"cars": ["_id == 'own'"]})
        async with self.session(key) as peer:
            for code, statement in (("SYNC-0301", "SELECT FROM"), ("SYNC-0301", "DELETE FROM cars"),
                                    ("SYNC-0301", "SELECT n FROM cars"), ("SYNC-0302", "SELECT * FROM boats")):
                one = wire_peer.Subscription(statement if "FROM " in statement else "x FROM x", {})
                one.statement = statement
                number = len(peer.subscriptions)
                peer.subscriptions[number] = one
                await peer._ask(number)
                await peer.until(lambda: one.refused)
                self.assertEqual(one.refused, code, statement)
            peer.subscriptions.clear()
            await peer.subscribe(SELECT)
            await peer.until(lambda: peer.live)
            self.assertEqual(peer.values("boats"), {})
            await peer.write("cars", "own", {"n": 1})
            await peer.until(lambda: peer.acknowledged == 1)
            await peer.write("cars", "a", {"stolen": True})
            await peer.until(lambda: peer.refusals)
            self.assertEqual(peer.refusals, [(2, "SYNC-0401")])
            self.server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'after'})")
            await peer.until(lambda: "after" in peer.values("cars"))
        self.assertEqual(self.server.query("SELECT * FROM cars WHERE _id = 'a'"), [{"_id": "a"}])
        self.assert_others_go_on()

    def test_a_cursor_from_the_future_is_asked_what_it_holds(self):
        self.run_async(self.future())

    async def future(self):
        async with self.session() as peer:
            await peer.subscribe(SELECT)
            await peer.until(lambda: peer.live)
        one = peer.subscriptions[0]
        one.cursor = [one.cursor[0], one.cursor[1] + 1_000_000, one.cursor[2]]
        await peer.connect()
        await peer.until(lambda: peer.live)
        self.assertEqual(peer.listed, 1)
        self.assertLess(one.cursor[1], 1_000_000)
        self.server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'later'})")
        await peer.until(lambda: "later" in peer.values("cars"))
        await peer.disconnect()
        self.assert_others_go_on()
