"""What one request over HTTP costs, beside FastAPI with sqlite3: `scripts/bench-http [--rounds N] [--scale PERCENT]`.

Both servers have the same 20,000 documents, and `http.c` sends both the same requests, by turns. The ratio of latency is
that of the least of all rounds; those of requests a second and of the processor's time are of medians. A write is
durable in both: it syncs to the disk of the temporary folder.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "Tests" / "Support"))

import mimeo_harness as harness  # noqa: E402
from mimeo_harness.packages import packages_folder  # noqa: E402
from mimeo_harness.processes import free_port  # noqa: E402

PINS = ("fastapi==0.165.0", "uvicorn==0.54.0")
KINDS = {"health": 4_000, "point": 4_000, "range": 2_000, "insert": 500}
CONNECTIONS = (1, 8)
ROWS = [{"_id": f"o{number}", "customer": f"c{number % 500}", "amount": number % 977, "city": "Berlin",
         "note": "x" * 200} for number in range(20_000)]


def start_ours(workspace):
    server = harness.OneProcess(workspace).start()
    for start in range(0, len(ROWS), 1_000):
        server.execute("INSERT INTO orders DOCUMENTS (:rows)", {"rows": ROWS[start:start + 1_000]})
    server.execute("CREATE INDEX by_customer ON orders (customer)", {})
    token = workspace.directory / "access-token"
    token.write_text(server.access_token, encoding="utf-8")
    return server.port, token, server.process.pid


def start_reference(workspace):
    port = free_port()
    rows = workspace.directory / "rows.json"
    rows.write_text(json.dumps(ROWS), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": packages_folder(PINS), "FLOOR_ROWS": str(rows),
                                "FLOOR_DATABASE": str(workspace.directory / "floor.sqlite")}
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "--app-dir", ROOT / "Tests" / "Benchmarks", "--port", str(port),
         "--no-access-log", "--log-level", "warning", "http_floor:app"], env=environment)
    workspace.on_close(lambda: (process.terminate(), process.wait(30)))

    def answers():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    harness.until(answers, 60, lambda: "the reference does not start")
    return port, process.pid


def main():
    parser = argparse.ArgumentParser(description="Measures one request over HTTP beside FastAPI and sqlite3.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=int, default=100, help="percent of the requests")
    options = parser.parse_args()
    workspace = harness.Workspace()
    try:
        program = workspace.directory / "http"
        compiler = next(path for path in map(shutil.which, ("cc", "gcc", "clang")) if path)
        source = ROOT / "Tests" / "Benchmarks" / "http.c"
        subprocess.run([compiler, "-O2", "-o", program, source, "-lpthread"], check=True)
        port, token, pid = start_ours(workspace)
        servers = {"ours": (port, pid), "FastAPI": start_reference(workspace)}

        def ask(name, kind, connections):
            port, pid = servers[name]
            count = max(10, KINDS[kind] * options.scale // 100 // connections)
            told = subprocess.run([program, str(port), token, kind, str(count), str(connections), str(pid)], check=True,
                                  stdout=subprocess.PIPE, timeout=600)
            return json.loads(told.stdout)

        print("| request | connections | ms, least | ms, median | ms, p99 | a second | processor, µs | switches |")
        print("|---|--:|--:|--:|--:|--:|--:|--:|")
        for kind in KINDS:
            for connections in CONNECTIONS:
                found = {name: [] for name in servers}
                for _ in range(options.rounds):
                    for name in servers:
                        found[name].append(ask(name, kind, connections))
                tell(kind, connections, found)
    finally:
        workspace.close()


def tell(kind, connections, found):
    def middle(name, key):
        return statistics.median(one[key] for one in found[name])

    def least(name):
        return min(one["min"] for one in found[name])

    for name in found:
        print(f"| {kind}, {name} | {connections} | {least(name):.3f} | {middle(name, 'median'):.3f} | "
              f"{middle(name, 'p99'):.2f} | {middle(name, 'perSecond'):,.0f} | "
              f"{middle(name, 'processorMicroseconds'):.0f} | {middle(name, 'switches'):.1f} |")
    cost = middle("FastAPI", "processorMicroseconds") / middle("ours", "processorMicroseconds")
    pace = middle("ours", "perSecond") / middle("FastAPI", "perSecond")
    print(f"| {kind}, ratio | {connections} | {least('FastAPI') / least('ours'):.2f} | | | {pace:.2f} | {cost:.2f} | |",
          flush=True)


if __name__ == "__main__":
    main()
