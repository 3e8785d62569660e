"""The cost of the border: the same reads and writes in Swift, by the C interface, in Python, by Python's sqlite3, and over
HTTP from Python, as a program would make them that has no database of its own.

    python3 Tests/Benchmarks/native.py        after scripts/build; prints a table, times in microseconds

The programs take turns, and each figure is the best of all rounds: other work on the machine only adds to them. A time of
Python's is read as follows: what the library needs ("C"), plus what `json` needs to make objects of the rows ("json
alone"), plus the border.
"""

import http.client
import json
import pathlib
import queue
import sqlite3
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests" / "Support"), str(ROOT / "python")]

from mimeo_harness import OneProcess, Workspace, binary  # noqa: E402
from mimeo_harness.native import compiled, environment  # noqa: E402

ROUNDS, TURNS = 5, 3
POINT, THOUSAND = "SELECT * FROM sensors WHERE _id = :id", "SELECT * FROM sensors"
ONE = "sensor-00000500"
ROWS = {
    "call": "a call that is refused at its handle", "point": "a document by its id", "thousand": "1,000 documents",
    "thousandCBOR": "the same as CBOR", "json": "json alone, of 1,000 documents", "insert": "an insert, on the disk",
    "observer": "a write and its observer's call",
}


def sensor(number):
    return {
        "_id": f"sensor-{number:08}", "city": f"c{number % 40}", "reading": number * 7919 % 1000, "unit": "celsius",
        "place": {"row": number % 97, "shelf": number % 13, "label": f"place {number}"},
        "tags": ["indoor", "calibrated", f"batch-{number // 500}"], "note": "x" * 80,
    }


def fresh():
    """Numbers of documents that no earlier turn has written."""
    return iter(range(time.time_ns(), 1 << 62))


def best(body, calls):
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            body()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return min(times)


def python(folder):
    import mimeo
    from mimeo._library import released

    mimeo.set_log_level(None)
    found, number = {}, fresh()
    with mimeo.open(folder) as db:
        if db.execute("SELECT COUNT(*) AS n FROM sensors").scalar() == 0:
            db.execute("INSERT INTO sensors DOCUMENTS (:all)", all=[sensor(each) for each in range(1000)])
        found["call"] = best(lambda: released(0), 100_000)
        found["point"] = best(lambda: db.execute(POINT, id=ONE).one(), 2000)
        found["thousand"] = best(lambda: len(db.execute(THOUSAND)), 20)
        text = json.dumps(list(db.execute(THOUSAND)), separators=(",", ":"))
        found["json"] = best(lambda: len(json.loads(text)), 20)
        found["insert"] = best(lambda: db.execute("INSERT INTO other DOCUMENTS (:d)", d=sensor(next(number))), 30)
        results = queue.Queue()
        with db.observe("SELECT n FROM watched", results.put):
            results.get()
            found["observer"] = best(
                lambda: (db.execute("INSERT INTO watched DOCUMENTS (:d)", d={"n": next(number)}), results.get()), 20)
    return found


def bare(place):
    found, number = {}, fresh()
    is_new = not pathlib.Path(place).exists()
    db = sqlite3.connect(place, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    if is_new:
        db.execute("CREATE TABLE sensors (id TEXT PRIMARY KEY, body TEXT NOT NULL)")
        db.execute("CREATE TABLE other (id TEXT PRIMARY KEY, body TEXT NOT NULL)")
        db.executemany("INSERT INTO sensors VALUES (?, ?)", [(f"sensor-{n:08}", json.dumps(sensor(n))) for n in range(1000)])
    point = "SELECT body FROM sensors WHERE id = ?"
    found["point"] = best(lambda: json.loads(db.execute(point, [ONE]).fetchone()[0]), 2000)
    found["thousand"] = best(lambda: [json.loads(body) for [body] in db.execute("SELECT body FROM sensors")], 20)

    def insert():
        document = sensor(next(number))
        db.execute("INSERT INTO other VALUES (?, ?)", [document["_id"], json.dumps(document)])

    found["insert"] = best(insert, 30)
    db.close()
    return found


class Remote:
    """A server's HTTP, on one connection that is kept, as clients of document databases use it."""

    def __init__(self, server):
        self.headers = {**server.authorization(), "Content-Type": "application/json"}
        self.connection = http.client.HTTPConnection(*server.address)
        self.execute("INSERT INTO sensors DOCUMENTS (:all)", all=[sensor(each) for each in range(1000)])
        self.number = fresh()

    def execute(self, statement, **arguments):
        body = json.dumps({"statement": statement, "args": arguments})
        self.connection.request("POST", "/api/v5/store/execute", body, self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        return json.loads(text)["items"]

    def measure(self):
        return {
            "point": best(lambda: self.execute(POINT, id=ONE), 200),
            "thousand": best(lambda: self.execute(THOUSAND), 5),
            "insert": best(lambda: self.execute("INSERT INTO other DOCUMENTS (:d)", d=sensor(next(self.number))), 20),
        }


def measured(*command, **options):
    """The figures that a program prints."""
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, **options).stdout)


def main():
    if sys.argv[1:2] == ["python"]:
        return print(json.dumps(python(sys.argv[2])))
    with tempfile.TemporaryDirectory(prefix="mimeo-native-") as folder, Workspace() as workspace:
        store, border = f"{folder}/store", compiled("Tests/Benchmarks/Native/border.c", folder)
        remote = Remote(OneProcess(workspace).start())
        # Python fills the store that C and Swift read.
        programs = {
            "Python": lambda: measured(sys.executable, __file__, "python", store, env=environment()),
            "C": lambda: measured(border, store), "Swift": lambda: measured(binary("sdk-probe"), "border", store),
            "sqlite3 in Python": lambda: bare(f"{folder}/reference.sqlite"), "HTTP from Python": remote.measure,
        }
        columns = {name: {} for name in programs}
        for _ in range(TURNS):
            for name, program in programs.items():
                for row, time_taken in program().items():
                    columns[name][row] = min(time_taken, columns[name].get(row, time_taken))
    print("| microseconds |" + "".join(f" {column} |" for column in columns))
    print("|---|" + "--:|" * len(columns))
    for name, title in ROWS.items():
        print(f"| {title} |" + "".join(
            f" {column[name]:,.2f} |" if name in column else " |" for column in columns.values()))


if __name__ == "__main__":
    main()
