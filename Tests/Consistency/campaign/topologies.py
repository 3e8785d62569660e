"""Systems under test: processes, the seats at their doors, and the faults of each of their parts."""

import pathlib
import random
import subprocess

from mimeo_harness import DOWN, UP, Client, FaultProxy, FourProcesses, OneProcess, Peer, Postgres, Through, free_port
from mimeo_harness.clock import Clock
from mimeo_harness.servers import await_health

from . import nemesis
from .followers import Followers
from .seats import HTTPSeat, PeerSeat
from .workloads import ALL, Rooms

COLLECTIONS = [name for workload in ALL for name in workload.collections]
EVERYTHING = [f"SELECT * FROM {name}" for name in COLLECTIONS]


class KeyedClient(Client):
    """A client with an API key."""

    def __init__(self, origin, key):
        super().__init__(origin)
        self._key = key

    def authorization(self):
        return {"Authorization": f"Bearer {self._key}"}


class Topology:
    """`seats` are the clients, `victims` the faults by the part that suffers them."""

    def __init__(self, workspace, recorder, dice):
        self.workspace = workspace
        self.recorder = recorder
        self.dice = dice
        self.seats = []
        self.victims = {}
        self.followers = None

    def http(self, count, clients):
        for number in range(1, count + 1):
            copies = [Client(client.origin, client.database, client.token, issuer=client._issuer) for client in clients]
            self.seats.append(HTTPSeat(f"http{number}", self.recorder, copies, self.dice_of(f"http{number}")))

    def follow(self, client, data, origins=None):
        """Commands that follow a server, and a reader of each room at the given origins."""
        self.followers = Followers(self.workspace, client)
        token = (data / "auth" / "admin.token").read_text().strip()
        for room in Rooms.rooms:
            name = f"reader-{room}"
            permissions = {"qlVersion": 1, "read": {"queriesByCollection": {"rooms": [f"_id LIKE '{room}-%'"]}}}
            number = self.recorder.invoke("admin", "http", "grant", {"to": name, "rooms": [room]})
            made = client.request(
                "POST", f"/admin/auth/databases/{client.database}/api-keys",
                {"name": name, "permissions": permissions}, {"Authorization": f"Bearer {token}"})
            if made.status != 201:
                raise RuntimeError(f"no API key: {made.status} {made.body[:300]!r}")
            self.recorder.complete(number, "ok")
            keyed = [KeyedClient(origin, made.json["key"]) for origin in origins or [client.origin]]
            seat = HTTPSeat(name, self.recorder, keyed, self.dice_of(name))
            seat.is_reader = True
            self.seats.append(seat)

    def dice_of(self, name):
        return random.Random(f"{self.dice.random()} {name}")

    def add_peer(self, name, server=None, links=(), proxy=None):
        """A peer with a clock of its own, and its faults."""
        clock = nemesis.OwnClock(pathlib.Path(self.workspace.directory) / f"clock-{name}")
        peer = Peer(self.workspace, name, server, EVERYTHING, environment=clock.environment, links=links)
        seat = PeerSeat(name, self.recorder, peer)
        self.seats.append(seat)

        def count_start():
            seat.starts += 1

        self.victims[name] = [
            nemesis.kill(name, peer, count_start), nemesis.pause(name, lambda: [peer.process]),
            nemesis.ahead(name, clock, 25)]
        if proxy is not None:
            self.network(f"network of {name}", proxy)
        return peer

    def network(self, name, proxy):
        self.victims[name] = [
            nemesis.cut(name, proxy), nemesis.one_way(name, proxy, UP), nemesis.one_way(name, proxy, DOWN),
            nemesis.slow(name, proxy)]


class Jump:
    """The common clock of all processes jumps ahead for good."""

    def __init__(self, clock):
        self._clock = clock

    def fault(self):
        return nemesis.Fault("clock of all", lambda: self._clock.advance(20 / 3600), lambda: None, 0)


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
            Jump(clock).fault()]
        self.network("network", proxy)
        self.follow(through, self.server.data)
        return self

    def http_near(self, client):
        near = Client(client.origin, client.database, client.token)
        self.seats.append(HTTPSeat("http0", self.recorder, [near], self.dice_of("http0")))


class Peers(Topology):
    """Three peers and two clients over HTTP at one process."""

    def build(self):
        clock = Clock(self.workspace)
        self.server = OneProcess(self.workspace).start()
        self.http(2, [Client(self.server.origin, self.server.database, self.server.token)])
        for name in "abc":
            proxy = FaultProxy(self.workspace, self.server.address)
            self.add_peer(name, Through(self.server, proxy), proxy=proxy)
        self.victims["server"] = [
            nemesis.kill("server", self.server), nemesis.pause("server", lambda: [self.server.process], 6),
            Jump(clock).fault()]
        self.follow(self.server, self.server.data)
        return self


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


class Links(Topology):
    """Three peers without a server, linked as a chain or a ring."""

    def build(self):
        Clock(self.workspace)
        ports = [free_port() for _ in range(3)]
        key = self.workspace.directory / "shared.pem"
        made = subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey"], capture_output=True, check=True)
        key.write_bytes(made.stdout)
        dialled = self.dice.choice([[(0, 1), (1, 2)], [(0, 1), (1, 2), (2, 0)]])
        self.recorder.note("shape", links=dialled)
        for number, name in enumerate("abc"):
            links = ["--retry", "0.3", "--shared-key", key, "--listen-tcp", f"127.0.0.1:{ports[number]}"]
            for dialer, listener in dialled:
                if dialer == number:
                    proxy = FaultProxy(self.workspace, ("127.0.0.1", ports[listener]))
                    self.network(f"link of {name} to {'abc'[listener]}", proxy)
                    links += ["--connect", f"127.0.0.1:{proxy.port}"]
            self.add_peer(name, links=links)
        return self


TOPOLOGIES = {"one": One, "services": Services, "peers": Peers, "links": Links}
