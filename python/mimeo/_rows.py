"""The result of a statement."""

from __future__ import annotations

import html
import importlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, cast, overload

from . import _values
from ._errors import ArgumentError, StatementError

Row = dict[str, Any]
Kind = TypeVar("Kind")
SHOWN_ROWS = 100
"""The most rows of a table in a notebook: a browser shows more of them slowly, and nobody reads them."""


class Result(Sequence[Row]):
    """The rows of a SELECT, each a dict; after a write the ids of the written documents and the number of the commit.

    >>> result = db.execute("SELECT _id, n FROM numbers ORDER BY n")
    >>> len(result), result[0], result.first()["n"]
    (3, {'_id': 'one', 'n': 1}, 1)
    """

    def __init__(self, rows: list[Row], mutated: list[Any], commit: int | None) -> None:
        self._rows = rows
        self.mutated_ids = mutated
        self.commit = commit

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"Result({self._rows!r})" if self.commit is None else f"Result(commit={self.commit})"

    def __eq__(self, other: object) -> bool:
        return self._rows == (other._rows if isinstance(other, Result) else other)

    __hash__ = None  # type: ignore[assignment]

    def first(self) -> Row | None:
        """The first row; None if there is none."""
        return self._rows[0] if self._rows else None

    def one(self) -> Row:
        """The only row. Raises if there is none, or more."""
        if len(self._rows) != 1:
            raise StatementError("PYTHON-0103", f"the statement has {len(self._rows)} rows, not one")
        return self._rows[0]

    def scalar(self) -> Any:
        """The only value of the only row.

        >>> db.execute("SELECT COUNT(*) AS n FROM numbers").scalar()
        3
        """
        return next(iter(self.one().values()))

    def as_type(self, kind: type[Kind]) -> list[Kind]:
        """The rows as instances of a dataclass. A field `id` reads `_id`; texts become datetimes, UUIDs and the like.

        >>> import dataclasses
        >>> @dataclasses.dataclass
        ... class Number:
        ...     id: str
        ...     n: int
        >>> db.execute("SELECT * FROM numbers WHERE n = 2").as_type(Number)
        [Number(id='two', n=2)]
        """
        return [cast(Kind, _values.as_type(row, kind)) for row in self._rows]

    def to_pandas(self) -> Any:
        """The rows as a DataFrame of pandas, which has to be installed. A field that a row has not is missing; integers
        stay integers also where some are missing, as `Int64`."""
        pandas = importlib.import_module("pandas")
        frame = pandas.DataFrame(self._rows)
        for name in self._columns():
            values = [row.get(name) for row in self._rows]
            # Of these alone pandas makes floats, which do not hold every integer of 64 bits.
            if None in values and {int, type(None)} == {type(value) for value in values}:
                frame[name] = pandas.array(values, dtype="Int64")
        return frame

    def to_arrow(self) -> Any:
        """The rows as a table of Arrow; pyarrow has to be installed. A field that a row has not is null. Raises for a
        field whose values no type of Arrow holds, as numbers and texts."""
        arrow = importlib.import_module("pyarrow")
        columns = {}
        # Arrow's own way takes the columns from the first row alone.
        for name in self._columns():
            try:
                columns[name] = arrow.array([row.get(name) for row in self._rows])
            except (TypeError, ValueError) as problem:
                raise ArgumentError("PYTHON-0105", f"no type of Arrow holds the values of {name!r}: {problem}") from None
        return arrow.table(columns)

    def _columns(self) -> list[str]:
        """The fields of all rows, in the order in which they come."""
        return list(dict.fromkeys(name for row in self._rows for name in row))

    def _repr_html_(self) -> str:
        """A table for notebooks, of the first rows."""
        if self.commit is not None:
            return f"<code>{html.escape(repr(self))}</code>"
        columns = self._columns()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(row.get(name, '')))}</td>" for name in columns) + "</tr>"
            for row in self._rows[:SHOWN_ROWS])
        more = len(self._rows) - SHOWN_ROWS
        return f"<table><tr>{head}</tr>{body}</table>" + (f"<p>and {more:,} more rows</p>" if more > 0 else "")
