"""The demo's conflicting edits: 200 statements for each of two peers, the same for the same seed.

Each case is a pair: what A does and what B does to the same document while neither sees the other. Which of two
values of one field wins depends on the clocks, so the pairs are interleaved at random; what is promised whatever the
clocks say is written down as an expectation and checked afterwards.
"""

import dataclasses
import json
import random

EDITS_PER_PEER = 200


def literal(value):
    """A value as a DQL literal: JSON text is one, with its keys quoted as DQL wants them."""
    return json.dumps(value, ensure_ascii=False)


@dataclasses.dataclass
class Expectation:
    """What a document must look like on every side: each check names itself when it fails."""

    collection: str
    identifier: str
    description: str
    holds: callable


class Edits:
    """Builds the pairs. `pairs` holds (statement of A, statement of B)."""

    def __init__(self, countries, subdivisions, seed):
        self._random = random.Random(seed)
        self.pairs = []
        self.expectations = []
        self._countries = self._shuffled(row["alpha_2"] for row in countries)
        self._official = self._shuffled(row["alpha_2"] for row in countries if "official_name" in row)
        self._provinces = self._shuffled(row["code"] for row in subdivisions if row["type"] == "Province")
        self._others = self._shuffled(row["code"] for row in subdivisions if row["type"] != "Province")
        self._build()
        self._random.shuffle(self.pairs)
        assert len(self.pairs) == EDITS_PER_PEER, len(self.pairs)

    def _shuffled(self, values):
        values = sorted(values)
        self._random.shuffle(values)
        return values

    def _take(self, values):
        taken = values.pop()
        for pool in (self._countries, self._official):
            if taken in pool:
                pool.remove(taken)
        return taken

    def _expect(self, collection, identifier, description, holds):
        self.expectations.append(Expectation(collection, identifier, description, holds))

    def _build(self):
        for number in range(20):
            self._unset_against_set(self._take(self._official), number)
        for number in range(40):
            self._same_field(self._take(self._countries), number)
        for number in range(40):
            self._nested(self._take(self._countries), number)
        for number in range(30):
            self._moves_out(self._provinces.pop(), number)
        for number in range(25):
            self._moves_in(self._others.pop(), number)
        for number in range(15):
            self._delete_against_update(self._provinces.pop(), number)
        for number in range(10):
            self._both_delete(self._provinces.pop())
        for number in range(20):
            self._same_insert(f"X{number:02}", number)

    def _same_field(self, code, number):
        """One register, two values: the later write wins on every side."""
        values = (f"Common name {number} of A", f"Common name {number} of B")
        self.pairs.append(tuple(
            f"UPDATE countries SET common_name = {literal(value)} WHERE _id = {literal(code)}" for value in values))
        self._expect("countries", code, "one of two values", lambda found: found["common_name"] in values)

    def _nested(self, code, number):
        """Two keys of a nested map that neither side had: both stay."""
        self.pairs.append((
            f"UPDATE countries SET facts.population = {number}, facts.capital.name = 'A' WHERE _id = {literal(code)}",
            f"UPDATE countries SET facts.area = {number}, facts.capital.zone = 'B' WHERE _id = {literal(code)}",
        ))
        both = {"population": number, "area": number, "capital": {"name": "A", "zone": "B"}}
        self._expect("countries", code, "both halves of a nested map", lambda found: found["facts"] == both)

    def _unset_against_set(self, code, number):
        """A removes a field that B writes: B's value was never seen by A, so it stays."""
        value = f"Official name {number} of B"
        self.pairs.append((
            f"UPDATE countries UNSET official_name WHERE _id = {literal(code)}",
            f"UPDATE countries SET official_name = {literal(value)} WHERE _id = {literal(code)}",
        ))
        self._expect("countries", code, "a write the UNSET had not seen", lambda found: found["official_name"] == value)

    def _moves_out(self, code, number):
        """A takes a province out of B's subscription while B writes to it; half of the time B moves it too."""
        other = "SET type = 'Territory', moved = 'by B'" if number % 2 else "SET moved = 'by B'"
        self.pairs.append((
            f"UPDATE subdivisions SET type = 'Region' WHERE _id = {literal(code)}",
            f"UPDATE subdivisions {other} WHERE _id = {literal(code)}",
        ))
        types = ("Region", "Territory") if number % 2 else ("Region",)
        self._expect("subdivisions", code, "no province any more, with B's mark",
                     lambda found: found["type"] in types and found["moved"] == "by B")

    def _moves_in(self, code, number):
        """A moves a subdivision into B's subscription; B, who has never seen it, writes under the same id."""
        document = {"_id": code, "note": f"B {number}"}
        self.pairs.append((
            f"UPDATE subdivisions SET type = 'Province' WHERE _id = {literal(code)}",
            f"INSERT INTO subdivisions DOCUMENTS ({literal(document)}) ON ID CONFLICT DO UPDATE",
        ))
        self._expect("subdivisions", code, "a province with B's note",
                     lambda found: found["type"] == "Province" and found["note"] == f"B {number}" and "name" in found)

    def _delete_against_update(self, code, number):
        """One deletes, the other writes: exactly what was written concurrently is left."""
        delete = f"DELETE FROM subdivisions WHERE _id = {literal(code)}"
        update = f"UPDATE subdivisions SET rescued = {number} WHERE _id = {literal(code)}"
        self.pairs.append((delete, update) if number % 2 else (update, delete))
        left = {"_id": code, "rescued": number}
        self._expect("subdivisions", code, "only the concurrent write", lambda found: found == left)

    def _both_delete(self, code):
        statement = f"DELETE FROM subdivisions WHERE _id = {literal(code)}"
        self.pairs.append((statement, statement))
        self._expect("subdivisions", code, "nothing", lambda found: found is None)

    def _same_insert(self, code, number):
        """Both insert the same new id: one document, with the fields of both."""
        documents = [{"_id": code, "name": f"New {number} of {side}", side: number} for side in ("A", "B")]
        self.pairs.append(tuple(f"INSERT INTO countries DOCUMENTS ({literal(document)})" for document in documents))
        names = tuple(document["name"] for document in documents)
        self._expect("countries", code, "one document with the fields of both",
                     lambda found: found["name"] in names and found["A"] == number and found["B"] == number)

    def interleaved(self):
        """(side, statement) in the order of execution: each pair at one time, the two sides in a random order."""
        for pair in self.pairs:
            sides = list(zip("AB", pair))
            self._random.shuffle(sides)
            yield from sides
