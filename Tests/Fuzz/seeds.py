"""Makes the fuzzers' seeds out of what the tests hold anyway: `seeds.py DIRECTORY` writes one folder per target.

Bytes come from the first-form fixtures, statements from the corpus, words for the mutator from the list of keywords.
"""

import json
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
SHARED = TESTS.parent / "Shared"
TARGETS = {"document": ["document"], "delta": ["delta"], "operation": ["operation"], "id": ["cbor"]}


def write(directory, target, name, data):
    folder = directory / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def fixtures(directory):
    for file in sorted((TESTS / "CRDTTests" / "Fixtures").glob("*.json")):
        for number, fixture in enumerate(json.loads(file.read_text())["fixtures"]):
            name = f"{file.stem}-{number}"
            for target in TARGETS.get(fixture["kind"], []):
                write(directory, target, name, bytes.fromhex(fixture["bytes"]))
            write(directory, "json", name, json.dumps(fixture["decoded"]).encode())


def frames(directory):
    """Frames as they are, and as the events of an open session of either side."""
    for file in sorted((TESTS / "SyncTests" / "Fixtures").glob("frames-*.txt")):
        events = {2: b"", 3: b""}
        for line in file.read_text().splitlines():
            name, text = line.split(" ")
            data = bytes.fromhex(text)
            write(directory, "frame", name, data)
            event = bytes([0]) + len(data).to_bytes(2, "big") + data
            for kind in events:
                write(directory, "session", f"{name}-{kind}", bytes([kind]) + event + bytes([14]))
                events[kind] += event + bytes([14])
        for kind, data in events.items():
            write(directory, "session", f"{file.stem}-{kind}", bytes([kind]) + data)


def conditions():
    """What stands behind WHERE: with other operators, seeds of the older language."""
    for statement in statements():
        for condition in re.findall(r"(?i)\bWHERE (.*?)(?: GROUP| ORDER| LIMIT|$)", statement):
            yield condition.replace(" = ", " == ").replace(" AND ", " && ").replace(" OR ", " || ")


def statements():
    """The statements of every corpus file, continued lines joined."""
    for file in sorted((TESTS / "DQLTests" / "Corpus").glob("**/*.dqltest")):
        current = None
        for line in file.read_text(encoding="utf-8").splitlines():
            word, _, rest = line.partition(" ")
            if word == "." and current is not None:
                current += "\n" + rest
                continue
            if current is not None:
                yield current
            current = rest if word in (">", "setup") else None
            if word == "=" and " => " in rest:
                yield f"SELECT RAW {rest.split(' => ')[0]} FROM c"
        if current is not None:
            yield current


def main(directory):
    fixtures(directory)
    frames(directory)
    for number, statement in enumerate(sorted(set(statements()))):
        write(directory, "dql", f"statement-{number}", statement.encode())
        write(directory, "execute", f"statement-{number}", statement.encode())
    for number, condition in enumerate(sorted(set(conditions()))):
        write(directory, "legacy", f"condition-{number}", condition.encode())
    keywords = (SHARED / "DQL" / "Syntax" / "Keyword.swift").read_text()
    lines = [f'"{word} "' for word in sorted(set(re.findall(r'"([A-Z_]+)"', keywords)))]
    lines += [f'"{mark}"' for mark in ("||", "!=", "<=", ">=", "->", "??", "/*", "*/", "--", ":a", "_id", "'x'", "[*]")]
    for target in ("dql", "execute"):
        (directory / f"{target}.dict").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
