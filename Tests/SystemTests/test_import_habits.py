"""Generated files in the habits of many programs, read by `mimeo import` and by Python: the same rows, and types that
agree or are told."""

import csv
import gzip
import io
import json
import random
import re
from decimal import Decimal

from mimeo_harness import SEED, deep_only, mimeo, pick, use_packages
from system_test import SystemTest, report

NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-][0-9]+)?")
LOOKS = re.compile(r"\s*[-+]?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?\s*|true|false|True|False|TRUE|FALSE")

VALUES = {
    "integers": lambda r: str(r.choice([0, 1, -7, r.randrange(-10**6, 10**6), 2**63 - 1, -2**63])),
    "large": lambda r: str(r.choice([5, 2**63, 10**19 + 1])),
    "decimals": lambda r: r.choice(["1.5", "2.00", "-0.25", "3", repr(r.uniform(-1e6, 1e6)), repr(r.uniform(0, 1e-9))]),
    "exponents": lambda r: r.choice(["1.5e+20", "2e-7", "1.0E10", "-2.5E-5", f"{r.randrange(99)}.25e{r.randrange(9)}"]),
    "codes": lambda r: f"{r.randrange(10, 99)}E{r.randrange(9)}",
    "long decimals": lambda r: r.choice(["0.5", "0.12345678901234567891", "9007199254740993.5"]),
    "zips": lambda r: f"{r.randrange(100_000):05}",
    "signed": lambda r: r.choice(["+1", "-1"]),
    "booleans": lambda r: r.choice(["true", "false"]),
    "python booleans": lambda r: r.choice(["True", "False"]),
    "dates": lambda r: f"2{r.randrange(1000):03}-0{r.randrange(1, 10)}-1{r.randrange(10)}",
    "texts": lambda r: "".join(r.choice(TEXT) for _ in range(r.randrange(1, 12))),
    "mixed": lambda r: r.choice(["1", "x", "2.5", "true"]),
    "decimal commas": lambda r: f"{r.randrange(100)},{r.randrange(10, 100)}",
    "lines": lambda r: r.choice(["a\nb", "c\r\nd", "e\rf", '"', 'say "x"', "a;b", "c\td", "e|f", "g,h"]),
    "sparse": lambda r: r.choice(["", "", "4"]),
    "nothing": lambda r: "",
}
TEXT = "abc XYZ.-_'/éüß€"


class Habits(SystemTest):
    seconds = pick(fast=240, deep=3_000)

    def setUp(self):
        super().setUp()
        self.store = self.workspace.directory / "store"

    def load(self, collection, path, *arguments):
        run = mimeo("import", "--store", self.store, "--collection", collection, *arguments, path)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return json.loads(run.stdout)

    def documents(self, collections):
        """All documents of each collection, in one process."""
        given = "".join(f"SELECT * FROM {name}\n" for name in collections)
        run = mimeo("dql", "--store", self.store, "-", given=given, seconds=600)
        self.assertEqual(run.returncode, 0, run.stdout[-500:] + run.stderr)
        return [json.loads(line)["items"] for line in run.stdout.splitlines()]

    # Tables

    def table(self, r):
        """A table as some program would write it: its bytes, and the flags that its reader needs."""
        kinds = [r.choice(list(VALUES)) for _ in range(r.randrange(1, 6))]
        names = ["key"] + [f"{kind} {n}" if r.random() < 0.5 else f"c{n}" for n, kind in enumerate(kinds)]
        rows = [[f"r{n}"] + [VALUES[kind](r) for kind in kinds] for n in range(r.randrange(1, 30))]
        encoding = r.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "windows-1252"])
        delimiter = r.choice([",", ",", ";", "\t", "|"])
        quoting = r.choice(["needed", "needed", "all"])

        def cell(value):
            needs = quoting == "all" or any(mark in value for mark in (delimiter, '"', "\r", "\n"))
            return '"' + value.replace('"', '""') + '"' if needs else value

        end = r.choice(["\n", "\r\n", "\r"])
        text = "".join(delimiter.join(map(cell, row)) + end for row in [names] + rows)
        if r.random() < 0.2:
            text = text.removesuffix(end)
        flags = ["--encoding", encoding] if encoding == "windows-1252" else []
        return names, rows, text.encode(encoding), text, flags, delimiter

    def test_tables(self):
        """Every cell is the one that Python's csv module reads; a column that looks like numbers is one, or is told."""
        count = pick(fast=60, deep=500)
        cases = []
        for number in range(count):
            with self.subTest(seed=SEED + number):
                names, rows, content, text, flags, delimiter = self.table(random.Random(SEED + number))
                given = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
                self.assertEqual(given, [names] + rows)
                path = self.workspace.directory / f"t{number}.csv"
                path.write_bytes(content)
                answer = self.load(f"t{number}", path, "--id", "key", *flags)
                self.assertEqual(answer["delimiter"], "tab" if delimiter == "\t" else delimiter)
                self.check_types(names, rows, answer)
                cases.append((SEED + number, names, rows, answer))
        found = self.documents([f"t{seed - SEED}" for seed, *_ in cases])
        for (seed, names, rows, answer), items in zip(cases, found):
            with self.subTest(seed=seed):
                self.check_rows(names, rows, answer["columns"], items)
        report(f"{count} tables, {sum(len(case[2]) for case in cases)} rows")

    def check_types(self, names, rows, answer):
        told = " ".join(warning["message"] for warning in answer["warnings"])
        for place, name in enumerate(names):
            cells = [row[place] for row in rows if row[place]]
            kind = answer["columns"][name]
            if cells and all(NUMBER.fullmatch(cell) for cell in cells):
                values = [Decimal(cell) for cell in cells]
                exact = all(Decimal(repr(float(value))) == value for value in values)
                whole = all(re.fullmatch("-?[0-9]+", cell) and -2**63 <= int(cell) < 2**63 for cell in cells)
                self.assertEqual(kind, "integer" if whole else "decimal" if exact and not any(
                    re.fullmatch("-?[0-9]+", cell) and abs(int(cell)) >= 2**63 for cell in cells) else "text", cells)
            if kind == "text" and cells and all(LOOKS.fullmatch(cell) for cell in cells):
                booleans = [cell.lower() in ("true", "false") for cell in cells]
                self.assertTrue(name in told or any(booleans) and not all(booleans), (name, cells, told))

    def check_rows(self, names, rows, types, items):
        by_key = {item["_id"]: item for item in items}
        self.assertEqual(len(by_key), len(rows))
        for row in rows:
            item = by_key[row[0]]
            for name, cell in zip(names, row):
                if cell == "":
                    self.assertIn(item.get(name, ""), [""])
                    continue
                value, kind = item[name], types[name]
                if kind == "text":
                    self.assertEqual(value, cell)
                elif kind == "boolean":
                    self.assertEqual(value, cell.lower() == "true")
                else:
                    self.assertIsInstance(value, int if kind == "integer" else float)
                    self.assertEqual(Decimal(repr(value)), Decimal(cell))

    # JSON

    def value(self, r, depth=0):
        kinds = ["int", "double", "text", "null", "bool"] + (["list", "object"] if depth < 3 else [])
        kind = r.choice(kinds)
        if kind == "list":
            return [self.value(r, depth + 1) for _ in range(r.randrange(3))]
        if kind == "object":
            return {f"k{n}é": self.value(r, depth + 1) for n in range(r.randrange(3))}
        return {"int": r.randrange(-2**63, 2**63), "double": r.uniform(-1e3, 1e3), "null": None,
                "bool": r.random() < 0.5, "text": "".join(r.choice(TEXT + '"\\\n{}[]:,') for _ in range(9))}[kind]

    def json_file(self, r, documents):
        """The documents in some form, with the number of documents that it is."""
        dump = {"ensure_ascii": r.random() < 0.5, "indent": r.choice([None, None, 2])}
        form = r.choice(["array", "lines", "wrapped", "features", "sequence"])
        if form == "lines":
            text = r.choice(["\n", "\r\n"]).join(json.dumps(document) for document in documents)
        elif form == "sequence":
            text = "\n".join(json.dumps(document, indent=1) for document in documents)
        else:
            content = documents
            if form == "wrapped":
                content = {"count": len(documents), "next": None, "ids": [1, 2], "data": documents, "meta": {"a": [1]}}
            if form == "features":
                content = {"type": "FeatureCollection", "bbox": [0, 0, 1, 1], "features": documents}
            text = json.dumps(content, **dump)
        return text.encode(r.choice(["utf-8", "utf-8-sig", "utf-16"]))

    def test_json(self):
        """Every document is the one that Python's json module reads, in whatever form it stands."""
        count = pick(fast=40, deep=300)
        expected = []
        for number in range(count):
            r = random.Random(SEED + number)
            documents = [{"_id": f"d{n}", **{f"f{k}": self.value(r) for k in range(4)}} for n in range(r.randrange(2, 9))]
            content = self.json_file(r, documents)
            if r.random() < 0.3:
                content = gzip.compress(content)
            path = self.workspace.directory / f"j{number}.json"
            path.write_bytes(content)
            with self.subTest(seed=SEED + number):
                self.assertEqual(self.load(f"j{number}", path)["documents"], len(documents))
                expected.append((f"j{number}", documents))
        for (name, documents), items in zip(expected, self.documents([name for name, _ in expected])):
            with self.subTest(name):
                self.assertEqual({item["_id"]: item for item in items}, {one["_id"]: one for one in documents})

    # Another reader

    @deep_only("test_tables compares the same files with Python's csv module")
    def test_another_reader_agrees(self):
        """DuckDB's reader finds the same types, or a narrower one of ours is told."""
        use_packages("duckdb==2.0.1")
        import duckdb  # pylint: disable=import-outside-toplevel
        compared = 0
        for number in range(100):
            names, rows, content, text, flags, _ = self.table(random.Random(SEED + number))
            if flags or content[:2] in (b"\xff\xfe", b"\xfe\xff") or len(rows) < 3:
                continue
            path = self.workspace.directory / f"d{number}.csv"
            path.write_bytes(content)
            answer = self.load(f"d{number}", path, "--id", "key")
            try:
                theirs = duckdb.sql(f"SELECT * FROM read_csv('{path}', header = true, sample_size = -1)")
            except duckdb.Error:
                continue
            if theirs.columns != names:
                continue
            told = " ".join(warning["message"] for warning in answer["warnings"])
            for name, kind in zip(names, map(str, theirs.types)):
                ours = answer["columns"][name]
                family = {"BIGINT": "integer", "INTEGER": "integer", "DOUBLE": "decimal", "BOOLEAN": "boolean"}.get(kind, "text")
                with self.subTest(seed=SEED + number, column=name):
                    compared += 1
                    self.assertTrue(ours in (family, "empty") or ours == "text" and name in told
                                    or family == "text" and ours != "text", (name, ours, kind, told))
        report(f"{compared} columns compared with DuckDB")
