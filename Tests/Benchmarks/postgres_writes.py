"""Writes over HTTP into a PostgreSQL beside the transactions that a person writes by hand, in the same run by turns.

The server's log and projection are in a PostgreSQL of this run. One writer and sixteen insert documents, each in a
request of its own (`http.c`). `pgbench` writes three rows a transaction beside them: an entry of a log, a document, and
the position that all writers share, as a log of one order has it; and the same with a position of its own for each
client, which has no order. A former `mimeo` may be measured in between, in a database of its own.
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import time

import mimeo_harness as harness

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS = 5
# Requests of each connection in a round.
COUNTS = {1: 600, 16: 150}

TABLES = """CREATE TABLE three_log (id bigserial PRIMARY KEY, entry text);
CREATE TABLE three_documents (id int8 PRIMARY KEY, body jsonb);
CREATE TABLE three_positions (id int4 PRIMARY KEY, position int8) WITH (fillfactor = 50);
INSERT INTO three_positions SELECT k, 0 FROM generate_series(0, 63) k"""
THREE_ROWS = """\\set id random(1, 2000000000)
BEGIN;
INSERT INTO three_log (entry) VALUES (repeat('x', 120));
INSERT INTO three_documents VALUES (:id, '{"n": 1}') ON CONFLICT (id) DO UPDATE SET body = excluded.body;
UPDATE three_positions SET position = position + 1 WHERE id = POSITION;
COMMIT;
"""
BY_HAND = {"three rows, one position": "0", "three rows, a position each": ":client_id"}


def sync_milliseconds(folder):
    """The median time of an fsync of 8 KiB, appended."""
    times = []
    with open(folder / "synced", "wb", buffering=0) as file:
        for _ in range(100):
            file.write(b"x" * 8_192)
            began = time.perf_counter()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


class Bench:
    """The servers and scripts of a run."""

    def __init__(self, workspace, former):
        self.folder = workspace.directory
        self.folder.chmod(0o755)
        self.postgres = harness.Postgres(workspace, shared_buffers="256MB").start()
        self.postgres.query(TABLES)
        self.program = self.folder / "http"
        compiler = next(path for path in map(shutil.which, ("cc", "gcc", "clang")) if path)
        source = ROOT / "Tests" / "Benchmarks" / "http.c"
        subprocess.run([compiler, "-O2", "-o", self.program, source, "-lpthread"], check=True)
        self.servers = {"ours": self.serve(workspace, "ours", None)}
        if former:
            self.servers["former"] = self.serve(workspace, "former", former)
        for name, position in BY_HAND.items():
            self.script(name).write_text(THREE_ROWS.replace("POSITION", position))
            self.script(name).chmod(0o644)

    def script(self, name):
        return self.folder / f"{name.replace(' ', '-').replace(',', '')}.sql"

    def serve(self, workspace, name, program):
        self.postgres.query(f"CREATE DATABASE {name}")
        url = self.postgres.url.replace("/postgres?", f"/{name}?")
        server = harness.OneProcess(
            workspace, name, extra_arguments=["--log", url, "--projection", url], program=program).start()
        server.execute("INSERT INTO written DOCUMENTS ({'_id': 'first'})")
        token = self.folder / f"{name}.token"
        token.write_text(server.access_token, encoding="utf-8")
        return server, token

    def over_http(self, name, writers, count):
        """Writes a second, and the milliseconds of one: the median and the least."""
        server, token = self.servers[name]
        told = subprocess.run(
            [self.program, str(server.port), token, "insert", str(count), str(writers), str(server.process.pid)],
            check=True, stdout=subprocess.PIPE, timeout=600)
        found = json.loads(told.stdout)
        return found["perSecond"], found["median"], found["min"]

    def by_hand(self, name, writers, count):
        """Transactions a second, and the mean milliseconds of one."""
        printed = self.postgres.tool("pgbench", "-n", "-M", "prepared", "-c", writers, "-j", 2, "-t", count, "-f",
                                     self.script(name), "postgres")
        pace = next(float(line.split()[2]) for line in printed.splitlines() if line.startswith("tps"))
        mean = next(float(line.split()[3]) for line in printed.splitlines() if line.startswith("latency average"))
        return pace, mean, mean

    def measure(self, name, writers, count):
        return (self.over_http if name in self.servers else self.by_hand)(name, writers, count)


def writes(workspace, scale, former=None):
    bench = Bench(workspace, former)
    names = [*bench.servers, *BY_HAND]
    counts = {writers: max(3, count * scale // 100) for writers, count in COUNTS.items()}
    found = {(name, writers): [] for name in names for writers in COUNTS}
    syncs = []
    for turn in range(-1, ROUNDS):
        syncs.append(sync_milliseconds(bench.folder))
        for writers, count in counts.items():
            for name in names:
                measured = bench.measure(name, writers, count)
                # The first turn prepares statements, and fills caches.
                if turn >= 0:
                    found[name, writers].append(measured)
    sync, pace = statistics.median(syncs), {
        key: statistics.median(one[0] for one in several) for key, several in found.items()}
    print(f"(w) an fsync {sync:.2f} ms; medians of {ROUNDS} rounds by turns")
    for name in names:
        one = statistics.median(one[1] for one in found[name, 1])
        print(f"    {name}: one writer {pace[name, 1]:,.0f} a second, {one:.2f} ms each; 16 writers "
              f"{pace[name, 16]:,.0f} a second")
    ours = statistics.median(one[1] for one in found["ours", 1])
    shared = next(iter(BY_HAND))
    print(f"    one writer {ours:.2f} ms (goal {1.5 * sync + 0.6:.2f} = 1.5 fsync + 0.6 ms); 16 writers "
          f"{pace['ours', 16] / pace[shared, 16]:.2f} of pgbench with one position (goal 1.5), "
          f"{pace['ours', 16] / pace['ours', 1]:.1f} times one (goal 6)")
    for name in names[1:]:
        ratios = {writers: statistics.median(mine[0] / other[0] for mine, other in zip(
            found["ours", writers], found[name, writers])) for writers in COUNTS}
        print(f"    beside {name}: one writer {ratios[1]:.2f}, 16 writers {ratios[16]:.2f}")
