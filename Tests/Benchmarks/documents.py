"""Documents, deltas and statements: our benchmarks beside Yrs, Automerge, Loro, SQLite and plain Swift, with their goals.

    make bench                                                  release build, medians of five rounds
    python3 Tests/Benchmarks/documents.py BINARY --rounds 1     BINARY is the executable `documents`

Each round runs all programs one after the other, so that a busy moment hurts all of them; only CPU time counts. The
other systems come from PyPI into ~/.cache/mimeo/peers (MIMEO_CACHE chooses another folder).
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
PEERS = {"pycrdt": "pycrdt==0.14.13", "automerge": "automerge==1.0.0rc1", "loro": "loro==1.17.1"}
COLUMNS = {"pycrdt": "Yrs", "automerge": "Automerge", "loro": "Loro"}

# name, what it is, unit, goal in words, whether it is met given ours and the peers' medians by name
GOALS = [
    ("apply", "(a) 10,000 deltas of one field, two replicas, 1,000 documents", "deltas/s", "5 x Automerge",
     lambda ours, peers: ours["apply"] >= 5 * peers["automerge"]["apply"]),
    ("apply stored", "(a) the same, from stored bytes to stored bytes", "deltas/s", "", None),
    ("merge", "(b) decode a state of 60 fields and merge it", "µs", "", None),
    ("read", "(c) read a path of it in place", "ns", "< 200 ns", lambda ours, peers: ours["read"] < 200),
    ("read allocations", "(c) allocations of that", "per read", "none",
     lambda ours, peers: ours["read allocations"] == 0),
    ("fresh", "(d) a fresh document of 250 bytes of JSON", "bytes", "≤ 1.1 x JSON",
     lambda ours, peers: ours["fresh"] <= 1.1 * ours["fresh json"]),
    ("shared", "(d) 400 bytes of JSON, every field by one of eight actors", "bytes", "< 1.6 x JSON",
     lambda ours, peers: ours["shared"] < 1.6 * ours["shared json"]),
    ("shared, a transaction a field", "(d) the same, each field in a transaction of its own", "bytes", "< 1.6 x JSON",
     lambda ours, peers: ours["shared, a transaction a field"] < 1.6 * ours["shared json"]),
    ("delta own", "(d) a delta of one field (status = done)", "bytes", "≤ 25", lambda ours, peers: ours["delta own"] <= 25),
    ("delta foreign", "(d) the same, by an actor new to the document", "bytes", "", None),
    ("large", "(e) 10,000 fields, 5,000 concurrent edits a replica", "fields/s", "4 x Yrs",
     lambda ours, peers: ours["large"] >= 4 * peers["pycrdt"]["large"]),
    ("large states", "(e) the same, merged as full states", "fields/s", "", None),
    ("prepare", "parse and plan a statement", "µs", "< 20 µs", lambda ours, peers: ours["prepare"] < 20),
    ("prepare cached", "the same, from the cache", "µs", "< 1 µs", lambda ours, peers: ours["prepare cached"] < 1),
    ("predicate", "a predicate on two fields of 500 bytes, in place", "ns", "< 300 ns",
     lambda ours, peers: ours["predicate"] < 300),
]

# What stands in the column of the raw reference, by name.
REFERENCES = {
    "apply": ("apply reference", "Swift dictionaries"), "large": ("large reference", "a Swift dictionary"),
    "merge": ("merge reference", "JSONSerialization parses it"), "read": ("read reference", "Swift dictionaries"),
    "fresh": ("fresh cbor", "CBOR"), "shared": ("shared cbor", "CBOR"),
    "prepare": ("prepare reference", "SQLite prepares it"), "predicate": ("predicate reference", "SQLite, json_extract"),
}


def peer_python():
    """A Python with the other systems in it, made on first use."""
    cache = pathlib.Path(os.environ.get("MIMEO_CACHE", pathlib.Path.home() / ".cache" / "mimeo"))
    folder = cache / "peers"
    python = folder / "bin" / "python"
    wanted = "\n".join(PEERS.values())
    note = folder / "installed"
    if not note.exists() or note.read_text() != wanted:
        print(f"documents: installing {', '.join(PEERS.values())} into {folder}", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS.values()], check=True)
        note.write_text(wanted)
    return python


def measure(command):
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {entry["name"]: entry["value"] for entry in map(json.loads, output.splitlines())}


def medians(rounds):
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0] if name != "version"}


def figure(value, unit):
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 or unit == "bytes" else f"{value:.3g}"


def beside(ours, other, unit):
    """Another system's figure, and how much better ours is."""
    if other is None:
        return ""
    ratio = ours / other if unit.endswith("/s") else other / ours if ours else 0
    return f"{figure(other, unit)} ({ratio:.2f})"


def table(ours, peers):
    print("| | ours | goal | | raw reference | " + " | ".join(COLUMNS.values()) + " |")
    print("|---|--:|--:|---|--:|" + "--:|" * len(COLUMNS))
    for name, what, unit, goal, is_met in GOALS:
        if name not in ours:
            continue
        verdict = "" if is_met is None else "met" if is_met(ours, peers) else "MISSED"
        raw, label = REFERENCES.get(name, (None, ""))
        reference = f"{label} {beside(ours[name], ours.get(raw), unit)}" if raw else ""
        columns = [beside(ours[name], peers[peer].get(name), unit) for peer in COLUMNS]
        print(f"| {what} | {figure(ours[name], unit)} {unit} | {goal} | {verdict} | {reference} | "
              + " | ".join(columns) + " |")
    print(f"\nJSON: fresh {ours['fresh json']:.0f} bytes, by eight actors {ours['shared json']:.0f}. "
          "In brackets how many times better ours is: faster, or smaller.")


def main():
    parser = argparse.ArgumentParser(description="Our documents beside those of other systems.")
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    python = peer_python()
    ours, peers = [], {name: [] for name in PEERS}
    for _ in range(options.rounds):
        ours.append(measure([options.binary]))
        for name, rounds in peers.items():
            rounds.append(measure([python, HERE / "peers.py", name]))
    print(f"Medians of {options.rounds} rounds, CPU time, one core.\n")
    table(medians(ours), {name: medians(rounds) for name, rounds in peers.items()})


if __name__ == "__main__":
    main()
