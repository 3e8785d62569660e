"""Two peers through a running compose: `python3 compose/tour.py [--project NAME] [--cluster] [--restore]`, after `up`.

Writes on one peer and sees it on the other, reads and writes over HTTP, kills the replicator and then PostgreSQL with
signal 9, and finds everything that was acknowledged. With --cluster (`-f compose/cluster.yaml`) the other
PostgreSQL takes over by itself, and the former leader follows it. With --restore it ends with compose/restore of the newest backup, which is of
that minute. Says what it saw; exits non-zero at the first thing that differs.
MIMEO_BIN names the folder of `mimeo` (default `.build/debug`), MIMEO_LISTEN where the front listens.
"""

import argparse
import os
import pathlib
import re
import secrets
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "Tests" / "Support"))

from mimeo_harness import Client, Peer, Workspace, until  # noqa: E402  (its folder had to be named first)


PROFILES = {"prometheus", "alertmanager", "grafana", "doctor", "restore"}
"""Some versions of docker-compose list a profile that is not asked for."""


class Compose:
    """The containers of one project, by the names of their services."""

    def __init__(self, project, has_cluster=False):
        files = ["compose.yaml", "cluster.yaml"] if has_cluster else ["compose.yaml"]
        self.environment = {
            **os.environ, "COMPOSE_PROJECT_NAME": project,
            "COMPOSE_FILE": ":".join(str(ROOT / "compose" / name) for name in files)}

    def run(self, *arguments):
        done = subprocess.run(
            ["docker-compose", *arguments], capture_output=True, text=True, check=True, timeout=120,
            env=self.environment)
        return done.stdout

    def execute(self, service, *command):
        return self.run("exec", "-T", service, *command).strip()

    def container(self, service):
        return self.run("ps", "-q", service).split()[0]

    def kill(self, service):
        """Signal 9 to what runs in the container, as `docker kill` sends it."""
        subprocess.run(["docker", "kill", self.container(service)], check=True, capture_output=True, timeout=60)

    def start(self, service):
        self.run("start", service)

    def is_in_recovery(self, service):
        """Whether a PostgreSQL is a standby; None while it does not answer."""
        try:
            answer = self.execute(
                service, "psql", "-h", "/var/lib/postgresql/data", "-U", "mimeo", "-tAc", "SELECT pg_is_in_recovery()")
        except subprocess.CalledProcessError:
            return None
        return {"t": True, "f": False}.get(answer)

    def is_healthy(self, service):
        shown = subprocess.run(
            ["docker", "inspect", "-f", "{{.State.Health.Status}}", self.container(service)],
            capture_output=True, text=True, check=True, timeout=60)
        return shown.stdout.strip() == "healthy"


def say(text):
    print(text, flush=True)


def is_up(client):
    try:
        return client.request("GET", "/health", seconds=5).status == 200
    except OSError:
        return False


def provider(client, database, credential, token):
    """Gives the tour a login of its own, under the name that its clients use: no development token is accepted here."""
    headers = {"Authorization": f"Bearer {credential}"}
    body = {"name": "development", "anonymous": {"sharedToken": token, "permission": "readWrite"}}
    path = f"/admin/auth/databases/{database}/providers"
    try:
        return client.request("POST", path, body, headers=headers, seconds=5).status == 201
    except OSError:
        return False


def ids(side):
    return sorted(item["_id"] for item in side.query("SELECT _id FROM cars"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--project", default="compose")
    parser.add_argument("--cluster", action="store_true", help="cluster.yaml runs too: has fail-overs")
    parser.add_argument("--restore", action="store_true", help="ends with a restore of the newest backup")
    options = parser.parse_args()
    compose = Compose(options.project, options.cluster)
    services = [name for name in compose.run("config", "--services").split() if name not in PROFILES]
    until(lambda: all(map(compose.is_healthy, services)), 120, "not all services are healthy")
    say(f"healthy: {', '.join(services)}")
    printed = compose.run("logs", "--no-color", "auth-gateway")
    (database,) = re.findall(r"database: (\S+)", printed)[-1:]
    origin = "http://" + os.environ.get("MIMEO_LISTEN", "127.0.0.1:4000")
    credential = (pathlib.Path(os.environ.get("MIMEO_SECRETS", ROOT / "compose" / "private")) / "admin-token").read_text()
    token = secrets.token_hex(16)
    until(lambda: provider(Client(origin), database, credential, token), 30, "the front does not answer")
    server = Client(origin, database, token)
    until(lambda: is_up(server), 30, "the front does not answer")
    with Workspace() as workspace:
        peers = {name: Peer(workspace, name, server, ["SELECT * FROM cars"]) for name in "ab"}
        walk(compose, server, peers, options.cluster, credential if options.restore else None, services)


def walk(compose, server, peers, has_cluster, credential, services):
    """With a credential it ends with a restore."""
    run = f"{time.time():.0f}"
    known = set(ids(server))

    def write(side, name):
        side.execute(f"INSERT INTO cars DOCUMENTS ({{'_id': '{run}-{name}', 'by': '{name}'}})")
        known.add(f"{run}-{name}")

    def agree(what, seconds=60):
        sides = {"server": server, **peers}
        until(
            lambda: all(set(ids(side)) == known for side in sides.values()), seconds,
            lambda: f"{what}: {({name: len(ids(side)) for name, side in sides.items()})}, not {len(known)}", 0.3)
        say(f"{what}: {len(known)} documents on the server and both peers")

    write(peers["a"], "peer-a")
    write(peers["b"], "peer-b")
    write(server, "http")
    agree("written on peer a, peer b and over HTTP")

    compose.kill("replicator")
    say("docker kill replicator")
    for name, peer in peers.items():
        write(peer, f"peer-{name}-alone")
    write(server, "http-meanwhile")
    compose.start("replicator")
    until(lambda: compose.is_healthy("replicator"), 120, "the replicator is not healthy again")
    agree("after it was started again", 120)

    compose.kill("postgres")
    say("docker kill postgres")
    refusal = server.post_statement("INSERT INTO cars DOCUMENTS ({'_id': 'refused'})")
    say(f"a statement without it: {refusal.status} {refusal.error.get('code')}")
    if refusal.status == 200:
        sys.exit("a write was acknowledged without the log")
    write(peers["a"], "peer-a-without-postgres")
    compose.start("postgres")
    until(lambda: compose.is_healthy("postgres"), 120, "PostgreSQL is not healthy again")
    until(lambda: is_up(server), 120, "the query-service does not answer again")
    agree("after PostgreSQL was started again", 120)
    if has_cluster:
        fail_over(compose, server, lambda name: write(server, name), agree)
    if credential:
        write(server, "before-the-backup")
        restore(compose, server, services, credential)
        agree("after a restore of the newest backup", 120)


def restore(compose, server, services, credential):
    """Waits for a backup of all that was written, restores it, and accepts the restored log as an operator does."""
    def backups():
        return len(compose.execute("backup", "mimeo", "backup", "list", "/backups").splitlines())

    known = backups()
    until(lambda: backups() > known, 150, "no backup was made of what was written")
    done = subprocess.run(
        [ROOT / "compose" / "restore"], capture_output=True, text=True, timeout=600, env=compose.environment, check=False)
    if done.returncode != 0:
        sys.exit(f"compose/restore failed:\n{done.stdout}{done.stderr}")
    say("compose/restore")

    def accepted():
        headers = {"Authorization": f"Bearer {credential}"}
        try:
            return server.request("POST", "/admin/auth/restore", headers=headers, seconds=5).status == 204
        except OSError:
            return False

    until(accepted, 120, "the restored log is not accepted")
    until(lambda: all(map(compose.is_healthy, services)), 120, "not all services are healthy after the restore")


PAIR = ("postgres", "postgres-b")


def leader(compose):
    """The one that takes writes; None while there is none."""
    leaders = [name for name in PAIR if compose.is_in_recovery(name) is False]
    if len(leaders) == 2:
        sys.exit("both servers take writes")
    return leaders[0] if leaders else None


def is_whole(compose):
    return sorted(str(compose.is_in_recovery(name)) for name in PAIR) == ["False", "True"]


def fail_over(compose, server, write, agree):
    """Loses the leader twice, then both at once: nobody says a word, and one takes writes."""
    until(lambda: is_whole(compose), 180, "the second server does not follow")
    for number in (1, 2):
        first = leader(compose)
        write(f"before-the-loss-{number}")
        lost = time.monotonic()
        compose.kill(first)
        until(lambda: server.post_statement("SELECT * FROM cars LIMIT 1").status == 200, 180, "nobody took over")
        until(lambda: attempt(write, f"after-the-loss-{number}"), 180, "no write is taken")
        say(f"docker kill {first}: a write is taken {time.monotonic() - lost:.1f} s after the loss")
        agree("on the one that took over", 120)
        compose.start(first)
        until(lambda: is_whole(compose), 180, "the former leader does not follow")
        write(f"with-both-again-{number}")
    for name in PAIR:
        compose.kill(name)
    compose.run("start", *PAIR)
    until(lambda: is_whole(compose), 180, "after both came back at once no one takes writes")
    until(lambda: attempt(write, "after-both-returned"), 120, "no write is taken after both came back")
    agree("after both servers came back at once", 120)


def attempt(write, name):
    try:
        write(name)
    except Exception:  # Refused while nobody takes writes.
        return False
    return True


if __name__ == "__main__":
    main()
