"""Makes the fuzzers' seeds out of what the tests hold anyway: `seeds.py DIRECTORY` writes one folder per target.

Bytes come from the first-form fixtures, statements from the corpus, words for the mutator from the list of keywords.
"""

import base64
import json
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
SHARED = TESTS.parent / "Shared"
# Of a key that nobody has: a PKCS#10 request and a self-signed certificate, both of P-256.
REQUEST = (
    "MIHIMHACAQAwDjEMMAoGA1UEAwwDcGtBMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEb/c6b0FWGnr5wLJyKZdOgzBxhvRU3eYj"
    "E0E5i3EU+LhaLQWmzxxqRgn+4NK3QeKNqSCs89dd7vwIss2O6WwDqqAAMAoGCCqGSM49BAMCA0gAMEUCIQCWU8uLe7ExKIV5U5Ve"
    "3RJpAW7kx2YPHaPQTB7DHzfJGwIgQHZCa7K72Bwi8Si8J7h7djpa4XSyByVNjS1jAs5OPak=")
CERTIFICATE = (
    "MIIBeDCCAR2gAwIBAgIUa4US2LYwtg23WhWtXwrBykMFN4cwCgYIKoZIzj0EAwIwETEPMA0GA1UEAwwGZnV6ei4xMB4XDTI2MTEy"
    "MjEyNDAzNloXDTM2MTExOTEyNDAzNlowETEPMA0GA1UEAwwGZnV6ei4xMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEb/c6b0FW"
    "Gnr5wLJyKZdOgzBxhvRU3eYjE0E5i3EU+LhaLQWmzxxqRgn+4NK3QeKNqSCs89dd7vwIss2O6WwDqqNTMFEwHQYDVR0OBBYEFLxB"
    "q/3K/AZOGtDXoeF1QgYICIIjMB8GA1UdIwQYMBaAFLxBq/3K/AZOGtDXoeF1QgYICIIjMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZI"
    "zj0EAwIDSQAwRgIhANh0U0CMBCwQw5gMxsUIGKCySC82n4PDMdNSSjawTKtDAiEA6X1nSneHKzB58phaTZZ/jRl9KHndBQ8X+6Md"
    "9EUjpFU=")
TARGETS = {"document": ["document"], "delta": ["delta"], "operation": ["operation"], "id": ["cbor"]}


def write(directory, target, name, data):
    folder = directory / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def fixtures(directory):
    for file in sorted((TESTS / "CRDTTests" / "Fixtures").glob("*.json")):
        for number, fixture in enumerate(json.loads(file.read_text())["fixtures"]):
            name = f"{file.stem}-{number}"
            for target in TARGETS.get(fixture["kind"], []):
                write(directory, target, name, bytes.fromhex(fixture["bytes"]))
            write(directory, "json", name, json.dumps(fixture["decoded"]).encode())


def frames(directory):
    """Frames as they are, and as the events of an open session of either side."""
    for file in sorted((TESTS / "SyncTests" / "Fixtures").glob("frames-*.txt")):
        events = {2: b"", 3: b""}
        for line in file.read_text().splitlines():
            name, text = line.split(" ")
            data = bytes.fromhex(text)
            write(directory, "frame", name, data)
            event = bytes([0]) + len(data).to_bytes(2, "big") + data
            for kind in events:
                write(directory, "session", f"{name}-{kind}", bytes([kind]) + event + bytes([14]))
                events[kind] += event + bytes([14])
        for kind, data in events.items():
            write(directory, "session", f"{file.stem}-{kind}", bytes([kind]) + data)


def cbor(value):
    """Deterministic CBOR of what frames are made of."""
    def head(major, number):
        if number < 24:
            return bytes([major << 5 | number])
        code, width = next((c, w) for c, w in ((24, 1), (25, 2), (26, 4), (27, 8)) if number < 1 << 8 * w)
        return bytes([major << 5 | code]) + number.to_bytes(width, "big")

    if isinstance(value, bool):
        return b"\xf5" if value else b"\xf4"
    if value is None:
        return b"\xf6"
    if isinstance(value, int):
        return head(0, value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(cbor, value))
    return head(5, len(value)) + b"".join(cbor(key) + cbor(value[key]) for key in sorted(value))


def sessions(directory):
    """Sessions that go deep: what `Targets/SessionTargets.swift` reads as events of an open session."""
    vector = bytes.fromhex("01000000000000000109")
    for file in sorted((TESTS / "CRDTTests" / "Fixtures").glob("*.json")):
        for fixture in json.loads(file.read_text())["fixtures"]:
            if fixture["kind"] == "document":
                state = bytes.fromhex(fixture["bytes"])
            if fixture["kind"] == "operation":
                operation = bytes.fromhex(fixture["bytes"])
    actor = bytes(7) + b"\1"
    place = [bytes(16), 300, bytes(7) + b"\1"]
    later = [bytes(16), 301, bytes(7) + b"\1"]
    one, two = ["cars", cbor(1)], ["cars", cbor(2)]

    def frame(fields):
        data = cbor(fields)
        return b"\0" + len(data).to_bytes(2, "big") + data

    def run(data):
        return len(data).to_bytes(2, "big") + data

    subscribe = bytes([9, 1, 1, 0, 0, 0])
    stored = b"\x0e"
    page = {0: 5, 1: 1, 2: [one + [state]], 3: []}
    states = frame({0: 11, 1: [one + [state], two + [state]], 2: place})
    wrote = bytes([13, 1, 12, 1, 1, 1]) + run(operation) + bytes([12, 1, 0])
    refused = {0: 14, 1: actor, 2: 1, 3: "SYNC-0401", 4: "no", 5: [one]}
    peer = {
        "staged": subscribe + frame(page) + stored + frame({**page, 4: place, 8: b"r"}) + stored
        + frame({0: 7, 1: later}) + stored,
        "candidates": subscribe + frame({**page, 3: [two + [vector]]}) + bytes([19, 1, 2, 0]) + states + stored
        + frame({**page, 4: place}) + stored,
        "base": subscribe + frame({**page, 4: place}) + stored
        + frame({0: 6, 1: later, 2: [one + [b"d", actor, actor]]}) + bytes([18, 1, 0]) + states + stored,
        "repair": wrote + frame(refused) + bytes([23, 1, 1, 0]) + states + bytes([24])
        + bytes([28, 2, 1, 1, 1, 2]) + bytes([12, 2, 1, 1]) + run(operation),
        "gone": wrote + subscribe + frame({**page, 4: place, 5: [two + [vector]]}) + bytes([21, 2, 0])
        + bytes([23, 1, 2, 0]) + states + bytes([24, 28, 2, 0, 0]),
        "listed": subscribe + frame({0: 18, 1: 1}) + stored + bytes([22, 1, 1, 1, 0, 1]) + frame({**page, 4: place})
        + stored,
        "rights": subscribe + frame({0: 4, 1: 1, 2: "SYNC-0302", 3: "no", 4: True}) + stored + stored + frame({0: 20}),
        "evicted": subscribe + wrote + bytes([20, 1, 0, 2, 0]) + frame({0: 9, 1: [[actor, 1]], 2: 5}) + states + stored,
        "chunks": subscribe + frame({0: 13, 1: False, 2: cbor({**page, 4: place})[:20]})
        + frame({0: 13, 1: True, 2: cbor({**page, 4: place})[20:]}) + stored,
    }
    ask = frame({0: 2, 1: 1, 2: "SELECT * FROM cars", 3: {}})
    holds = frame({0: 2, 1: 1, 2: "SELECT * FROM cars", 3: {}, 6: True})
    served = bytes([39, 1, 1, 1, 1, 1, 0]) + run(state) + bytes([0, 200, 1, 1, 3, 0])
    change = bytes([39, 5, 1, 0, 0, 0, 1]) + run(state) + run(state) + bytes([0, 1, 4, 1, 0, 1, 4])
    server = {
        "served": ask + served + change + frame({0: 12, 1: 1000}) + bytes([39, 6, 1, 4]) + served,
        "held": holds + frame({0: 19, 1: 1, 2: [one + [vector]], 3: False}) + bytes([39, 3, 1, 1, 1, 1, 0]) + run(state)
        + bytes([0, 0, 0, 1, 1]) + frame({0: 19, 1: 1, 2: [], 3: True}) + bytes([39, 3, 1, 0, 0, 0, 0]) + served,
        "rights": ask + served + bytes([39, 4, 0, 2]) + bytes([39, 4, 1, 3]) + served,
        "uploads": frame({0: 8, 1: [operation]}) * 2 + bytes([39, 7, 1, 9]) + bytes([39, 8, 1, 0, 9]),
        "states": frame({0: 10, 1: [one, two]}) + bytes([39, 9, 1, 0, 1]) + run(state) + bytes([1, 1, 3]),
        "unknown": frame({0: 2, 1: 1, 2: "SELECT * FROM cars", 3: {}, 4: place, 7: bytes(8)}) + bytes([39, 2, 1]),
    }
    behind = {
        "restored": frame({0: 16, 1: [one + [vector]], 2: True}) + bytes([39, 10, 1, 1, 0])
        + frame({0: 11, 1: [one + [state]]}) + bytes([39, 11, 1, 3]),
    }
    for kind, scripts in ((2, peer), (3, server), (3 | 16, behind), (2 | 4 | 8, peer), (3 | 4 | 8, server),
                          (2 | 32, peer), (2 | 32 | 64, server)):
        for name, script in scripts.items():
            write(directory, "session", f"deep-{name}-{kind}", bytes([kind]) + script)
    words = [cbor(one), cbor(place), cbor({0: 5}), ask, holds, stored, states[:8], b"SYNC-0401", operation[:12]]
    escaped = ("".join(f"\\x{byte:02x}" for byte in word) for word in words)
    (directory / "session.dict").write_text("".join(f'"{word}"\n' for word in escaped))


def text64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def credentials(directory):
    """What strangers send to be believed, of the right shape and of nobody's key; and a webhook's answers."""
    grant = {"read": {"everything": True}, "write": {"everything": False, "queriesByCollection": {
        "c": ["_id == 'a'", "true"]}}, "remoteQuery": False, "qlVersion": 1}
    claims = {"iss": "urn:mimeo:auth-gateway", "sub": "u", "db": "fuzz", "pk": "pkA", "grant": grant, "jti": "t",
              "meta": '{"a":1}', "iat": 1_799_999_990, "nbf": 1_799_999_990, "exp": 1_800_000_060}
    write(directory, "claims", "all", json.dumps(claims).encode())
    write(directory, "claims", "least", json.dumps(
        {key: claims[key] for key in ("iss", "sub", "db", "iat", "exp")} | {"grant": {}}).encode())
    for name, header in {
        "es256": {"alg": "ES256", "kid": "fuzz.1", "typ": "JWT"}, "none": {"alg": "none"},
        "hs256": {"alg": "HS256", "kid": "fuzz.1"}, "crit": {"alg": "ES256", "kid": "fuzz.1", "crit": ["exp"]},
        "other": {"alg": "ES256", "kid": "../fuzz.1"},
    }.items():
        parts = [json.dumps(header).encode(), json.dumps(claims).encode(), bytes(range(64))]
        write(directory, "token", name, b".".join(map(text64, parts)))
    write(directory, "token", "api-key", b"mimeo_" + text64(bytes(9)) + b"_" + text64(bytes(32)))
    write(directory, "token", "challenge", text64(bytes(range(32))))
    write(directory, "token", "peer", b"pk" + text64(base64.b64decode(REQUEST)[67:68] + bytes(range(32))))
    key = {"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": "fuzz.1", "use": "sig",
           "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}
    write(directory, "keyset", "one", json.dumps({"keys": [key]}).encode())
    write(directory, "keyset", "others", json.dumps({"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB"}, key]}).encode())
    write(directory, "certificate", "self-signed", base64.b64decode(CERTIFICATE))
    write(directory, "request", "der", base64.b64decode(REQUEST))
    lines = "\n".join(REQUEST[at:at + 64] for at in range(0, len(REQUEST), 64))
    write(directory, "request", "pem",
          f"-----BEGIN CERTIFICATE REQUEST-----\n{lines}\n-----END CERTIFICATE REQUEST-----\n".encode())
    accepted = {"authenticated": True, "userID": "u", "expirationSeconds": 60, "permissions": grant,
                "clientInfo": {"a": [1, None]}, "identityServiceMetadata": {"b": "c"}}
    legacy = {"authenticate": True, "userID": "u", "expirationSeconds": 28800.0, "userInfo": "x"}
    for name, answer in {"current": accepted, "legacy": legacy, "error": {"authenticate": {"e": 1}, "userInfo": "no"},
                         "refused": {"authenticated": False}, "half": {"authenticated": True}}.items():
        write(directory, "webhook", name, json.dumps(answer).encode())
    words = sorted({word for object_ in (claims, grant, key, accepted, legacy) for word in object_})
    for target in ("claims", "keyset", "webhook"):
        words_of = [f'"\\"{word}\\":"' for word in words] + ['"true"', '"null"', '"_id == 1"', '"ES256"']
        (directory / f"{target}.dict").write_text("\n".join(words_of) + "\n")


def conditions():
    """What stands behind WHERE: with other operators, seeds of the older language."""
    for statement in statements():
        for condition in re.findall(r"(?i)\bWHERE (.*?)(?: GROUP| ORDER| LIMIT|$)", statement):
            yield condition.replace(" = ", " == ").replace(" AND ", " && ").replace(" OR ", " || ")


def statements():
    """The statements of every corpus file, continued lines joined."""
    for file in sorted((TESTS / "DQLTests" / "Corpus").glob("**/*.dqltest")):
        current = None
        for line in file.read_text(encoding="utf-8").splitlines():
            word, _, rest = line.partition(" ")
            if word == "." and current is not None:
                current += "\n" + rest
                continue
            if current is not None:
                yield current
            current = rest if word in (">", "setup") else None
            if word == "=" and " => " in rest:
                yield f"SELECT RAW {rest.split(' => ')[0]} FROM c"
        if current is not None:
            yield current


def main(directory):
    fixtures(directory)
    frames(directory)
    sessions(directory)
    credentials(directory)
    for number, statement in enumerate(sorted(set(statements()))):
        write(directory, "dql", f"statement-{number}", statement.encode())
        write(directory, "execute", f"statement-{number}", statement.encode())
    for number, condition in enumerate(sorted(set(conditions()))):
        write(directory, "legacy", f"condition-{number}", condition.encode())
    keywords = (SHARED / "DQL" / "Syntax" / "Keyword.swift").read_text()
    lines = [f'"{word} "' for word in sorted(set(re.findall(r'"([A-Z_]+)"', keywords)))]
    lines += [f'"{mark}"' for mark in ("||", "!=", "<=", ">=", "->", "??", "/*", "*/", "--", ":a", "_id", "'x'", "[*]")]
    for target in ("dql", "execute"):
        (directory / f"{target}.dict").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
