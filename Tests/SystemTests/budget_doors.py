"""The doors that `test_budget` tries: requests of a credential that may only read, of one that may also write, or of
nobody, that cost the server as much as somebody could think of. Each names the kind of its cost.
"""

import dataclasses
import gzip
import itertools
import json
import time
from urllib.parse import quote

import cbor2
from mimeo_harness import pick

EXECUTE = "/api/v5/store/execute"
FIND = "/api/v4/store/find"
OBSERVE = "/api/v5/store/observe"
LOGIN = "/_ditto/auth/login"
REGEX = "regexp_like(repeat(s, 2000), '(a|b|ab)*c(d?){30}[^x]{40}y')"
PAIRS = "ANY p IN :l SATISFIES (ANY q IN :l SATISFIES p + q < 0 END) END"
JSON_TYPE = {"Content-Type": "application/json"}
CBOR_TYPE = {"Content-Type": "application/cbor"}
UPLOADS = pick(1_000, 100_000)
"""Writes of one peer: a statement waits until those before it are folded, so of many it is late (Docs/budget.md)."""


@dataclasses.dataclass
class Place:
    """Where the doors are."""

    database: str
    attachment: str
    """The id of an attachment of some megabytes that everybody may read."""
    provider: str
    """A provider of logins whose webhook never answers."""


@dataclasses.dataclass
class Door:
    """`count` connections send the request at once, again and again; with `reads` False they never read an answer."""

    name: str
    cost: str
    count: int
    request: tuple
    """Method, path, body and fields; or a function that makes another one each time."""
    reads: bool = True
    anonymous: bool = False
    writes: bool = False
    """True for a credential that may write too, below a collection of its own."""
    begins: bytes = b""
    """Bytes that begin a request which never ends, in place of a request; KEY in them stands for the credential."""
    repeats: bytes = b""
    """Bytes that follow without end, once the server has greeted after `begins`."""
    is_admin: bool = False
    """True for an operator's credential."""
    uploads: int = 0
    """Of a session of sync instead of a request: it writes texts of so many bytes, without end."""
    is_known: bool = False
    """True for those that were found open once."""
    subscriptions: tuple = ()
    """Of a session of sync instead of a request: statements with their arguments."""


def post(path, body, headers=None):
    return "POST", path, body if isinstance(body, bytes) else body.encode(), {**JSON_TYPE, **(headers or {})}


def get(path, headers=None):
    return "GET", path, b"", headers or {}


def execute(statement, headers=None, **arguments):
    return post(EXECUTE, json.dumps({"statement": statement, "args": arguments}), headers)


def members(count):
    return "{" + ",".join(f'"k{number}":1' for number in range(count)) + "}"


def with_arguments(text):
    return f'{{"statement":"SELECT 1 AS n FROM big LIMIT 1","args":{text}}}'


def terms(word, operator, count):
    return f" {word} ".join(f"n {operator} {number}" for number in range(count))


def cbor_array(count, item=b"\xa0"):
    """{"statement": "SELECT 1", "args": {"a": [item, …]}}."""
    head = b"\xa2\x69statement\x68SELECT 1\x64args\xa1\x61a\x9a" + count.to_bytes(4, "big")
    return head + item * count


def known():
    """The doors that stood open."""
    many = with_arguments(members(400_000))
    elements = with_arguments('{"a":[' + "{}," * 1_500_000 + "{}]}")
    conjunction = f"SELECT COUNT(*) AS n FROM honest WHERE {terms('AND', '<>', 60_000)}"
    wide = "SELECT repeat(s, 100) AS x FROM big LIMIT 18000"
    yield Door("where of changes", "time", 2, get("/api/v5/changes?since=0&values=new&where=" + quote(REGEX)))
    yield Door("members of a body", "time", 2, post(EXECUTE, many))
    yield Door("members of a packed body", "time", 4,
               post(EXECUTE, gzip.compress(many.encode(), 1), {"Content-Encoding": "gzip"}))
    yield Door("elements of a body", "memory", 8, post(EXECUTE, elements))
    yield Door("history", "memory", 4, get("/api/v5/history/large/x?limit=1000"))
    yield Door("history that nobody reads", "memory", 12, get("/api/v5/history/large/x?limit=1000"), reads=False)
    yield Door("a long conjunction", "time", 8, execute(conjunction))
    yield Door("a long disjunction", "time", 8,
               execute(f"SELECT COUNT(*) AS n FROM honest WHERE {terms('OR', '=', 60_000)}"))
    yield Door("a long conjunction, explained", "time", 8, execute("EXPLAIN " + conjunction))
    yield Door("a long conjunction, observed", "time", 8, post(OBSERVE, json.dumps({"statement": conjunction})))
    yield Door("a long legacy query", "time", 8,
               post(FIND, json.dumps({"collection": "honest", "query": terms("&&", "!=", 40_000)})))
    yield Door("rows that nobody reads", "memory", 16, execute(wide), reads=False)
    yield Door("lines that nobody reads", "disk", 8, execute(wide, {"Accept": "application/x-ndjson"}), reads=False)
    yield Door("large values that nobody reads", "memory", 24,
               execute("SELECT repeat(repeat(s, 100), 500) AS x FROM big LIMIT 400"), reads=False)
    yield Door("made elements", "memory", 16,
               execute("SELECT date_range('2000-01-01', '2700-01-01', 'day') AS d FROM big LIMIT 40"), reads=False)
    yield Door("logins with many members", "time", 32, post(LOGIN, members(5_500)), anonymous=True)


def of_text():
    """Long statements and bodies in other shapes."""
    deep = "(" * 120 + "n" + ")" * 120
    yield Door("elements of a body in CBOR", "memory", 4, post(EXECUTE, cbor_array(6_000_000), CBOR_TYPE))
    yield Door("small numbers of a body in CBOR", "memory", 4,
               post(EXECUTE, cbor_array(11_000_000, b"\x01"), CBOR_TYPE))
    yield Door("escapes of a body", "time", 8, post(EXECUTE, with_arguments('{"a":"' + "\\u0041" * 1_500_000 + '"}')))
    yield Door("an endless depth", "time", 16, post(EXECUTE, with_arguments("[" * 8_000_000)))
    yield Door("a body with one long key", "memory", 8, post(EXECUTE, with_arguments('{"' + "k" * 10_000_000 + '":1}')))
    yield Door("lists of a statement", "time", 8, execute(
        "SELECT COUNT(*) AS n FROM honest WHERE n IN (" + ",".join(map(str, range(65_000))) + ")"))
    yield Door("parentheses", "time", 8, execute(
        "SELECT COUNT(*) AS n FROM honest WHERE " + " AND ".join([f"{deep} = 1"] * 3_000)))
    yield Door("a concatenation of texts", "time", 8, execute(
        "SELECT COUNT(*) AS n FROM honest WHERE " + " || ".join(["'abcdefgh'"] * 60_000) + " = 'x'"))
    yield Door("cases", "time", 8, execute(
        "SELECT CASE " + " ".join(f"WHEN n = {number} THEN {number}" for number in range(25_000)) + " END FROM honest"))
    yield Door("an object of many members", "time", 8, execute(
        "SELECT {" + ",".join(f"'k{number}': n" for number in range(60_000)) + "} AS o FROM honest"))
    yield Door("projections beyond the limit", "time", 8, execute(
        "SELECT " + ",".join(f"n AS n{number}" for number in range(60_000)) + " FROM honest"))
    yield Door("a statement of letters", "time", 16, post(EXECUTE, json.dumps({"statement": "x" * 10_000_000})))
    yield Door("terms that differ by their case", "time", 8, execute(
        "SELECT COUNT(*) AS n FROM honest WHERE " + " OR ".join(f"f{number} = 1" for number in range(50_000))))
    yield Door("an id of many elements in a path", "time", 32,
               get("/api/v5/history/large/" + quote("[" + ",".join("1" * 12_000) + "]")))
    yield Door("arguments in an address", "time", 32,
               get(OBSERVE + "?statement=" + quote("SELECT * FROM honest") + "&args=" + quote(members(3_000))))
    yield Door("a sort of many properties", "time", 8, post(FIND, json.dumps(
        {"collection": "honest", "query": "", "sort": [{"property": f"a{number}.b"} for number in range(60_000)]})))
    yield Door("a key for sending again", "time", 8,
               post(EXECUTE, with_arguments('{"a":"' + "x" * 11_000_000 + '"}'), {"Idempotency-Key": "k"}))


def of_rows():
    """Statements that compute or gather."""
    wide = "SELECT repeat(s, 100) AS x FROM big LIMIT 18000"
    yield Door("pairs", "time", 32, execute(f"SELECT * FROM big WHERE {PAIRS}", l=list(range(1_500))))
    yield Door("turns that keep their threads", "threads", 64, execute(
        f"SELECT repeat(s, 10) AS x FROM big WHERE {PAIRS} ORDER BY s", l=list(range(1_500))))
    yield Door("a sort of large values", "disk", 8, execute(
        "SELECT repeat(s, 60) AS x FROM big ORDER BY repeat(s, 60) || `_id` DESC LIMIT 15000"))
    yield Door("groups of large values", "memory", 8, execute(
        "SELECT COUNT(*) AS n FROM big GROUP BY repeat(s, 100) || `_id`"))
    yield Door("distinct large values", "memory", 8, execute("SELECT DISTINCT repeat(s, 100) || `_id` AS x FROM big"))
    yield Door("lists of lists", "memory", 8, execute(
        "SELECT ARRAY (ARRAY p * q FOR q IN :l END) FOR p IN :l END AS x FROM big LIMIT 50", l=list(range(400))))
    large = "repeat('abcdefgh', 600000)"
    yield Door("many large values of a row", "memory", 8, execute(
        "SELECT " + ", ".join(f"{large} || '{number}' AS x{number}" for number in range(400)) + " FROM honest"))
    yield Door("many large elements of a list", "memory", 8, execute(
        f"SELECT ARRAY {large} || p FOR p IN :l END AS x FROM honest", l=[f"{number}" for number in range(400)]))
    yield Door("a condition on many large elements", "memory", 8, execute(
        f"SELECT COUNT(*) AS n FROM honest WHERE array_length(ARRAY {large} || p FOR p IN :l END) = 1",
        l=[f"{number}" for number in range(400)]))
    yield Door("a join without a key", "time", 8, execute("SELECT COUNT(*) AS n FROM big a JOIN big b ON a.n < b.n"))
    yield Door("a text without end", "memory", 8, execute(
        "SELECT COUNT(*) AS n FROM big WHERE repeat(repeat(s, 1000), 40) LIKE '%a%b%z'"))
    yield Door("an answer in CBOR", "time", 4, execute(wide, {"Accept": "application/cbor"}))
    yield Door("an answer in CBOR that nobody reads", "memory", 8, execute(wide, {"Accept": "application/cbor"}),
               reads=False)
    yield Door("a packed answer", "time", 8, execute(wide, {"Accept-Encoding": "gzip"}))
    yield Door("a transaction of reads", "memory", 8, post(EXECUTE, json.dumps(
        {"transaction": [{"statement": "SELECT repeat(s, 100) AS x FROM big LIMIT 200"}] * 100})))
    yield Door("a transaction of many statements of some kilobytes", "time", 8, post(EXECUTE, json.dumps(
        {"transaction": [{"statement": f"SELECT n FROM honest WHERE n = -{number} OR {terms('OR', '=', 400)} LIMIT 1"}
                         for number in range(1_000)]})))
    yield Door("a transaction of costly reads", "time", 8, post(EXECUTE, json.dumps(
        {"transaction": [{"statement": f"SELECT COUNT(*) AS n FROM big WHERE {REGEX}"}] * 1_000})))
    yield Door("all documents of before DQL", "memory", 12,
               post(FIND, json.dumps({"collection": "big", "query": ""})), reads=False)
    yield Door("types of all documents of before DQL", "time", 8, post(FIND, json.dumps(
        {"collection": "big", "query": "", "limit": 20_000, "serializedAs": "latestValuesAndTypes"})))
    yield Door("a profile", "time", 8, execute(f"PROFILE SELECT * FROM big WHERE {REGEX}"))
    yield Door("advice", "time", 8, execute(f"ADVISE SELECT * FROM big WHERE {terms('OR', '=', 3_000)}"))


def of_streams():
    """Streams, the past, and routes that are cheap each."""
    yield Door("a where of many terms of changes", "time", 8,
               get("/api/v5/changes?since=0&where=" + quote(terms("OR", "=", 900))))
    yield Door("changes with both values", "time", 8, get("/api/v5/changes?since=0&values=both"))
    yield Door("changes that nobody reads", "memory", 32, get("/api/v5/changes?since=0&values=both"), reads=False)
    yield Door("a snapshot with a where", "time", 4,
               get("/api/v5/changes?since=snapshot&where=" + quote(REGEX)))
    yield Door("following with a where", "streams", 200,
               get("/api/v5/changes?since=now&feed=continuous&where=" + quote(REGEX)), reads=False)
    yield Door("a live query of all documents", "streams", 60,
               post(OBSERVE, json.dumps({"statement": "SELECT * FROM big ORDER BY s"})), reads=False)
    yield Door("costly live queries", "streams", 16, post(OBSERVE, json.dumps(
        {"statement": f"SELECT * FROM big WHERE {REGEX}"})), reads=False)
    yield Door("the past", "disk", 8, execute("SELECT COUNT(*) AS n FROM big") [:1] + (
        EXECUTE, json.dumps({"statement": "SELECT COUNT(*) AS n FROM big", "asOf": 3}).encode(), JSON_TYPE))
    yield Door("conflicts", "time", 16, get("/api/v5/conflicts/big?limit=1000"))
    yield Door("the list of requests", "time", 32, get("/api/v5/requests"))
    yield Door("a state that does not come", "threads", 200,
               execute("SELECT * FROM honest", {"X-DITTO-TXN-ID": "99999999"}))
    yield Door("metrics", "time", 32, get("/metrics"), anonymous=True)
    yield Door("the description of the interface", "time", 32,
               get("/openapi.json", {"Accept-Encoding": "gzip"}), anonymous=True)
    yield Door("keys", "time", 32, get("/_ditto/auth/jwks.json"), anonymous=True)
    yield Door("tokens that are none", "time", 32, get("/api/v5/requests", {"Authorization": "Bearer " + "e" * 16_000}),
               anonymous=True)
    yield Door("bodies of nobody", "memory", 32, post(EXECUTE, b"x" * 11_000_000), anonymous=True)
    yield Door("packed logins", "memory", 32,
               post(LOGIN, gzip.compress(b" " * 200_000_000, 9), {"Content-Encoding": "gzip"}), anonymous=True)
    yield Door("certificates", "time", 16, post("/_ditto/auth/cert", json.dumps({"request": "A" * 60_000})))


def of_frames():
    """Sessions of sync, which subscribe to what is costly to read, to evaluate or to send."""
    def session(name, cost, count, *subscriptions):
        return Door(name, cost, count, (), reads=False, subscriptions=subscriptions)

    yield session("long subscriptions", "time", 4, *(
        (f"SELECT * FROM honest WHERE {terms('OR', '=', 40_000)} OR n = {-number}", {}) for number in range(4)))
    yield session("subscriptions with many arguments", "memory", 4, *(
        ("SELECT * FROM honest WHERE n IN :a", {"a": [number] * 400_000}) for number in range(4)))
    yield session("costly subscriptions", "time", 8, *(
        (f"SELECT * FROM big WHERE {REGEX} OR n = {-number}", {}) for number in range(20)))
    yield session("subscriptions to everything", "streams", 24, *(
        (f"SELECT * FROM big WHERE n >= {number}", {}) for number in range(4)))
    yield session("subscriptions through pairs", "time", 8, *(
        (f"SELECT * FROM big WHERE {PAIRS} OR n = {-number}", {"l": list(range(1_500))}) for number in range(8)))


def of_writes():
    """Writes: large, many, slow, refused."""
    def write(name, cost, count, statement, **arguments):
        return Door(name, cost, count, execute(statement, **arguments), writes=True)

    insert = "INSERT INTO theirs DOCUMENTS (:d) ON ID CONFLICT DO UPDATE"
    many = [{"_id": number, "n": number, "s": "text " * 4} for number in range(5_000)]
    yield write("a document of five megabytes", "disk", 8, insert, d={"_id": "x", "t": "t" * 5_000_000})
    yield write("documents of a bulk", "time", 8, insert, d=many)
    yield write("small writes", "time", 32, insert, d={"_id": "y", "n": 1})
    yield write("writes of all documents", "time", 8, "UPDATE theirs SET n = n + 1 WHERE n >= 0")
    yield write("writes with a where", "time", 32, f"UPDATE big SET n = 1 WHERE {REGEX}")
    yield write("refused writes", "time", 32, "INSERT INTO honest DOCUMENTS (:d)", d={"_id": "y", "n": 1})
    yield write("large refused writes", "memory", 8, "INSERT INTO honest DOCUMENTS (:d)", d=many)
    yield Door("transactions of many writes", "time", 16, post(EXECUTE, json.dumps({"transaction": [
        {"statement": f"UPDATE theirs SET n = n + {number} WHERE _id = {number}"} for number in range(1_000)]})),
        writes=True)
    yield Door("transactions that fail at their end", "time", 8, post(EXECUTE, json.dumps({"transaction": [
        {"statement": insert, "args": {"d": many}},
        {"statement": "INSERT INTO honest DOCUMENTS ({'_id': 'y'})"}]})), writes=True)
    yield Door("commands of before DQL", "time", 8, post("/api/v4/store/write", json.dumps({"commands": [
        {"method": "upsert", "collection": "theirs", "id": number, "value": {"n": number}}
        for number in range(1_000)]})), writes=True)


def of_connections():
    """Connections that begin something and never end it."""
    host = b"Host: localhost\r\n"
    yield Door("half heads", "streams", 300, (), begins=b"POST /api/v5/store/execute HTTP/1.1\r\n" + host)
    yield Door("half bodies", "memory", 100, (), begins=(
        b"POST /_ditto/auth/login HTTP/1.1\r\n" + host + b"Content-Length: 60000\r\n\r\n{"))
    yield Door("silent connections", "streams", 300, (), begins=b"G")
    yield Door("half frames of a WebSocket", "streams", 100, (), begins=(
        b"GET /_ditto/sync HTTP/1.1\r\n" + host + b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        b"\x02\xff\x00\x00\x00\x00\x00\xff\x00\x00"))


def of_other_each_time():
    """Requests of which no two are equal: nothing that was made for one serves the next."""
    numbers = itertools.count(1)

    def other(name, cost, count, make, **more):
        return Door(name, cost, count, lambda: make(next(numbers)), **more)

    yield other("live queries of all documents, each another one", "memory", 64, lambda number: post(
        OBSERVE, json.dumps({"statement": f"SELECT * FROM big WHERE n >= -{number} ORDER BY s"})), reads=False)
    yield other("long statements that are kept", "memory", 8, lambda number: execute(
        f"SELECT COUNT(*) AS n FROM honest WHERE n = {number} OR {terms('OR', '=', 1_200)}"))
    yield other("long live queries, each another one", "memory", 16, lambda number: post(
        OBSERVE, json.dumps({"statement": f"SELECT n FROM honest WHERE n = -{number} OR {terms('OR', '=', 30_000)}"})),
        reads=False)
    count = "SELECT COUNT(*) AS n FROM big"
    yield other("many points of the past", "disk", 16, lambda number: post(
        EXECUTE, json.dumps({"statement": count, "asOf": 1 + number % 12})))
    yield other("times of the past", "time", 16, lambda number: post(
        EXECUTE, json.dumps({"statement": count, "asOf": f"2090-01-01T00:00:{number % 60:02}Z"})))
    yield other("a document at many points", "disk", 16, lambda number: get(
        f"/api/v5/history/large/x?at={1 + number % 20}"))
    yield other("changes from many points", "disk", 16, lambda number: get(
        f"/api/v5/changes?since={number % 12}&values=changes"))


def of_wire():
    """Requests that are cheap to send: packed, cut in pieces, many at once."""
    packed = {"Content-Encoding": "gzip"}
    empty = gzip.compress(b"", 1)
    chunks = b"1\r\n \r\n" * 60_000 + b"0\r\n\r\n"
    trailers = b"0\r\n" + b"".join(b"x-%d: y\r\n" % number for number in range(200)) + b"\r\n"
    fields = {f"X-Field-{number}": "v" * 400 for number in range(240)}
    host = b"Host: localhost\r\n"
    key = b"Authorization: Bearer KEY\r\n"
    point = json.dumps({"statement": "SELECT * FROM big WHERE _id = '0-1'"}).encode()
    one = (b"POST /api/v5/store/execute HTTP/1.1\r\n" + host + key
           + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(point) + point)
    yield Door("empty parts of packed logins", "time", 32, post(LOGIN, empty * 3_000, packed), anonymous=True)
    yield Door("empty parts of a packed body", "time", 8, post(EXECUTE, empty * 550_000, packed))
    yield Door("packed spaces", "time", 8, post(EXECUTE, gzip.compress(b" " * 12_000_000, 9), packed))
    yield Door("packed uploads", "disk", 8, post("/api/v5/attachments/upload", gzip.compress(bytes(60_000_000), 9), {
        **packed, "Content-Type": "application/octet-stream"}), writes=True)
    yield Door("uploads that are begun and left", "disk", 32, ("POST", "/api/v5/attachments/uploads", b"", {
        "Tus-Resumable": "1.0.0", "Upload-Length": "1000"}), writes=True)
    yield Door("chunks of one byte", "time", 32, post(LOGIN, chunks, {"Transfer-Encoding": "chunked"}), anonymous=True)
    yield Door("trailers", "time", 32, post(LOGIN, trailers, {"Transfer-Encoding": "chunked"}), anonymous=True)
    yield Door("large heads", "time", 32, get("/health", fields), anonymous=True)
    yield Door("reads that do not wait for each other", "time", 16, (), begins=one * 5_000)
    yield Door("pings of a WebSocket", "time", 16, (), begins=upgrade() + (b"\x89\xfd" + bytes(4 + 125)) * 20_000)
    yield Door("fragments of a WebSocket", "memory", 16, (),
               begins=upgrade() + b"\x02\x81" + bytes(5) + (b"\x00\x81" + bytes(5)) * 100_000)
    yield Door("lines of everything", "time", 16, execute(
        "SELECT * FROM big ORDER BY n DESC", {"Accept": "application/x-ndjson"}))


def upgrade():
    """The head of a WebSocket of a session."""
    return (b"GET /_ditto/sync HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer KEY\r\nConnection: Upgrade\r\n"
            b"Upgrade: websocket\r\nSec-WebSocket-Protocol: mimeo.sync.1\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")


def sent(frame):
    """A frame of a session, as a message of a WebSocket."""
    data = cbor2.dumps(frame, canonical=True)
    size = len(data)
    length = (bytes([0x80 + size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big") if size < 1 << 16
              else b"\xff" + size.to_bytes(8, "big"))
    return b"\x82" + length + bytes(4) + data


def of_sessions(place):
    """Sessions that send without end what costs them nothing."""
    hello = {0: 1, 1: 3, 2: place.database, 3: "", 4: int(time.time() * 1_000), 5: 1 << 22, 6: [], 16: True}
    opened = upgrade() + sent(hello)
    # The key is a point of the curve, so each signature has to be looked at.
    content = cbor2.dumps({0: "pkA2sX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKW", 1: [1, bytes(8)], 2: 1, 3: "", 4: "", 5: "",
                           6: 4, 7: False, 8: [], 9: "{}"}, canonical=True)
    records = {0: 31, 2: [[[content, b"\x01" * 64], 0]] * 250}
    digests = {0: 31, 1: [[number.to_bytes(8, "big"), [1, bytes(8)], 1] for number in range(30_000)]}
    pieces = b"".join(
        sent({0: 13, 1: False, 2: bytes(4_096), 3: name * 8, 4: 4_096 * number})
        for name in (b"a", b"b") for number in range(500))
    yield Door("presence of peers that have not signed it", "time", 16, (), begins=opened, repeats=sent(records) * 4)
    yield Door("digests of presence", "time", 16, (), begins=opened, repeats=sent(digests) * 4)
    yield Door("pieces of messages without end", "memory", 16, (), begins=opened, repeats=pieces)
    yield Door("wants of documents that are not there", "time", 16, (), begins=opened, repeats=sent(
        {0: 10, 1: [["big", cbor2.dumps(f"none {number}")] for number in range(1_000)]}))
    yield Door("uploads of a session", "time", 8, (), writes=True, uploads=UPLOADS)
    yield Door("uploads of a session that may write nothing", "time", 8, (), uploads=UPLOADS)


def of_files(place):
    """Parts of attachments, and attachments in parts."""
    path = f"/api/v5/attachments/{place.attachment}"
    numbers = itertools.count(1)
    huge = "9" * 30_000
    spellings = [f"bytes={huge}-{huge}", f"bytes=-{huge}", f"bytes=0-{huge}", "bytes=-1", f"bytes={huge}", "bytes=1-0"]
    ranges = {
        "many ranges of a byte": ",".join(f"{2 * number}-{2 * number}" for number in range(5_000)),
        "ranges that overlap": ",".join(f"0-{number}" for number in range(1_000_000, 1_006_000)),
    }
    for name, text in ranges.items():
        yield Door(name, "time", 16, get(path, {"Range": "bytes=" + text}))
    yield Door("a range of a byte, each another one", "time", 64, lambda: get(
        path, {"Range": f"bytes={next(numbers)}-{next(numbers)}"}))
    yield Door("ranges of huge numbers", "time", 32, lambda: get(
        path, {"Range": spellings[next(numbers) % len(spellings)]}))
    yield Door("attachments that nobody reads", "memory", 64, get(path), reads=False)
    yield Door("fragments of uploads", "disk", 16, post(
        "/api/v5/attachments/upload", b"1\r\nx\r\n" * 200_000 + b"0\r\n\r\n",
        {"Content-Type": "application/octet-stream", "Transfer-Encoding": "chunked"}), writes=True)


def of_operators(place):
    """Logins at a webhook that hangs, and lists of operators, asked for by one or by nobody."""
    login = json.dumps({"databaseID": place.database, "provider": place.provider, "token": "t"})
    audit = "/admin/auth/audit"
    where = quote("regexp_like(repeat(action, 2000), '(a|b|ab)*c(d?){30}[^x]{40}y')")
    yield Door("logins that hang", "threads", 300, post(LOGIN, login), anonymous=True)
    yield Door("logins that hang, given up", "threads", 200, post(LOGIN, login), anonymous=True, reads=False)
    yield Door("a filter of the audit", "time", 16, get(f"{audit}?where={where}"), is_admin=True)
    yield Door("a long filter of the audit", "time", 8, post(audit, json.dumps(
        {"statement": f"SELECT * FROM audit WHERE {terms('OR', '=', 4_500)}"})), is_admin=True)
    yield Door("large values of the audit", "memory", 16, post(audit, json.dumps(
        {"statement": "SELECT repeat('abcdefgh', 500000) AS x FROM audit"})), is_admin=True)
    yield Door("accounts by a long text", "time", 32, get(
        f"/admin/auth/databases/{place.database}/accounts?match=" + "a" * 60_000), is_admin=True)
    yield Door("a filter of the audit, by nobody", "time", 32, get(f"{audit}?where={where}"), anonymous=True)


def doors(place):
    found = [dataclasses.replace(door, is_known=True) for door in known()]
    return found + [*of_text(), *of_rows(), *of_streams(), *of_frames(), *of_writes(),
                    *of_connections(), *of_other_each_time(), *of_wire(),
                    *of_sessions(place), *of_files(place), *of_operators(place)]
