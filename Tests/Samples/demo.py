"""The demo: sends real data through the whole system, and fails if the replicas differ.

    make demo                                    both forms of the server and a chain of peers, release build
    python3 Tests/Samples/demo.py --mode one     only `mimeo serve`; --mode four: only the four behind nginx;
                                                 --mode chain: only the chain

Imports the country, subdivision and language tables of Debian's iso-codes into peer A while it is offline. A and B
connect, and B subscribes to the countries and the provinces. Both go offline, make 200 conflicting edits each, and come
back. Then the documents of A, B and the server are compared by digest. In the last act three peers in a chain sync
without a server, which then appears at one end. Exits non-zero if anything differs.
"""

import argparse
import contextlib
import hashlib
import json
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Support"))

import edits  # noqa: E402
import mimeo_harness as harness  # noqa: E402

COLLECTIONS = ("countries", "subdivisions", "languages")
PROVINCES = "type = 'Province'"
SEED = 2026
ARRIVAL_SECONDS = 300
AGREEMENT_SECONDS = 120


class Difference(Exception):
    """Two replicas that should be equal differ; the text shows where."""


def say(label, text):
    print(f"  {label:<10} {text}", flush=True)


@contextlib.contextmanager
def timed():
    """Yields a function that returns the seconds since the start."""
    start = time.monotonic()
    yield lambda: time.monotonic() - start


def compare(what, sides):
    """Returns the digest of the items, which must be equal as sets on all sides. The error shows a few differences."""
    digests = {side: harness.digest(items) for side, items in sides.items()}
    if len(set(digests.values())) == 1:
        return next(iter(digests.values()))
    lines = [f"{what}: " + ", ".join(f"{side} {len(items)} documents {digests[side][:12]}"
                                     for side, items in sides.items())]
    keyed = {side: {harness.canonical(item.get("_id")): item for item in items} for side, items in sides.items()}
    identifiers = sorted(set().union(*keyed.values()))
    differing = [key for key in identifiers
                 if len({harness.canonical(documents.get(key)) for documents in keyed.values()}) > 1]
    for key in differing[:5]:
        lines += [f"    {key}"] + [f"      {side:<7} {harness.canonical(keyed[side].get(key))}" for side in keyed]
    if len(differing) > 5:
        lines.append(f"    … and {len(differing) - 5} more")
    raise Difference("\n".join(lines))


class Demo:
    """One run against one form of the server."""

    def __init__(self, workspace, server):
        self.workspace = workspace
        self.server = server
        self.tables = {collection: harness.iso_codes(collection) for collection in COLLECTIONS}
        self.total = sum(len(rows) for rows, _, _ in self.tables.values())

    def run(self):
        self.server.start()
        say("server", f"{self.server.origin}  database {self.server.database}")
        self.load()
        self.connect()
        self.edit_offline()
        self.reconnect()
        self.show()
        self.attachment()
        for peer in (self.a, self.b):
            peer.stop()

    def load(self):
        """Imports the tables into A's store, then opens it offline."""
        store = self.workspace.directory / "peer-a"
        with timed() as seconds:
            for collection, (_, path, field) in self.tables.items():
                outcome = harness.mimeo("import", "--store", store, "--collection", collection, "--id", field, path)
                if outcome.returncode != 0:
                    raise RuntimeError(f"mimeo import {collection}: {outcome.returncode}\n{outcome.stderr}")
            elapsed = seconds()
        everything = [f"SELECT * FROM {collection}" for collection in COLLECTIONS]
        self.a = harness.Peer(self.workspace, "a", self.server, everything, offline=True)
        counts = {collection: self.a.count(collection) for collection in COLLECTIONS}
        expected = {collection: len(rows) for collection, (rows, _, _) in self.tables.items()}
        if counts != expected:
            raise Difference(f"A holds {counts} after the import, not {expected}")
        text = " · ".join(f"{name} {number:,}" for name, number in counts.items())
        say("import", f"{text} into A, offline: {elapsed:.1f} s")

    def connect(self):
        """Connects A and B; measures when everything has reached the server and when B has its part."""
        wanted = ["SELECT * FROM countries", f"SELECT * FROM subdivisions WHERE {PROVINCES}"]
        self.b = harness.Peer(self.workspace, "b", self.server, wanted, offline=True)
        countries = len(self.tables["countries"][0])
        provinces = sum(1 for row in self.tables["subdivisions"][0] if row["type"] == "Province")
        with timed() as seconds:
            self.a.start_sync()
            self.b.start_sync()
            arrived = {}
            harness.until(
                lambda: self._note_arrivals(arrived, seconds, countries, provinces), ARRIVAL_SECONDS,
                lambda: f"arrived: {arrived}; server {self._server_counts()}", pause=0.1)
        say("upload", f"{self.total:,} documents on the server after {arrived['server']:.1f} s")
        say("B", f"{countries:,} countries and {provinces:,} provinces after {arrived['B']:.1f} s")

    def _server_counts(self):
        return {collection: self.server.count(collection) for collection in COLLECTIONS}

    def _note_arrivals(self, arrived, seconds, countries, provinces):
        if "server" not in arrived and sum(self._server_counts().values()) == self.total:
            arrived["server"] = seconds()
        if "B" not in arrived and self.b.count("countries") == countries:
            if self.b.count("subdivisions", PROVINCES) == provinces:
                arrived["B"] = seconds()
        return len(arrived) == 2

    def edit_offline(self):
        """Makes 200 edits of the same documents on each side, while both are offline."""
        for peer in (self.a, self.b):
            peer.stop_sync()
        self.edits = edits.Edits(self.tables["countries"][0], self.tables["subdivisions"][0], SEED)
        peers = {"A": self.a, "B": self.b}
        self.commits = {}
        with timed() as seconds:
            for side, statement in self.edits.interleaved():
                answer = peers[side].execute(statement)
                if not answer.get("mutatedDocumentIDs"):
                    raise Difference(f"{side} changed nothing with {statement}")
                self.commits[side] = answer["commitID"]
            say("offline", f"{edits.EDITS_PER_PEER} edits on A and on B, same documents: {seconds():.1f} s")

    def reconnect(self):
        """Goes back online; waits for the acknowledgements, then until A, B and the server agree."""
        with timed() as seconds:
            self.a.start_sync()
            self.b.start_sync()
            self.a.wait_for_commit(self.commits["A"])
            self.b.wait_for_commit(self.commits["B"])
            acknowledged = seconds()
            digests = self._await_agreement()
            agreed = seconds()
        say("merge", f"all edits acknowledged after {acknowledged:.1f} s, A, B and server agree after {agreed:.1f} s")
        for what, (digest, holders) in digests.items():
            say("", f"{what:<24} {holders:<16} sha256 {digest[:16]}…")
        self._check_expectations()

    def _await_agreement(self):
        last = {}

        def agree():
            try:
                return self._compare_all()
            except Difference as difference:
                last["difference"] = difference
                return None

        try:
            return harness.until(agree, AGREEMENT_SECONDS, "", pause=0.2)
        except TimeoutError:
            raise last["difference"] from None

    def _compare_all(self):
        """Compares the cheapest collections first, so that polling costs little while the replicas still differ."""
        found = {}
        provinces = f"SELECT * FROM subdivisions WHERE {PROVINCES}"
        for what, select, with_b in (
            ("countries", "SELECT * FROM countries", True),
            ("provinces", provinces, True),
            ("subdivisions", "SELECT * FROM subdivisions", False),
            ("languages", "SELECT * FROM languages", False),
        ):
            sides = {"A": self.a.query(select), "server": self.server.query(select)}
            if with_b:
                sides["B"] = self.b.query(select)
            holders = "A = B = server" if with_b else "A = server"
            found[f"{what} {len(sides['A']):,}"] = (compare(what, sides), holders)
        return found

    def _check_expectations(self):
        """Checks the outcome of each conflict: agreement alone is not enough, it must be on the right values."""
        documents = {
            collection: {item["_id"]: item for item in self.server.query(f"SELECT * FROM {collection}")}
            for collection in ("countries", "subdivisions")
        }
        for expected in self.edits.expectations:
            found = documents[expected.collection].get(expected.identifier)
            try:
                good = expected.holds(found)
            except (KeyError, TypeError):
                good = False
            if not good:
                raise Difference(f"{expected.collection} {expected.identifier}: expected {expected.description}, "
                                 f"found {harness.canonical(found)}")
        say("", f"{len(self.edits.expectations)} of {len(self.edits.expectations)} conflicts ended as promised")

    def show(self):
        """Prints a few documents, and the result of a query on the server."""
        wanted_ones = (
            "both halves of a nested map", "one document with the fields of both", "only the concurrent write")
        for wanted in wanted_ones:
            expected = next(item for item in self.edits.expectations if item.description == wanted)
            select = f"SELECT * FROM {expected.collection} WHERE _id = '{expected.identifier}'"
            found = (self.b.query(select) or self.server.query(select))[0]
            shown = {key: value for key, value in found.items() if key != "flag"}
            say("document", f"{json.dumps(shown, ensure_ascii=False)}")
        statement = "SELECT type, COUNT(*) AS n FROM subdivisions GROUP BY type ORDER BY n DESC LIMIT 4"
        rows = self.server.query(statement)
        say("HTTP", statement)
        say("", " · ".join(f"{row.get('type')} {row['n']:,}" for row in rows))

    def attachment(self):
        """Uploads a file, and downloads it whole and in part."""
        content = self.tables["subdivisions"][1].read_bytes()
        answer = self.server.upload(content, "iso_3166-2.json")
        if answer.status != 200:
            raise Difference(f"attachment upload: {answer.status} {answer.body[:300]!r}")
        token = answer.json
        whole = self.server.download(token["id"])
        if whole.status != 200 or whole.body != content:
            raise Difference(f"attachment download: {whole.status}, {len(whole.body)} of {len(content)} bytes")
        part = self.server.download(token["id"], (1000, 1999))
        if part.status != 206 or part.body != content[1000:2000]:
            raise Difference(f"attachment range: {part.status}, {len(part.body)} bytes")
        digest = hashlib.sha256(whole.body).hexdigest()
        say("attachment", f"{len(content):,} bytes up, down and bytes 1000-1999: sha256 {digest[:16]}…")


class Chain:
    """Three peers, A - B - C, that link with their neighbours; the server is away, and comes back at A's end."""

    def __init__(self, workspace, server):
        self.workspace = workspace
        self.server = server

    def run(self):
        self.server.start()
        self.log_in()
        self.load()
        self.edit_at_both_ends()
        self.server_appears()
        for peer in self.peers:
            peer.stop()

    def log_in(self):
        """Each peer logs in once: by the certificate of that login the others know it when the server is away."""
        self.lines = [harness.FaultProxy(self.workspace, self.server.address) for _ in "abc"]
        ports = [harness.free_port() for _ in range(2)]
        links = [
            ["--listen-tcp", f"127.0.0.1:{ports[0]}"],
            ["--connect", f"127.0.0.1:{ports[0]}", "--listen-ws", f"127.0.0.1:{ports[1]}"],
            ["--connect-ws", f"ws://127.0.0.1:{ports[1]}"],
        ]
        wanted = ["SELECT * FROM countries"]
        self.peers = [
            harness.Peer(
                self.workspace, name, harness.Through(self.server, line), wanted, links=["--retry", "0.5", *link])
            for name, line, link in zip("abc", self.lines, links)]
        self.a, self.b, self.c = self.peers
        harness.until(lambda: len(self.b.execute(".links")["links"]) == 2, 60, "the chain does not link", pause=0.1)
        for line in self.lines:
            line.cut()
        say("chain", "A - B over TCP, B - C over a WebSocket; the server is away")

    def load(self):
        rows, _, field = harness.iso_codes("countries")
        with timed() as seconds:
            for start in range(0, len(rows), 50):
                documents = [{"_id": row[field], **row} for row in rows[start:start + 50]]
                self.a.execute("INSERT INTO countries DOCUMENTS " + ", ".join(
                    f"({json.dumps(document, ensure_ascii=False)})" for document in documents))
            self.await_agreement(len(rows))
            say("A to C", f"{len(rows)} countries through B after {seconds():.1f} s")
        self.count = len(rows)

    def edit_at_both_ends(self):
        identifiers = [row["_id"] for row in self.a.query("SELECT _id FROM countries ORDER BY _id LIMIT 100")]
        with timed() as seconds:
            for identifier in identifiers:
                self.a.execute(f"UPDATE countries SET visited = 'A' WHERE _id = '{identifier}'")
                self.c.execute(f"UPDATE countries SET stamp = 'C' WHERE _id = '{identifier}'")
            digest = self.await_agreement(self.count)
            say("edits", f"100 documents at both ends, A = B = C after {seconds():.1f} s: sha256 {digest[:16]}…")
        both = self.b.count("countries", "visited = 'A' AND stamp = 'C'")
        if both != len(identifiers):
            raise Difference(f"B has {both} documents with both edits, not {len(identifiers)}")

    def await_agreement(self, count):
        last = {}

        def agree():
            sides = {peer.name: peer.query("SELECT * FROM countries") for peer in self.peers}
            try:
                last["digest"] = compare("countries", sides)
            except Difference as difference:
                last["difference"] = difference
                return False
            return len(sides["a"]) == count

        try:
            harness.until(agree, AGREEMENT_SECONDS, "", pause=0.1)
        except TimeoutError:
            raise last.get("difference", Difference("countries are missing everywhere")) from None
        return last["digest"]

    def server_appears(self):
        """At A's end: A brings up what C wrote too, and what the server has comes down to C. Then C meets it too."""
        self.lines[0].mend()
        with timed() as seconds:
            harness.until(
                lambda: self.server.count("countries", "visited = 'A' AND stamp = 'C'") == 100, ARRIVAL_SECONDS,
                "the edits of A and C do not arrive", pause=0.1)
            self.server.execute("INSERT INTO countries DOCUMENTS ({'_id': 'ZZ', 'name': 'Server'})")
            self.await_agreement(self.count + 1)
            say("server", f"at A's end: {self.count} countries up, one down to C after {seconds():.1f} s")
        for line in self.lines[1:]:
            line.mend()
        self.c.execute("UPDATE countries SET name = 'C' WHERE _id = 'ZZ'")
        harness.until(
            lambda: self.server.count("countries", "name = 'C'") == 1, ARRIVAL_SECONDS, "C's last edit does not arrive",
            pause=0.1)
        self.await_agreement(self.count + 1)
        say("", "B and C reach the server too, and all agree")


def run(title, make_server, act=Demo):
    print(f"── {title} " + "─" * (76 - len(title)), flush=True)
    with harness.Workspace() as workspace, timed() as seconds:
        act(workspace, make_server(workspace)).run()
        say("done", f"{seconds():.1f} s")


MODES = {
    "one": ("one process", harness.OneProcess),
    "four": ("four executables behind nginx", harness.FourProcesses),
    "chain": ("a chain of peers, and a server at one end", harness.OneProcess, Chain),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=[*MODES, "all"], default="all")
    chosen = parser.parse_args().mode
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for mode in MODES if chosen == "all" else [chosen]:
        try:
            run(*MODES[mode])
        except (Difference, RuntimeError, OSError) as problem:
            print(f"make demo: {type(problem).__name__}: {problem}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130
    print("Everything agrees.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
