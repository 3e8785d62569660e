"""Checks frames against Shared/Sync/Wire/wire.cddl with a reader of CBOR and of CDDL of its own.

It shares nothing with the Swift code, so that the description is proven to be enough to read every frame. Standard
library only. Of RFC 8610 it knows what the file uses: maps with integer keys, arrays, `?`, `*`, `+`, choices, `.size`.

    frame_checker.py               every committed frame fits the description, and no bent one of them does
    frame_checker.py check HEX     prints one frame, and whether it fits
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CDDL = ROOT / "Shared" / "Sync" / "Wire" / "wire.cddl"
FIXTURES = ROOT / "Tests" / "SyncTests" / "Fixtures"
TOKEN = re.compile(r"\.\.|\.size|=>|[A-Za-z][A-Za-z0-9-]*|\d+|[{}\[\]()=/:,?*+]")


class Refused(Exception):
    """Bytes or values that do not fit."""


# MARK: CBOR


def item(data, place):
    """One item and the place behind it. Integers, strings, lists, dicts, bools and None; anything else is refused."""
    if place >= len(data):
        raise Refused("truncated")
    major, low = data[place] >> 5, data[place] & 31
    place += 1
    if major == 7:
        simple = {20: False, 21: True, 22: None}
        width = {25: 2, 26: 4, 27: 8}.get(low)
        if low in simple:
            return simple[low], place
        if width is None or place + width > len(data):
            raise Refused("an unknown simple value")
        return 0.5, place + width
    width = {24: 1, 25: 2, 26: 4, 27: 8}.get(low, 0)
    if low > 27 or place + width > len(data):
        raise Refused("a length is indefinite or truncated")
    number = int.from_bytes(data[place:place + width], "big") if width else low
    place += width
    if major < 2:
        return (number, -1 - number)[major], place
    if major < 4:
        if place + number > len(data):
            raise Refused("truncated")
        run = data[place:place + number]
        return (bytes(run) if major == 2 else run.decode("utf-8")), place + number
    if number > len(data):
        raise Refused("a count that the bytes cannot hold")
    values = []
    for _ in range(number * (2 if major == 5 else 1)):
        value, place = item(data, place)
        values.append(value)
    if major == 4:
        return values, place
    if major != 5:
        raise Refused("a tag")
    return dict(zip(values[::2], values[1::2])), place


def decode(data):
    try:
        value, place = item(data, 0)
    except (UnicodeDecodeError, RecursionError, TypeError) as error:
        raise Refused(str(error)) from error
    if place != len(data):
        raise Refused("bytes follow the frame")
    return value


# MARK: CDDL


class Grammar:
    """Rules by name; each a tree of tuples."""

    def __init__(self, text):
        lines = [line.split(";")[0] for line in text.splitlines()]
        self.tokens = TOKEN.findall("\n".join(lines))
        self.place = 0
        self.rules = {}
        while self.place < len(self.tokens):
            name = self.take()
            self.expect("=")
            self.rules[name] = self.choice()

    def peek(self, ahead=0):
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else ""

    def take(self):
        self.place += 1
        return self.tokens[self.place - 1]

    def expect(self, token):
        found = self.take()
        if found != token:
            raise ValueError(f"the description has {found!r} where {token!r} belongs")

    def choice(self):
        options = [self.type()]
        while self.peek() == "/":
            self.take()
            options.append(self.type())
        return options[0] if len(options) == 1 else ("choice", options)

    def type(self):
        token = self.take()
        if token in "{[":
            return self.group("}" if token == "{" else "]")
        if token.isdigit():
            return ("number", int(token))
        if self.peek() != ".size":
            return ("name", token)
        self.take()
        if self.peek() != "(":
            size = int(self.take())
            return ("sized", token, size, size)
        self.take()
        low = int(self.take())
        self.expect("..")
        high = int(self.take())
        self.expect(")")
        return ("sized", token, low, high)

    def group(self, end):
        members = []
        while self.peek() != end:
            occurrence = self.take() if self.peek() in ("?", "*", "+") else ""
            key = None
            if self.peek(1) in (":", "=>"):
                key = self.take()
                self.take()
            members.append((occurrence, key, self.choice()))
            if self.peek() == ",":
                self.take()
        self.take()
        return ("map" if end == "}" else "array", members)

    def fits(self, value, kind):
        match kind:
            case ("choice", options):
                return any(self.fits(value, option) for option in options)
            case ("number", number):
                return type(value) is int and value == number
            case ("sized", name, low, high):
                return self.fits(value, ("name", name)) and low <= len(value) <= high
            case ("map", members):
                return type(value) is dict and self.fits_map(value, members)
            case ("array", members):
                return type(value) is list and self.fits_array(value, members)
            case ("name", name):
                return self.fits_name(value, name)
        raise ValueError(f"no kind {kind}")

    def fits_name(self, value, name):
        match name:
            case "uint":
                return type(value) is int and value >= 0
            case "bstr":
                return type(value) is bytes
            case "tstr":
                return type(value) is str
            case "bool":
                return type(value) is bool
            case "null":
                return value is None
            case "any":
                return True
        return self.fits(value, self.rules[name])

    def fits_map(self, value, members):
        """Keys that the description does not name are a later version's, where keys are numbers."""
        for occurrence, key, kind in members:
            if occurrence == "*":
                return all(self.fits_name(name, key) and self.fits(part, kind) for name, part in value.items())
            number = int(key)
            if number not in value:
                if occurrence == "?":
                    continue
                return False
            if not self.fits(value[number], kind):
                return False
        return True

    def fits_array(self, value, members):
        place = 0
        for occurrence, _, kind in members:
            count = 0
            while place < len(value) and self.fits(value[place], kind):
                place += 1
                count += 1
                if occurrence not in ("*", "+"):
                    break
            if count == 0 and occurrence in ("", "+"):
                return False
        return place == len(value)


def verdict(grammar, data):
    """Whether bytes are a frame."""
    try:
        frame = decode(data)
    except Refused:
        return False
    return grammar.fits(frame, ("name", "frame"))


def frames():
    for file in sorted(FIXTURES.glob("frames-*.txt")):
        for line in file.read_text().splitlines():
            name, text = line.split(" ")
            yield f"{file.stem}/{name}", bytes.fromhex(text)


def main():
    grammar = Grammar(CDDL.read_text())
    known = set(grammar.rules["frame"][1][index][1] for index in range(len(grammar.rules["frame"][1])))
    wrong = []
    seen = set()
    count = bent = 0
    for name, data in frames():
        count += 1
        if not verdict(grammar, data):
            wrong.append(f"{name} does not fit")
            continue
        frame = decode(data)
        seen.add(next(rule for rule in known if grammar.fits(frame, ("name", rule))))
        # Every truncation, and every field of another type.
        for end in range(len(data)):
            bent += 1
            if verdict(grammar, data[:end]):
                wrong.append(f"{name} to {end} still fits")
        for key in frame:
            bent += 1
            if grammar.fits({**frame, key: 0.5}, ("name", "frame")):
                wrong.append(f"{name} fits with another type at {key}")
        if not grammar.fits({**frame, 999: "later"}, ("name", "frame")):
            wrong.append(f"{name} does not fit with an unknown field")
    for rule in sorted(known - seen):
        wrong.append(f"no exemplar of {rule}")
    for line in wrong:
        print(line)
    print(f"{count} frames of {len(seen)} types fit, {bent} bent ones tried, {len(wrong)} wrong")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"]:
        bytes_given = bytes.fromhex(sys.argv[2])
        print(decode(bytes_given))
        print("fits" if verdict(Grammar(CDDL.read_text()), bytes_given) else "does not fit")
        sys.exit(0)
    sys.exit(main())
