"""Statements and subscriptions that compute for as long as they are let, of three credentials, beside honest clients.

While fifty of them run, health, reads, writes and sync go on; each ends at its limit, or with its client.
"""

import asyncio
import http.client
import itertools
import json
import os
import pathlib
import statistics
import sys
import threading
import time

from mimeo_harness import Client, FourProcesses, OneProcess, Postgres, until, use_packages
from mimeo_harness.depth import deep_only
from system_test import SystemTest, report

use_packages()
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "Conformance"))

from wire_peer import WirePeer  # noqa: E402

STATEMENT_SECONDS = 8
SUBSCRIPTION_SECONDS = 1
FLAGS = ["--statement-seconds", str(STATEMENT_SECONDS), "--subscription-seconds", str(SUBSCRIPTION_SECONDS)]
LONGER_SECONDS = 4
LONGER = ["--statement-seconds", str(STATEMENT_SECONDS), "--subscription-seconds", str(LONGER_SECONDS)]
"""So that subscriptions are still evaluated when fifty statements have begun."""
DOCUMENTS = 300
LIST = list(range(1500))
PAIRS = "ANY p IN :l SATISFIES (ANY q IN :l SATISFIES p + q < 0 END) END"
MIXED = "abcdefgh" * 12_000

HEAVY = (
    (f"SELECT * FROM cars WHERE {PAIRS}", {"l": LIST}),
    (f"PROFILE SELECT * FROM cars WHERE {PAIRS}", {"l": LIST}),
    (f"UPDATE cars SET x = 1 WHERE {PAIRS}", {"l": LIST}),
    (f"DELETE FROM cars WHERE {PAIRS}", {"l": LIST}),
    (f"INSERT INTO copies SELECT * FROM cars WHERE {PAIRS}", {"l": LIST}),
    ("SELECT RAW ARRAY (ARRAY p * q FOR q IN :l WHEN p + q < 0 END) FOR p IN :l WHEN p < 0 OR "
     f"({PAIRS}) END FROM cars", {"l": LIST}),
    ("SELECT RAW _id FROM cars WHERE ANY p IN :l SATISFIES regexp_like(:t || `trim`(_id), '(a|b|c)*h(a|b|c|d|h){30}z') "
     "END", {"l": LIST, "t": MIXED}),
    ("SELECT RAW COUNT(*) FROM cars WHERE ANY p IN :l SATISFIES :t || `trim`(_id) LIKE '%_b%_c%_d%_z' END",
     {"l": LIST, "t": MIXED}),
    (f"SELECT COUNT(*) AS n FROM cars GROUP BY ARRAY p FOR p IN :l WHEN ({PAIRS}) OR p > 1400 END", {"l": LIST}),
    (f"SELECT RAW _id FROM cars ORDER BY {PAIRS}, _id", {"l": LIST}),
)


class Heavy(threading.Thread):
    """Runs one statement as a credential on a connection of its own."""

    def __init__(self, client, key, statement, arguments):
        super().__init__(daemon=True)
        self._client, self._key = client, key
        self._body = json.dumps({"statement": statement, "args": arguments})
        self._connection = None
        self.statement = statement
        self.status = self.code = self.ended = None

    def run(self):
        host, port = self._client.address
        self._connection = http.client.HTTPConnection(host, port, timeout=120)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        try:
            self._connection.request("POST", "/api/v5/store/execute", self._body, headers)
            answer = self._connection.getresponse()
            content = json.loads(answer.read())
            self.status, self.code = answer.status, (content.get("error") or {}).get("code")
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            pass  # hung up
        self.ended = time.monotonic()

    def hang_up(self):
        sock = self._connection.sock
        sock.shutdown(2)  # the thread that reads from it closes it


class HeavyTest(SystemTest):
    seconds = 300

    def prepare(self, server, statements):
        """`statements` is the client of the process that executes them."""
        self.server, self.statements = server, statements
        self.admin = {"Authorization": f"Bearer {(server.data / 'auth' / 'admin.token').read_text().strip()}"}
        server.execute("INSERT INTO cars DOCUMENTS (:d)",
                       {"d": [{"_id": f"car-{number:04}", "n": number} for number in range(DOCUMENTS)]})
        server.execute("INSERT INTO small DOCUMENTS ({'_id': 'a', 'n': 1})")
        self.keys = [self.api_key(f"heavy-{number}") for number in range(3)]

    def api_key(self, name):
        everything = {"everything": True, "queriesByCollection": {}}
        answer = self.server.request(
            "POST", f"/admin/auth/databases/{self.server.database}/api-keys",
            {"name": name, "permissions": {"read": everything, "write": everything},
             "expiresAt": int(time.time()) + 3600}, self.admin)
        self.assertEqual(answer.status, 201, answer.body)
        return answer.json["key"]

    def working(self):
        """Everything that runs; where one process has all services, also what subscriptions have it do."""
        path = f"/admin/query-service/databases/{self.server.database}/requests"
        answer = self.statements.request("GET", path, headers=self.admin)
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json["requests"]

    def running(self):
        """The statements that run."""
        return [one for one in self.working() if one["statement"] != "a page of a subscription"]

    def start_heavy(self, count):
        """Starts statements, the credentials in turn, and waits until they run."""
        pairs = zip(itertools.cycle(self.keys), itertools.islice(itertools.cycle(HEAVY), count))
        heavy = [Heavy(self.server, key, *statement) for key, statement in pairs]
        for one in heavy:
            one.start()
        until(lambda: len(self.running()) >= count, 60, lambda: f"{len(self.running())} of {count} run", pause=0.02)
        # A statement's time begins with its acceptance; connecting fifty clients takes a busy machine a second.
        self.accepted = time.monotonic()
        return heavy

    def measured(self, what, act, rounds=12):
        """The median time of an action, in milliseconds; each must succeed."""
        times = []
        for _ in range(rounds):
            began = time.monotonic()
            act()
            times.append(1000 * (time.monotonic() - began))
        median = statistics.median(times)
        report(f"{what}: median {median:.0f} ms, longest {max(times):.0f} ms")
        return median, min(times)

    def assert_honest(self, kind):
        """Health within 100 ms, a point read within 200 ms, a write in a second, of a machine that has the time."""
        for client in self.server.own_origins().values():
            self.assertEqual(client.request("GET", "/health").status, 200)

        def healthy():
            for client in self.server.own_origins().values():
                self.assertEqual(client.request("GET", "/health").status, 200)

        def read():
            self.assertEqual(self.server.query("SELECT * FROM small WHERE _id = 'a'")[0]["_id"], "a")

        numbers = itertools.count()

        def write():
            self.server.execute(f"INSERT INTO written DOCUMENTS ({{'_id': {next(numbers)}}})")

        processes = len(self.server.own_origins())
        # Other jobs of the machine may take any of these; the least time shows that nothing of ours does.
        for what, act, bound in (("health", healthy, 100 * processes), ("point read", read, 200), ("write", write, 1000)):
            median, least = self.measured(f"{kind}: {what} beside {len(self.running())} statements", act)
            self.assert_in_time(least / 1000, bound / 1000, f"{what}, the least")
            self.assert_in_time(median / 1000, 5 * bound / 1000, f"{what}, the median")

    def assert_over(self, heavy, within):
        for one in heavy:
            one.join(120)
            self.assertEqual(one.status, 400, f"{one.statement[:60]}: {one.code}")
            self.assertEqual(one.code, "QUERY-0401", one.statement)
        late = max(one.ended for one in heavy) - self.accepted - STATEMENT_SECONDS
        self.assert_in_time(late, within, f"the last of {len(heavy)} after its limit")
        self.assertEqual(self.running(), [])

    # Everything at once

    def go_on_with_subscriptions(self, kind):
        """Fifty statements and nine subscriptions of the same credentials; the same is true as of the statements."""
        asyncio.run(self.everything_at_once(kind))

    async def everything_at_once(self, kind):
        peers = await self.heavy_peers()
        honest = await WirePeer(self.server.origin, self.server.database, self.server.token).connect()
        await honest.subscribe("SELECT * FROM small")
        await honest.until(lambda: honest.live)
        for peer in peers:
            await peer.subscribe(f"SELECT * FROM cars WHERE {PAIRS}", {"l": LIST})
        heavy = await asyncio.to_thread(self.start_heavy, 50)
        self.assertEqual([peer.subscriptions[0].refused for peer in peers], [None] * len(peers))
        write = asyncio.create_task(asyncio.to_thread(
            self.server.execute, "UPDATE small SET n = 3 WHERE _id = 'a'"))
        await honest.until(lambda: honest.values("small").get("a") == {"n": 3}, 20)
        await write
        await asyncio.to_thread(self.assert_honest, f"{kind}, with subscriptions")
        # Some peers hang up while their subscription is evaluated: nothing goes on without them.
        for peer in peers[:3]:
            await peer.disconnect()
        await asyncio.to_thread(self.assert_over, heavy, within=3)
        over, used = time.monotonic(), self.processor_seconds()
        for peer in peers[3:]:
            await peer.until(lambda peer=peer: peer.subscriptions[0].refused, 240)
            self.assertEqual(peer.subscriptions[0].refused, "SYNC-0303")
            self.assertIsNone(peer.closed)
        report(f"the last costly subscription was refused {time.monotonic() - over:.2f} s after the statements")
        # The limit counts processor time, so other programs on this machine do not count.
        self.assertLess(self.processor_seconds() - used, len(peers) * LONGER_SECONDS)
        await asyncio.to_thread(until, lambda: not self.working(), 10, "something still runs", pause=0.02)
        for peer in (*peers[3:], honest):
            await peer.disconnect()

    def processor_seconds(self):
        return sum(process.processor_seconds() for process in self.server.processes.values())

    async def heavy_peers(self):
        peers = []
        for number in range(9):
            peer = WirePeer(self.server.origin, self.server.database, self.server.token)
            await peer.connect(self.keys[number % 3])
            peers.append(peer)
        return peers

    def go_on(self, kind):
        heavy = self.start_heavy(50)
        self.assert_honest(kind)
        self.assert_over(heavy, within=3)
        self.assertEqual(self.server.count("cars"), DOCUMENTS)
        self.assertEqual(self.server.count("cars", "x IS NOT MISSING"), 0)

    def assert_clients_leave(self):
        heavy = self.start_heavy(20)
        for one in heavy:
            one.hang_up()
        left = time.monotonic()
        until(lambda: not self.running(), 10, lambda: f"{len(self.running())} still run", pause=0.02)
        self.assert_in_time(time.monotonic() - left, 3, "20 statements were gone after their clients")

    # Sync

    def sync_goes_on(self):
        asyncio.run(self.subscribe_heavily())

    async def subscribe_heavily(self):
        """Each session of a heavy credential has a plain subscription too, which lives on."""
        peers = await self.heavy_peers()
        honest = await WirePeer(self.server.origin, self.server.database, self.server.token).connect()
        await honest.subscribe("SELECT * FROM small")
        await honest.until(lambda: honest.live)
        began = time.monotonic()
        for peer in peers:
            await peer.subscribe(f"SELECT * FROM cars WHERE {PAIRS}", {"l": LIST})
            await peer.subscribe("SELECT * FROM small")
        write = asyncio.create_task(asyncio.to_thread(
            self.server.execute, "UPDATE small SET n = 2 WHERE _id = 'a'"))
        await honest.until(lambda: honest.values("small").get("a") == {"n": 2}, 20)
        report(f"a change reached a peer {time.monotonic() - began:.2f} s after nine costly subscriptions began")
        await write
        for peer in peers:
            await peer.until(lambda peer=peer: peer.subscriptions[0].refused, 240)
            self.assertEqual(peer.subscriptions[0].refused, "SYNC-0303")
            await peer.until(lambda peer=peer: peer.values("small").get("a") == {"n": 2}, 60)
            self.assertIsNone(peer.closed)
        report(f"the last costly subscription was refused {time.monotonic() - began:.2f} s after it began")
        for peer in (*peers, honest):
            await peer.disconnect()


class HeavyOnOneProcess(HeavyTest):
    def test_fifty_statements(self):
        server = OneProcess(self.workspace, extra_arguments=FLAGS).start()
        self.prepare(server, server)
        self.go_on("one process")
        self.assert_clients_leave()

    def test_costly_subscriptions(self):
        server = OneProcess(self.workspace, extra_arguments=FLAGS).start()
        self.prepare(server, server)
        self.sync_goes_on()

    @deep_only("four processes do the same in `make test`")
    def test_statements_and_subscriptions_at_once(self):
        server = OneProcess(self.workspace, extra_arguments=LONGER).start()
        self.prepare(server, server)
        self.go_on_with_subscriptions("one process")

    def test_a_limit_on_running_statements(self):
        server = OneProcess(self.workspace, extra_arguments=[*FLAGS, "--statements-per-credential", "3"]).start()
        self.prepare(server, server)
        heavy = [Heavy(server, self.keys[0], *HEAVY[0]) for _ in range(3)]
        for one in heavy:
            one.start()
        until(lambda: len(self.running()) == 3, 30, "three run")
        refused = Client(server.origin).request(
            "POST", "/api/v5/store/execute", {"statement": "SELECT * FROM small"},
            {"Authorization": f"Bearer {self.keys[0]}"})
        self.assert_refused(refused, 429)
        self.assertEqual(refused.error["code"], "SRV-0429")
        self.assertEqual(refused.headers["Retry-After"], "1")
        own = {"Authorization": f"Bearer {self.keys[0]}"}
        for row in server.request("GET", "/api/v5/requests", headers=own).json["requests"]:
            self.assertEqual(server.request("DELETE", f"/api/v5/requests/{row['id']}", headers=own).status, 200)
        for one in heavy:
            one.join(30)
            self.assertEqual((one.status, one.code), (409, "QUERY-0402"))


class HeavyOnFourProcesses(HeavyTest):
    def start(self, projection=None, flags=FLAGS):
        server = FourProcesses(self.workspace)
        server.extra_arguments = {"query-service": list(flags), "replicator": list(flags)}
        if projection:
            server.extra_arguments["query-service"] += ["--projection", projection]
        server.start()
        self.prepare(server, server.client_of("query-service"))

    def test_fifty_statements(self):
        self.start()
        self.go_on("four processes")
        self.assert_clients_leave()

    @deep_only("one process does the same in `make test`")
    def test_costly_subscriptions(self):
        self.start()
        self.sync_goes_on()

    def test_statements_and_subscriptions_at_once(self):
        self.start(flags=LONGER)
        self.go_on_with_subscriptions("four processes")

    def test_fifty_statements_on_postgres(self):
        if os.geteuid() != 0 and not os.environ.get("MIMEO_TEST_POSTGRES"):
            self.skipTest("no PostgreSQL")
        postgres = Postgres(self.workspace)
        postgres.start()
        self.start(projection=postgres.url)
        self.go_on("four processes and PostgreSQL")
        self.assert_clients_leave()
