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
LARGEST = sys.float_info.max


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


class Tagged(dict):
    """What this script prints for a value that JSON has no word for; not an object of the document's."""


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
        return number if math.isfinite(number) else Tagged({"$double": str(number)})
    if tag == 5:
        text = reader.text()
        require(len(text.encode()) >= 64, "string not shortest")
        return text
    if tag == 6:
        return Tagged({"$binary": reader.run(reader.varint()).hex()})
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


def number(reader, depth):
    result = value(reader, depth)
    is_number = type(result) is int or (type(result) is float and math.isfinite(result))
    require(is_number, "not a number")
    return result


def token(reader, depth):
    result = value(reader, depth)
    require(is_plain_object(result) and set(result) == {"id", "len", "metadata"}, "not a token")
    require(isinstance(result["id"], str) and result["id"], "a token's id")
    require(type(result["len"]) is int and result["len"] >= 0, "a token's length")
    metadata = result["metadata"]
    require(is_plain_object(metadata) and all(isinstance(text, str) for text in metadata.values()), "metadata")
    return result


def is_plain_object(result):
    return isinstance(result, dict) and not isinstance(result, Tagged)


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
        require(bits & 15, "slot bits")
        require(not bits & 0x30 or (bits & 1 and bits & 0x30 != 0x30), "register bits")
        require(not bits & 0xC0 or (bits & 8 and bits & 0xC0 != 0xC0), "attachment bits")
        slot = {}
        if bits & 1:
            slot["register"] = self.leaves(bits & 0x10, bits & 0x20, inherited, lambda: value(self.reader, depth + 1))
        if bits & 2:
            length = self.reader.varint()
            end = self.reader.place + length
            below = slot["map"] = self.map(depth + 1)
            require(self.reader.place == end and (below["presence"] or below["fields"]), "map")
        if bits & 4:
            length = self.reader.varint()
            end = self.reader.place + length
            below = slot["counter"] = self.counter(depth + 1)
            require(self.reader.place == end and (below["restarts"] or below["entries"]), "counter")
        if bits & 8:
            slot["attachment"] = self.leaves(bits & 0x40, bits & 0x80, inherited, lambda: token(self.reader, depth + 1))
        return slot, max(newest for newest, _ in self.variants(slot))

    def leaves(self, several, inherits, inherited, read):
        leaves, count = [], self.reader.varint() if several else 1
        require(not several or count > 1, "count of values")
        for _ in range(count):
            index = inherited if inherits else self.index()
            require(index > (leaves[-1][0] if leaves else -1), "values do not ascend")
            require(several or inherits or index != inherited, "stamp could be inherited")
            self.used.add(index)
            leaves.append((index, read()))
        return leaves

    def counter(self, depth):
        greatest, restarts, entries, found = self.reader.varint() - 1, [], [], [-1]
        for _ in range(self.reader.varint()):
            index = self.index()
            require(not restarts or restarts[-1][0] < index, "restarts do not ascend")
            restarts.append((index, number(self.reader, depth)))
            found.append(index)
        for _ in range(self.reader.varint()):
            index, form = divmod(self.reader.varint(), 4)
            require(index < len(self.stamps), "entry")
            self.used.add(index)
            time, actor = self.stamps[index]
            require(not entries or self.stamps[entries[-1][0]][1] < actor, "entries do not ascend")
            total = number(self.reader, depth)
            seen = (index, total) if form == 1 else None
            if form >= 2:
                seen = (self.index(), number(self.reader, depth))
                before, same = self.stamps[seen[0]]
                require(same == actor, "a baseline of another actor")
                tied = form == 2 and before == time and rank(seen[1]) < rank(total)
                require(before < time or tied, "a baseline not before")
            if seen is None or seen[0] != index:
                found.append(index)
            entries.append((index, total, seen, form))
        require(greatest == max(found), "greatest stamp of a counter")
        return {"greatest": greatest, "restarts": restarts, "entries": entries}

    # What a reader sees, and everything there is.

    @staticmethod
    def variants(slot):
        """The greatest surviving stamp of every kind, -1 when a reader does not see it."""
        found = []
        for kind in ("register", "map", "counter", "attachment"):
            if kind in slot:
                content = slot[kind]
                found.append((content["greatest"] if isinstance(content, dict) else content[-1][0], kind))
        return found

    def visible(self, node):
        shown = ((key, self.newest(slot)) for key, slot in node["fields"].items())
        return {key: content[0] for key, content in shown if content}

    def newest(self, slot):
        """The value that shows, in a list; an empty one when nothing does."""
        order = ("register", "map", "counter", "attachment")
        greatest, kind = max(self.variants(slot), key=lambda found: (found[0], order.index(found[1])))
        if greatest < 0:
            return []
        if kind == "map":
            return [self.visible(slot["map"])]
        if kind == "counter":
            return [counter_value(slot["counter"])]
        return [slot[kind][-1][1]]

    def show_stamp(self, index):
        time, actor = self.stamps[index]
        return f"{time}@{actor:016x}"

    def show_map(self, node):
        fields = {}
        for key, slot in node["fields"].items():
            shown = fields[key] = {}
            for kind in ("register", "attachment"):
                if kind in slot:
                    shown[kind] = self.show_leaves(slot[kind])
            if "map" in slot:
                shown["map"] = self.show_map(slot["map"])
            if "counter" in slot:
                shown["counter"] = self.show_counter(slot["counter"])
        return {"presence": [self.show_stamp(index) for index in node["presence"]], "fields": fields}

    def show_point(self, index, total):
        return {"time": str(self.stamps[index][0]), "total": total}

    def show_counter(self, counter):
        entries = []
        for index, total, seen, form in counter["entries"]:
            entries.append({"actor": f"{self.stamps[index][1]:016x}", "entry": self.show_point(index, total)})
            if seen:
                entries[-1]["baseline"] = self.show_point(*seen)
            if form == 3:
                entries[-1]["newSum"] = True
        return {"restarts": self.show_leaves(counter["restarts"]), "entries": entries}

    def show_leaves(self, leaves):
        return [{"stamp": self.show_stamp(index), "value": content} for index, content in leaves]

    def show(self):
        return {
            "vector": show_vector(self.vector),
            "value": self.visible(self.root),
            "root": self.show_map(self.root),
        }


def rank(total):
    """The order of totals of one time: integers before doubles, -0.0 before 0.0."""
    is_double = isinstance(total, float)
    return (is_double, total, math.copysign(1, total) if is_double else 0)


def counter_value(counter):
    whole, fraction = 0, None
    parts = [(counter["restarts"][-1][1], 0)] if counter["restarts"] else []
    for _, total, seen, form in counter["entries"]:
        if form != 1:
            parts.append((total, seen[1] if form == 2 else 0))
    for total, seen in parts:
        if isinstance(total, int) and isinstance(seen, int):
            whole += (total - seen + 2**63) % 2**64 - 2**63
        else:
            fraction = bounded((fraction or 0.0) + bounded(float(total) - float(seen)))
    if fraction is not None:
        return bounded(float(whole) + fraction)
    return whole if -(2**63) <= whole < 2**63 else float(whole)


def bounded(double):
    return min(max(double, -LARGEST), LARGEST)


def delta(data, time, actor):
    reader = Reader(data)
    reader.version()
    flags = reader.byte()
    require(flags <= 3, "unknown flags")

    def earlier():
        back = reader.varint()
        require(1 <= back <= time, "base not before its stamp")
        return time - back

    base = [(actor, earlier())] if flags & 1 else []
    last = -1
    for _ in range(reader.varint()):
        other = reader.u64()
        require(last < other != actor, "base's actors")
        last = other
        base.append((other, earlier()))
    base.sort()
    result = {"base": show_vector(base)}
    if flags & 2:
        start = reader.place
        seed = map_edit(reader, 0, [])
        seed_actor = xxh64(data[start : reader.place])
        require(seed["writesPresence"], "a seed without presence")
        require_only_writes(seed)
        result["seed"], result["seedStamp"] = seed, f"0@{seed_actor:016x}"
    start = reader.place
    result["edit"] = map_edit(reader, 0, base)
    if flags & 2:
        only_seeds = data[start : reader.place] == b"\0"
        require(not base if only_seeds else any(entry[0] == seed_actor for entry in base), "a seed's base")
    reader.end()
    return result


def require_only_writes(edit):
    require(not edit["clears"], "a seed that clears")
    for slot in edit["fields"].values():
        require(not slot["clearsRegister"] and "clearsAttachment" not in slot, "a seed that clears")
        if "counter" in slot:
            require(set(slot["counter"]) == {"baselines", "clearsRestarts", "restart"}, "a seed that counts")
            require(not slot["counter"]["baselines"] and not slot["counter"]["clearsRestarts"], "a seed that counts")
        if "map" in slot:
            require_only_writes(slot["map"])


def map_edit(reader, depth, base):
    require(depth <= DEEPEST, "too deep")
    bits = reader.byte()
    require(bits <= 7, "map edit bits")
    fields = {}
    if bits & 4:
        count = reader.varint()
        require(count > 0, "no fields")
        fields = members(reader, count, lambda: slot_edit(reader, depth, base))
    return {"clears": bool(bits & 1), "writesPresence": bool(bits & 2), "fields": fields}


def slot_edit(reader, depth, base):
    bits = reader.byte()
    require(1 <= bits <= 63, "slot edit bits")
    edit = {"clearsRegister": bool(bits & 1)}
    if bits & 2:
        edit["register"] = value(reader, depth + 1)
    if bits & 4:
        edit["map"] = map_edit(reader, depth + 1, base)
    if bits & 8:
        edit["counter"] = counter_edit(reader, depth + 1, base)
    if bits & 16:
        edit["clearsAttachment"] = True
    if bits & 32:
        edit["attachment"] = token(reader, depth + 1)
    return edit


def counter_edit(reader, depth, base):
    bits = reader.byte()
    require(1 <= bits <= 31 and (bits < 16 or bits & 8), "counter edit bits")
    edit, last = {"baselines": [], "clearsRestarts": bool(bits & 2)}, -1
    if bits & 1:
        count = reader.varint()
        require(count > 0, "no baselines")
        for _ in range(count):
            index, back = reader.varint(), reader.varint()
            require(last < index < len(base) and back <= base[index][1], "baseline")
            last = index
            entry = {"time": str(base[index][1] - back), "total": number(reader, depth)}
            edit["baselines"].append({"actor": f"{base[index][0]:016x}", "entry": entry})
    if bits & 4:
        edit["restart"] = number(reader, depth)
    if bits & 8:
        edit["amount"] = number(reader, depth)
    if bits & 16:
        edit["newSum"] = True
    return edit


MASK = (1 << 64) - 1
PRIMES = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def xxh64(data):
    """XXH64 with seed 0, from its public specification."""

    def rotate(word, bits):
        return (word << bits | word >> (64 - bits)) & MASK

    def mix(lane, word):
        return rotate((lane + word * PRIMES[1]) & MASK, 31) * PRIMES[0] & MASK

    place, result = 0, PRIMES[4]
    if len(data) >= 32:
        lanes = [(PRIMES[0] + PRIMES[1]) & MASK, PRIMES[1], 0, -PRIMES[0] & MASK]
        while place + 32 <= len(data):
            words = struct.unpack_from("<4Q", data, place)
            lanes = [mix(lane, word) for lane, word in zip(lanes, words)]
            place += 32
        result = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            result = ((result ^ mix(0, lane)) * PRIMES[0] + PRIMES[3]) & MASK
    result = (result + len(data)) & MASK
    while place + 8 <= len(data):
        (word,) = struct.unpack_from("<Q", data, place)
        result = (rotate(result ^ mix(0, word), 27) * PRIMES[0] + PRIMES[3]) & MASK
        place += 8
    if place + 4 <= len(data):
        (word,) = struct.unpack_from("<I", data, place)
        result = (rotate(result ^ (word * PRIMES[0] & MASK), 23) * PRIMES[1] + PRIMES[2]) & MASK
        place += 4
    for byte in data[place:]:
        result = rotate(result ^ (byte * PRIMES[4] & MASK), 11) * PRIMES[0] & MASK
    result = (result ^ result >> 33) * PRIMES[1] & MASK
    result = (result ^ result >> 29) * PRIMES[2] & MASK
    return result ^ result >> 32


def operation(data):
    reader = Reader(data)
    reader.version()
    flags = reader.byte()
    require(flags <= 1, "unknown flags")
    actor, sequence, time = reader.u64(), reader.varint(), reader.u64()
    require(sequence > 0, "sequence")
    origin = {"origin": f"{reader.u64():016x}"} if flags else {}
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
            change = {"collection": collection, "id": document_id(identifier)}
            changes.append(change | change_content(reader.run(reader.varint()), time, actor))
    reader.end()
    header = {"actor": f"{actor:016x}", "sequence": str(sequence), "timestamp": str(time)}
    return header | origin | {"changes": changes}


def change_content(data, time, actor):
    if data[:1] == b"S":
        return {"state": Document(data[1:]).show()}
    if data[:1] == b"R":
        reaped = whole_vector(data[1:])
        require(reaped, "a reaping without a vector")
        return {"reaped": reaped}
    return {"delta": delta(data, time, actor)}


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


def check(paths):
    fixtures = [
        fixture
        for path in paths
        for fixture in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["fixtures"]
    ]
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
    fixtures = pathlib.Path(__file__).parent.parent / "CRDTTests" / "Fixtures"
    if len(arguments) < 2:
        return check(arguments or sorted(fixtures.glob("*.json")))
    if arguments[0] == "agree":
        return agree(arguments[1])
    kind, data = arguments[0], bytes.fromhex(arguments[1])
    stamp = "@".join(arguments[2:4]) or None
    print(json.dumps(decode(kind, data, stamp), indent=2, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
