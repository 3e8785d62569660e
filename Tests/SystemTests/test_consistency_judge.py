"""The judge of the consistency campaign is judged: hand-made histories that break each claim, and others that keep it."""

import ast
import contextlib
import importlib.machinery
import importlib.util
import inspect
import math
import pathlib
import re
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "Consistency"))
from judge import CLAIMS, Operation, judge, operations  # noqa: E402
from page import PAGE, made, tallies  # noqa: E402
from tally import kind_of, tally  # noqa: E402


def op(client, kind, began, ended=None, outcome="ok", door=None, **data):
    """An operation; `http…` are clients of HTTP. One without an end takes a moment."""
    door = door or ("http" if client.startswith("http") else "peer")
    ended = began + 0.5 if ended is None else ended
    return Operation(0, client, door, kind, began, math.inf if outcome == "info" else ended, outcome, data)


def history(*each):
    """The operations in the order in which they were sent, numbered."""
    ordered = sorted(each, key=lambda operation: operation.began)
    for number, operation in enumerate(ordered):
        operation.number = number
    return ordered


def add(client, element, began, outcome="ok", to="s", **data):
    return op(client, "add", began, outcome=outcome, set=to, element=element, **data)


def look(client, elements, began, of="s", **data):
    return op(client, "read-set", began, set=of, elements=list(elements), **data)


def write(client, value, began, saw=None, outcome="ok", **data):
    return op(client, "write", began, outcome=outcome, register="r", value=value, saw=saw, **data)


def register(value, listed=None, began=100):
    return op("a", "read-register", began, register="r", value=value, listed=listed, final=True)


def increment(client, by, began, outcome="ok", **data):
    return op(client, "increment", began, outcome=outcome, counter="n", by=by, **data)


def count(value, began=100, client="a", final=True):
    return op(client, "read-counter", began, counter="n", value=value, final=final)


def transact(client, tag, documents, began, outcome="ok"):
    return op(client, "transact", began, outcome=outcome, documents=dict.fromkeys(documents, tag))


def pairs(began=50, final=False, **documents):
    return op("b", "read-documents", began, documents=documents, final=final)


def transfer(amount, began, outcome="ok", source="k", target="l"):
    """From one account to the other one; `balances` are theirs at rest, when each began with 100."""
    return op("http1", "transfer", began, outcome=outcome, amount=amount, **{"from": source, "to": target})


def balances(**accounts):
    return op("b", "read-balances", 100, balances=accounts, total=sum(accounts.values()), each=100, final=True)


def txn(client, began, *steps, ended=None, outcome="ok"):
    return op(client, "txn", began, ended, outcome, steps=[list(step) for step in steps])


def final(replica, *documents, collection="c"):
    return op(replica, "final", 100, replica=replica, collection=collection, documents=list(documents))


def rows(kind, offset, began=10, **found):
    return op("http", kind, began, collection="c", offset=offset, rows=found)


def follow(until, *lines):
    return op("http2", "follow", 1, 90, collection="c", lines=[list(line) for line in lines], until=until)


def insert(client, token, began, document="d", outcome="ok"):
    return op(client, "insert", began, outcome=outcome, document=document, token=token)


def delete(client, saw, began, document="d", outcome="ok"):
    return op(client, "delete", began, outcome=outcome, document=document, saw=saw)


def tokens(client="a", began=100, final=True, **documents):
    return op(client, "read-tokens", began, documents=documents, final=final)


def grant(rooms, began, outcome="ok"):
    return op("admin", "grant", began, outcome=outcome, to="reader", rooms=rooms)


def rooms(began, ended=None, kind="read-rooms", **documents):
    return op("reader", kind, began, ended, documents=documents)


BREAKING = {
    "C1": {
        "a document differs": [final("a", "x1"), final("b", "x2")],
        "a document is missing on the third": [final("a", "x", "y"), final("b", "y", "x"), final("c", "x")],
        "one is empty": [final("a", "x"), final("b")],
        "a document is there twice": [final("a", "x"), final("b", "x", "x")],
        "one does not answer any more": [
            final("a", "x"), op("b", "final", 100, outcome="info", replica="b", collection="c")],
    },
    "C2": {
        "an acknowledged element is lost": [add("a", "x", 1), look("b", [], 100, final=True)],
        "an element is doubled": [add("a", "x", 1), look("b", "xx", 100, final=True)],
        "a refused element shows": [add("a", "x", 1, "fail"), look("a", "x", 100, final=True)],
        "an element is of nobody": [look("a", "x", 5)],
        "an element was read before it was sent": [look("a", "x", 5), add("b", "x", 9)],
        "a removal of another set is no excuse": [
            add("a", "x", 1), op("b", "remove", 5, set="t", element="x"), look("b", [], 100, final=True)],
        "a transfer is lost, and the total is kept": [transfer(5, 1), transfer(7, 3), balances(k=95, l=105)],
        "a transfer is done twice": [transfer(5, 1), balances(k=90, l=110)],
        "a refused transfer is done": [transfer(5, 1, "fail"), balances(k=95, l=105)],
        "a transfer of unknown outcome is done twice": [transfer(5, 1, "info"), balances(k=90, l=110)],
        "an account is missing at rest": [transfer(5, 1), balances(k=95)],
        "a whole transaction is lost": [transact("a", "t", "pq", 1), pairs(100, True)],
        "a whole transaction is lost behind the one before": [
            transact("a", "t", "pq", 1), transact("a", "u", "pq", 5), pairs(100, True, p="t", q="t")],
    },
    "C3": {
        "a replaced value is back": [write("a", "x", 1), write("b", "y", 5, saw="x"), register("x")],
        "a value of one client is replaced by its next": [write("a", "x", 1), write("a", "y", 5), register("x")],
        "a value is replaced through a third": [
            write("a", "x", 1), write("b", "y", 5, saw="x"), write("c", "z", 9, saw="y"), register("x")],
        "a concurrent value is not listed": [
            write("a", "x", 10, horizon=5), write("b", "y", 11, horizon=5), register("y", ["y"])],
        "a concurrent value of the second write while cut off is not listed": [
            write("a", "x", 10, horizon=5), write("a", "y", 12, saw="x", horizon=5), write("b", "z", 11, horizon=5),
            register("z", ["z"])],
        "a replaced value is listed": [write("a", "x", 1), write("b", "y", 5, saw="x"), register("y", ["x", "y"])],
        "a refused write is no excuse for one that is not listed": [
            write("a", "x", 10, horizon=5), write("b", "y", 11, horizon=5),
            write("c", "z", 20, saw="y", outcome="fail"), register("y", ["y"])],
        "a later value is not listed": [write("b", "y", 5, horizon=2), write("a", "x", 10), register("y", ["y"])],
        "nothing is left": [write("a", "x", 1), register(None)],
        "a refused value shows": [write("a", "x", 1, outcome="fail"), register("x")],
        "a value is of nobody": [register("x")],
    },
    "C4": {
        "an increment is lost": [increment("a", 1, 1), increment("b", 1, 2), count(1)],
        "an increment counts twice": [increment("a", 1, 1), count(2)],
        "a refused increment counts": [increment("a", 1, 1, "fail"), count(1)],
        "a decrement is lost": [increment("a", 5, 1), increment("b", -2, 2), count(5)],
        "an unknown increment counts twice": [increment("a", 3, 1, "info"), count(6)],
        "a client misses its own": [increment("a", 1, 1), count(0, 5, final=False)],
        "an increment counts before it was sent": [increment("a", 1, 200), count(1)],
        "what a restart saw counts on": [
            increment("a", 5, 1), op("a", "restart", 3, counter="n", to=0), count(5)],
        "a restart forgets a later increment of its author": [
            op("a", "restart", 3, counter="n", to=0), increment("a", 1, 9), count(0)],
        "the value of a restart is lost": [op("a", "restart", 3, counter="n", to=7), count(0)],
        "a restart forgets a later increment": [
            increment("a", 1, 1), op("a", "restart", 3, counter="n", to=0), increment("b", 1, 9), count(0)],
    },
    "C5": {
        "a reply without its post": [
            add("a", "p", 1), look("b", "p", 5), add("b", "r", 7), look("c", "r", 9)],
        "a reply without its post in another set of the collection": [
            add("a", "p", 1, to="s-1"), look("b", "p", 5, "s-1"), add("b", "r", 7, to="s-2"),
            look("c", "r", 9, "s-2"), look("c", [], 11, "s-1")],
        "two writes of one author in the wrong order": [
            add("a", "x", 1), add("a", "y", 3), look("b", "y", 5)],
        "a peer forgets what it has read": [add("a", "x", 1), look("b", "x", 5), look("b", [], 7)],
        "a peer misses its own write": [add("a", "x", 1), look("a", [], 5)],
        "over three authors": [
            add("a", "x", 1), look("b", "x", 3), add("b", "y", 5), look("c", "xy", 7), add("c", "z", 9),
            look("d", "yz", 11)],
        "over HTTP a reply without its post in another collection": [
            add("a", "p", 1, to="posts"), look("b", "p", 5, "posts"), add("b", "r", 7, to="replies"),
            look("http1", "r", 9, "replies"), look("http1", [], 11, "posts")],
        "over HTTP two collections of one peer": [
            add("a", "x", 1, to="posts"), add("a", "y", 3, to="replies"), look("http1", "y", 5, "replies"),
            look("http1", [], 7, "posts")],
    },
    "C6": {
        "one of two documents": [transact("a", "t", "pq", 1), pairs(p="t")],
        "one of two is still the former": [
            transact("a", "t", "pq", 1), transact("a", "u", "pq", 5), pairs(p="u", q="t")],
        "concurrent transactions are mixed": [
            transact("a", "t", "pqr", 1), transact("b", "u", "pq", 1.1), pairs(p="u", q="t", r="t")],
        "a tag is of nobody": [pairs(p="t")],
        "a tag stands in another document": [transact("a", "t", "pq", 1), pairs(p="t", q="t", r="t")],
        "money is made": [op("http", "read-balances", 5, balances={"a": 60, "b": 50}, total=100)],
        "an account is missing": [op("b", "read-balances", 5, balances={"a": 60}, total=100)],
    },
    "C7": {
        "read your writes": [add("http1", "x", 1), look("http1", [], 5)],
        "monotonic reads": [add("http2", "x", 1, "info"), look("http1", "x", 5), look("http1", [], 7)],
        "monotonic writes": [add("http1", "x", 1), add("http1", "y", 3), look("http2", "y", 5)],
        "writes follow reads": [
            add("http1", "x", 1, to="t"), look("http2", "x", 3, "t"), add("http2", "y", 5),
            look("http3", "y", 7), look("http3", [], 9, "t")],
        "a session goes back": [look("http1", [], 1, offset=9), look("http1", [], 3, offset=8)],
    },
    "C8": {
        "write skew": [
            txn("http1", 1, ("read", "x", []), ("append", "y", 1), ended=9),
            txn("http2", 1.1, ("read", "y", []), ("append", "x", 2), ended=9),
            txn("http3", 20, ("read", "x", [2]), ("read", "y", [1]))],
        "two orders of one list": [
            txn("http1", 1, ("append", "x", 1), ended=9), txn("http2", 1, ("append", "x", 2), ended=9),
            txn("http1", 20, ("read", "x", [1, 2])), txn("http2", 21, ("read", "x", [2, 1]))],
        "a lost append": [txn("http1", 1, ("append", "x", 1)), txn("http2", 5, ("read", "x", []))],
        "an append twice": [txn("http1", 1, ("append", "x", 1)), txn("http2", 5, ("read", "x", [1, 1]))],
        "an element is of nobody": [txn("http1", 1, ("read", "x", [9]))],
        "a refused append shows": [
            txn("http1", 1, ("append", "x", 1), outcome="fail"), txn("http2", 5, ("read", "x", [1]))],
        "a part of a transaction is read": [
            txn("http1", 1, ("append", "x", 1), ("append", "y", 2), ended=9),
            txn("http2", 2, ("read", "x", [1]), ("read", "y", []), ended=9),
            txn("http2", 20, ("read", "y", [2]))],
    },
    "C9": {
        "the past differs": [rows("read-rows", 7, a="1"), rows("as-of", 7, 20, a="2")],
        "the past has less": [rows("read-rows", 7, a="1", b="1"), rows("as-of", 7, 20, a="1")],
        "a change is skipped": [follow(9, (3, 0, "a", "insert", "1")), rows("read-rows", 8, a="2")],
        "a change comes twice": [follow(9, (3, 0, "a", "insert", "1"), (3, 0, "a", "insert", "1"))],
        "the last change is not what is read": [
            follow(9, (3, 0, "a", "insert", "1")), rows("read-rows", 9, a="2")],
        "changes are out of order": [follow(9, (4, 0, "a", "insert", "1"), (3, 0, "b", "insert", "1"))],
        "a deletion is not told": [follow(9, (3, 0, "a", "insert", "1")), rows("read-rows", 8)],
    },
    "C10": {
        "a document comes back": [insert("a", "x", 1), delete("b", "x", 5), tokens(d="x")],
        "its author sees it again": [insert("a", "x", 1), delete("b", "x", 5), tokens("b", 9, False, d="x")],
        "the former content comes back in place of the new one": [
            insert("a", "x", 1), delete("a", "x", 3), insert("a", "y", 5), tokens(d="x")],
        "a document is lost": [insert("a", "x", 1), tokens()],
        "a token is of nobody": [tokens(d="x")],
        "a touch of the deleter is no excuse": [
            insert("a", "x", 1), delete("b", "x", 5), op("b", "touch", 7, document="d"), tokens(d="x")],
        "a touch before the deleter's own deletion is no excuse": [
            insert("a", "x", 1), op("b", "touch", 3, document="d"), delete("b", "x", 5), tokens(d="x")],
        "a refused touch is no excuse": [
            insert("a", "x", 1), op("c", "touch", 4, document="d", outcome="fail"), delete("b", "x", 5),
            tokens(d="x")],
        "a deletion of another document is no excuse for a lost one": [
            insert("a", "x", 1), insert("a", "y", 2, "e"), delete("b", "y", 5, "e"), tokens()],
        "a refused deletion is no excuse for a lost one": [
            insert("a", "x", 1), delete("b", "x", 5, outcome="fail"), tokens()],
        "an insertion after the deletion is lost": [
            insert("a", "x", 1), delete("a", "x", 3), insert("a", "y", 5), tokens()],
    },
    "C11": {
        "a room that was never granted": [grant(["red"], 1), rooms(5, d="blue")],
        "no grant at all": [rooms(5, d="red")],
        "a grant that had ended": [grant(["red"], 1), grant(["blue"], 5), rooms(9, d="red")],
        "an existence is told": [grant(["red"], 1), rooms(5, kind="hear-of", d="blue")],
        "a grant that came later": [rooms(5, d="red"), grant(["red"], 9)],
        "a refused grant": [grant(["red"], 1, "fail"), rooms(5, d="red")],
    },
}

KEEPING = {
    "C1": {
        "another order": [final("a", "x", "y"), final("b", "y", "x")],
        "two collections": [final("a", "x"), final("b", "y", collection="e")],
        "nothing anywhere": [final("a"), final("b"), final("c")],
    },
    "C2": {
        "unknown outcomes may be there or not": [
            add("a", "x", 1, "info"), add("a", "y", 2, "info"), look("b", "x", 100, final=True)],
        "a removed element": [
            add("a", "x", 1), op("b", "remove", 5, "info", set="s", element="x"), look("b", [], 100, final=True)],
        "a read that has not heard yet": [add("a", "x", 1), look("b", [], 5), look("b", "x", 100, final=True)],
        "a refused element is absent": [add("a", "x", 1, "fail"), look("a", [], 100, final=True)],
        "an element beside the last read": [add("a", "x", 99.8), look("b", [], 100, final=True)],
        "elements of two sets": [
            add("a", "x", 1), add("a", "y", 2, to="t"), look("b", "x", 100, final=True),
            look("b", "y", 101, "t", final=True)],
        "a read while it is written": [add("a", "x", 1, ended=None), look("b", "x", 1.2)],
        "transfers": [transfer(5, 1), transfer(7, 3, "info"), transfer(9, 5, "fail"), balances(k=95, l=105)],
        "a transfer of unknown outcome is done": [transfer(5, 1), transfer(7, 3, "info"), balances(k=88, l=112)],
        "a transfer back": [transfer(5, 1), transfer(5, 3, source="l", target="k"), balances(k=100, l=100)],
        "a transfer beside the last read": [transfer(5, 99.8), balances(k=100, l=100)],
        "another client's transaction wins": [
            transact("a", "t", "pq", 1), transact("b", "u", "pq", 5), pairs(100, True, p="t", q="t")],
        "a transaction of unknown outcome comes later": [
            transact("a", "t", "pq", 1, "info"), transact("a", "u", "pq", 5), pairs(100, True, p="t", q="t")],
        "a reader has not heard of a transaction": [transact("a", "t", "pq", 1), pairs(5)],
    },
    "C3": {
        "the later one wins": [write("a", "x", 1), write("b", "y", 5, saw="x"), register("y", ["y"])],
        "concurrent ones are both listed": [
            write("a", "x", 10, horizon=5), write("b", "y", 11, horizon=5), register("y", ["x", "y"])],
        "a third one may have seen it": [
            write("a", "x", 10, horizon=5), write("b", "y", 11, horizon=5), write("c", "z", 20, saw="y"),
            register("z", ["z"])],
        "its author replaced it while it was cut off": [
            write("a", "x", 10, horizon=5), write("a", "y", 12, saw="x", horizon=5), write("b", "z", 11, horizon=5),
            register("z", ["y", "z"])],
        "an unknown write may have replaced it": [
            write("a", "x", 1), write("b", "y", 5, saw="x", outcome="info"), register("x", ["x"])],
        "an unknown write wins": [write("a", "x", 1, outcome="info"), register("x", ["x"])],
        "its author replaced it blindly while it was cut off": [
            write("a", "x", 10, horizon=5), write("a", "y", 12, horizon=5), write("b", "z", 11, horizon=5),
            register("z", ["y", "z"])],
        "an unknown write is not there": [write("a", "x", 1, outcome="info"), register(None)],
        "a write beside the last read is not there yet": [write("a", "x", 99.8), register(None)],
        "nothing was written": [register(None)],
    },
    "C4": {
        "the sum": [increment("a", 1, 1), increment("b", 2, 1), increment("c", -1, 1), count(2)],
        "an unknown one counts": [increment("a", 1, 1, "info"), increment("b", 1, 2), count(2)],
        "an unknown one does not count": [increment("a", 1, 1, "info"), increment("b", 1, 2), count(1)],
        "a read that has not heard of others": [
            increment("a", 1, 1), increment("b", 1, 1), count(1, 5, final=False)],
        "a restart that saw one": [
            increment("a", 5, 1), op("a", "restart", 3, counter="n", to=0), increment("b", 1, 9), count(1)],
        "an increment beside the last read": [increment("b", 1, 99.8), count(0)],
        "another client has not heard of a restart": [
            increment("a", 5, 1), op("a", "restart", 3, counter="n", to=7), count(5, 9, "b", False)],
        "a restart that may have seen another's": [
            increment("b", 5, 1), op("a", "restart", 3, counter="n", to=0), count(0)],
        "a restart that was concurrent": [
            increment("a", 5, 10, horizon=2), op("b", "restart", 11, counter="n", to=0, horizon=2), count(5)],
    },
    "C5": {
        "a reply after its post": [
            add("a", "p", 1, to="posts"), look("b", "p", 5, "posts"), add("b", "r", 7, to="replies"),
            look("c", "r", 9, "replies"), look("c", "p", 11, "posts")],
        "a peer catches up with one collection before another": [
            add("a", "p", 1, to="posts"), look("b", "p", 5, "posts"), add("b", "r", 7, to="replies"),
            look("c", "r", 9, "replies"), look("c", [], 11, "posts")],
        "the post was read before the reply was": [
            add("a", "p", 1, to="posts"), look("b", "p", 5, "posts"), add("b", "r", 7, to="replies"),
            look("c", [], 9, "posts"), look("c", "r", 11, "replies")],
        "concurrent authors in any order": [
            add("a", "x", 1), add("b", "y", 1), look("c", "x", 5), look("d", "y", 5)],
        "an unknown write of its own": [add("a", "x", 1, "info"), look("a", [], 5)],
        "the author had not read it": [add("a", "x", 1), add("b", "y", 3), look("c", "y", 5)],
    },
    "C6": {
        "the whole": [transact("a", "t", "pq", 1), pairs(p="t", q="t")],
        "nothing yet": [transact("a", "t", "pq", 1), pairs()],
        "two that overlap in one document": [
            transact("a", "t", "pq", 1), transact("b", "u", "qr", 1.1), pairs(p="t", q="u", r="u")],
        "the later of two that overlap in one document": [
            transact("b", "u", "qr", 1), transact("a", "t", "pq", 1.1), pairs(p="t", q="u", r="u")],
        "an unknown one as a whole": [transact("a", "t", "pq", 1, "info"), pairs(p="t", q="t")],
        "money moves": [op("http", "read-balances", 5, balances={"a": 60, "b": 40}, total=100)],
        "no accounts yet": [op("b", "read-balances", 5, balances={}, total=100)],
    },
    "C7": {
        "own writes": [add("http1", "x", 1), look("http1", "x", 5, offset=3), look("http1", "x", 6, offset=3)],
        "another session lags": [add("http1", "x", 1), look("http2", [], 5)],
        "a write of unknown outcome": [add("http1", "x", 1, "info"), look("http1", [], 5)],
        "two sessions in any order": [add("http1", "x", 1), add("http2", "y", 1), look("http3", "y", 5)],
        "offsets of two sessions": [look("http1", [], 1, offset=9), look("http2", [], 3, offset=8)],
    },
    "C8": {
        "one after the other": [
            txn("http1", 1, ("read", "x", []), ("append", "y", 1)),
            txn("http2", 2, ("read", "y", [1]), ("append", "x", 2)),
            txn("http3", 20, ("read", "x", [2]), ("read", "y", [1]))],
        "an unknown append": [
            txn("http1", 1, ("append", "x", 1), outcome="info"), txn("http2", 5, ("read", "x", [])),
            txn("http2", 7, ("read", "x", [1]))],
        "a read beside an append": [
            txn("http1", 1, ("append", "x", 1), ended=9), txn("http2", 2, ("read", "x", [])),
            txn("http3", 3, ("read", "x", [1]))],
        "a read of its own append": [txn("http1", 1, ("append", "x", 1), ("read", "x", [1]))],
    },
    "C9": {
        "the past is the same": [rows("read-rows", 7, a="1"), rows("as-of", 7, 20, a="1")],
        "another offset": [rows("read-rows", 7, a="1"), rows("as-of", 6, 20)],
        "the changes folded": [
            follow(9, (3, 0, "a", "insert", "1"), (3, 1, "b", "insert", "1"), (5, 0, "a", "update", "2"),
                   (7, 0, "b", "delete", None)),
            rows("read-rows", 4, a="1", b="1"), rows("read-rows", 6, a="2", b="1"), rows("as-of", 9, a="2")],
        "a read at the place of a change": [
            follow(9, (3, 0, "a", "insert", "1")), rows("read-rows", 3, a="1")],
        "a read beyond the feed": [follow(4, (3, 0, "a", "insert", "1")), rows("read-rows", 8, a="2")],
    },
    "C10": {
        "it stays away": [insert("a", "x", 1), delete("b", "x", 5), tokens()],
        "it is inserted again": [insert("a", "x", 1), delete("b", "x", 5), insert("b", "y", 9), tokens(d="y")],
        "another one has not heard yet": [insert("a", "x", 1), delete("b", "x", 5), tokens("a", 7, False, d="x")],
        "a touch did not know": [
            insert("a", "x", 1), op("c", "touch", 4, document="d"), delete("b", "x", 5), tokens(d="x")],
        "a deletion beside the last read": [insert("a", "x", 1), delete("b", "x", 99.8), tokens(d="x")],
        "a later touch did not know": [
            insert("a", "x", 1), delete("b", "x", 5), op("c", "touch", 7, document="d"), tokens(d="x")],
        "another one has not heard of it yet": [insert("a", "x", 1), tokens("b", 5, False), tokens(d="x")],
        "an unknown insertion": [insert("a", "x", 1, outcome="info"), tokens()],
        "an insertion beside the last read": [insert("a", "x", 99.8), tokens()],
        "an unknown deletion": [insert("a", "x", 1), delete("b", "x", 5, outcome="info"), tokens(d="x")],
    },
    "C11": {
        "a granted room": [grant(["red", "blue"], 1), rooms(5, d="blue", e="red")],
        "a grant that ends meanwhile": [grant(["red"], 1), grant([], 5, ), rooms(4, 9, d="red")],
        "a grant of unknown outcome": [grant(["red"], 1), grant([], 5, "info"), rooms(9, d="red")],
        "nothing for nobody": [rooms(5)],
    },
}


def seen(documents):
    """The last reads of a collection at rest: one replica has x and y, the other one these documents."""
    return [final("a", "x", "y"), final("c", *documents)]


def changes(*offsets):
    return follow(99, *((offset, 0, f"p{offset}", "insert", str(offset)) for offset in offsets))


MUTATIONS = {
    "acknowledge before commit": lambda has: [
        add("http1", "x", 1), look("http2", "x" * has, 100, final=True),
        txn("http1", 3, ("append", "l", 1)), txn("http2", 3.6, ("read", "l", [1] * has))],
    "drop one delta": lambda has: [
        add("a", "x", 1), add("c", "y", 1), look("b", "xy" if has else "y", 100, final=True),
        *seen("xy" if has else "y")],
    "answer a read from a stale position": lambda has: [
        add("http2", "x", 1), look("http1", "x", 5, offset=7), look("http1", "x" * has, 7, offset=8)],
    "split a transaction in the stream": lambda has: [
        transact("a", "t", "pqr", 1), transact("a", "u", "pqr", 5), pairs(7, p="u", q="u" if has else "t", r="u"),
        pairs(100, True, p="u", q="u", r="u")],
    "forget a tombstone": lambda has: [
        insert("a", "x", 1), delete("b", "x", 5), tokens("c", **({} if has else {"d": "x"})),
        *seen("xy" if has else "xyd")],
    "double an increment after reconnect": lambda has: [
        increment("a", 2, 1), increment("b", 5, 3), count(7 if has else 12, client="b")],
    "skip an offset in changes": lambda has: [
        changes(3, 7, 9) if has else changes(3, 9), rows("read-rows", 8, p3="3", p7="7")],
    "ignore a condition of an append": lambda has: [
        txn("http1", 1, ("append", "l", 1), ended=9), txn("http2", 1.1, ("append", "l", 2), ended=9),
        txn("http1", 100, ("read", "l", [1, 2] if has else [2]))],
    "show a document without its right": lambda has: [
        grant(["red"], 1), rooms(5, red1="red", **({} if has else {"blue1": "blue"}))],
    "keep a purged document": lambda has: [
        insert("a", "x", 1), delete("b", "x", 5), insert("b", "y", 9, "e"), tokens("b", 90, e="y"),
        tokens("c", 99, e="y", **({} if has else {"d": "x"})), *seen("xy" if has else "xyd")],
}
"""For each bug of `mutations/run` what clients are told: without it if `has`, else with it."""


def bugs():
    """The bugs of `mutations/run`: its own names, and what the page says of each."""
    script = pathlib.Path(__file__).resolve().parents[1] / "Consistency" / "mutations" / "run"
    loader = importlib.machinery.SourceFileLoader("mutations_run", str(script))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    names = dict(rule[:2] for rule in module.RULES)
    table = re.search(r"\| bug \|.*?\n\n", PAGE.read_text(encoding="utf-8"), re.S)[0].splitlines()[2:]
    rows = [[cell.strip().replace("`", "") for cell in row.strip("|").split("|")] for row in table if row]
    said = [(name, topology, set(claims.split(", "))) for name, topology, claims in rows]
    return [(names[number], module.TOPOLOGIES.get(number, "peers")) for number in sorted(names)], said


def rules(module):
    """The lines of each place of a module that tells a violation: one for each rule of the claim."""
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Call)]
    return [(call.lineno, call.end_lineno) for call in calls if getattr(call.func, "id", None) == "Violation"]


@contextlib.contextmanager
def noting_rules(module):
    """While it lasts, the lines at which a module tells violations are added to the list."""
    lines, violation = [], module.Violation

    def noting(*arguments):
        lines.append(sys._getframe(1).f_lineno)
        return violation(*arguments)

    module.Violation = noting
    try:
        yield lines
    finally:
        module.Violation = violation


class Judge(unittest.TestCase):
    def test_each_claim_has_three_histories_that_break_it_and_three_that_keep_it(self):
        for cases in (BREAKING, KEEPING):
            self.assertEqual(list(cases), list(CLAIMS))
            self.assertEqual([claim for claim, each in cases.items() if len(each) < 3], [])

    def test_a_history_that_breaks_a_claim_breaks_no_other_and_is_shown(self):
        for claim, cases in BREAKING.items():
            for name, case in cases.items():
                with self.subTest(claim=claim, history=name):
                    found = judge(history(*case))
                    self.assertEqual({violation.claim for violation in found}, {claim})
                    shown = {operation.number for operation in found[0].operations}
                    self.assertTrue(shown)
                    self.assertLessEqual(shown, {operation.number for operation in case})

    def test_each_rule_has_a_history_that_no_other_rule_finds(self):
        for claim, module in CLAIMS.items():
            found = []
            for case in BREAKING[claim].values():
                with noting_rules(module) as lines:
                    module.judge(history(*case))
                found.append(set(lines))
            for first, last in rules(module):
                with self.subTest(claim=claim, line=first):
                    self.assertTrue(any(lines and all(first <= line <= last for line in lines) for lines in found))

    def test_gaps_over_collections_are_counted_and_break_nothing(self):
        case = history(
            add("a", "p", 1, to="posts"), add("a", "r", 3, to="replies"), look("c", "r", 9, "replies"),
            look("c", [], 11, "posts"), add("a", "q", 13, to="posts"), look("d", "q", 15, "posts"))
        broken = [violation.claim for violation in judge(case)]
        self.assertEqual(broken, ["C5"])  # d misses p within the collection
        self.assertEqual([violation.message for violation in CLAIMS["C5"].over_collections(case)],
                         ["c saw r and not p, which its author knew"])

    def test_a_history_that_keeps_a_claim_breaks_none(self):
        for claim, cases in KEEPING.items():
            for name, case in cases.items():
                with self.subTest(claim=claim, history=name):
                    self.assertEqual([str(violation) for violation in judge(history(*case))], [])

    def test_a_broken_guarantee_of_a_session_is_told_by_its_name(self):
        for name in ("read your writes", "monotonic reads", "monotonic writes", "writes follow reads"):
            found = CLAIMS["C7"].judge(history(*BREAKING["C7"][name]))
            self.assertEqual([violation.message.split(":")[0] for violation in found], [name])

    def test_the_shown_operations_alone_break_the_claim_too(self):
        for claim, cases in BREAKING.items():
            for name, case in cases.items():
                with self.subTest(claim=claim, history=name):
                    found = [violation for violation in judge(history(*case)) if violation.claim == claim]
                    again = judge(sorted(found[0].operations, key=lambda operation: operation.began))
                    self.assertIn(claim, [violation.claim for violation in again])


class Mutations(unittest.TestCase):
    def test_the_page_names_each_bug_that_is_built_and_its_topology(self):
        built, said = bugs()
        self.assertEqual([(name.split(":")[0], topology) for name, topology, _ in said], built)
        self.assertEqual([name for name, _ in built], list(MUTATIONS))

    def test_what_each_bug_shows_breaks_the_claims_that_the_page_names_and_nothing_without_the_bug(self):
        for (name, _), (_, _, claims) in zip(*bugs()):
            with self.subTest(bug=name):
                told = MUTATIONS[name]
                self.assertEqual({violation.claim for violation in judge(history(*told(False)))}, claims)
                self.assertEqual([str(violation) for violation in judge(history(*told(True)))], [])


class Lines(unittest.TestCase):
    def test_what_a_replica_lost_when_it_was_put_back_is_unknown(self):
        lines = [
            '{"at": 1, "op": 0, "client": "a", "door": "peer", "event": "invoke", "kind": "add",'
            ' "data": {"set": "s", "element": "x"}}',
            '{"at": 2, "op": 0, "event": "ok", "data": {}}',
            '{"at": 3, "op": 1, "client": "b", "door": "peer", "event": "invoke", "kind": "read-set",'
            ' "data": {"set": "s", "final": true}}',
            '{"at": 4, "op": 1, "event": "ok", "data": {"elements": []}}',
        ]
        self.assertEqual([violation.claim for violation in judge(operations(lines))], ["C2"])
        doubted = operations([*lines, '{"at": 5, "op": 0, "event": "info", "data": {"doubted": true}}'])
        self.assertEqual((doubted[0].outcome, doubted[0].ended), ("info", math.inf))
        self.assertEqual(judge(doubted), [])

    def test_an_operation_without_an_answer_has_an_unknown_outcome(self):
        lines = [
            '{"run": {"seed": 1}}',
            '{"at": 1, "op": 0, "client": "a", "door": "peer", "event": "invoke", "kind": "add",'
            ' "data": {"set": "s", "element": "x"}}',
            '{"at": 2, "op": 1, "client": "b", "door": "http", "event": "invoke", "kind": "read-set",'
            ' "data": {"set": "s"}}',
            '{"at": 3, "op": 1, "event": "ok", "data": {"elements": ["x"]}}',
        ]
        sent, read = operations(lines)
        self.assertEqual((sent.outcome, sent.ended), ("info", math.inf))
        self.assertEqual((read.outcome, read.began, read.ended, read["elements"]), ("ok", 2, 3, ["x"]))
        self.assertEqual(judge([sent, read]), [])


class Tally(unittest.TestCase):
    def test_a_fault_is_of_a_kind_and_a_place(self):
        kinds = {
            "kill a": "kill: peer", "stop query-service-2": "stop: service", "kill server": "kill: server",
            "stop postgres": "stop: postgres", "one way down link of a to b": "one way: link",
            "cut network of query-service-2": "cut: network", "slow network": "slow: network",
            "clock of b": "clock: peer", "clock of all": "clock of all", "put back e": "put back: peer",
            "absence of c": "absence: peer"}
        self.assertEqual({fault: kind_of(fault) for fault in kinds}, kinds)

    def test_a_run_is_told_in_numbers(self):
        def fault(at, name, **data):
            return {"at": at, "fault": name, **data}

        lines = [
            {"run": {"topology": "peers", "seed": 7, "minutes": 1}},
            {"at": 1, "op": 0, "client": "a", "door": "peer", "event": "invoke", "kind": "add",
             "data": {"set": "s", "element": "x"}},
            {"at": 2, "op": 0, "event": "ok", "data": {}},
            {"at": 12, "op": 1, "client": "a", "door": "peer", "event": "invoke", "kind": "add",
             "data": {"set": "s", "element": "y"}},
            fault(3, "kill a", begins=True), fault(5, "kill a", begins=False),
            fault(6, "mark", after="kill a", seconds=1.004, disturbed=False),
            fault(7, "mark", after=None, seconds=0.25, disturbed=False),
            fault(8, "mark", after=None, seconds=9, disturbed=True),
            fault(20, "rest", seconds=4)]
        told = tally(lines, operations(lines), {"C2": 1}, 3)
        self.assertEqual((told["topology"], told["seed"], told["rest"], told["seconds"]), ("peers", 7, 4, 20))
        self.assertEqual(told["operations"], {"add": {"ok": 1, "fail": 0, "info": 1}})
        self.assertEqual((told["faults"], told["recovery"]), ({"kill: peer": 1}, {"kill: peer": [[1.0, False]]}))
        self.assertEqual((told["lag"], told["violations"], told["gapsOverCollections"]), ([0.25], {"C2": 1}, 3))
        self.assertEqual(told["timeline"]["operations"], [1, 1])
        self.assertEqual(told["timeline"]["faults"], [["kill: peer", 3, 5]])

    def test_the_page_and_its_plots_are_made_of_the_kept_tallies(self):
        files = made(PAGE.read_text(encoding="utf-8"), tallies())
        self.assertEqual(len(files), 3)
        for path, content in files.items():
            self.assertEqual(path.read_text(encoding="utf-8"), content, path.name)
