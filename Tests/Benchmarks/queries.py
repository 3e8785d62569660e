"""Queries and inserts of one store beside SQLite and DuckDB: the same documents, the same run, alternating.

    python3 Tests/Benchmarks/queries.py EXECUTABLE [--documents 100000] [--rounds 5] [--only NAME …]

SQLite holds the documents as JSON text, WAL, `synchronous=FULL`, with expression indexes and ANALYZE where the
statement has an index. What reads a few documents is compared with SQLite's C interface, a statement prepared
once and its column copied, stepped in the same process as ours, and, in a line of its own, with what a program
in Python has of it. Ours is asked for by its text each time, and hands over documents as they are stored, of which any
field can be read; "decoded" makes values of all fields, and is compared with `json.loads` of SQLite's text.
Scans and inserts of SQLite go through Python's module, where that does not show. DuckDB (from PyPI, left out
when it is not installed) holds the documents as JSON on one thread. The ratios are SQLite's (DuckDB's) seconds
divided by ours: above 1 we are faster. Medians of rounds; in each round every system runs the statement several
times and its median counts.
"""

import argparse
import json
import os
import pathlib
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time

try:
    import duckdb
except ImportError:
    duckdb = None

STATUSES = ["open", "assigned", "blocked", "done"]


def document(number):
    """A document of about 500 bytes of JSON."""
    return {
        "_id": f"order-{number:07d}", "status": STATUSES[number % 4], "priority": number % 10,
        "site": f"site-{number % 50}", "qty": number * 7919 % 500, "price": number * 104_729 % 10_000 / 100,
        "customer": {"name": f"Customer {number % 977}", "city": f"City {number % 211}"},
        "tags": ["indoor", f"batch-{number // 500}"], "serial": number * 7919 % 100_003,
        "note": "n" * 200, "updatedAt": 1_700_000_000_000 + number,
    }


def j(path):
    return f"json_extract(body, '$.{path}')"


def s(path):
    return f"json_extract_string(body, '$.{path}')"


# name, ours, arguments, SQLite, DuckDB (or None), how many times in a round
QUERIES = [
    ("point read", "SELECT * FROM d WHERE _id = :id", {"id": "order-0050000"},
     "SELECT body FROM d WHERE id = 'order-0050000'", "SELECT body FROM d WHERE id = 'order-0050000'", 3000),
    ("filter", "SELECT COUNT(*) AS n FROM d WHERE status = 'open' AND qty > 400", {},
     f"SELECT COUNT(*) FROM d WHERE {j('status')} = 'open' AND {j('qty')} > 400",
     f"SELECT COUNT(*) FROM d WHERE {s('status')} = 'open' AND {j('qty')}::int > 400", 3),
    ("filter, nested field", "SELECT COUNT(*) AS n FROM d WHERE customer.city = 'City 7'", {},
     f"SELECT COUNT(*) FROM d WHERE {j('customer.city')} = 'City 7'",
     f"SELECT COUNT(*) FROM d WHERE {s('customer.city')} = 'City 7'", 3),
    ("GROUP BY", "SELECT site, COUNT(*) AS n, AVG(price) AS p FROM d GROUP BY site", {},
     f"SELECT {j('site')} AS s, COUNT(*), AVG({j('price')}) FROM d GROUP BY 1",
     f"SELECT {s('site')} AS s, COUNT(*), AVG({j('price')}::double) FROM d GROUP BY 1", 3),
    ("top 10 of a sort", "SELECT _id, qty FROM d ORDER BY qty DESC, _id LIMIT 10", {},
     f"SELECT id, {j('qty')} AS q FROM d ORDER BY q DESC, id LIMIT 10",
     f"SELECT id, {j('qty')}::int AS q FROM d ORDER BY q DESC, id LIMIT 10", 3),
]
INDEXED = [
    ("indexed equality", "SELECT * FROM d WHERE serial = :n", {"n": 4711},
     f"SELECT body FROM d WHERE {j('serial')} = 4711", None, 3000),
    ("indexed range, ORDER BY, LIMIT 20",
     "SELECT * FROM d WHERE serial >= :from AND serial < :to ORDER BY serial LIMIT 20", {"from": 20_000, "to": 60_000},
     f"SELECT body FROM d WHERE {j('serial')} >= 20000 AND {j('serial')} < 60000 ORDER BY {j('serial')} LIMIT 20",
     None, 1000),
]
# From so many times in a round on a statement is one that reads a few documents.
FEW = 1000


class Ours:
    def __init__(self, executable, folder):
        self.process = subprocess.Popen([executable, str(folder / "ours")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"queries ended at {command}")
        return json.loads(answer)

    def run(self, statement, arguments, times, decoded=False):
        return statistics.median(self.ask(
            {"run": statement, "arguments": arguments, "times": times, "decoded": decoded})["seconds"])

    def reference(self, file, statement, times):
        """The same process's SQLite."""
        return statistics.median(self.ask({"sqlite": str(file), "run": statement, "times": times})["seconds"])

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)


class SQL:
    def __init__(self, connection):
        self.connection = connection

    def run(self, statement, times):
        seconds = []
        for _ in range(times):
            start = time.perf_counter()
            self.connection.execute(statement).fetchall()
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)

    def decoded(self, statement, times):
        seconds = []
        for _ in range(times):
            start = time.perf_counter()
            [json.loads(body) for body, in self.connection.execute(statement)]
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)


def sqlite_at(path):
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE d (id TEXT PRIMARY KEY, body TEXT NOT NULL)")
    return database


def sqlite_load(database, rows, batch):
    """Seconds of each transaction."""
    seconds = []
    for start in range(0, len(rows), batch):
        part = rows[start:start + batch]
        begun = time.perf_counter()
        database.execute("BEGIN")
        database.executemany("INSERT INTO d VALUES (?, ?)", part)
        database.execute("COMMIT")
        seconds.append(time.perf_counter() - begun)
    return seconds


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.rows = [(one["_id"], json.dumps(one)) for one in map(document, range(options.documents))]
        self.table = []

    def wanted(self, name):
        return not self.options.only or any(word in name for word in self.options.only)

    def note(self, name, ours, sqlite, duck=None, goal=""):
        ratio = statistics.median(b / a for a, b in zip(ours, sqlite))
        against = statistics.median(b / a for a, b in zip(ours, duck)) if duck else None
        row = (name, statistics.median(ours), ratio, against, goal)
        self.table.append(row)
        print(f"| {name} | {row[1] * 1e3:.3f} ms | {ratio:.2f} | {f'{against:.2f}' if against else '–'} | {goal} |",
              flush=True)

    def queries(self, cases, goal):
        for name, ours, arguments, sql, duck, times in cases:
            if not self.wanted(name):
                continue
            mine, theirs, ducks = [], [], []
            few = times >= FEW
            python, decoded, loaded = [], [], []
            for _ in range(self.options.rounds):
                mine.append(self.ours.run(ours, arguments, times))
                if few:
                    theirs.append(self.ours.reference(self.folder / "reference.sqlite", sql, times))
                    python.append(self.sqlite.run(sql, times))
                    decoded.append(self.ours.run(ours, arguments, times, decoded=True))
                    loaded.append(self.sqlite.decoded(sql, times))
                else:
                    theirs.append(self.sqlite.run(sql, times))
                if self.duck and duck:
                    ducks.append(self.duck.run(duck, min(times, 300)))
            self.note(name, mine, theirs, ducks, goal(name))
            if few:
                self.note(f"{name}, beside Python's sqlite3", mine, python)
                self.note(f"{name}, decoded", decoded, loaded)

    def inserts(self, name, batch, count, goal, index=None):
        if not self.wanted(name):
            return
        mine, theirs = [], []
        for turn in range(self.options.rounds):
            folder = self.folder / f"insert-{batch}-{turn}-{index is not None}"
            folder.mkdir()
            ours = Ours(self.options.executable, folder)
            database = sqlite_at(folder / "reference.sqlite")
            if index:
                ours.ask({"index": index[0]})
                database.execute(index[1])
            rows = self.rows[:count]
            file = folder / "rows.ndjson"
            file.write_text("\n".join(body for _, body in rows))
            os.sync()
            theirs.append(sum(sqlite_load(database, rows, batch)))
            os.sync()
            mine.append(sum(ours.ask({"load": str(file), "batch": batch})["seconds"]))
            ours.close()
            database.close()
            shutil.rmtree(folder)
        self.note(name, mine, theirs, goal=goal)

    def memory(self):
        if not self.wanted("memory"):
            return
        peaks = []
        for count in (len(self.rows) // 10, len(self.rows)):
            folder = self.folder / f"memory-{count}"
            folder.mkdir()
            file = folder / "rows.ndjson"
            file.write_text("\n".join(body for _, body in self.rows[:count]))
            ours = Ours(self.options.executable, folder)
            ours.ask({"load": str(file), "batch": 1000})
            ours.close()
            ours = Ours(self.options.executable, folder)
            ours.ask({"memory": True})
            for _, statement, arguments, _, _, _ in QUERIES[1:]:
                ours.run(statement, arguments, 1)
            peaks.append(ours.ask({"memory": True})["bytes"])
            ours.close()
        print(f"| private memory of scans over {len(self.rows) // 10:,} and {len(self.rows):,} documents "
              f"| {peaks[0] / 1e6:.1f} and {peaks[1] / 1e6:.1f} MB | | | independent |", flush=True)

    def run(self):
        print("| what | ours | × SQLite | × DuckDB | goal |\n|---|--:|--:|--:|---|", flush=True)
        file = self.folder / "rows.ndjson"
        file.write_text("\n".join(body for _, body in self.rows))
        self.ours = Ours(self.options.executable, self.folder)
        self.ours.ask({"load": str(file), "batch": 1000})
        database = sqlite_at(self.folder / "reference.sqlite")
        sqlite_load(database, self.rows, 1000)
        self.sqlite = SQL(database)
        self.duck = None
        if duckdb:
            connection = duckdb.connect(str(self.folder / "reference.duckdb"))
            connection.execute("SET threads = 1")
            connection.execute("CREATE TABLE d (id VARCHAR PRIMARY KEY, body JSON)")
            connection.execute(
                f"INSERT INTO d SELECT json_extract_string(json, '$._id'), json FROM read_ndjson_objects('{file}')")
            self.duck = SQL(connection)
        database.execute("ANALYZE")
        self.queries(QUERIES, lambda name: "≥ 0.91 × SQLite" if name == "point read"
                     else "≥ 3 × SQLite, level with DuckDB")
        if not self.options.scans:
            self.ours.ask({"index": "CREATE INDEX by_serial ON d (serial)"})
            database.execute(f"CREATE INDEX by_serial ON d ({j('serial')})")
            database.execute("ANALYZE")
            self.queries(INDEXED, lambda _: "≥ 0.91 × SQLite")
            self.inserts("inserts, one a transaction", 1, 500, "≥ 0.85 × SQLite")
            self.inserts("inserts, 1,000 a transaction", 1000, 20_000, "≥ 0.6 × SQLite")
            self.inserts("the same with one index", 1000, 20_000, "≥ 0.5 × SQLite", (
                "CREATE INDEX by_serial ON d (serial)", f"CREATE INDEX by_serial ON d ({j('serial')})"))
        self.ours.close()
        self.memory()


def main():
    parser = argparse.ArgumentParser(description="Queries beside SQLite and DuckDB.")
    parser.add_argument("executable", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--scans", action="store_true", help="nothing with indexes, no inserts")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mimeo-queries-") as folder:
        Bench(options, pathlib.Path(folder)).run()


if __name__ == "__main__":
    main()
