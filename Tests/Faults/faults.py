"""The faults: how each is made and mended, and what has to tell of it."""

import dataclasses
import subprocess
import time
from collections.abc import Callable

from stack import CLUSTER, SERVICES, run

DOWN = ("MimeoDown",)
LOG = ("MimeoLogOutOfContact", "MimeoNotReady", "MimeoAppendStalls", "MimeoLogRefuses", "MimeoStorageFails")
STANDBY = ("MimeoStandbyGone",)


@dataclasses.dataclass
class Fault:
    """`make` and `mend` get the stack, and what `make` returned. It lasts until one of `alerts` is at Alertmanager, and at
    least `seconds`. Without alerts it is nothing that somebody has to look at: then no critical one may come."""

    name: str
    make: Callable
    mend: Callable
    alerts: tuple = ()
    seconds: float = 15
    is_seen: bool = False
    """Whether the front's health has to tell of it."""
    goes_on: bool = False
    """Whether writes have to go on meanwhile, with no gap of 15 s."""
    settles: float = 120
    """Seconds after `mend` in which all has to be well again."""


def nothing(*_):
    pass


def killed(service, **more):
    return Fault(f"{service} killed", lambda s: s.docker("kill", service), lambda s, _: s.docker("start", service), DOWN,
                 is_seen=service != "front", **more)


def paused(service, **more):
    return Fault(f"{service} stands still", lambda s: s.docker("pause", service),
                 lambda s, _: s.docker("unpause", service), DOWN, is_seen=True, **more)


def crashed(s, service):
    run("kill", "-9", s.process(service))


def on(role, change, undo):
    """Something done to the leader or the standby, whichever server that is."""
    def make(s):
        server = s.leader() if role == "leader" else s.standby()
        change(s, server)
        return server

    return make, undo


def kill_member(role):
    return on(role, lambda s, server: s.docker("kill", server), lambda s, server: s.docker("start", server))


def pause_member(role):
    return on(role, lambda s, server: s.docker("pause", server), lambda s, server: s.docker("unpause", server))


def fill_member(role):
    return on(role, lambda s, server: s.fill(server), lambda s, server: (s.free(server), s.docker("restart", server)))


def filled(disk, alerts, **more):
    return Fault(f"the disk of {disk} is full", lambda s: s.fill(disk), lambda s, _: s.free(disk), alerts, **more)


def unreachable(service, *others, **more):
    def make(s):
        s.cut(service, *(s.address(other) for other in others))

    return Fault(f"{service} does not reach {' and '.join(others)}", make, lambda s, _: s.join(service), **more)


def no_dns(s):
    for service in (*SERVICES, "front", "backup"):
        s.cut(service, "127.0.0.11")


def jumped(seconds):
    def make(s):
        for service in SERVICES:
            s.shift_clock(service, seconds)

    return make


def starve(s):
    # A limit below what is in use is refused.
    s.docker("kill", "replicator")
    run("docker", "update", "--memory", "6m", "--memory-swap", "6m", s.container("replicator"))
    s.docker("start", "replicator")


def feed(s, _):
    run("docker", "update", "--memory", "2g", "--memory-swap", "2g", s.container("replicator"))
    s.docker("start", "replicator")


def session(s, statement):
    """A statement that holds something in the leader for as long as it runs."""
    return s.leader(), subprocess.Popen(
        ["docker", "exec", s.container(s.leader()), "psql", "-h", "/var/lib/postgresql/data", "-U", "mimeo", "-c", statement],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def end_session(s, made):
    server, process = made
    s.sql(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(7%' "
                  "AND pid <> pg_backend_pid()", check=False)
    process.wait(60)


def lock_log(s):
    return session(s, "BEGIN; LOCK TABLE mimeo_log.operations; SELECT pg_sleep(777)")


def refuse_password(s):
    password = (s.folder / "secrets" / "postgres-password").read_text()
    server = s.leader()
    # Patroni itself uses the role through the socket, which asks for no password.
    s.sql(server, "ALTER ROLE mimeo PASSWORD 'changed'")
    s.sql(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_addr IS NOT NULL "
                  "AND backend_type = 'client backend'")
    return server, password


def accept_password(s, made):
    server, password = made
    s.sql(server, f"ALTER ROLE mimeo PASSWORD '{password}'")


def refuse_writes(s):
    server = s.leader()
    s.sql(server, "ALTER DATABASE mimeo SET default_transaction_read_only = on")
    s.sql(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_addr IS NOT NULL "
                  "AND backend_type = 'client backend'")
    return server


def accept_writes(s, server):
    run("docker", "exec", "-e", "PGOPTIONS=-c default_transaction_read_only=off", s.container(server), "psql", "-h",
        "/var/lib/postgresql/data", "-U", "mimeo", "-c", "ALTER DATABASE mimeo RESET default_transaction_read_only")
    s.sql(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_addr IS NOT NULL "
                  "AND backend_type = 'client backend'")


def promote_standby(s):
    server = s.standby()
    run("docker", "exec", s.container(server), "bash", "-c",
        "$(find /usr/lib/postgresql -name pg_ctl | tail -1) promote -D /var/lib/postgresql/data/cluster", check=False)
    return server


def copy_again(s, server):
    """Patroni does not see that the server went its own way: it is copied again from the leader."""
    run("docker", "exec", s.container(server), "patronictl", "-c", "/var/lib/postgresql/data/patroni.yml", "reinit",
        "--force", "mimeo", server)


def apart(s):
    leader, standby = s.leader(), s.standby()
    s.cut(leader, s.address(standby))
    return leader


def alone(s):
    """The leader loses the other server and etcd, and keeps the services: it has to give up the lead."""
    leader, standby = s.leader(), s.standby()
    s.cut(leader, s.address(standby), s.address("etcd"))
    return leader


def without_etcd(s):
    for server in CLUSTER:
        s.cut(server, s.address("etcd"))


def slow_services(s):
    for service in ("query-service", "replicator"):
        s.slow(service, "200kbit")


def fast_services(s, _):
    for service in ("query-service", "replicator"):
        s.fast(service)


def rolling(s):
    """A second instance of two services, then each instance once: nobody may notice."""
    s.compose("up", "-d", "--no-build", "--no-recreate", "--scale", "query-service=2", "--scale", "replicator=2",
              "query-service", "replicator", "front")
    names = [f"{s.project}_{service}_{number}" for service in ("query-service", "replicator") for number in (1, 2)]
    for name in names:
        await_healthy(names)
        run("docker", "restart", "-t", "30", name)
    await_healthy(names)


def single(s, _):
    s.compose("up", "-d", "--no-build", "--no-recreate", "--scale", "query-service=1", "--scale", "replicator=1",
              "query-service", "replicator", "front")


def await_healthy(names, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        states = run("docker", "inspect", "-f", "{{.State.Health.Status}}", *names).split()
        if set(states) == {"healthy"}:
            # The front asks DNS every two seconds.
            time.sleep(5)
            return
        time.sleep(1)
    raise TimeoutError(f"{names} are not healthy")


def both(verb):
    return lambda s, *_: s.docker(verb, *CLUSTER)


def all_services(verb):
    return lambda s, *_: s.docker(verb, *SERVICES, "front")


def directories(s, disk):
    found = run("find", s.folder / "disks" / disk / "data", "-type", "d")
    return found.splitlines()


def lose_folder(s):
    """The attachment-store may write no file any more. Its disk cannot be mounted anew while files are open."""
    run("chmod", "a-w", *directories(s, "attachment-store"))


def get_folder(s, _):
    run("chmod", "u+w", *directories(s, "attachment-store"))


def close_backups(s):
    """Its folder takes no file any more."""
    run("mount", "-o", "remount,ro", s.folder / "disks" / "backup")


def open_backups(s, _):
    run("mount", "-o", "remount,rw", s.folder / "disks" / "backup")


def busy_peer(s):
    """Takes all connections that PostgreSQL has left."""
    server = s.leader()
    free = int(s.sql(server, "SELECT current_setting('max_connections')::int - count(*) FROM pg_stat_activity"))
    script = f"for i in $(seq {free}); do psql -h /var/lib/postgresql/data -U mimeo -c 'SELECT pg_sleep(777)' & done; wait"
    process = subprocess.Popen(["docker", "exec", s.container(server), "bash", "-c", script],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return server, process


FAULTS = [
    killed("replicator"),
    killed("query-service"),
    killed("auth-gateway"),
    killed("attachment-store", goes_on=True),
    killed("front"),
    Fault("replicator ends by a signal, and comes back", lambda s: crashed(s, "replicator"), nothing),
    Fault("query-service ends by a signal, and comes back", lambda s: crashed(s, "query-service"), nothing),
    paused("replicator"),
    paused("query-service"),
    paused("auth-gateway"),
    Fault("all services and the front stopped", all_services("stop"), all_services("start"), (*DOWN, "MimeoUnwatched")),
    Fault("the leader of PostgreSQL killed", *kill_member("leader"), alerts=STANDBY),
    Fault("the standby killed", *kill_member("standby"), alerts=STANDBY),
    Fault("the leader of PostgreSQL stands still", *pause_member("leader"), alerts=(*LOG, *STANDBY)),
    Fault("the standby stands still", *pause_member("standby"), alerts=(*LOG, *STANDBY)),
    Fault("the leader of PostgreSQL restarted", *on(
        "leader", lambda s, server: s.docker("restart", server), nothing)),
    Fault("both servers of PostgreSQL killed", both("kill"), both("start"), LOG, is_seen=True),
    Fault("both servers killed, and started together", lambda s: (both("kill")(s), both("start")(s)), nothing),
    Fault("the standby promoted by hand: two take writes", promote_standby, copy_again, STANDBY),
    Fault("etcd killed", lambda s: s.docker("kill", "etcd"), lambda s, _: s.docker("start", "etcd"),
          ("MimeoClusterBlind",), goes_on=True),
    Fault("leader and standby do not reach each other", apart, lambda s, leader: s.join(leader), (*STANDBY, *LOG)),
    Fault("both servers do not reach etcd", without_etcd, lambda s, _: s.join(*CLUSTER), ("MimeoClusterBlind",), goes_on=True),
    Fault("the leader reaches the services alone", alone, lambda s, leader: s.join(leader), (*STANDBY, *LOG)),
    unreachable("replicator", *CLUSTER, alerts=LOG, is_seen=True),
    # Its figures of the projections are the server's, so a scrape takes too long.
    unreachable("query-service", *CLUSTER, alerts=(*LOG, *DOWN), is_seen=True),
    unreachable("auth-gateway", *CLUSTER, alerts=LOG, is_seen=True),
    unreachable("front", "replicator", alerts=DOWN, is_seen=True, goes_on=True),
    unreachable("front", "query-service", alerts=DOWN, is_seen=True),
    Fault("no container finds names", no_dns, lambda s, _: s.join(*SERVICES, "front", "backup"), goes_on=True, seconds=45),
    Fault("a network of 200 kbit/s", slow_services, fast_services, seconds=45),
    Fault("the leader's disk is full", *fill_member("leader"), alerts=(*LOG, *STANDBY)),
    Fault("both disks of PostgreSQL are full", lambda s: [s.fill(name) for name in CLUSTER],
          lambda s, _: [(s.free(name), s.docker("restart", name)) for name in CLUSTER], LOG, settles=240),
    filled("attachment-store", ("MimeoDiskNearlyFull",)),
    filled("auth-gateway", ("MimeoDiskNearlyFull",)),
    filled("backup", ("MimeoBackupFailed",)),
    Fault("the folder of attachments is read only", lose_folder, get_folder, ("MimeoNotReady",)),
    Fault("the folder of backups is read only", close_backups, open_backups, ("MimeoBackupFailed",), goes_on=True),
    # MimeoBackupStopped tells after 15 minutes: nobody waits here that long.
    Fault("backup killed for a moment", lambda s: s.docker("kill", "backup"), lambda s, _: s.docker("start", "backup"),
          goes_on=True),
    Fault("a lock on the log's table", lock_log, end_session, LOG),
    Fault("PostgreSQL takes no writes", refuse_writes, accept_writes, LOG),
    Fault("PostgreSQL refuses the password", refuse_password, accept_password, LOG, is_seen=True),
    Fault("PostgreSQL has no connection left", busy_peer, end_session, goes_on=True, seconds=30),
    Fault("clocks jump by an hour, and back", jumped(3_600), lambda s, _: jumped(0)(s), seconds=30, settles=240),
    Fault("the replicator has 6 MB of memory", starve, feed, (*DOWN, "MimeoRestarts"), is_seen=True),
    Fault("a rolling restart of two and two", rolling, single, goes_on=True, seconds=0),
]

