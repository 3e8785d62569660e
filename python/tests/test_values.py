"""Values in documents: exact in both directions, or refused."""

import dataclasses
import datetime
import decimal
import enum
import importlib.util
import math
import typing
import unittest
import uuid

import mimeo
from mimeo import _values

from .support import DatabaseTest


class Color(enum.Enum):
    BLUE = "blue"


@dataclasses.dataclass
class Part:
    name: str
    weight: float


@dataclasses.dataclass
class Car:
    id: str
    color: Color
    built: datetime.datetime
    key: uuid.UUID
    price: decimal.Decimal
    photo: bytes
    parts: list[Part]
    owner: "typing.Optional[str]" = None


@dataclasses.dataclass
class Tag:
    id: str
    _id: int
    owner: str = dataclasses.field(metadata={"field": "of"})


class Values(DatabaseTest):
    def there_and_back(self, value):
        db = self.open()
        db.execute("INSERT INTO kept DOCUMENTS (:d)", d={"_id": 1, "v": value})
        found = db.execute("SELECT v FROM kept").one()["v"]
        db.close()
        return found

    def test_every_kind_of_value_comes_back_as_it_went(self):
        values = [None, True, False, 0, -1, 2**63 - 1, -(2**63), 0.1, -0.0, 1e300, 5e-324, 1.0, "", "grün 🚗\x00\n\\\"",
                  b"", bytes(range(256)), [], [1, [2, {"a": [b"x"]}]], {}, {"a": {"b": None}}, "x" * 70_000]
        db = self.open()
        db.execute("INSERT INTO kept DOCUMENTS (:d)", d={"_id": 1, "v": values})
        found = db.execute("SELECT v FROM kept").one()["v"]
        self.assertEqual(found, values)
        self.assertEqual([type(value) for value in found], [type(value) for value in values])
        self.assertEqual(math.copysign(1, found[8]), -1)

    def test_nan_and_infinities_come_back(self):
        found = self.there_and_back([math.nan, math.inf, -math.inf])
        self.assertTrue(math.isnan(found[0]))
        self.assertEqual(found[1:], [math.inf, -math.inf])

    def test_json_and_cbor_of_the_same_arguments_are_the_same_document(self):
        plain = {"a": 1, "b": [1.5, "x", None, True], "c": {"d": -5}, "e": 2**40, "f": -300, "g": "é" * 300}
        out = bytearray()
        _values._write(plain, out, 0)
        self.assertEqual(_values.cbor(bytes(out)), plain)
        self.assertEqual(_values.encoded(plain)[:1], b"{")
        self.assertEqual(_values.cbor(_values.encoded({"z": b"x", **plain})), {"z": b"x", **plain})

    def test_a_datetime_is_text_in_utc_with_milliseconds(self):
        east = datetime.timezone(datetime.timedelta(hours=2))
        moment = datetime.datetime(2026, 11, 28, 14, 0, 0, 250_999, tzinfo=east)
        self.assertEqual(self.there_and_back(moment), "2026-11-28T12:00:00.250Z")

    def test_refused_values_say_why(self):
        db = self.open()
        for number, (code, value) in enumerate([
            ("SDK-0201", object()), ("SDK-0201", datetime.datetime(2026, 1, 1)), ("SDK-0201", 1j), ("SDK-0202", [2**63, b""]),
            ("SDK-0202", 2**63), ("SDK-0202", {"a": [-(2**63) - 1]}), ("SDK-0202", 10**5_000), ("SDK-0202", [10**5_000, b""]),
            ("SDK-0201", datetime.datetime.max.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-1)))),
            ("NATIVE-0104", "\ud800"), ("NATIVE-0104", {"\udfff": 1}), ("NATIVE-0104", ["\ud800", b""]),
            ("SDK-0201", {(1, 2): 3}),
        ]):
            with self.subTest(number=number):
                error = self.assert_code(code, db.execute, "SELECT :v FROM kept", v=value)
                self.assertIsInstance(error, mimeo.ArgumentError)
        self.assert_code("NATIVE-0104", db.execute, "SELECT '\ud800' FROM kept")
        self.assert_code("NATIVE-0105", db.execute, "SELECT * FROM kept", [1])
        circle = []
        circle.append(circle)
        self.assertRaises(mimeo.ArgumentError, db.execute, "SELECT :v FROM kept", v=circle)
        deep = [b""]
        for _ in range(500):
            deep = [deep]
        self.assertRaises(mimeo.ArgumentError, db.execute, "SELECT :v FROM kept", v=deep)

    def test_a_dataclass_goes_in_and_comes_back(self):
        car = {
            "_id": "a", "color": Color.BLUE, "built": datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc),
            "key": uuid.UUID(int=7), "price": decimal.Decimal("12.50"), "photo": b"\x00\xff", "parts": [Part("wheel", 7)],
        }
        db = self.open()
        db.execute("INSERT INTO cars DOCUMENTS (:car)", car=car)
        [found] = db.execute("SELECT * FROM cars").as_type(Car)
        self.assertEqual(found, Car("a", Color.BLUE, car["built"], car["key"], car["price"], b"\x00\xff", [Part("wheel", 7.0)]))
        # The same names in both directions: `id` is the document's `_id`.
        db.execute("DELETE FROM cars")
        self.assertEqual(db.execute("INSERT INTO cars DOCUMENTS (:car)", car=found).mutated_ids, ["a"])
        self.assertEqual(db.execute("SELECT * FROM cars").as_type(Car), [found])
        self.assertEqual(db.execute("INSERT INTO tags DOCUMENTS (:tag)", tag=Tag("b", 1, "x")).mutated_ids, [1])
        self.assertEqual(db.execute("SELECT * FROM tags"), [{"_id": 1, "id": "b", "of": "x"}])
        self.assertEqual(db.execute("SELECT * FROM tags").as_type(Tag), [Tag("b", 1, "x")])
        error = self.assert_code("SDK-0210", db.execute("SELECT color FROM cars").as_type, Car)
        self.assertIn("Car", error.message)

    def test_a_value_that_is_none_of_a_type_says_so(self):
        moment = datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone.utc)
        for value, kind, expected in [
            ([1, "x"], tuple[int, str], (1, "x")), ([1, 2], tuple[int, ...], (1, 2)), (["a", "a"], set[str], {"a"}),
            ("x", typing.Union[int, str], "x"), (None, typing.Optional[int], None), ("y", typing.Union[uuid.UUID, str], "y"),
            ({"a": "2026-01-02T00:00:00.000Z"}, dict[str, datetime.datetime], {"a": moment}),
        ]:
            self.assertEqual(_values.as_type(value, kind), expected)
        for value, kind in [
            ("abc", list[str]), (5, list[int]), ([1], dict[str, int]), ("pink", Color), ("x", uuid.UUID), ("x", decimal.Decimal),
            ("x", datetime.datetime), ("x", datetime.date), ("x", bytes), (True, float), (1.5, int), (None, int),
            ("x", typing.Union[int, float]),
        ]:
            with self.subTest(value=value, kind=kind):
                self.assertIsInstance(self.assert_code("SDK-0210", _values.as_type, value, kind), mimeo.ArgumentError)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_numbers_and_arrays_of_numpy_go_in_as_they_are(self):
        import numpy

        values = [numpy.int64(-5), numpy.float32(0.5), numpy.bool_(True), numpy.array([1, 2]), numpy.array([7]),
                  numpy.array([[1.5], [2.5]]), numpy.array(3), numpy.datetime64("2026-01-02")]
        self.assertEqual(self.there_and_back(values), [-5, 0.5, True, [1, 2], [7], [[1.5], [2.5]], 3, "2026-01-02"])
        db = self.open()
        for value in (numpy.datetime64("2026-01-02T00:00:00.000000001"), numpy.array(["2026-01-02"], "M8[ns]"),
                      numpy.timedelta64(1, "ns"), numpy.array([1j])):
            self.assert_code("SDK-0201", db.execute, "SELECT :v FROM kept", v=value)
        self.assert_code("SDK-0202", db.execute, "SELECT :v FROM kept", v=numpy.uint64(2**63))

    def test_a_document_of_five_mebibytes_comes_back_and_a_larger_one_is_refused(self):
        most = 5_242_880
        db = self.open()
        for content in ("x" * (most - 100), b"\xff" * (most - 100)):
            db.execute("INSERT INTO kept DOCUMENTS (:d) ON ID CONFLICT DO UPDATE", d={"_id": 1, "v": content})
            self.assertEqual(db.execute("SELECT v FROM kept").one()["v"], content)
        for content in ("x" * most, b"\xff" * most):
            self.assert_code("STORE-0201", db.execute, "INSERT INTO kept DOCUMENTS (:d)", d={"_id": 2, "v": content})
        self.assertEqual(db.execute("SELECT COUNT(*) AS n FROM kept").scalar(), 1)

    def rows(self):
        db = self.open()
        db.execute("INSERT INTO kept DOCUMENTS ({'_id': 1, 'n': 1.5}), ({'_id': 2, 'n': 2.5, 'text': '<b>'})")
        return db.execute("SELECT * FROM kept ORDER BY _id")

    @unittest.skipUnless(importlib.util.find_spec("pandas"), "pandas is not installed")
    def test_pandas_reads_rows(self):
        frame = self.rows().to_pandas()
        self.assertEqual((len(frame), list(frame["n"]), list(frame.columns)), (2, [1.5, 2.5], ["_id", "n", "text"]))
        frame = mimeo.Result([{"n": 2**62 + 1, "m": 1}, {}, {"n": None, "m": 2.5}], [], None).to_pandas()
        self.assertEqual((frame["n"][0], list(frame["n"].isna()), list(frame["m"].isna())),
                         (2**62 + 1, [False, True, True], [False, True, False]))

    @unittest.skipUnless(importlib.util.find_spec("pyarrow"), "pyarrow is not installed")
    def test_arrow_reads_rows_with_the_fields_of_all_of_them(self):
        rows = self.rows()
        self.assertEqual(rows.to_arrow().to_pylist(), [{"_id": 1, "n": 1.5, "text": None}, {"_id": 2, "n": 2.5, "text": "<b>"}])
        self.assertEqual(mimeo.Result([], [], None).to_arrow().num_rows, 0)
        large = mimeo.Result([{"n": 2**62 + 1}, {}], [], None)
        self.assertEqual(large.to_arrow().to_pylist(), [{"n": 2**62 + 1}, {"n": None}])
        for values in ([1, "x"], [1, True], [{"a": 1}, 5]):
            mixed = mimeo.Result([{"v": value} for value in values], [], None)
            self.assertIn("'v'", self.assert_code("PYTHON-0105", mixed.to_arrow).message)

    def test_a_notebook_shows_a_table(self):
        shown = self.rows()._repr_html_()
        self.assertIn("<tr><th>_id</th><th>n</th><th>text</th></tr>", shown)
        self.assertIn("<tr><td>1</td><td>1.5</td><td></td></tr><tr><td>2</td><td>2.5</td><td>&lt;b&gt;</td></tr>", shown)
        many = mimeo.Result([{"n": n} for n in range(1_102)], [], None)._repr_html_()
        self.assertEqual((many.count("<tr>"), many.endswith("<p>and 1,002 more rows</p>")), (101, True))
        self.assertEqual(mimeo.Result([], [1], 7)._repr_html_(), "<code>Result(commit=7)</code>")
