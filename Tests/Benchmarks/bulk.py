"""The bulk insert that a user would write instead: each document's JSON text made and inserted, all in one transaction.

    python3 Tests/Benchmarks/bulk.py FOLDER NDJSON      prints rows a second

SQLite, WAL, `synchronous = FULL`, through Python's own sqlite3, a new file in FOLDER. The documents are in memory
before the clock starts. A loop in C that has bytes ready, as in `Sessions/Bare.swift`, is two to four times as fast.
"""

import json
import pathlib
import sqlite3
import sys
import time


def rate(folder, documents):
    """Rows a second; a document's key is its `_id`."""
    path = pathlib.Path(folder) / "bulk.sqlite"
    for suffix in ("", "-wal", "-shm"):
        pathlib.Path(f"{path}{suffix}").unlink(missing_ok=True)
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE documents (id TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID")
    started = time.perf_counter()
    database.execute("BEGIN")
    for document in documents:
        database.execute("INSERT INTO documents VALUES (?, ?)", (document["_id"], json.dumps(document)))
    database.execute("COMMIT")
    taken = time.perf_counter() - started
    database.close()
    return len(documents) / taken


if __name__ == "__main__":
    with open(sys.argv[2]) as file:
        print(rate(sys.argv[1], [json.loads(line) for line in file]))
