"""Values on their way into the library and back.

Documents hold None, bool, int (64 bits), float, str, bytes, lists and dicts. On the way in a datetime becomes RFC 3339
text in UTC with milliseconds, as in the other SDKs; a date, UUID, Decimal or path its text; a dataclass a dict, whose
`_id` is its field `id`; an enum its value; an array of numpy a list. JSON is written where it loses nothing, because
Python's JSON is written in C; else CBOR.
"""

from __future__ import annotations

import base64
import ctypes
import dataclasses
import datetime
import decimal
import enum
import json
import os
import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ._errors import ArgumentError
from ._library import JSON

_LEAST, _GREATEST = -(2**63), 2**63 - 1


class _NeedsCBOR(Exception):
    """A value that JSON does not hold."""


def _plain(value: Any) -> Any:
    """What a value of another type is in a document. Raises for one that documents cannot hold."""
    if isinstance(value, datetime.datetime):
        return _time(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (datetime.date, uuid.UUID, decimal.Decimal)):
        return value.isoformat() if isinstance(value, datetime.date) else str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {_name(field, fields): getattr(value, field.name) for field in fields}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return _listed(value)
    raise ArgumentError("SDK-0201", f"a value of type {type(value).__name__} cannot be in a document")


def _listed(value: Any) -> Any:
    """The value or values of a number or an array of numpy, or of a column of pandas."""
    kind = value.dtype
    # Nanoseconds would be a number, and a moment without a zone is none.
    if getattr(kind, "kind", "") in ("m", "M") and not hasattr(kind, "tz") and str(kind) != "datetime64[D]":
        raise ArgumentError("SDK-0201", f"a value of type {kind} cannot be in a document: use a datetime with a zone")
    return value.tolist()


def _name(field: dataclasses.Field[Any], fields: Iterable[dataclasses.Field[Any]]) -> str:
    """The name in documents of a dataclass's field: `field` of its metadata, and `_id` of `id`."""
    if field.name == "id" and all(each.name != "_id" for each in fields):
        return str(field.metadata.get("field", "_id"))
    return str(field.metadata.get("field", field.name))


def _time(value: datetime.datetime) -> str:
    if value.tzinfo is None:
        raise ArgumentError("SDK-0201", "a datetime without a time zone names no moment: use datetime.now(timezone.utc)")
    try:
        value = value.astimezone(datetime.timezone.utc)
    except OverflowError:
        raise ArgumentError("SDK-0201", f"{value} is beyond the years 1 to 9999 in UTC") from None
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z".rjust(24, "0")


def _other(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise _NeedsCBOR
    return _plain(value)


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=True, default=_other).encode


def encoded(arguments: Mapping[str, Any]) -> bytes:
    """A map for the library: JSON, or CBOR where it has binary data, NaN or an infinity."""
    if not arguments:
        return b""
    try:
        return _encode(arguments if type(arguments) is dict else dict(arguments)).encode()
    except (_NeedsCBOR, ValueError) as problem:
        if isinstance(problem, ArgumentError):
            raise
        if isinstance(problem, UnicodeEncodeError):
            raise _surrogate() from None
    except RecursionError:
        raise ArgumentError("SDK-0203", "the arguments are nested too deep, or contain themselves") from None
    except TypeError as problem:
        raise ArgumentError("SDK-0201", str(problem)) from None
    return as_cbor(arguments)


def as_cbor(arguments: Mapping[str, Any]) -> bytes:
    """A map for the library in CBOR. Raises for each value that documents cannot hold, also where JSON is written and the
    library alone would find it."""
    out = bytearray()
    _write(arguments, out, 0)
    return bytes(out)


def _surrogate() -> ArgumentError:
    return ArgumentError("NATIVE-0104", "a text has a lone surrogate, which UTF-8 cannot hold")


def text(value: str) -> bytes:
    """Text for the library."""
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise _surrogate() from None
    except AttributeError:
        raise ArgumentError("NATIVE-0104", f"a value of type {type(value).__name__} in place of a text") from None


def _head(major: int, number: int, out: bytearray) -> None:
    if number < 24:
        out.append(major << 5 | number)
    elif number < 1 << 8:
        out += bytes((major << 5 | 24, number))
    elif number < 1 << 16:
        out += struct.pack(">BH", major << 5 | 25, number)
    elif number < 1 << 32:
        out += struct.pack(">BI", major << 5 | 26, number)
    else:
        out += struct.pack(">BQ", major << 5 | 27, number)


def _write(value: Any, out: bytearray, depth: int) -> None:
    if depth > 200:
        raise ArgumentError("SDK-0203", "the arguments are nested too deep, or contain themselves")
    if value is None:
        out.append(0xF6)
    elif value is True or value is False:
        out.append(0xF5 if value else 0xF4)
    elif isinstance(value, enum.Enum):
        _write(value.value, out, depth)
    elif isinstance(value, int):
        if not _LEAST <= value <= _GREATEST:
            # Python does not write the digits of every integer.
            raise ArgumentError("SDK-0202", f"an integer of {value.bit_length()} bits is beyond 64 bits")
        _head(0 if value >= 0 else 1, value if value >= 0 else -1 - value, out)
    elif isinstance(value, float):
        out += struct.pack(">Bd", 0xFB, value)
    elif isinstance(value, str):
        run = text(value)
        _head(3, len(run), out)
        out += run
    elif isinstance(value, (bytes, bytearray, memoryview)):
        run = bytes(value)
        _head(2, len(run), out)
        out += run
    elif isinstance(value, (list, tuple)):
        _head(4, len(value), out)
        for element in value:
            _write(element, out, depth + 1)
    elif isinstance(value, Mapping):
        _head(5, len(value), out)
        for key, member in value.items():
            _write(_key(key), out, depth + 1)
            _write(member, out, depth + 1)
    else:
        _write(_plain(value), out, depth)


def _key(key: Any) -> str:
    """The text of a key, as JSON has it."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(key)
    raise ArgumentError("SDK-0201", f"a key of type {type(key).__name__}: keys are texts")


_decode = json.JSONDecoder().raw_decode


def decoded(data: int, size: int, form: int) -> Any:
    """The value in bytes of the library."""
    run = ctypes.string_at(data, size)
    # The library writes UTF-8 without space around: `json.loads` would look for either at each row.
    return _decode(run.decode())[0] if form == JSON else cbor(run)


def cbor(run: bytes) -> Any:
    """The value of CBOR as the library writes it.

    >>> cbor(bytes.fromhex("8301f5f97e00"))[:2]
    [1, True]
    """
    value, _ = _read(run, 0)
    return value


def _read(run: bytes, at: int) -> tuple[Any, int]:
    first = run[at]
    major, low = first >> 5, first & 31
    at += 1
    if major == 7:
        if low == 25:
            return struct.unpack_from(">e", run, at)[0], at + 2
        if low == 26:
            return struct.unpack_from(">f", run, at)[0], at + 4
        if low == 27:
            return struct.unpack_from(">d", run, at)[0], at + 8
        return {20: False, 21: True}.get(low), at
    number = low
    if low >= 24:
        width = 1 << (low - 24)
        number = int.from_bytes(run[at:at + width], "big")
        at += width
    if major == 0:
        return number, at
    if major == 1:
        return -1 - number, at
    if major == 2:
        return run[at:at + number], at + number
    if major == 3:
        return run[at:at + number].decode(), at + number
    if major == 4:
        elements = []
        for _ in range(number):
            element, at = _read(run, at)
            elements.append(element)
        return elements, at
    members = {}
    for _ in range(number):
        key, at = _read(run, at)
        members[key], at = _read(run, at)
    return members, at


def time(value: str) -> datetime.datetime:
    """The moment in text of a document.

    >>> time("2026-11-28T12:00:00.250Z")
    datetime.datetime(2026, 11, 28, 12, 0, 0, 250000, tzinfo=datetime.timezone.utc)
    """
    return datetime.datetime.fromisoformat(value[:-1] + "+00:00" if value.endswith(("Z", "z")) else value)


def as_type(value: Any, kind: Any) -> Any:
    """A value of a document as a type of the application: a dataclass, datetime, UUID, Decimal, bytes, enum, or list,
    tuple, set, dict or union of these. The first type of a union that the value can be is taken."""
    import types
    import typing

    origin = typing.get_origin(kind)
    if kind is Any or value is None and kind in (None, type(None)):
        return value
    if origin is typing.Union or origin is getattr(types, "UnionType", ()):
        return _as_one_of(value, typing.get_args(kind))
    if origin in _COLLECTIONS and isinstance(value, list):
        kinds = typing.get_args(kind) or (Any,)
        if origin is tuple and kinds[-1] is not Ellipsis and len(kinds) == len(value):
            return tuple(map(as_type, value, kinds))
        return _COLLECTIONS[origin](as_type(each, kinds[0]) for each in value)
    if origin is dict and isinstance(value, dict):
        inner = (typing.get_args(kind) or (str, Any))[1]
        return {key: as_type(each, inner) for key, each in value.items()}
    if origin in _COLLECTIONS or origin is dict:
        raise ArgumentError("SDK-0210", f"{value!r} is no {kind}")
    try:
        return _as_plain(value, kind)
    except ArgumentError:
        raise
    except (ValueError, ArithmeticError) as problem:
        raise ArgumentError("SDK-0210", f"{value!r} is no {getattr(kind, '__name__', kind)}: {problem}") from None


_COLLECTIONS: dict[Any, Any] = {list: list, tuple: tuple, set: set, frozenset: frozenset, Sequence: list, Iterable: list}


def _as_one_of(value: Any, choices: tuple[Any, ...]) -> Any:
    """A value as the first of the types that it can be."""
    if value is None and type(None) in choices:
        return None
    problem = ArgumentError("SDK-0210", f"{value!r} is none of the types")
    for choice in choices:
        try:
            return as_type(value, choice)
        except ArgumentError as found:
            problem = found
    raise problem


def _as_plain(value: Any, kind: Any) -> Any:
    import typing

    if dataclasses.is_dataclass(kind) and isinstance(value, dict):
        hints, fields = typing.get_type_hints(kind), dataclasses.fields(kind)
        given = {}
        for field in fields:
            name = _name(field, fields)
            if name not in value and field.name in value:  # `id` of an object within a document
                name = field.name
            if name in value:
                given[field.name] = as_type(value[name], hints[field.name])
        try:
            return typing.cast(Any, kind)(**given)
        except TypeError as problem:
            raise ArgumentError("SDK-0210", f"a row is no {getattr(kind, '__name__', kind)}: {problem}") from None
    if kind is datetime.datetime and isinstance(value, str):
        return time(value)
    if kind is datetime.date and isinstance(value, str):
        return datetime.date.fromisoformat(value)
    if kind is bytes and isinstance(value, str):
        return base64.b64decode(value)
    if kind in (uuid.UUID, decimal.Decimal) and isinstance(value, (str, int)):
        return kind(value)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if getattr(typing, "is_typeddict", lambda _: False)(kind):
        kind = dict
    if isinstance(kind, type) and not isinstance(value, kind):
        raise ArgumentError("SDK-0210", f"{value!r} is no {kind.__name__}")
    return value
