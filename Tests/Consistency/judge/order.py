"""What a client has to see next, by causal order. C5 and C7 are told apart by who knew what.

    add        {"set", "element"}      a client that adds has seen what it read and added before
    read-set   {"set", "elements"}     no element is ever removed from the sets of these claims

All sets of a history are one domain. Sets of elements are integers with a bit for each element.
"""

import dataclasses

from .histories import OK, of_kind


@dataclasses.dataclass
class Gap:
    """A read that lacks an element, though its client had `witness`, whose author knew the element.

    `witness` is the element itself if the client had read or added it before. `proof` shows that it had to know it.
    """

    read: object
    element: str
    add: object
    witness: object
    proof: list


class Domain:
    def __init__(self, history):
        self.removed = {operation["element"] for operation in of_kind(history, "remove")}
        self.adds = {operation["element"]: operation for operation in of_kind(history, "add")
                     if operation["element"] not in self.removed}
        self.names = list(self.adds)
        self.bits = {element: 1 << index for index, element in enumerate(self.names)}
        self.members = {}
        for element, operation in self.adds.items():
            self.members[operation["set"]] = self.members.get(operation["set"], 0) | self.bits[element]
        self.before = {}
        """For each element all that its author knew, by its mask."""

    def mask(self, elements):
        mask = 0
        for element in elements:
            mask |= self.bits.get(element, 0)
        return mask

    def elements(self, mask):
        while mask:
            low = mask & -mask
            yield self.names[low.bit_length() - 1]
            mask ^= low


def events(history):
    """Sendings and answers in the order of time; an answer comes before a sending of the same moment."""
    found = []
    for operation in of_kind(history, "add", "read-set"):
        found.append((operation.began, 1, operation))
        if operation.outcome == OK:
            found.append((operation.ended, 0, operation))
    return sorted(found, key=lambda event: event[:2])


def gaps(history):
    """The first gap of each pair of client and missing element."""
    domain = Domain(history)
    known, at_sending, first_read, found, told = {}, {}, {}, [], set()
    for _, is_sending, operation in events(history):
        client = operation.client
        if is_sending:
            at_sending[operation.number] = known.get(client, 0)
            if operation.kind == "add" and operation["element"] in domain.bits:
                domain.before[operation["element"]] = known.get(client, 0)
            continue
        if operation.kind == "add":
            known[client] = known.get(client, 0) | domain.mask([operation["element"]])
            continue
        shown = domain.mask(operation["elements"])
        fresh = shown & ~known.get(client, 0)
        closure = shown
        for element in domain.elements(fresh):
            closure |= domain.before.get(element, 0)
            first_read.setdefault((client, element), operation)
        missing = (at_sending[operation.number] | closure) & domain.members.get(operation["set"], 0) & ~shown
        for element in domain.elements(missing):
            if (client, element) not in told:
                told.add((client, element))
                found.append(explain(domain, operation, element, first_read))
        known[client] = known.get(client, 0) | closure
    return found


def explain(domain, read, element, first_read):
    add, client = domain.adds[element], read.client
    if add.client == client and add.outcome == OK and add.ended <= read.began:
        return Gap(read, element, add, add, [add, read])
    if (client, element) in first_read:
        return Gap(read, element, add, add, [add, first_read[client, element], read])
    witness, chain = way(domain, client, element, read.ended, first_read)
    return Gap(read, element, add, witness, [*chain, read])


def way(domain, client, element, moment, first_read):
    """How a client knew of an element at a moment: an element that it had read, and the operations that show it."""
    add, bit = domain.adds[element], domain.bits[element]
    for (reader, name), earlier in first_read.items():
        if reader != client or earlier.ended > moment or not domain.before.get(name, 0) & bit:
            continue
        witness = domain.adds[name]
        if add.client == witness.client and add.outcome == OK and add.ended <= witness.began:
            return witness, [earlier, witness, add]
        known = first_read.get((witness.client, element))
        if known is not None and known.ended <= witness.began:
            return witness, [earlier, witness, known, add]
        _, rest = way(domain, witness.client, element, witness.began, first_read)
        return witness, [earlier, witness, *rest]
    return add, [add]
