"""What the query-service serves over HTTP, as `scripts/bench-server [--only a,b,c,d,e,q,w,i] [--scale PERCENT]
[--former PROGRAM]` measures it.

    (a) a durable write to the last of 200 followers of one query, and of 200 different equality queries
    (b) changes from the log, as many as come in a second, beside `wc -l` on a file of the same lines
    (c) asOf on 100,000 documents: the first read at an offset, and the next one
    (d) a result of 1,000,000 rows as NDJSON: the memory that the server takes beyond that before, and rows a second
    (e) the memory of 2,000 open streams of one query, each
    (q) statements on 200,000 documents in PostgreSQL beside SQL by hand, and bulk INSERT beside COPY (`beside_sql.py`)
    (w) writes into PostgreSQL: one writer beside an fsync, one and 16 beside `pgbench` (`postgres_writes.py`), and
        beside another `mimeo` with `--former PROGRAM`
    (i) bulk INSERT into an embedded projection, beside SQLite (`bulk.py`)

Followers are bare sockets behind one `select`. Medians; the goals stand beside the figures.
"""

import argparse
import json
import pathlib
import selectors
import socket
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests" / "Support"))

import mimeo_harness as harness  # noqa: E402

import beside_sql  # noqa: E402
import postgres_writes  # noqa: E402

EXECUTE = "/api/v5/store/execute"
LINES = "application/x-ndjson"
BATCH = 1_000


class Suite:
    """One server with documents."""

    def __init__(self, workspace, scale):
        self.server = harness.OneProcess(workspace).start()
        self.workspace = workspace
        self.scale = scale

    def count(self, whole):
        return max(1, whole * self.scale // 100)

    def memory(self):
        """Resident bytes of the server that are its own."""
        for line in pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no RssAnon")

    def fill(self, collection, count):
        for start in range(0, count, BATCH):
            rows = [{"_id": number, "n": number, "k": f"key {number % 97}", "text": "x" * 40}
                    for number in range(start, min(start + BATCH, count))]
            self.server.execute(f"INSERT INTO {collection} DOCUMENTS (:rows)", {"rows": rows})

    def open(self, method, path, body=None):
        """A socket that has sent a request."""
        data = json.dumps(body).encode() if body is not None else b""
        one = socket.create_connection(self.server.address, timeout=600)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.sendall((f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.server.access_token}\r\n"
                     f"Accept: {LINES}\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n").encode() + data)
        return one

    def follow(self, statements):
        """Followers that have their first result."""
        found = [self.open("POST", "/api/v5/store/observe", {"statement": text}) for text in statements]
        for one in found:
            text = b""
            while b'"event":"result"' not in text:
                part = one.recv(65536)
                if not part:
                    raise RuntimeError(f"a follower was refused: {text[:300]}")
                text += part
        return found


def last_heard(followers, write):
    """Seconds from the beginning of a write until the last follower has heard of it."""
    selector = selectors.DefaultSelector()
    for one in followers:
        selector.register(one, selectors.EVENT_READ)
    waiting = len(followers)
    began = time.monotonic()
    write()
    while waiting:
        for key, _ in selector.select(60) or sys.exit("a follower hears nothing"):
            if not key.fileobj.recv(65536):
                sys.exit("a follower was cut off")
            selector.unregister(key.fileobj)
            waiting -= 1
    return time.monotonic() - began


def fan_out(suite):
    count, rounds = suite.count(200), max(3, suite.count(50))
    suite.fill("fans", 200)
    same = suite.follow(["SELECT * FROM fans WHERE n < 3"] * count)
    one = [last_heard(same, lambda: suite.server.execute("UPDATE fans SET text = :t WHERE _id = 1", {"t": str(turn)}))
           for turn in range(rounds)]
    for follower in same:
        follower.close()
    several = suite.follow([f"SELECT * FROM fans WHERE n = {number}" for number in range(count)])
    all_of_them = [last_heard(several, lambda: suite.server.execute("UPDATE fans SET text = :t WHERE n < :n", {
        "t": f"all {turn}", "n": count})) for turn in range(rounds)]
    for follower in several:
        follower.close()
    print(f"(a) write to the last of {count} followers: one query {statistics.median(one) * 1e3:.1f} ms (goal < 50), "
          f"{count} queries {statistics.median(all_of_them) * 1e3:.1f} ms (goal < 100)")


def changes(suite):
    suite.fill("changed", suite.count(200_000))
    path = suite.workspace.directory / "changes"
    one = suite.open("GET", "/api/v5/changes?since=0&collection=changed")
    began = time.monotonic()
    with path.open("wb") as file:
        while part := one.recv(1 << 20):
            file.write(part)
    took = time.monotonic() - began
    count = path.read_bytes().count(b'"collection":"changed"')
    began = time.monotonic()
    subprocess.run(["wc", "-l", path], check=True, stdout=subprocess.DEVNULL)
    reference = time.monotonic() - began
    print(f"(b) changes from the log: {count / took:,.0f} a second (goal 50,000), {count} in {took:.2f} s; "
          f"wc -l on the same lines {reference * 1e3:.0f} ms")


def as_of(suite):
    suite.fill("past", suite.count(100_000))
    offset = suite.server.post_statement("SELECT RAW 1 FROM past LIMIT 1").json["transactionId"]
    for number in range(20):
        suite.server.execute("UPDATE past SET k = :k WHERE _id = 1", {"k": str(number)})

    def read():
        began = time.monotonic()
        body = {"statement": "SELECT k FROM past WHERE _id = 1", "asOf": offset}
        answer = suite.server.request("POST", EXECUTE, body, suite.server.authorization(), seconds=600)
        if answer.json["items"] != [{"k": "key 1"}]:
            sys.exit(f"asOf: {answer.body[:300]}")
        return time.monotonic() - began

    first, again = read(), statistics.median(read() for _ in range(11))
    print(f"(c) asOf on {suite.count(100_000)} documents: first {first:.2f} s (goal < 1), again {again * 1e3:.1f} ms "
          f"(goal < 20)")


def rows(suite):
    side = max(1, int((suite.count(1_000_000)) ** 0.5))
    suite.fill("side", side)
    text = "SELECT a.n AS a, b.n AS b, a.text AS t FROM side a JOIN side b USE INDEX '' ON a._id >= 0"
    before = peak = suite.memory()
    one = suite.open("POST", EXECUTE, {"statement": text})
    began = time.monotonic()
    received, looked = 0, 0
    while part := one.recv(1 << 20):
        received += len(part)
        if received - looked > 4 << 20:
            looked, peak = received, max(peak, suite.memory())
    took = time.monotonic() - began
    peak = max(peak, suite.memory())
    if received < side * side * 60:
        sys.exit(f"only {received} bytes came")
    print(f"(d) {side * side:,} rows as NDJSON: {(peak - before) / 1e6:.1f} MB more memory (goal < 64), "
          f"{side * side / took:,.0f} rows a second, {received / 1e6:.0f} MB")


def streams(suite):
    count = suite.count(2_000)
    suite.fill("open", 10)
    warm = suite.follow(["SELECT * FROM open"] * max(1, count // 10))
    before = suite.memory()
    more = suite.follow(["SELECT * FROM open"] * count)
    time.sleep(1)
    used = suite.memory() - before
    for one in warm + more:
        one.close()
    print(f"(e) {count} open streams: {used / count / 1e3:.1f} KB each (goal < 10)")


PARTS = {"a": fan_out, "b": changes, "c": as_of, "d": rows, "e": streams}
OF_THEIR_OWN = {"q": beside_sql.queries, "i": beside_sql.embedded}


def main():
    parser = argparse.ArgumentParser(description="Measures the query-service over HTTP.")
    parser.add_argument("--only", default=",".join([*PARTS, *OF_THEIR_OWN, "w"]), help="parts, with commas between them")
    parser.add_argument("--scale", type=int, default=100, help="percent of everything")
    parser.add_argument("--former", help="the path of another `mimeo`, which writes by turns with this one (w)")
    options = parser.parse_args()
    for name in options.only.split(","):
        workspace = harness.Workspace()
        try:
            if name == "w":
                postgres_writes.writes(workspace, options.scale, options.former)
            elif name in OF_THEIR_OWN:
                OF_THEIR_OWN[name](workspace, options.scale)
            else:
                PARTS[name](Suite(workspace, options.scale))
        finally:
            workspace.close()


if __name__ == "__main__":
    main()
