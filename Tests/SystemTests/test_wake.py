"""Several processes on one SQLite log: an append in one wakes the others."""

import statistics
import time

from mimeo_harness import FourProcesses, Peer, until
from system_test import SystemTest

ROUNDS = 20
BOUND_SECONDS = 1.0
"""The goal is 50 ms; the bound leaves room for a debug build on a busy machine. The figure is reported, and judged in the deep tier."""


class Wake(SystemTest):
    seconds = 240

    def setUp(self):
        super().setUp()
        self.cluster = FourProcesses(self.workspace).start()

    def test_a_write_at_one_query_service_is_read_at_another(self):
        """The second one is asked for a state not older than the write, and measured until it answers."""
        self.cluster.start_service("query-service", "query-service-2")
        first, second = self.cluster.client_of("query-service"), self.cluster.client_of("query-service-2")
        until(lambda: self.is_healthy(second), 90, "the second query-service is not healthy")
        elapsed = []
        for number in range(ROUNDS):
            written = first.execute(f"INSERT INTO cars DOCUMENTS ({{'_id': {number}}})")
            start = time.monotonic()
            headers = {"X-DITTO-TXN-ID": str(written["transactionId"])}
            read = second.execute(f"SELECT * FROM cars WHERE _id = {number}", headers=headers)
            elapsed.append(time.monotonic() - start)
            self.assertEqual(read["items"], [{"_id": number}])
        self.assert_quick("query-service to query-service, with its request", elapsed)

    def test_a_write_over_http_reaches_a_peer_at_the_replicator(self):
        """From the answer over HTTP to the observer's event at a peer."""
        peer = Peer(self.workspace, "a", self.cluster, ["SELECT * FROM cars"])
        peer.execute(".observe SELECT * FROM cars")
        elapsed = []
        for number in range(ROUNDS):
            self.cluster.execute(f"INSERT INTO cars DOCUMENTS ({{'_id': 'car-{number}'}})")
            start = time.monotonic()
            peer.await_event(lambda event: f'car-{number}' in str(event), 90)
            elapsed.append(time.monotonic() - start)
        self.assert_quick("query-service to replicator to a peer's observer", elapsed[1:])

    @staticmethod
    def is_healthy(client):
        try:
            return client.request("GET", "/health", seconds=5).status == 200
        except OSError:
            return False

    def assert_quick(self, what, elapsed):
        median, worst = statistics.median(elapsed), max(elapsed)
        self.assert_in_time(median, BOUND_SECONDS, f"{what}: worst {1000 * worst:.0f} ms of {len(elapsed)}, median")
