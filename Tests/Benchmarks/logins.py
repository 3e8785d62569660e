"""Logins against a webhook that answers in 50 ms: `python3 Tests/Benchmarks/logins.py [--logins 2000] [--seconds 60]`.

Logins come evenly spread, and beside them one statement after the other, to see whether anything waits behind the logins.
MIMEO_BIN names the directory of the executables (a release build for figures to be told).
"""

import argparse
import concurrent.futures
import http.server
import json
import pathlib
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "Support"))

from mimeo_harness import OneProcess, Workspace  # noqa: E402

ANSWER = json.dumps({"authenticated": True, "userID": "u", "expirationSeconds": 3600, "permissions": {
    "read": {"everything": True}, "write": {"everything": True}}}).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(0.05)
        self.send_response(200)
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, *_):
        """Says nothing."""


class Webhook(http.server.ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


def milliseconds(values):
    values = sorted(values)
    return (f"median {statistics.median(values) * 1000:.1f} ms, p99 {values[int(len(values) * 0.99)] * 1000:.1f} ms, "
            f"longest {values[-1] * 1000:.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logins", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60)
    arguments = parser.parse_args()
    webhook = Webhook(("127.0.0.1", 0), Handler)
    threading.Thread(target=webhook.serve_forever, daemon=True).start()
    with Workspace() as workspace:
        providers = workspace.directory / "providers.json"
        providers.write_text(json.dumps({"databases": {"shop": {"providers": {
            "my-auth": {"webhookUrl": f"http://127.0.0.1:{webhook.server_port}/"}}}}}))
        server = OneProcess(workspace, extra_arguments=["--providers", providers]).start()
        server.query("SELECT * FROM cars")
        statements, over = [], threading.Event()

        def ask():
            while not over.is_set():
                started = time.monotonic()
                server.query("SELECT * FROM cars")
                statements.append(time.monotonic() - started)
                time.sleep(0.02)

        def login(due):
            time.sleep(max(0, due - time.monotonic()))
            started = time.monotonic()
            answer = server.login(database="shop", token="t", provider="my-auth")
            return answer.status, time.monotonic() - started

        asking = threading.Thread(target=ask)
        asking.start()
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(64) as pool:
            outcomes = list(pool.map(
                login, (begin + index * arguments.seconds / arguments.logins for index in range(arguments.logins))))
        taken = time.monotonic() - begin
        over.set()
        asking.join()
    good = [seconds for status, seconds in outcomes if status == 200]
    print(f"{len(good)} of {arguments.logins} logins in {taken:.1f} s: {milliseconds(good)}")
    print(f"statements meanwhile: {len(statements)}, {milliseconds(statements)}")
    return 0 if len(good) == arguments.logins else 1


if __name__ == "__main__":
    sys.exit(main())
