"""Benchmarks of the whole system against bare SQLite, in the same run on the same disk.

    make bench                        release build, 100,000 documents of about 300 bytes, medians of three rounds
    python3 Tests/Benchmarks/bench.py --documents 20000 --rounds 1

Every figure is a ratio to a reference that Python's own sqlite3 does with the same documents as JSON text: WAL,
`synchronous=FULL`. Where many are written there are two: texts that are ready, 1,000 a transaction, and the bulk insert
that a user would write, which makes each text first (`bulk.py`). Above 1 means faster than the reference. The machine
may be noisy: the ratio counts, not the seconds.
"""

import argparse
import json
import os
import pathlib
import sqlite3
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Support"))

import bulk  # noqa: E402
import mimeo_harness as harness  # noqa: E402

SUBSCRIPTION = "SELECT * FROM sensors"
WRITES = 200
SCAN = "SELECT COUNT(*) AS n FROM sensors WHERE city = 'c7' AND reading > 300"
GROUPS = "SELECT city, COUNT(*) AS n, SUM(reading) AS s FROM sensors GROUP BY city"


def documents(count):
    """Deterministic documents of about 300 bytes of JSON."""
    for number in range(count):
        yield {
            "_id": f"sensor-{number:08d}", "city": f"c{number % 40}", "reading": number * 7919 % 1000,
            "unit": "celsius", "place": {"row": number % 97, "shelf": number % 13, "label": f"place {number}"},
            "tags": ["indoor", "calibrated", f"batch-{number // 500}"], "note": "x" * 108,
        }


def seconds(work):
    """How long `work` takes, begun on a disk that has nothing left to write."""
    os.sync()
    start = time.monotonic()
    work()
    return time.monotonic() - start


class Reference:
    """The same documents as JSON text in a bare SQLite table."""

    def __init__(self, path):
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = FULL")
        self.database.execute("CREATE TABLE sensors (id TEXT PRIMARY KEY, body TEXT NOT NULL)")

    def load(self, rows):
        for start in range(0, len(rows), 1000):
            self.database.execute("BEGIN")
            self.database.executemany("INSERT INTO sensors VALUES (?, ?)", rows[start:start + 1000])
            self.database.execute("COMMIT")

    def write_one(self, number):
        self.database.execute("INSERT INTO sensors VALUES (?, ?)", (f"one-{number}", '{"reading": 1}'))

    def scan(self):
        self.database.execute(
            "SELECT COUNT(*) FROM sensors WHERE json_extract(body, '$.city') = 'c7'"
            " AND json_extract(body, '$.reading') > 300").fetchall()

    def group(self):
        self.database.execute(
            "SELECT json_extract(body, '$.city') AS city, COUNT(*), SUM(json_extract(body, '$.reading'))"
            " FROM sensors GROUP BY city").fetchall()


class Round:
    """One pass over everything; `ratios` holds reference seconds divided by ours, `made` our rate beside `bulk.py`'s."""

    def __init__(self, workspace, count):
        self.workspace = workspace
        self.all = list(documents(count))
        self.ratios = {}
        self.made = {}
        self.rates = {}
        self.reference = Reference(workspace.directory / "reference.sqlite")

    def note(self, name, ours, reference, rate=None):
        self.ratios[name] = reference / ours
        self.rates[name] = rate if rate is not None else len(self.all) / ours

    def note_bulk(self, name, ours):
        self.note(name, ours, self.ready)
        os.sync()
        self.made[name] = self.rates[name] / bulk.rate(self.workspace.directory, self.all)

    def run(self):
        rows = [(document["_id"], json.dumps(document)) for document in self.all]
        self.ready = seconds(lambda: self.reference.load(rows))
        file = self.workspace.directory / "sensors.ndjson"
        file.write_text("\n".join(body for _, body in rows))
        server = harness.OneProcess(self.workspace).start()
        self.note_bulk("import into an offline peer", seconds(lambda: self.load(file)))
        a = harness.Peer(self.workspace, "a", server, subscribe=[SUBSCRIPTION], offline=True)
        self.query(a)
        self.write(a)
        self.note_bulk("upload to the server, durable", seconds(lambda: self.upload(a)))
        self.await_folded(server)
        b = harness.Peer(self.workspace, "b", server, subscribe=[SUBSCRIPTION], offline=True)
        self.note_bulk("a new peer receives everything", seconds(lambda: self.receive(b)))
        self.over_http(server)

    def load(self, file):
        harness.mimeo("import", "--store", self.workspace.directory / "peer-a", "--collection", "sensors", file)

    def query(self, peer):
        for name, statement, reference in (("full scan with a filter", SCAN, self.reference.scan),
                                           ("GROUP BY over everything", GROUPS, self.reference.group)):
            reference()
            peer.query(statement)
            self.note(name, seconds(lambda: peer.query(statement)), seconds(reference))

    def write(self, peer):
        ours = seconds(lambda: [
            peer.execute(f"INSERT INTO singles DOCUMENTS ({{'_id': 'one-{number}', 'reading': 1}})")
            for number in range(WRITES)])
        reference = seconds(lambda: [self.reference.write_one(number) for number in range(WRITES)])
        self.note("one durable write at a time, at a peer", ours, reference, WRITES / ours)

    def upload(self, peer):
        peer.start_sync()
        peer.wait_for_commit(peer.execute(".status")["commitID"], 600)

    def await_folded(self, server):
        """What is acknowledged is in the log; somebody who comes now would wait for its fold, too."""
        last = f"SELECT * FROM sensors WHERE _id = '{self.all[-1]['_id']}'"
        witness = harness.Peer(self.workspace, "witness", server, subscribe=[last])
        harness.until(lambda: witness.count("sensors") == 1, 600, "the last document to be folded")
        witness.stop()

    def receive(self, peer):
        peer.start_sync()
        harness.until(lambda: peer.count("sensors") == len(self.all), 600, "everything to arrive")

    def over_http(self, server):
        server.count("sensors")  # opens the projection, which folds the whole log the first time
        ours = seconds(lambda: [
            server.execute(f"INSERT INTO singles DOCUMENTS ({{'_id': 'http-{number}', 'reading': 1}})")
            for number in range(WRITES)])
        reference = seconds(lambda: [self.reference.write_one(f"http-{number}") for number in range(WRITES)])
        self.note("one durable write at a time, over HTTP", ours, reference, WRITES / ours)


def main():
    parser = argparse.ArgumentParser(description="Mimeo beside bare SQLite.")
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rounds = []
    for _ in range(options.rounds):
        with harness.Workspace() as workspace:
            current = Round(workspace, options.documents)
            current.run()
            rounds.append(current)
    print(f"| {options.documents:,} documents, medians of {options.rounds} | a second | beside bare SQLite | texts made |")
    print("|---|--:|--:|--:|")
    for name in rounds[0].ratios:
        rate = statistics.median(one.rates[name] for one in rounds)
        ratio = statistics.median(one.ratios[name] for one in rounds)
        made = f"{statistics.median(one.made[name] for one in rounds):.2f}" if name in rounds[0].made else ""
        print(f"| {name} | {rate:,.0f} | {ratio:.2f} | {made} |")


if __name__ == "__main__":
    main()
