"""The benchmarks of documents with another system's documents: `peers.py pycrdt|automerge|loro`, one JSON object a line.

The work is that of `Documents/`: the same documents, the same edits, the same exchange. CPU time of this process, around
the merging alone. Each library is driven through its Python binding, one call a delta; Automerge's merges documents, not
bytes, so finding what to send is in its figure.
"""

import importlib.metadata
import json
import resource
import statistics
import sys

STATUSES = ["open", "assigned", "blocked", "done"]
DOCUMENTS, ROUNDS = 1_000, 5


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def line(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


def order(number, note=48):
    return {
        "_id": f"order-{number:07d}", "status": STATUSES[number % 4], "priority": number % 10,
        "site": f"site-{number % 50}", "qty": number * 7919 % 500, "price": number * 104_729 % 10_000 / 100,
        "customer": {"name": f"Customer {number % 977}", "city": f"City {number % 211}"},
        "note": "n" * note, "updatedAt": 1_700_000_000_000 + number,
    }


def shared():
    fields = {key: value for key, value in order(4_711).items() if key != "customer"}
    for number, name in enumerate(["customer", "city", "street", "phone", "carrier", "weight", "color", "remark"]):
        fields[name] = f"value {number} of {name}"
    return fields


def compact(value):
    return len(json.dumps(value, separators=(",", ":")))


def flat(value, prefix=""):
    """Nested objects as dotted names: what costs these libraries least."""
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from flat(inner, f"{prefix}{key}.")
        else:
            yield prefix + key, inner


class Yrs:
    package = "pycrdt"

    def __init__(self):
        import pycrdt
        self.library = pycrdt

    def new(self, actor):
        return self.library.Doc(client_id=actor)

    def fill(self, document, pairs):
        fields = document.get("m", type=self.library.Map)
        with document.transaction():
            for key, value in pairs:
                fields[key] = value

    def version(self, document):
        return document.get_state()

    def delta(self, document, version):
        return document.get_update(version)

    def state(self, document):
        return document.get_update()

    def apply(self, document, delta):
        document.apply_update(delta)

    def value(self, document):
        return document.get("m", type=self.library.Map).to_py()


class Loro:
    package = "loro"

    def __init__(self):
        import loro
        self.library = loro

    def new(self, actor):
        document = self.library.LoroDoc()
        document.peer_id = actor
        return document

    def fill(self, document, pairs):
        fields = document.get_map("m")
        for key, value in pairs:
            fields.insert(key, value)
        document.commit()

    def version(self, document):
        return document.oplog_vv

    def delta(self, document, version):
        return document.export(self.library.ExportMode.Updates(version))

    def state(self, document):
        return document.export(self.library.ExportMode.Snapshot())

    def apply(self, document, delta):
        document.import_(delta)

    def value(self, document):
        return document.get_map("m").get_deep_value()


class Automerge:
    package = "automerge"

    def __init__(self):
        import automerge.core
        self.library = automerge.core

    def new(self, actor):
        return self.library.Document(actor_id=actor.to_bytes(16, "big"))

    def fill(self, document, pairs):
        kinds = {str: self.library.ScalarType.Str, int: self.library.ScalarType.Int, float: self.library.ScalarType.F64}
        with document.transaction() as transaction:
            for key, value in pairs:
                transaction.put(self.library.ROOT, key, kinds[type(value)], value)

    def version(self, document):
        return document.get_heads()

    def delta(self, document, version):
        return document.fork()

    def state(self, document):
        return document.save()

    def apply(self, document, delta):
        document.merge(delta)

    def load(self, state):
        return self.library.Document.load(state)

    def value(self, document):
        root = self.library.ROOT
        return {key: document.get(root, key)[0][1] for key in document.keys(root)}


def copy(peer, document, actor):
    """The same document at another replica."""
    if isinstance(peer, Automerge):
        other = peer.new(actor)
        other.merge(document)
        return other
    other = peer.new(actor)
    peer.apply(other, peer.state(document))
    return other


def exchange(peer, here, there, since):
    """Both replicas hear of each other's writes; the CPU seconds of that alone."""
    if isinstance(peer, Automerge):
        start = cpu()
        for one, two in zip(here, there):
            one.merge(two)
            two.merge(one)
        return cpu() - start
    to_there = [peer.delta(document, version) for document, (version, _) in zip(here, since)]
    to_here = [peer.delta(document, version) for document, (_, version) in zip(there, since)]
    start = cpu()
    for one, two, deltas in zip(here, there, zip(to_here, to_there)):
        peer.apply(one, deltas[0])
        peer.apply(two, deltas[1])
    return cpu() - start


def apply_many(peer):
    here = []
    for number in range(DOCUMENTS):
        document = peer.new(1)
        peer.fill(document, flat(order(number)))
        here.append(document)
    there = [copy(peer, document, 2) for document in here]
    seconds = 0.0
    for step in range(ROUNDS):
        since = [(peer.version(one), peer.version(two)) for one, two in zip(here, there)]
        for number, (one, two) in enumerate(zip(here, there)):
            peer.fill(one, [("status", STATUSES[(step + number) % 4])])
            peer.fill(two, [("qty" if step % 2 == 0 else "status", step * 1_000 + number)])
        seconds += exchange(peer, here, there, since)
    assert all(peer.value(one) == peer.value(two) for one, two in zip(here, there))
    line("apply", 2 * DOCUMENTS * ROUNDS / seconds, "deltas/s")


def merge_large(peer):
    rounds = []
    for _ in range(5):
        here = peer.new(1)
        peer.fill(here, ((f"f{number:05d}", number) for number in range(10_000)))
        there = copy(peer, here, 2)
        since = [(peer.version(here), peer.version(there))]
        peer.fill(here, ((f"f{number:05d}", -number) for number in range(5_000)))
        peer.fill(there, ((f"f{number:05d}", number * 10) for number in range(2_500, 7_500)))
        rounds.append(exchange(peer, [here], [there], since))
        assert peer.value(here) == peer.value(there)
    line("large", 10_000 / statistics.median(rounds), "fields/s")


def sizes(peer):
    fresh = order(4_711, 48 + 250 - compact(order(4_711)))
    document = peer.new(0x1234_5678)
    peer.fill(document, flat(fresh))
    line("fresh", len(peer.state(document)), "bytes")
    if not isinstance(peer, Automerge):
        version = peer.version(document)
        peer.fill(document, [("status", "done")])
        line("delta own", len(peer.delta(document, version)), "bytes")
    fields = shared()
    document = peer.new(0x9E37_79B9)
    peer.fill(document, flat(fields))
    for number in range(8):
        document = copy(peer, document, (number + 1) * 0x9E37_79B9 & 0xFFFF_FFFF)
        peer.fill(document, list(fields.items())[number::8])
    line("shared", len(peer.state(document)), "bytes")


def main(name):
    peer = {"pycrdt": Yrs, "loro": Loro, "automerge": Automerge}[name]()
    print(json.dumps({"name": "version", "value": importlib.metadata.version(peer.package), "unit": ""}))
    apply_many(peer)
    merge_large(peer)
    sizes(peer)


if __name__ == "__main__":
    main(sys.argv[1])
