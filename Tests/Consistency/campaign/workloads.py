"""What clients do. Each workload has `setup` (one seat, before all), `step` (any seat, again and again) and `finish` (each
seat, at rest). Most of them use other documents in each epoch, so that reads stay small.
"""

import json

EPOCH_SECONDS = 12


def quoted(text):
    return f"'{text}'"


def canonical(document):
    return json.dumps(document, sort_keys=True, ensure_ascii=False)


class Workload:
    collections = ()
    doors = ("peer", "http")
    weight = 1

    def __init__(self, run):
        self.run = run

    def takes(self, seat):
        return seat.door in self.doors and not seat.is_reader

    def setup(self, seat):
        """Creates the documents that must be there."""

    def finish(self, seat):
        """Reads at rest."""


class Sets(Workload):
    """Unique elements, as documents of two collections and as keys of a map; C2, C5 and C7."""

    collections = ("posts", "replies", "bags")
    weight = 6

    def setup(self, seat):
        for epoch in range(self.run.epochs):
            seat.ask(f"INSERT INTO bags DOCUMENTS ({{'_id': 'b{epoch}', 'm': {{'first': true}}}})")

    def step(self, seat, dice):
        epoch = self.run.epoch if dice.random() < 0.8 else max(0, self.run.epoch - 1)
        name = dice.choice(self.collections)
        if dice.random() < 0.4:
            element = self.run.unique(seat)
            seat.do("add", {"set": f"{name}-{epoch}", "element": element}, lambda seat: self.add(seat, name, epoch, element))
        else:
            seat.do("read-set", {"set": f"{name}-{epoch}"}, lambda seat: {"elements": self.read(seat, name, epoch)})

    @staticmethod
    def add(seat, name, epoch, element):
        if name == "bags":
            seat.change(f"UPDATE bags SET m.{element} = true WHERE _id = 'b{epoch}'")
        else:
            seat.change(f"INSERT INTO {name} DOCUMENTS ({{'_id': '{element}', 'e': {epoch}}})")

    @staticmethod
    def read(seat, name, epoch):
        if name == "bags":
            items = seat.ask(f"SELECT * FROM bags WHERE _id = 'b{epoch}'").items
            return [element for item in items for element in item["m"] if element != "first"]
        return [item["_id"] for item in seat.ask(f"SELECT _id FROM {name} WHERE e = {epoch}").items]

    def finish(self, seat):
        for name in self.collections:
            for epoch in range(self.run.epochs):
                seat.do("read-set", {"set": f"{name}-{epoch}", "final": True},
                        lambda seat, name=name, epoch=epoch: {"elements": self.read(seat, name, epoch)})


class Registers(Workload):
    """Few registers that everybody writes; C3."""

    collections = ("registers",)
    weight = 3

    def step(self, seat, dice):
        register = f"r{self.run.epoch}-{dice.randrange(4)}"
        shown = seat.do("read-register", {"register": register}, lambda seat: {"value": self.value(seat, register)})
        if shown is None or dice.random() < 0.3:
            return
        value, saw = self.run.unique(seat), shown["value"]
        statement = f"UPDATE registers SET v = '{value}' WHERE _id = '{register}' AND v = '{saw}'"
        if saw is None:
            statement = (f"INSERT INTO registers DOCUMENTS ({{'_id': '{register}', 'v': '{value}'}}) "
                         "ON ID CONFLICT DO NOTHING")
        data = {"register": register, "value": value, "saw": saw}
        seat.do("write", data, lambda seat: seat.change(statement) and None)

    @staticmethod
    def value(seat, register):
        items = seat.ask(f"SELECT v FROM registers WHERE _id = '{register}'").items
        return items[0].get("v") if items else None

    def finish(self, seat):
        for register in [f"r{epoch}-{number}" for epoch in range(self.run.epochs) for number in range(4)]:
            data = {"register": register, "final": True}
            seat.do("read-register", data, lambda seat, register=register: self.final(seat, register))

    def final(self, seat, register):
        value = self.value(seat, register)
        if seat.door != "http" or value is None:
            return {"value": value, "listed": None}
        fields = seat.get(f"/api/v5/conflicts/registers/{register}")["fields"]
        values = [each["value"] for field in fields if field["path"] == ["v"] for each in field["values"]]
        return {"value": value, "listed": values or [value]}


class Counters(Workload):
    """A counter that only changes, and one that is restarted too; C4."""

    collections = ("counters",)
    weight = 2
    names = ("n", "z")

    def setup(self, seat):
        for name in self.names:
            seat.ask(f"INSERT INTO counters DOCUMENTS ({{'_id': '{name}'}})")
            seat.ask(f"UPDATE counters APPLY v INCREMENT BY 0 WHERE _id = '{name}'")

    def step(self, seat, dice):
        name = dice.choice(self.names)
        if dice.random() < 0.4:
            return seat.do("read-counter", {"counter": name}, lambda seat: {"value": self.value(seat, name)})
        if name == "z" and dice.random() < 0.05:
            change = f"UPDATE counters APPLY v RESTART WHERE _id = '{name}'"
            return seat.do("restart", {"counter": name, "to": 0}, lambda seat: seat.change(change) and None)
        by = dice.choice([1, 1, 2, 5, -1])
        change = f"UPDATE counters APPLY v INCREMENT BY {by} WHERE _id = '{name}'"
        return seat.do("increment", {"counter": name, "by": by}, lambda seat: seat.change(change) and None)

    @staticmethod
    def value(seat, name):
        items = seat.ask(f"SELECT v FROM counters WHERE _id = '{name}'").items
        return items[0].get("v", 0) if items else 0

    def finish(self, seat):
        for name in self.names:
            data = {"counter": name, "final": True}
            seat.do("read-counter", data, lambda seat, name=name: {"value": self.value(seat, name)})


class Families(Workload):
    """One statement, or one transaction, writes all documents of a family; C2 and C6."""

    collections = ("families",)
    weight = 3
    size = 3

    def step(self, seat, dice):
        family = f"f{dice.randrange(6)}"
        if dice.random() < 0.5:
            return self.read(seat, dice)
        tag, members = self.run.unique(seat), [f"{family}-{number}" for number in range(self.size)]
        rows = [f"({{'_id': '{member}', 'tag': '{tag}'}})" for member in members]
        statements = [f"INSERT INTO families DOCUMENTS {', '.join(rows)} ON ID CONFLICT DO UPDATE"]
        if seat.door == "http" and dice.random() < 0.5:
            statements = [f"INSERT INTO families DOCUMENTS {row} ON ID CONFLICT DO UPDATE" for row in rows]
        return seat.do("transact", {"documents": dict.fromkeys(members, tag)}, lambda seat: self.write(seat, statements))

    @staticmethod
    def write(seat, statements):
        if len(statements) == 1:
            seat.change(statements[0])
        else:
            seat.transact(statements)

    def read(self, seat, dice):
        if seat.door == "peer" and dice.random() < 0.5:
            return seat.do("read-documents", {"observed": True}, self.observed)
        return seat.do("read-documents", {}, lambda seat: {
            "documents": self.tags(seat.ask("SELECT * FROM families").items)})

    def observed(self, seat):
        """The last observation; each of those before is an operation of its own."""
        events = seat.observe("SELECT * FROM families")
        for event in events[:-1]:
            seat.do("read-documents", {"observed": True}, lambda _, event=event: {"documents": self.tags(event["items"])})
        return {"documents": self.tags(events[-1]["items"]) if events else {}}

    @staticmethod
    def tags(items):
        return {item["_id"]: item.get("tag") for item in items}

    def finish(self, seat):
        seat.do("read-documents", {"final": True}, lambda seat: {
            "documents": self.tags(seat.ask("SELECT * FROM families").items)})


class Bank(Workload):
    """Transfers by transactions over HTTP; everybody reads, the past too; C2, C6 and C8."""

    collections = ("bank",)
    weight = 2
    accounts, each = 5, 100

    def setup(self, seat):
        rows = ", ".join(f"({{'_id': 'k{number}', 'b': {self.each}}})" for number in range(self.accounts))
        seat.ask(f"INSERT INTO bank DOCUMENTS {rows}")

    def step(self, seat, dice):
        if seat.door == "peer" or dice.random() < 0.5:
            return self.read(seat, dice)
        one, other = (f"k{number}" for number in dice.sample(range(self.accounts), 2))
        amount = dice.randrange(1, 20)
        statements = [f"UPDATE bank SET b = b - {amount} WHERE _id = '{one}'",
                      f"UPDATE bank SET b = b + {amount} WHERE _id = '{other}'"]
        data = {"from": one, "to": other, "amount": amount}
        return seat.do("transfer", data, lambda seat: seat.transact(statements) and None)

    def read(self, seat, dice):
        data, total = {}, self.accounts * self.each
        offset = seat.offset if seat.door == "http" and dice.random() < 0.2 else None
        if offset is not None:
            data = {"asOf": offset}

        def balances(seat):
            statement = "SELECT * FROM bank"
            items = seat.ask_past(statement, offset) if offset is not None else seat.ask(statement).items
            return {"balances": {item["_id"]: item["b"] for item in items}, "total": total}

        return seat.do("read-balances", data, balances)

    def finish(self, seat):
        total = self.accounts * self.each
        seat.do("read-balances", {"final": True, "each": self.each}, lambda seat: {
            "balances": {item["_id"]: item["b"] for item in seat.ask("SELECT * FROM bank").items}, "total": total})


class Lists(Workload):
    """Transactions that append to lists and read them; C8. A list is a text of elements."""

    collections = ("lists",)
    doors = ("http",)
    weight = 4

    def step(self, seat, dice):
        steps, statements = [], []
        for _ in range(dice.randrange(1, 4)):
            name = f"l{self.run.epoch}-{dice.randrange(3)}"
            if dice.random() < 0.5:
                steps.append(["read", name, []])
                statements.append(f"SELECT v FROM lists WHERE _id = '{name}'")
                continue
            element = self.run.unique(seat)
            steps.append(["append", name, element])
            statements.append(f"INSERT INTO lists DOCUMENTS ({{'_id': '{name}', 'v': ''}}) ON ID CONFLICT DO NOTHING")
            statements.append(f"UPDATE lists SET v = concat(v, '{element},') WHERE _id = '{name}'")
        seat.do("txn", {"steps": steps}, lambda seat: {"steps": self.told(seat.transact(statements), steps)})

    def told(self, answers, steps):
        found, rest = [], iter(answers)
        for kind, name, element in steps:
            if kind == "append":
                next(rest)
                next(rest)
                found.append([kind, name, element])
            else:
                found.append([kind, name, self.elements(next(rest).items)])
        return found

    @staticmethod
    def elements(items):
        return [element for item in items for element in item["v"].split(",") if element]

    def finish(self, seat):
        seat.do("txn", {"steps": [], "final": True}, self.all_lists)

    def all_lists(self, seat):
        shown = {item["_id"]: self.elements([item]) for item in seat.ask("SELECT * FROM lists").items}
        names = [f"l{epoch}-{number}" for epoch in range(self.run.epochs) for number in range(3)]
        return {"steps": [["read", name, shown.get(name, [])] for name in names]}


class Past(Workload):
    """Documents that are written and deleted; the present at an offset, and later the past at it; C9."""

    collections = ("past",)
    doors = ("http",)
    weight = 3

    def __init__(self, run):
        super().__init__(run)
        self.offsets = []

    def step(self, seat, dice):
        choice, document = dice.random(), f"p{dice.randrange(8)}"
        if choice < 0.4:
            row = f"({{'_id': '{document}', 'v': '{self.run.unique(seat)}'}})"
            seat.do("put", {}, lambda seat: seat.ask(f"INSERT INTO past DOCUMENTS {row} ON ID CONFLICT DO UPDATE") and None)
        elif choice < 0.5:
            seat.do("put", {}, lambda seat: seat.ask(f"DELETE FROM past WHERE _id = '{document}'") and None)
        elif choice < 0.8 or not self.offsets:
            told = seat.do("read-rows", {"collection": "past"}, lambda seat: {
                "rows": self.rows(seat.ask("SELECT * FROM past").items), "offset": seat.offset})
            if told:
                self.offsets.append(told["offset"])
        else:
            offset = dice.choice(self.offsets)
            seat.do("as-of", {"collection": "past"}, lambda seat: self.past(seat, offset))

    def past(self, seat, offset):
        return {"rows": self.rows(seat.ask_past("SELECT * FROM past", offset)), "offset": offset}

    @staticmethod
    def rows(items):
        return {item["_id"]: canonical(item) for item in items}


class Graves(Workload):
    """Documents that are inserted, deleted by who has read them, and inserted again; C10."""

    collections = ("graves",)
    weight = 3

    def step(self, seat, dice):
        document = f"g{self.run.epoch}-{dice.randrange(4)}"
        shown = seat.do("read-tokens", {}, lambda seat: {"documents": self.tokens(seat, f"_id = '{document}'")})
        if shown is None:
            return
        token = shown["documents"].get(document)
        if token is not None and dice.random() < 0.6:
            statement = f"DELETE FROM graves WHERE _id = '{document}' AND token = '{token}'"
            seat.do("delete", {"document": document, "saw": token}, lambda seat: seat.change(statement) and None)
        else:
            fresh = self.run.unique(seat)
            statement = f"INSERT INTO graves DOCUMENTS ({{'_id': '{document}', 'token': '{fresh}'}}) ON ID CONFLICT DO UPDATE"
            seat.do("insert", {"document": document, "token": fresh}, lambda seat: seat.change(statement) and None)

    @staticmethod
    def tokens(seat, condition):
        return {item["_id"]: item.get("token") for item in seat.ask(f"SELECT * FROM graves WHERE {condition}").items}

    def finish(self, seat):
        seat.do("read-tokens", {"final": True}, lambda seat: {"documents": self.tokens(seat, "true")})


class Rooms(Workload):
    """Documents of rooms, and readers that may read one room or both, or none for a moment; C11. The id of a document
    names its room."""

    collections = ("rooms",)
    rooms = ("red", "blue")

    def takes(self, seat):
        return True

    def step(self, seat, dice):
        if seat.is_reader:
            return self.read(seat, dice)
        document = f"{dice.choice(self.rooms)}-{seat.name}-{dice.randrange(10)}"
        statement = f"INSERT INTO rooms DOCUMENTS ({{'_id': '{document}', 'v': 1}}) ON ID CONFLICT DO UPDATE"
        if dice.random() < 0.3:
            statement = f"DELETE FROM rooms WHERE _id = '{document}'"
        return seat.do("furnish", {"document": document}, lambda seat: seat.ask(statement) and None)

    def read(self, seat, dice):
        if seat.changes_rights and dice.random() < 0.05 and seat.be_refused():
            self.look(seat, dice)
            seat.be_granted(dice.choice([["red"], ["blue"], ["red", "blue"]]))
        self.look(seat, dice)

    def look(self, seat, dice):
        choice = dice.randrange(4)
        if choice == 0:
            seat.do("read-rooms", {}, lambda seat: self.told(seat.ask("SELECT * FROM rooms").items, "_id"))
        elif choice == 1:
            path = "/api/v5/changes?since=0&collection=rooms&values=none"
            seat.do("hear-of", {"by": "changes"}, lambda seat: self.told(seat.get_lines(path), "id"))
        elif choice == 2:
            seat.do("hear-of", {"by": "max"}, lambda seat: self.told(
                [item for item in seat.ask("SELECT MAX(_id) AS a FROM rooms").items if item.get("a")], "a"))
        else:
            seat.do("hear-of", {"by": "conflicts"}, lambda seat: self.told(
                seat.get("/api/v5/conflicts/rooms")["documents"], "id"))

    @staticmethod
    def told(items, key):
        return {"documents": {item[key]: item[key].split("-")[0] for item in items}}

    def finish(self, seat):
        if seat.is_reader:
            seat.do("read-rooms", {"final": True}, lambda seat: self.told(seat.ask("SELECT * FROM rooms").items, "_id"))


ALL = (Sets, Registers, Counters, Families, Bank, Lists, Past, Graves, Rooms)
