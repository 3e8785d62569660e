"""The cost of the border: the same reads and writes in Swift, by the C interface, in Python, and by Python's sqlite3.

    python3 Tests/Benchmarks/native.py        after scripts/build; prints a table, times in microseconds
"""

import json
import pathlib
import queue
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests" / "Support"), str(ROOT / "python")]

from mimeo_harness import binary  # noqa: E402
from mimeo_harness.native import compiled, environment  # noqa: E402

ROUNDS = 9


def sensor(number):
    return {
        "_id": f"sensor-{number:08}", "city": f"c{number % 40}", "reading": number * 7919 % 1000, "unit": "celsius",
        "place": {"row": number % 97, "shelf": number % 13, "label": f"place {number}"},
        "tags": ["indoor", "calibrated", f"batch-{number // 500}"], "note": "x" * 80,
    }


def median(body, calls):
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            body()
        times.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(times)


def python(folder):
    import mimeo

    mimeo.set_log_level(None)
    found = {}
    with mimeo.open(folder) as db:
        db.execute("INSERT INTO sensors DOCUMENTS (:all)", all=[sensor(number) for number in range(1000)])
        point = "SELECT * FROM sensors WHERE _id = :id"
        found["point"] = median(lambda: db.execute(point, id="sensor-00000500").one(), 2000)
        found["thousand"] = median(lambda: len(db.execute("SELECT * FROM sensors")), 20)
        number = iter(range(1000, 100_000))
        found["insert"] = median(lambda: db.execute("INSERT INTO other DOCUMENTS (:d)", d=sensor(next(number))), 50)
        results = queue.Queue()
        with db.observe("SELECT n FROM watched", results.put):
            results.get()
            found["observer"] = median(
                lambda: (db.execute("INSERT INTO watched DOCUMENTS (:d)", d={"n": next(number)}), results.get()), 20)
    return found


def bare(folder):
    found, place = {}, pathlib.Path(folder, "reference.sqlite")
    db = sqlite3.connect(place, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE sensors (id TEXT PRIMARY KEY, body TEXT NOT NULL)")
    db.execute("CREATE TABLE other (id TEXT PRIMARY KEY, body TEXT NOT NULL)")
    db.executemany("INSERT INTO sensors VALUES (?, ?)", [(f"sensor-{n:08}", json.dumps(sensor(n))) for n in range(1000)])
    point = "SELECT body FROM sensors WHERE id = ?"
    found["point"] = median(lambda: json.loads(db.execute(point, ["sensor-00000500"]).fetchone()[0]), 2000)
    found["thousand"] = median(lambda: [json.loads(body) for [body] in db.execute("SELECT body FROM sensors")], 20)
    number = iter(range(1000, 100_000))

    def insert():
        document = sensor(next(number))
        db.execute("INSERT INTO other VALUES (?, ?)", [document["_id"], json.dumps(document)])

    found["insert"] = median(insert, 50)
    db.close()
    return found


def main():
    with tempfile.TemporaryDirectory(prefix="mimeo-native-") as folder:
        store = f"{folder}/store"
        if sys.argv[1:] == ["python"]:
            return print(json.dumps(python(store)))
        program = [sys.executable, __file__]
        columns = {"Python": json.loads(subprocess.run(
            [*program, "python"], env=environment(), check=True, stdout=subprocess.PIPE).stdout)}
        # A store with the same documents, for C and for Swift.
        filling = f"import sys, mimeo; sys.path.append({str(ROOT / 'Tests/Benchmarks')!r}); from native import sensor;" \
            f" mimeo.open({store!r}).execute('INSERT INTO sensors DOCUMENTS (:a)', a=[sensor(n) for n in range(1000)])"
        subprocess.run([sys.executable, "-c", filling], env=environment(), check=True)
        border = compiled("Tests/Benchmarks/Native/border.c", folder)
        columns["C"] = json.loads(subprocess.run([border, store], check=True, stdout=subprocess.PIPE).stdout)
        columns["sqlite3"] = bare(folder)
        try:
            columns["Swift"] = json.loads(subprocess.run(
                [binary("sdk-probe"), "border", store], check=True, stdout=subprocess.PIPE).stdout)
        except subprocess.CalledProcessError:
            print("sdk-probe is of an earlier version: no column for Swift", file=sys.stderr)
        names = sorted({name for column in columns.values() for name in column})
        print("| microseconds |" + "".join(f" {column} |" for column in columns))
        print("|---|" + "--:|" * len(columns))
        for name in names:
            print(f"| {name} |" + "".join(
                f" {column[name]:,.2f} |" if name in column else " |" for column in columns.values()))


if __name__ == "__main__":
    main()
