"""Logins of an account beside bare scrypt, taking turns: `python3 Tests/Benchmarks/account_logins.py [--rounds 40]
[--accounts 10000]`.

A login is a password's hash and one write to the log. The second half of the rounds comes after the other accounts were
made: a login must not take longer for them. MIMEO_BIN names the directory of the executables.
"""

import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "Support"))

from mimeo_harness import OneProcess, Workspace  # noqa: E402

PASSWORD = "correct horse battery"


def timed(body):
    began = time.monotonic()
    body()
    return time.monotonic() - began


def bare():
    hashlib.scrypt(PASSWORD.encode(), salt=b"s" * 16, n=1 << 15, r=8, p=3, maxmem=1 << 27)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--accounts", type=int, default=10_000)
    arguments = parser.parse_args()
    with Workspace() as workspace:
        server = OneProcess(workspace).start()
        credential = (server.data / "auth" / "admin.token").read_text().strip()
        fields = {"Authorization": f"Bearer {credential}"}

        def admin(path, body):
            answer = server.request("POST", f"/admin/auth/databases/{server.database}/{path}", body, fields)
            if answer.status != 201:
                raise SystemExit(f"{path}: {answer.status} {answer.body[:200]!r}")

        rights = {"read": {"everything": True}}
        admin("providers", {"name": "staff", "accounts": {}})
        admin("accounts", {"provider": "staff", "name": "ann", "password": PASSWORD, "permissions": rights})
        body = {"databaseID": server.database, "provider": "staff", "token": f"ann:{PASSWORD}"}

        def login():
            answer = server.request("POST", "/_ditto/auth/login", body)
            if answer.status != 200:
                raise SystemExit(f"login: {answer.status} {answer.body[:200]!r}")

        login()
        for accounts in (1, arguments.accounts):
            if accounts > 1:
                with concurrent.futures.ThreadPoolExecutor(16) as pool:
                    list(pool.map(
                        lambda number: admin("accounts", {
                            "provider": "staff", "name": f"person-{number}", "permissions": rights}), range(accounts - 1)))
            pairs = [(timed(login), timed(bare)) for _ in range(arguments.rounds)]
            logins, bares = zip(*pairs)
            ratio = statistics.median(one / other for one, other in pairs)
            print(json.dumps({
                "accounts": accounts, "login_ms": round(statistics.median(logins) * 1000, 1),
                "scrypt_ms": round(statistics.median(bares) * 1000, 1), "ratio": round(ratio, 3)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
