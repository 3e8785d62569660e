"""Systems under test: processes, the seats at their doors, and the faults of each of their parts."""

import pathlib
import random
import subprocess

from mimeo_harness import DOWN, UP, Client, FaultProxy, FourProcesses, OneProcess, Peer, Postgres, Through, free_port
from mimeo_harness.clock import Clock
from mimeo_harness.servers import await_health

from . import nemesis, watch
from .followers import Followers
from .seats import HTTPSeat, Keys, PeerSeat, ReaderSeat
from .workloads import ALL, Rooms

COLLECTIONS = [name for workload in ALL for name in workload.collections] + [watch.COLLECTION]
EVERYTHING = [f"SELECT * FROM {name}" for name in COLLECTIONS]


def copy_of(client):
    return Client(client.origin, client.database, client.token, issuer=client._issuer)


class Topology:
    """`seats` are the clients, `victims` the faults by the part that suffers them, `watched` the seats at which a
    document has to appear; it is written through the first of them."""

    def __init__(self, workspace, recorder, dice):
        self.workspace = workspace
        self.recorder = recorder
        self.dice = dice
        self.seats = []
        self.victims = {}
        self.watched = []
        self.clocks = []
        self.followers = None

    def http(self, count, clients):
        for number in range(1, count + 1):
            copies = [copy_of(client) for client in clients]
            self.seats.append(HTTPSeat(f"http{number}", self.recorder, copies, self.dice_of(f"http{number}")))
        self.watched += [HTTPSeat("watch", self.recorder, [copy_of(client)], random.Random(0)) for client in clients]

    def follow(self, client, data, origins=None):
        """Commands that follow a server, and a reader of each room at the given origins."""
        self.followers = Followers(self.workspace, client)
        keys = Keys(client, (data / "auth" / "admin.token").read_text().strip())
        for room in Rooms.rooms:
            name = f"reader-{room}"
            seat = ReaderSeat(name, self.recorder, keys, origins or [client.origin], self.dice_of(name))
            # An instance that is cut off from the log goes on with the keys that it knows (Docs/contact.md).
            seat.changes_rights = origins is None
            if not seat.be_granted([room]):
                raise RuntimeError(f"no API key for {name}")
            self.seats.append(seat)

    def dice_of(self, name):
        return random.Random(f"{self.dice.random()} {name}")

    def add_peer(self, name, server=None, links=(), proxy=None):
        """A peer with a clock of its own, and its faults."""
        clock = nemesis.OwnClock(pathlib.Path(self.workspace.directory) / f"clock-{name}")
        self.clocks.append(clock)
        peer = Peer(self.workspace, name, server, EVERYTHING, environment=clock.environment, links=links)
        seat = PeerSeat(name, self.recorder, peer)
        self.seats.append(seat)
        self.watched.append(seat)

        def count_start():
            seat.starts += 1

        self.victims[name] = [
            nemesis.kill(name, peer, count_start), nemesis.pause(name, lambda: [peer.process]),
            nemesis.ahead(name, clock, 25), nemesis.put_back(name, peer, seat, self.workspace.directory)]
        if proxy is not None:
            self.network(f"network of {name}", proxy)
        return seat

    def jump(self, clock):
        """The clocks of all processes go on for good."""
        return nemesis.Fault("clock of all", lambda: self.advance(clock, 20), lambda: None, 0)

    def advance(self, clock, seconds):
        clock.advance(seconds / 3600)
        for own in self.clocks:
            own.advance(seconds)

    def network(self, name, proxy):
        self.victims[name] = [
            nemesis.cut(name, proxy), nemesis.one_way(name, proxy, UP), nemesis.one_way(name, proxy, DOWN),
            nemesis.slow(name, proxy)]


class One(Topology):
    """One process with SQLite; clients over HTTP through a bad network."""

    def build(self):
        clock = Clock(self.workspace)
        self.server = OneProcess(self.workspace).start()
        proxy = FaultProxy(self.workspace, self.server.address)
        through = Client(proxy.origin, self.server.database, self.server.token, issuer=self.server.origin)
        self.http(2, [through])
        self.http_near(self.server)
        self.victims["server"] = [
            nemesis.kill("server", self.server), nemesis.pause("server", lambda: [self.server.process], 6),
            self.jump(clock)]
        self.network("network", proxy)
        self.follow(through, self.server.data)
        return self

    def http_near(self, client):
        near = Client(client.origin, client.database, client.token)
        self.seats.append(HTTPSeat("http0", self.recorder, [near], self.dice_of("http0")))


class Peers(Topology):
    """Three peers and two clients over HTTP at one process."""

    arguments = ()
    kills_server = True

    def build(self):
        clock = Clock(self.workspace)
        self.server = OneProcess(self.workspace, extra_arguments=self.arguments).start()
        self.http(2, [Client(self.server.origin, self.server.database, self.server.token)])
        for name in "abc":
            proxy = FaultProxy(self.workspace, self.server.address)
            seat = self.add_peer(name, Through(self.server, proxy), self.links_of(name), proxy=proxy)
            self.strain(name, seat, clock)
        self.victims["server"] = [nemesis.pause("server", lambda: [self.server.process], 6), self.jump(clock)]
        if self.kills_server:
            self.victims["server"].append(nemesis.kill("server", self.server))
        self.follow(self.server, self.server.data)
        return self

    def links_of(self, name):
        """The options of a peer's links."""
        return ()

    def strain(self, name, seat, clock):
        """Adds faults of a peer."""


class Reaping(Peers):
    """The same with short times of tombstones and log, and peers that are away for hours of clock."""

    arguments = ("--housekeeping-seconds", "1", "--snapshot-operations", "200", "--kept-operations", "500",
                 "--tombstone-ttl-hours", "1")
    kills_server = False
    """The absence of a peer does."""

    def strain(self, name, seat, clock):
        self.victims[name].append(nemesis.absence(
            name, seat.peer, seat, self.server, lambda seconds: self.advance(clock, seconds)))


class Both(Peers):
    """The same, and the peers are linked to each other as a chain."""

    def build(self):
        self.ports = {name: free_port() for name in "abc"}
        return super().build()

    def links_of(self, name):
        links = ["--retry", "0.3", "--listen-tcp", f"127.0.0.1:{self.ports[name]}"]
        if name != "c":
            other = "abc"["abc".index(name) + 1]
            proxy = FaultProxy(self.workspace, ("127.0.0.1", self.ports[other]))
            self.network(f"link of {name} to {other}", proxy)
            links += ["--connect", f"127.0.0.1:{proxy.port}"]
        return links


class Service:
    """One instance of an executable: it keeps its port and folder."""

    def __init__(self, cluster, label):
        self._cluster = cluster
        self.label = label

    @property
    def process(self):
        return self._cluster.processes[self.label]

    def kill(self):
        self.process.kill()

    def start(self):
        self._cluster.start_service(self.label.rstrip("-0123456789"), self.label)


class Services(Topology):
    """Two query-services and two replicators on PostgreSQL; clients over HTTP at both, and two peers."""

    def build(self):
        Clock(self.workspace)
        postgres = Postgres(self.workspace).start()
        self.cluster = FourProcesses(self.workspace, log=postgres.url)
        proxy = postgres.proxy()
        self.cluster.logs["query-service-2"] = Postgres.url_through(proxy)
        self.cluster.fronts["replicator"] = [
            self.cluster.address_of("replicator"), self.cluster.address_of("replicator-2")]
        self.cluster.extra_arguments["replicator-2"] = ["--data", self.workspace.directory / "other"]
        self.cluster.start()
        self.cluster.start_service("replicator", "replicator-2")
        self.cluster.start_service("query-service", "query-service-2")
        queries = ("query-service", "query-service-2")
        for label in ("replicator-2", "query-service-2"):
            await_health(self.cluster.processes[label], self.cluster.client_of(label))
        self.http(3, [self.cluster.client_of(name) for name in queries])
        for name in "ab":
            self.add_peer(name, self.cluster)
        for label in ("query-service", "query-service-2", "replicator", "replicator-2"):
            service = Service(self.cluster, label)
            self.victims[label] = [
                nemesis.kill(label, service), nemesis.pause(label, lambda service=service: [service.process], 6)]
        self.victims["postgres"] = [
            nemesis.kill("postgres", postgres, longest=2),
            nemesis.Fault("stop postgres", postgres.freeze, postgres.thaw, 5)]
        self.network("network of query-service-2", proxy)
        self.follow(self.cluster, self.cluster.data, [self.cluster.origin_of(name) for name in queries])
        return self


def shared_key(workspace):
    """The path of a key as openssl writes it."""
    path = workspace.directory / "shared.pem"
    made = subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey"], capture_output=True, check=True)
    path.write_bytes(made.stdout)
    return path


class Links(Topology):
    """Five peers without a server, linked as a chain, a ring or a star."""

    shapes = {
        "chain": [(0, 1), (1, 2), (2, 3), (3, 4)], "ring": [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)],
        "star": [(1, 0), (2, 0), (3, 0), (4, 0)]}

    def build(self):
        Clock(self.workspace)
        names = "abcde"
        ports = [free_port() for _ in names]
        key = shared_key(self.workspace)
        shape = self.dice.choice(sorted(self.shapes))
        self.recorder.note("shape", shape=shape)
        for number, name in enumerate(names):
            links = ["--retry", "0.3", "--shared-key", key, "--listen-tcp", f"127.0.0.1:{ports[number]}"]
            for dialer, listener in self.shapes[shape]:
                if dialer == number:
                    proxy = FaultProxy(self.workspace, ("127.0.0.1", ports[listener]))
                    self.network(f"link of {name} to {names[listener]}", proxy)
                    links += ["--connect", f"127.0.0.1:{proxy.port}"]
            self.add_peer(name, links=links)
        return self


TOPOLOGIES = {"one": One, "services": Services, "peers": Peers, "reaping": Reaping, "both": Both, "links": Links}
