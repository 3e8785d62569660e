"""An independent decoder of CRDT's encodings, written from Shared/CRDT/Encoding.md alone.

It shares nothing with the Swift code, so that the page is proven to be enough to write a decoder. Standard library only.

    document_decoder.py                            decodes the committed fixtures; fails when one differs
    document_decoder.py FIXTURES.json              the same for another file
    document_decoder.py agree CASES.jsonl          the same verdict and value for every line, whole bytes and damaged ones
    document_decoder.py document HEX               prints one document as JSON (also: vector, operation, id)
    document_decoder.py delta HEX TIME ACTOR       prints one delta; time decimal, actor hexadecimal
"""

import json
import math
import pathlib
import struct
import sys

DEEPEST = 128


class Refused(Exception):
    """The bytes are not the canonical encoding of anything."""


def require(holds, what):
    if not holds:
        raise Refused(what)


class Reader:
    """The primitives."""

    def __init__(self, data, place=0):
        self.data, self.place = data, place

    def run(self, length):
        require(self.place + length <= len(self.data), "truncated")
        self.place += length
        return self.data[self.place - length : self.place]

    def byte(self):
        return self.run(1)[0]

    def u64(self):
        return int.from_bytes(self.run(8), "big")

    def varint(self):
        value = shift = 0
        while True:
            part = self.byte()
            value |= (part & 0x7F) << shift
            if part < 0x80:
                require(value < 1 << 64 and (part != 0 or shift == 0), "varint")
                return value
            shift += 7
            require(shift <= 63, "varint")

    def text(self, length=None):
        try:
            return self.run(self.varint() if length is None else length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Refused("UTF-8") from error

    def ascending_actors(self, count):
        actors = [self.u64() for _ in range(count)]
        require(all(a < b for a, b in zip(actors, actors[1:])), "actors do not ascend")
        return actors

    def end(self):
        require(self.place == len(self.data), "bytes behind the end")

    def version(self):
        require(self.byte() == 1, "unknown version")


# Values. Binary and what JSON has no number for are tagged in what this script prints.


def value(reader, depth):
    require(depth <= DEEPEST, "too deep")
    tag = reader.byte()
    if tag >= 0x80:
        return tag - 0x80
    if tag >= 0x40:
        return reader.text(tag - 0x40)
    if tag in (0, 1, 2):
        return (None, False, True)[tag]
    if tag == 3:
        zigzag = reader.varint()
        number = (zigzag >> 1) ^ -(zigzag & 1)
        require(not 0 <= number <= 127, "integer not shortest")
        return number
    if tag == 4:
        raw = reader.run(8)
        number = struct.unpack(">d", raw)[0]
        require(not math.isnan(number) or raw.hex() == "7ff8000000000000", "not the one NaN")
        return number if math.isfinite(number) else {"$double": str(number)}
    if tag == 5:
        text = reader.text()
        require(len(text.encode()) >= 64, "string not shortest")
        return text
    if tag == 6:
        return {"$binary": reader.run(reader.varint()).hex()}
    require(tag in (7, 8), "unknown tag")
    length = reader.varint()
    end = reader.place + length
    count = reader.varint()
    if tag == 7:
        result = [value(reader, depth + 1) for _ in range(count)]
    else:
        result = members(reader, count, lambda: value(reader, depth + 1))
    require(reader.place == end, "length")
    return result


def members(reader, count, read):
    result, last = {}, None
    for _ in range(count):
        key = reader.text()
        require(last is None or last < key.encode(), "keys do not ascend")
        last = key.encode()
        result[key] = read()
    return result


def vector(reader):
    actors = reader.ascending_actors(reader.varint())
    return [(actor, reader.u64()) for actor in actors]


def show_vector(entries):
    return {f"{actor:016x}": str(time) for actor, time in entries}


class Document:
    """A whole state."""

    def __init__(self, data):
        reader = self.reader = Reader(data)
        reader.version()
        require(reader.byte() == 0, "unknown flags")
        self.vector = vector(reader)
        length = reader.varint()
        end = reader.place + length
        self.stamps = [self.stamp_entry() for _ in range(reader.varint())]
        require(reader.place == end, "stamp table length")
        require(all(a < b for a, b in zip(self.stamps, self.stamps[1:])), "stamps do not ascend")
        self.used = set()
        self.root = self.map(0)
        reader.end()
        require(len(self.used) == len(self.stamps), "unused stamp")

    def stamp_entry(self):
        index, back = self.reader.varint(), self.reader.varint()
        require(index < len(self.vector) and back <= self.vector[index][1], "stamp")
        return (self.vector[index][1] - back, self.vector[index][0])

    def index(self):
        index = self.reader.varint()
        require(index < len(self.stamps), "index")
        self.used.add(index)
        return index

    def map(self, depth):
        require(depth <= DEEPEST, "too deep")
        reader = self.reader
        presence = [self.index() for _ in range(reader.varint())]
        require(all(a < b for a, b in zip(presence, presence[1:])), "presence does not ascend")
        greatest = reader.varint() - 1
        found, fields, count = presence[-1:], {}, reader.varint()
        if count:
            width = reader.byte()
            require(width in (2, 4), "offset width")
            offsets = [int.from_bytes(reader.run(width), "big") for _ in range(count)]
            start, places = reader.place, []

            def field():
                slot, newest = self.slot(greatest, depth)
                found.append(newest)
                return slot

            last = None
            for _ in range(count):
                places.append(reader.place - start)
                key = reader.text()
                require(last is None or last < key.encode(), "keys do not ascend")
                last = key.encode()
                fields[key] = field()
            require(places == offsets, "offsets")
            require((reader.place - start <= 0xFFFF) == (width == 2), "offset width not shortest")
        require(greatest == max(found, default=-1), "greatest stamp")
        return {"presence": presence, "greatest": greatest, "fields": fields}

    def slot(self, inherited, depth):
        bits = self.reader.byte()
        require(bits & 3 and not bits & ~0b110011, "slot bits")
        require(not bits & 0x30 or (bits & 1 and bits & 0x30 != 0x30), "slot bits")
        slot, newest = {}, -1
        if bits & 1:
            slot["register"] = []
            count = self.reader.varint() if bits & 0x10 else 1
            require(not bits & 0x10 or count > 1, "register count")
            for _ in range(count):
                index = inherited if bits & 0x20 else self.index()
                require(index > newest and 0 <= index < len(self.stamps), "values do not ascend")
                require(bits & 0x30 or index != inherited, "stamp could be inherited")
                self.used.add(index)
                newest = index
                slot["register"].append((index, value(self.reader, depth + 1)))
        if bits & 2:
            length = self.reader.varint()
            end = self.reader.place + length
            below = slot["map"] = self.map(depth + 1)
            require(self.reader.place == end and (below["presence"] or below["fields"]), "map")
            newest = max(newest, below["greatest"])
        return slot, newest

    # What a reader sees, and everything there is.

    def visible(self, node):
        return {key: self.newest(slot) for key, slot in node["fields"].items()}

    def newest(self, slot):
        if "map" not in slot or ("register" in slot and slot["register"][-1][0] > slot["map"]["greatest"]):
            return slot["register"][-1][1]
        return self.visible(slot["map"])

    def show_stamp(self, index):
        time, actor = self.stamps[index]
        return f"{time}@{actor:016x}"

    def show_map(self, node):
        fields = {}
        for key, slot in node["fields"].items():
            shown = fields[key] = {}
            if "register" in slot:
                shown["register"] = [
                    {"stamp": self.show_stamp(index), "value": content} for index, content in slot["register"]
                ]
            if "map" in slot:
                shown["map"] = self.show_map(slot["map"])
        return {"presence": [self.show_stamp(index) for index in node["presence"]], "fields": fields}

    def show(self):
        return {
            "vector": show_vector(self.vector),
            "value": self.visible(self.root),
            "root": self.show_map(self.root),
        }


def delta(data, time, actor):
    reader = Reader(data)
    reader.version()
    flags = reader.byte()
    require(flags <= 1, "unknown flags")

    def earlier():
        back = reader.varint()
        require(1 <= back <= time, "base not before its stamp")
        return time - back

    base = [(actor, earlier())] if flags else []
    last = -1
    for _ in range(reader.varint()):
        other = reader.u64()
        require(last < other != actor, "base's actors")
        last = other
        base.append((other, earlier()))
    edit = map_edit(reader, 0)
    reader.end()
    return {"base": show_vector(sorted(base)), "edit": edit}


def map_edit(reader, depth):
    require(depth <= DEEPEST, "too deep")
    bits = reader.byte()
    require(bits <= 7, "map edit bits")
    fields = {}
    if bits & 4:
        count = reader.varint()
        require(count > 0, "no fields")
        fields = members(reader, count, lambda: slot_edit(reader, depth))
    return {"clears": bool(bits & 1), "writesPresence": bool(bits & 2), "fields": fields}


def slot_edit(reader, depth):
    bits = reader.byte()
    require(1 <= bits <= 7, "slot edit bits")
    edit = {"clearsRegister": bool(bits & 1)}
    if bits & 2:
        edit["register"] = value(reader, depth + 1)
    if bits & 4:
        edit["map"] = map_edit(reader, depth + 1)
    return edit


def operation(data):
    reader = Reader(data)
    reader.version()
    require(reader.byte() == 0, "unknown flags")
    actor, sequence, time = reader.u64(), reader.varint(), reader.u64()
    require(sequence > 0, "sequence")
    changes, last, seen = [], None, set()
    for _ in range(reader.varint()):
        collection = reader.text()
        require(1 <= len(collection.encode()) <= 512 and collection != last, "collection")
        last = collection
        count = reader.varint()
        require(count > 0, "no changes")
        for _ in range(count):
            identifier = reader.run(reader.varint())
            require((collection, identifier) not in seen, "a document is named twice")
            seen.add((collection, identifier))
            content = delta(reader.run(reader.varint()), time, actor)
            changes.append({"collection": collection, "id": document_id(identifier), "delta": content})
    reader.end()
    return {"actor": f"{actor:016x}", "sequence": str(sequence), "timestamp": str(time), "changes": changes}


def document_id(data):
    require(len(data) <= 4096, "id too long")
    reader = Reader(data)
    result = cbor(reader, 0)
    reader.end()
    return result


def cbor(reader, depth):
    require(depth <= DEEPEST, "too deep")
    head = reader.byte()
    if head in (0xF4, 0xF5):
        return head == 0xF5
    major, argument = head >> 5, head & 31
    require(major <= 5 and argument < 28, "not an id")
    if argument >= 24:
        width = 1 << (argument - 24)
        argument = int.from_bytes(reader.run(width), "big")
        require(argument >= {1: 24, 2: 1 << 8, 4: 1 << 16, 8: 1 << 32}[width], "not shortest")
    if major < 2:
        require(argument < 1 << 63, "integer out of range")
        return argument if major == 0 else -1 - argument
    if major == 2:
        return {"$binary": reader.run(argument).hex()}
    if major == 3:
        return reader.text(argument)
    if major == 4:
        return [cbor(reader, depth + 1) for _ in range(argument)]
    result, last = {}, None
    for _ in range(argument):
        key = cbor(reader, depth + 1)
        require(isinstance(key, str), "key")
        order = (len(key.encode()), key.encode())
        require(last is None or last < order, "keys do not ascend")
        last = order
        result[key] = cbor(reader, depth + 1)
    return result


def whole_vector(data):
    reader = Reader(data)
    result = show_vector(vector(reader))
    reader.end()
    return result


def decode(kind, data, stamp=None):
    if kind == "delta":
        time, actor = stamp.split("@")
        return delta(data, int(time), int(actor, 16))
    kinds = {
        "document": lambda: Document(data).show(),
        "operation": lambda: operation(data),
        "vector": lambda: whole_vector(data),
        "id": lambda: document_id(data),
    }
    return kinds[kind]()


def same(left, right):
    """Equal with types kept: 1 is not 1.0, 0.0 is not -0.0, True is not 1."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def check(path):
    fixtures = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["fixtures"]
    failures = 0
    for fixture in fixtures:
        data = bytes.fromhex(fixture["bytes"])
        decoded = decode(fixture["kind"], data, fixture.get("stamp"))
        if not same(decoded, fixture["decoded"]):
            failures += 1
            print(f"{fixture['name']}: decodes to\n{json.dumps(decoded, ensure_ascii=False)}")
        for end in range(len(data)):
            try:
                decode(fixture["kind"], data[:end], fixture.get("stamp"))
            except Refused:
                continue
            failures += 1
            print(f"{fixture['name']}: {end} of {len(data)} bytes are not refused")
    print(f"{len(fixtures)} fixtures, {failures} failures")
    return 1 if failures else 0


def agree(path):
    """Each line is bytes and what another decoder made of them: {"is": value}, or null when it refused them."""
    cases = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").split("\n")]
    refused = differences = 0
    for case in cases:
        try:
            decoded = {"is": decode(case["kind"], bytes.fromhex(case["bytes"]), case["stamp"])}
        except Refused as reason:
            decoded, refused = None, refused + 1
            why = str(reason)
        if not same(decoded, case["decoded"]):
            differences += 1
            if differences <= 5:
                found = json.dumps(decoded, ensure_ascii=False) if decoded else f"refused: {why}"
                expected = json.dumps(case["decoded"], ensure_ascii=False)
                print(f"{case['kind']} {case['bytes']} {case['stamp']}\n  here:  {found}\n  there: {expected}")
    print(f"{len(cases)} cases, {refused} refused, {differences} differences")
    return 1 if differences else 0


def main(arguments):
    fixtures = pathlib.Path(__file__).parent.parent / "CRDTTests" / "Fixtures" / "first-form.json"
    if len(arguments) < 2:
        return check(arguments[0] if arguments else fixtures)
    if arguments[0] == "agree":
        return agree(arguments[1])
    kind, data = arguments[0], bytes.fromhex(arguments[1])
    stamp = "@".join(arguments[2:4]) or None
    print(json.dumps(decode(kind, data, stamp), indent=2, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
