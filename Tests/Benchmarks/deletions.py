"""What a deletion leaves on the disk of a server and of a peer: `scripts/bench-deletions [--documents N]`.

One `mimeo serve` and one `mimeo peer` on this machine. A peer writes the documents and the server deletes them, so that
each tombstone has the stamps of two writers; those of the second row have a counter that both have counted. Reported are
the bytes of the rows in SQLite (a copy of the store is vacuumed, with and without them), so neither free pages nor the
log of the store count. SQLite's own least for a row of the same id is beside them.
"""

import argparse
import pathlib
import sqlite3
import sys
import tempfile
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests" / "Support"))

import mimeo_harness as harness  # noqa: E402

PART = 500


def tombstone_tables(store):
    """The tables of documents in a store that hold deleted ones, and their number."""
    found = {}
    for (name,) in store.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'documents_[0-9]*'"):
        columns = [row[1] for row in store.execute(f"PRAGMA table_info({name})")]
        if "live" in columns:
            found[name] = store.execute(f"SELECT COUNT(*) FROM {name} WHERE live = 0").fetchone()[0]
    return {name: count for name, count in found.items() if count > 0}


def bytes_per_tombstone(path, documents):
    """The bytes that each deleted document takes in a store's file."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "copy.sqlite"
        source, target = sqlite3.connect(path), sqlite3.connect(copy)
        source.backup(target)
        source.close()
        tables = tombstone_tables(target)
        assert sum(tables.values()) == documents, f"{path} has {tables} and not {documents} deleted documents"

        def size():
            target.execute("VACUUM")
            return target.execute("PRAGMA page_count").fetchone()[0] * target.execute("PRAGMA page_size").fetchone()[0]

        before = size()
        for name in tables:
            target.execute(f"DELETE FROM {name} WHERE live = 0")
        target.commit()
        after = size()
        target.close()
        return (before - after) / documents


def least(ids):
    """The bytes of a row that has nothing but its id, in SQLite."""
    store = sqlite3.connect(":memory:")
    store.execute("CREATE TABLE rows (id BLOB PRIMARY KEY) WITHOUT ROWID")
    before = store.execute("PRAGMA page_count").fetchone()[0]
    store.executemany("INSERT INTO rows VALUES (?)", [(each.encode(),) for each in sorted(ids)])
    pages = store.execute("PRAGMA page_count").fetchone()[0] - before
    return pages * store.execute("PRAGMA page_size").fetchone()[0] / len(ids)


def stores(folder):
    """The SQLite files below a folder that hold documents."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.read_bytes()[:15] == b"SQLite format 3":
            yield path


def with_tombstones(folder):
    found = []
    for path in stores(folder):
        store = sqlite3.connect(path)
        if tombstone_tables(store):
            found.append(path)
        store.close()
    return found


def measure(documents, counts):
    """Bytes of a deletion at the server and at a peer: of documents with a counter if it `counts`."""
    with harness.Workspace() as workspace:
        server = harness.OneProcess(workspace).start()
        peer = harness.Peer(workspace, "one", server, ["SELECT * FROM c"])
        ids = [str(uuid.uuid4()) for _ in range(documents)]
        for start in range(0, documents, PART):
            rows = ", ".join(f"({{'_id': '{each}', 'part': {start}, 'text': 'x'}})" for each in ids[start:start + PART])
            answer = peer.execute(f"INSERT INTO c DOCUMENTS {rows}")
            if counts:
                answer = peer.execute(f"UPDATE c APPLY n INCREMENT BY 1 WHERE part = {start}")
        peer.wait_for_commit(answer["commitID"], 600)
        for start in range(0, documents, PART):
            if counts:
                server.execute(f"UPDATE c APPLY n INCREMENT BY 1 WHERE part = {start}")
            server.execute(f"DELETE FROM c WHERE part = {start}")
        harness.until(lambda: peer.count("c") == 0, 600, "the deletions have come")
        peer.stop()
        server.stop()
        at_server = [bytes_per_tombstone(path, documents) for path in with_tombstones(server.data)]
        at_peer = [bytes_per_tombstone(path, documents) for path in with_tombstones(peer.store)]
        return ids, at_server, at_peer


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--documents", type=int, default=20_000)
    documents = options.parse_args().documents
    print("| a deleted document | at the server | at a peer | an id alone in SQLite |\n|---|--:|--:|--:|")
    for name, counts in [("plain", False), ("with a counter of two", True)]:
        ids, at_server, at_peer = measure(documents, counts)
        figures = [f"{each:.0f}" for each in (max(at_server), max(at_peer), least(ids))]
        print(f"| {name}, id of {len(ids[0])} characters | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
