"""Documents as data: canonical text, digests, and the tables of Debian's iso-codes."""

import hashlib
import json
import pathlib

ISO_FOLDER = pathlib.Path("/usr/share/iso-codes/json")

ISO_TABLES = {
    # collection: (file, the field that becomes _id)
    "countries": ("iso_3166-1.json", "alpha_2"),
    "subdivisions": ("iso_3166-2.json", "code"),
    "languages": ("iso_639-3.json", "alpha_3"),
}


def canonical(document):
    """A document as one line of text; lines are equal exactly if the documents are."""
    return json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def digest(items):
    """SHA-256 in hexadecimal of the sorted canonical lines: equal exactly for equal sets of documents."""
    lines = sorted(canonical(item) for item in items)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def iso_codes(collection):
    """(rows, path, id field) of a table. The package's files wrap their rows in an object with one key."""
    name, field = ISO_TABLES[collection]
    path = ISO_FOLDER / name
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run scripts/setup system")
    (rows,) = json.loads(path.read_text(encoding="utf-8")).values()
    return rows, path, field
