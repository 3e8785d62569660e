"""The containers of compose, on disks and clocks that a fault may change."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import time

from mimeo_harness import ROOT, free_port

COMPOSE = ROOT / "compose"
SERVICES = {"auth-gateway": 4001, "replicator": 4002, "query-service": 4003, "attachment-store": 4004}
CLUSTER = ("postgres", "postgres-b")
WATCHERS = ("prometheus", "alertmanager")
ALL = ("etcd", *CLUSTER, *SERVICES, "backup", "front", *WATCHERS)
DISKS = {"postgres": 3_000, "postgres-b": 3_000, "auth-gateway": 700, "attachment-store": 700, "backup": 700}
"""Volumes that are disks of their own, in MB. Files are sparse: only what is written takes room."""
MIMEO_USER = 10_001


def run(*command, seconds=300, check=True, **options):
    """Runs a program; returns its output."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=seconds, check=False, **options)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout.strip()


class Stack(contextlib.ExitStack):
    """A project of compose: two servers of PostgreSQL, the services, Prometheus and Alertmanager, as they are shipped."""

    def __init__(self, folder, project):
        super().__init__()
        self.folder = folder
        self.project = project
        self.ports = {name: free_port() for name in ("front", *WATCHERS)}
        self.origin = f"http://127.0.0.1:{self.ports['front']}"
        self.environment = {
            **os.environ, "MIMEO_SECRETS": str(folder / "secrets"), "MIMEO_LISTEN": self.origin[7:],
            "PROMETHEUS_LISTEN": f"127.0.0.1:{self.ports['prometheus']}",
            "ALERTMANAGER_LISTEN": f"127.0.0.1:{self.ports['alertmanager']}",
            "FRONT_IMAGE": "mimeo-front:check", "POSTGRES_IMAGE": "mimeo-postgres", "MIMEO_IMAGE": "mimeo-services:check",
            "PROMETHEUS_IMAGE": "mimeo-prometheus", "ALERTMANAGER_IMAGE": "mimeo-alertmanager"}
        self.files = [COMPOSE / "compose.yaml", COMPOSE / "cluster.yaml", folder / "faults.json"]

    # Starting

    def start(self):
        run(COMPOSE / "secrets", "--cluster", self.environment["MIMEO_SECRETS"])
        clocks = self.folder / "clocks"
        clocks.mkdir()
        run("cc", "-shared", "-fPIC", "-O1", "-o", clocks / "clock.so",
            ROOT / "Tests" / "Support" / "mimeo_harness" / "clock_shift.c", "-ldl")
        override = {"version": "3.8", "services": {}, "volumes": {}}
        for name in SERVICES:
            (clocks / name).write_bytes(b"%020d" % 0)
            override["services"][name] = {
                "volumes": [f"{clocks}:/clocks:ro"],
                "environment": {"LD_PRELOAD": "/clocks/clock.so", "MIMEO_TEST_CLOCK": f"/clocks/{name}"}}
        owner = int(run("docker", "run", "--rm", "--entrypoint", "id", "mimeo-postgres", "-u", "postgres"))
        for name, megabytes in DISKS.items():
            place = self._disk(name, megabytes, owner if name in CLUSTER else MIMEO_USER)
            override["volumes"][name] = {
                "driver": "local", "driver_opts": {"type": "none", "o": "bind", "device": str(place)}}
        self.files[2].write_text(json.dumps(override))
        self.callback(self.compose, "down", "-v", "--timeout", "5", check=False)
        self.compose("up", "-d", "--no-build", *ALL, seconds=600)

    def _disk(self, name, megabytes, owner):
        image, mount = self.folder / f"{name}.img", self.folder / "disks" / name
        mount.mkdir(parents=True)
        with open(image, "wb") as file:
            file.truncate(megabytes * 1_000_000)
        run("mkfs.ext4", "-q", "-m", "0", "-F", image)
        run("mount", "-o", "loop", image, mount)
        self.callback(run, "umount", "-l", mount, check=False)
        place = mount / "data"
        place.mkdir(mode=0o700)
        os.chown(place, owner, owner)
        return place

    # The containers

    def compose(self, *arguments, seconds=300, check=True):
        files = [part for path in self.files for part in ("-f", path)]
        return run("docker-compose", "-p", self.project, *files, *arguments, seconds=seconds, check=check,
                   env=self.environment)

    def container(self, service):
        return f"{self.project}_{service}_1"

    def docker(self, verb, *services, options=()):
        return run("docker", verb, *options, *map(self.container, services))

    def inspect(self, service, what):
        return run("docker", "inspect", "-f", what, self.container(service))

    def address(self, service):
        return self.inspect(service, "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")

    def process(self, service):
        return int(self.inspect(service, "{{.State.Pid}}"))

    def within(self, service, *command, check=True):
        """Runs a program of the machine in the network of a container."""
        return run("nsenter", "-t", self.process(service), "-n", *command, check=check)

    # Networks

    def cut(self, service, *addresses):
        """Drops all that goes to, and comes from, these addresses."""
        for address in addresses:
            self.within(service, "iptables", "-I", "OUTPUT", "-d", address, "-j", "DROP")
            self.within(service, "iptables", "-I", "INPUT", "-s", address, "-j", "DROP")

    def join(self, *services):
        for service in services:
            for chain in ("INPUT", "OUTPUT"):
                self.within(service, "iptables", "-F", chain, check=False)

    def slow(self, service, rate):
        self.within(service, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "4kb",
                    "latency", "2s")

    def fast(self, service):
        self.within(service, "tc", "qdisc", "del", "dev", "eth0", "root", check=False)

    # Disks and clocks

    def fill(self, disk):
        """Takes all room but some pages of a disk."""
        place = self.folder / "disks" / disk
        room = os.statvfs(place)
        run("fallocate", "-l", max(1, room.f_bavail * room.f_frsize - 200_000), place / "fill")
        run("dd", "if=/dev/zero", f"of={place / 'fill-2'}", "bs=4k", check=False)

    def free(self, disk):
        for name in ("fill", "fill-2"):
            (self.folder / "disks" / disk / name).unlink(missing_ok=True)

    def shift_clock(self, service, seconds):
        with open(self.folder / "clocks" / service, "r+b") as file:
            file.write(b"%020d" % seconds)

    # PostgreSQL

    def sql(self, server, statement, check=True, seconds=60):
        return run("docker", "exec", self.container(server), "psql", "-h", "/var/lib/postgresql/data", "-U", "mimeo",
                   "-tAc", statement, check=check, seconds=seconds)

    def leader(self):
        """The server that takes writes, waiting for one."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            for name in CLUSTER:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    if self.sql(name, "SELECT pg_is_in_recovery()", check=False, seconds=10) == "f":
                        return name
            time.sleep(1)
        raise TimeoutError("no PostgreSQL takes writes")

    def standby(self):
        (other,) = set(CLUSTER) - {self.leader()}
        return other

    def is_whole(self):
        """Whether a standby follows the leader, synchronously."""
        states = [self.sql(name, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'", check=False)
                  for name in CLUSTER]
        return sorted(states) == ["0", "1"]

    # Accounts

    @property
    def credential(self):
        return (pathlib.Path(self.environment["MIMEO_SECRETS"]) / "admin-token").read_text()

    def database(self):
        printed = self.compose("logs", "--no-color", "auth-gateway")
        return re.findall(r"database: (\S+)", printed)[-1]
