"""Peers that sync without a server: real processes, with links over TCP and WebSockets on loopback ports."""

import contextlib
import pathlib
import socket
import ssl
import subprocess
import threading

from mimeo_harness import FaultProxy, OneProcess, Peer, Through, digest, free_port, mimeo, until
from system_test import SystemTest, report

EVERYTHING = ["SELECT * FROM boats"]
AGREEMENT_SECONDS = 60
RETRY = ["--retry", "0.3"]


def shared_key(directory, name="shared.pem"):
    """A key as openssl writes it."""
    path = pathlib.Path(directory) / name
    run = subprocess.run(
        ["openssl", "ecparam", "-name", "prime256v1", "-genkey"], capture_output=True, text=True, check=True)
    path.write_text(run.stdout)
    return path


class MeshTest(SystemTest):
    def setUp(self):
        super().setUp()
        self.key = shared_key(self.workspace.directory)

    def peer(self, name, *links, server=None, key="shared"):
        proof = [] if server or key is None else ["--shared-key", self.key if key == "shared" else key]
        return Peer(self.workspace, name, server, EVERYTHING, links=[*RETRY, *proof, *links])

    def insert(self, peer, number, **fields):
        members = "".join(f", '{name}': {value}" for name, value in fields.items())
        peer.execute(f"INSERT INTO boats DOCUMENTS ({{'_id': '{number}'{members}}}) ON ID CONFLICT DO UPDATE")

    def await_agreement(self, peers, count):
        def agree():
            found = {peer.name: peer.query("SELECT * FROM boats") for peer in peers}
            same = len({digest(rows) for rows in found.values()}) == 1
            return same and len(next(iter(found.values()))) == count

        until(
            agree, AGREEMENT_SECONDS,
            lambda: str({peer.name: (peer.count("boats"), peer.ask(".links")) for peer in peers}), pause=0.1)

    def linked(self, peer):
        return len(peer.ask(".links")["links"])


class Chain(MeshTest):
    def test_a_chain_agrees_through_a_cut_a_kill_and_edits_of_the_same_document(self):
        ports = [free_port() for _ in range(3)]
        proxy = FaultProxy(self.workspace, ("127.0.0.1", ports[1]))
        a = self.peer("a", "--listen-tcp", f"127.0.0.1:{ports[0]}")
        b = self.peer("b", "--connect", f"127.0.0.1:{ports[0]}", "--listen-ws", f"127.0.0.1:{ports[1]}")
        c = self.peer("c", "--connect-ws", f"ws://127.0.0.1:{proxy.port}", "--listen-tcp", f"127.0.0.1:{ports[2]}")
        d = self.peer("d", "--connect", f"127.0.0.1:{ports[2]}")
        peers = [a, b, c, d]
        for number, peer in enumerate(peers):
            self.insert(peer, number, name=f"'{peer.name}'")
        self.await_agreement(peers, 4)

        proxy.cut()
        until(lambda: self.linked(b) == 1, 30, "the cut link stays")
        for number, peer in enumerate(peers):
            self.insert(peer, f"apart-{number}")
        a.execute("UPDATE boats SET left = 1 WHERE _id = '2'")
        d.execute("UPDATE boats SET right = 2 WHERE _id = '2'")
        self.await_agreement([a, b], 6)
        self.await_agreement([c, d], 6)
        proxy.mend()
        self.await_agreement(peers, 8)
        self.assertEqual(a.query("SELECT * FROM boats WHERE _id = '2'")[0], {
            "_id": "2", "name": "c", "left": 1, "right": 2})

        b.kill()
        self.insert(a, "while-away")
        d.execute("DELETE FROM boats WHERE _id = '0'")
        b.start()
        self.await_agreement(peers, 8)


class Evict(MeshTest):
    def test_an_eviction_of_what_nobody_else_has_is_warned_about(self):
        port = free_port()
        a = self.peer("a", "--listen-tcp", f"127.0.0.1:{port}")
        self.insert(a, "0")
        self.insert(a, "1")
        answer = a.execute("EVICT FROM boats WHERE _id = '0'")
        self.assertEqual([warning["code"] for warning in answer["warnings"]], ["SDK-W102"])
        b = self.peer("b", "--connect", f"127.0.0.1:{port}")
        self.await_agreement([a, b], 1)
        commit = a.execute("UPDATE boats SET n = 1 WHERE _id = '1'")["commitID"]

        def taken():
            rows = a.query("SELECT * FROM system:data_sync_info")
            return any((row["documents"].get("synced_up_to_local_commit_id") or 0) >= commit for row in rows)

        until(taken, 10, lambda: str(a.query("SELECT * FROM system:data_sync_info")))
        self.assertEqual(a.execute("EVICT FROM boats WHERE _id = '1'")["warnings"], [])


class Shapes(MeshTest):
    def build(self, shape):
        """Four peers that dial each other as `shape` says: pairs of dialer and listener."""
        ports = [free_port() for _ in range(4)]
        peers = []
        for number in range(4):
            links = ["--listen-tcp", f"127.0.0.1:{ports[number]}"]
            for dialer, listener in shape:
                if dialer == number:
                    links += ["--connect", f"127.0.0.1:{ports[listener]}"]
            peers.append(self.peer(f"n{number}", *links))
        return peers

    def agree(self, shape):
        peers = self.build(shape)
        for number, peer in enumerate(peers):
            for part in range(5):
                self.insert(peer, f"{number}-{part}", author=number)
        self.await_agreement(peers, 20)
        peers[1].execute("DELETE FROM boats WHERE author = 0")
        self.await_agreement(peers, 15)
        return peers

    def test_a_ring_agrees_and_stays_quiet_after_it(self):
        peers = self.agree([(0, 1), (1, 2), (2, 3), (3, 0)])
        self.assertEqual([self.linked(peer) for peer in peers], [2, 2, 2, 2])
        before = [peer.ask(".status")["commitID"] for peer in peers]
        peers[0].ask(".sync stop")
        self.insert(peers[2], "last")
        self.await_agreement(peers[1:], 16)
        peers[0].ask(".sync start")
        self.await_agreement(peers, 16)
        after = [peer.ask(".status")["commitID"] for peer in peers]
        report(f"commits of each in the ring for one write more: {[y - x for x, y in zip(before, after)]}")

    def test_a_star_agrees_and_two_peers_that_dial_each_other_have_one_link(self):
        peers = self.agree([(1, 0), (2, 0), (3, 0), (0, 3)])
        until(lambda: self.linked(peers[3]) == 1 and self.linked(peers[0]) == 3, 30, "a pair has two links")


class Refused(MeshTest):
    def test_other_keys_groups_and_clear_peers_get_no_link_and_nothing_is_stored(self):
        port = free_port()
        host = self.peer("host", "--listen-tcp", f"127.0.0.1:{port}")
        to_host = ["--connect", f"127.0.0.1:{port}"]
        self.insert(host, "secret")
        strangers = {
            "AUTH-0306": self.peer("key", *to_host, key=shared_key(self.workspace.directory, "other.pem")),
            "SYNC-0604": self.peer("clear", *to_host, key=None),
            "SYNC-0602": self.peer("group", *to_host, "--sync-group", "7"),
        }
        friend = self.peer("friend", *to_host)
        self.await_agreement([host, friend], 1)
        for code, stranger in strangers.items():
            self.insert(stranger, code)
            until(
                lambda: stranger.ask(".links")["failures"], 30, lambda: f"{code}: {stranger.ask('.links')}")
            failure = stranger.ask(".links")["failures"][0]
            self.assertIn(code, failure["reason"])
            if code == "SYNC-0604":
                self.assertIn("the other side speaks TLS, and this peer does not", failure["reason"])
            self.assertEqual(stranger.count("boats"), 1)
        self.assertEqual(host.count("boats"), 1)
        self.assertEqual(self.linked(host), 1)


class WrongAddresses(MeshTest):
    def failure(self, peer):
        until(lambda: peer.ask(".links")["failures"], 30, lambda: f"{peer.ask('.links')}")
        return peer.ask(".links")["failures"][0]["reason"]

    def listening(self, name, option):
        """A peer that listens, and its address."""
        peer = self.peer(name, option, "127.0.0.1:0")
        until(lambda: peer.ask(".links")["listening"], 30, lambda: f"{peer.ask('.links')}")
        return f"127.0.0.1:{peer.ask('.links')['listening'][0]['port']}"

    def test_an_address_of_the_other_kind_and_one_of_a_web_server_are_told_with_the_option_that_is_meant(self):
        sockets, plain = self.listening("sockets", "--listen-ws"), self.listening("plain", "--listen-tcp")
        server = OneProcess(self.workspace).start()
        for number, (arguments, reason) in enumerate((
                (["--connect", sockets], "the other side speaks HTTP"),
                (["--connect", "{}:{}".format(*server.address)], "the other side speaks HTTP"),
                (["--connect-ws", f"ws://{plain}"], "the port takes links over TCP, not WebSockets"))):
            for key in ("shared", None):
                peer = self.peer(f"p{number}-{key}", *arguments, key=key)
                self.assertIn(reason, self.failure(peer), f"{arguments} {key}")

    def test_the_peers_own_address_is_told_as_such_and_not_as_a_copy_of_the_store(self):
        for key in ("shared", None):
            port = free_port()
            peer = self.peer(f"a-{key}", "--listen-tcp", f"127.0.0.1:{port}", "--connect", f"127.0.0.1:{port}", key=key)
            # The port may not be open at the first dial.
            until(lambda: any("SYNC-0605" in failure["reason"] for failure in peer.ask(".links")["failures"]), 60,
                  lambda: f"{peer.ask('.links')}")
            self.assertNotIn("SYNC-0606", peer.process.log_path.read_text())

    def test_a_port_that_is_taken_is_a_failure_until_it_is_free(self):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            peer = self.peer("a", "--listen-tcp", f"127.0.0.1:{port}")
            self.assertIn("another program listens at this port", self.failure(peer))
            self.assertEqual(peer.ask(".links")["listening"], [])
        until(lambda: peer.ask(".links")["listening"], 60, lambda: f"{peer.ask('.links')}")
        self.assertEqual(peer.ask(".links")["failures"], [])


class Options(MeshTest):
    def test_an_option_that_cannot_be_meant_is_told_before_anything_is_opened(self):
        store = self.workspace.directory / "nothing"
        for arguments, reason in (
            ([], "--url is missing; without a server a peer needs --lan"),
            (["--connect", "nowhere"], "--connect takes host:port"),
            (["--listen-tcp", "127.0.0.1:99999"], "--listen-tcp takes host:port"),
            (["--connect-ws", "http://h"], "--connect-ws takes a ws:// or wss:// URL"),
            (["--connect", "h:1", "--shared-key", "/nowhere"], "'/nowhere' cannot be read"),
            (["--connect", "h:1", "--retry", "0"], "--retry is between"),
        ):
            run = mimeo("peer", "--store", store, "--database", "d", *arguments)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(reason, run.stderr)
        self.assertFalse(store.exists())


class Floods(MeshTest):
    def test_a_peer_links_amid_a_flood_of_handshakes_and_statements_go_on(self):
        port = free_port()
        a = self.peer("a", "--listen-tcp", f"127.0.0.1:{port}")
        self.insert(a, 1)
        stopping = threading.Event()
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE

        def flood(speaks):
            while not stopping.is_set():
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 10) as link:
                    # The peer signs its part, and refuses whoever shows no certificate.
                    if speaks:
                        tls.wrap_socket(link).close()

        floods = [threading.Thread(target=flood, args=(number % 2,), daemon=True) for number in range(16)]
        for thread in floods:
            thread.start()
        try:
            b = self.peer("b", "--connect", f"127.0.0.1:{port}")
            self.await_agreement([a, b], 1)
            self.insert(a, 2)
            self.await_agreement([a, b], 2)
        finally:
            stopping.set()
            for thread in floods:
                thread.join(30)


class ServerAtOneEnd(MeshTest):
    def test_documents_flow_between_the_server_and_the_far_end_of_a_chain(self):
        server = OneProcess(self.workspace).start()
        proxies = [FaultProxy(self.workspace, server.address) for _ in range(3)]
        ports = [free_port() for _ in range(2)]
        links = [
            ["--listen-tcp", f"127.0.0.1:{ports[0]}"],
            ["--connect", f"127.0.0.1:{ports[0]}", "--listen-tcp", f"127.0.0.1:{ports[1]}"],
            ["--connect", f"127.0.0.1:{ports[1]}"],
        ]
        a, b, c = peers = [
            self.peer(name, *links[number], server=Through(server, proxies[number]))
            for number, name in enumerate("abc")
        ]
        # Linked, so that each has the certificate of its login; by it they know each other without the server.
        until(lambda: self.linked(b) == 2, 60, lambda: str([peer.ask(".links") for peer in peers]))
        for proxy in proxies:
            proxy.cut()
        for number, peer in enumerate(peers):
            self.insert(peer, f"{peer.name}", author=number)
        self.await_agreement(peers, 3)

        proxies[0].mend()
        # The authors b and c stay cut off: a relay brings what they wrote.
        until(lambda: server.count("boats") == 3, 90, lambda: f"{server.query('SELECT * FROM boats')}")
        server.execute("INSERT INTO boats DOCUMENTS ({'_id': 'of-the-server'})")
        self.await_agreement(peers, 4)
        c.execute("UPDATE boats SET author = 9 WHERE _id = 'a'")
        for proxy in proxies[1:]:
            proxy.mend()
        until(
            lambda: server.count("boats") == 4 and server.count("boats", "author = 9") == 1, 90,
            lambda: f"{server.query('SELECT * FROM boats')}")
        self.await_agreement(peers, 4)
