"""Peers that find each other: real processes in network namespaces, on bridges that are cut and joined."""

import time
import unittest

from mimeo_harness import Networks, Peer, deep_only, digest, until, why_no_namespaces
from system_test import SystemTest, report
from test_mesh import shared_key

EVERYTHING = ["SELECT * FROM boats"]
REASON = why_no_namespaces()
FIRST_LINK_SECONDS = 4
"""The bar; a test on a busy machine waits longer and prints what it took."""


@unittest.skipIf(REASON, REASON)
class LanTest(SystemTest):
    def setUp(self):
        super().setUp()
        self.networks = Networks(self.workspace)
        self.key = shared_key(self.workspace.directory)

    def peer(self, name, host, *links):
        return Peer(
            self.workspace, name, None, EVERYTHING, links=["--lan", "--shared-key", self.key, *links],
            within=host.prefix)

    def insert(self, peer, name):
        peer.execute(f"INSERT INTO boats DOCUMENTS ({{'_id': '{name}'}})")

    def linked(self, peer):
        return len(peer.ask(".links")["links"])

    def condition(self, peer):
        return peer.query("SELECT * FROM system:transports_info WHERE _id = 'lan'")[0]

    def await_agreement(self, peers, count, seconds=60):
        def agree():
            found = [digest(peer.query("SELECT * FROM boats")) for peer in peers]
            return len(set(found)) == 1 and peers[0].count("boats") == count

        until(agree, seconds, lambda: str({peer.name: peer.ask(".links") for peer in peers}), pause=0.1)

    def await_first_link(self, peer, since):
        until(lambda: self.linked(peer) >= 1, 60, lambda: f"{peer.ask('.links')} {self.condition(peer)}")
        return time.monotonic() - since


class Network(LanTest):
    def test_peers_of_one_network_find_each_other_through_cut_kill_and_a_bridge(self):
        left, right = self.networks.bridge("left"), self.networks.bridge("right")
        hosts = [self.networks.host(bridge) for bridge in (left, left, right)]
        a = self.peer("a", hosts[0])
        self.insert(a, "of-a")
        started = time.monotonic()
        b = self.peer("b", hosts[1])
        report(f"first link of a peer that came: {self.await_first_link(b, started):.2f} s"
               f" (bar {FIRST_LINK_SECONDS} s)")
        self.await_agreement([a, b], 1)
        self.assertEqual(self.condition(a)["condition"], "Ok")

        hosts[1].pull()
        until(lambda: self.linked(a) == 0, 40, "the link over a pulled cable stays")
        self.insert(a, "apart-a")
        self.insert(b, "apart-b")
        hosts[1].plug()
        self.await_agreement([a, b], 3)

        b.kill()
        b.start()
        self.insert(b, "after-the-kill")
        self.await_agreement([a, b], 4)

        c = self.peer("c", hosts[2])
        self.insert(c, "of-an-island")
        self.assertEqual(self.linked(c), 0)
        self.networks.join(left, right)
        joined = time.monotonic()
        report(f"first link of an island after it was bridged: {self.await_first_link(c, joined):.2f} s")
        self.await_agreement([a, b, c], 5)

    def test_a_host_without_multicast_links_at_an_address_and_says_why_it_finds_nobody(self):
        bridge = self.networks.bridge("one")
        deaf, other = self.networks.host(bridge), self.networks.host(bridge)
        deaf.run("ip", "link", "set", "eth0", "multicast", "off")
        a = self.peer("a", other, "--listen-tcp", f"{other.address}:4040")
        b = self.peer("b", deaf, "--connect", f"{other.address}:4040")
        self.insert(a, "1")
        self.await_agreement([a, b], 1)
        found = self.condition(b)
        self.assertEqual(found["condition"], "MdnsFailure")
        self.assertIn("no network interface is up and can multicast", found["last_error"])
        # The interface comes back: nobody has to start anything again.
        deaf.run("ip", "link", "set", "eth0", "multicast", "on")
        until(lambda: self.condition(b)["condition"] == "Ok", 40, lambda: str(self.condition(b)))


@deep_only("three peers do the same in make test")
class ManyPeers(LanTest):
    seconds = 600

    def test_ten_peers_on_two_networks_that_are_bridged(self):
        left, right = self.networks.bridge("left"), self.networks.bridge("right")
        peers, times = [], []
        for number in range(10):
            host = self.networks.host(left if number < 5 else right)
            started = time.monotonic()
            peer = self.peer(f"n{number}", host)
            if number not in (0, 5):
                times.append(self.await_first_link(peer, started))
            peers.append(peer)
        report(f"first links: {', '.join(f'{seconds:.2f}' for seconds in sorted(times))} s")
        for peer in peers:
            self.insert(peer, peer.name)
        self.await_agreement(peers[:5], 5)
        self.await_agreement(peers[5:], 5)
        self.networks.join(left, right)
        joined = time.monotonic()
        self.await_agreement(peers, 10, 180)
        report(f"two networks of five agree {time.monotonic() - joined:.1f} s after they were bridged")
        self.assertLessEqual(max(len([link for link in peer.ask(".links")["links"] if link["dialed"]])
                                 for peer in peers), 4)
        peers[3].kill()
        self.insert(peers[8], "while-one-is-gone")
        peers[3].start()
        self.await_agreement(peers, 11, 120)

    def test_peers_find_each_other_by_link_local_addresses_of_ipv6_alone(self):
        bridge = self.networks.bridge("one")
        hosts = [self.networks.host(bridge) for _ in range(2)]
        for host in hosts:
            host.run("ip", "address", "del", f"{host.address}/24", "dev", "eth0")
        a, b = [self.peer(name, host) for name, host in zip("ab", hosts)]
        self.insert(a, "1")
        self.await_agreement([a, b], 1)
        self.assertTrue(any("fe80:" in address for address in b.ask(".links")["found"]))
