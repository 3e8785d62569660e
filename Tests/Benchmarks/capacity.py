"""What one server costs: `scripts/bench-capacity [--scale PERCENT] [--log postgres://…]`.

One `mimeo serve` on this machine. It measures what a database, a document, an operation, a session, a subscription and
a delivery cost in memory (the process's own resident bytes), disk (the data folder) and processor time, by the
difference before and after many of them. Then it says how many of each fill a machine of this size. The clients run on
the same machine, so times are theirs too; processor time is the server's alone. `--scale 1` takes a hundredth of
everything, to see that it runs. Docs/capacity.md has a result.
"""

import argparse
import os
import pathlib
import resource
import statistics
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests" / folder) for folder in ("Support", "Conformance", "Benchmarks")]

import mimeo_harness as harness  # noqa: E402
import network  # noqa: E402

BATCH = 1_000
TICKS = os.sysconf("SC_CLK_TCK")
USED_CORES, USED_MEMORY = 0.6, 0.75
"""Shares of a machine that a server should use at most: the rest is for catching up, rebuilding, files in memory."""


class Server:
    """One process and what it uses."""

    def __init__(self, workspace, arguments):
        self.one = harness.OneProcess(workspace, extra_arguments=arguments).start()
        self.admin = (self.one.data / "auth" / "admin.token").read_text().strip()

    def memory(self):
        """Resident bytes of its own, once they stand still."""
        last = None
        for _ in range(20):
            for line in pathlib.Path(f"/proc/{self.one.process.pid}/status").read_text().splitlines():
                if line.startswith("RssAnon:"):
                    now = int(line.split()[1]) * 1024
            if last is not None and abs(now - last) < 200_000:
                return now
            last = now
            time.sleep(0.5)
        return last

    def processor(self):
        """Seconds of processor time so far."""
        fields = pathlib.Path(f"/proc/{self.one.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def disk(self):
        """Bytes of the data folder: log, fold, system database."""
        return sum(path.stat().st_blocks * 512 for path in self.one.data.rglob("*") if path.is_file())

    def all(self):
        return self.memory(), self.disk(), self.processor()

    def session(self, statements=()):
        return network.Session(self.one.address, self.one.database, self.one.access_token, statements, network.GREETING)


def row(what, *cells):
    print("| " + " | ".join([what, *cells]) + " |", flush=True)


def size(count):
    for unit, factor in (("MB", 1e6), ("KB", 1e3)):
        if abs(count) >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{max(0, count):.0f} B"


def took(seconds):
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{max(0, seconds) * 1e6:.0f} µs"


def each(server, count, work, settle=1.0):
    """What one of `count` costs: memory, disk, processor, seconds."""
    memory, disk, processor = server.all()
    began = time.monotonic()
    work()
    seconds = time.monotonic() - began
    time.sleep(settle)
    after = server.all()
    return [(new - old) / count for new, old in zip(after, (memory, disk, processor))] + [seconds / count]


def document(number):
    """About 300 bytes of JSON."""
    return {"_id": f"d{number:08}", "owner": f"o{number}", "n": number, "note": "x" * 200,
            "place": {"row": number % 97, "shelf": number % 13}}


def fill(server, first, count):
    for start in range(first, first + count, BATCH):
        rows = [document(number) for number in range(start, min(start + BATCH, first + count))]
        server.one.execute("INSERT INTO cars DOCUMENTS (:rows)", {"rows": rows})


def updates(server, count, clients):
    """Single writes, as many at once as there are clients; the median and the 99th of a hundred."""
    times, turn = [], iter(range(count))
    lock = threading.Lock()

    def run():
        while True:
            with lock:
                number = next(turn, None)
            if number is None:
                return
            began = time.monotonic()
            server.one.execute("UPDATE cars SET n = :n WHERE _id = :id", {"n": number, "id": f"d{number % 1000:08}"})
            times.append(time.monotonic() - began)

    threads = [threading.Thread(target=run) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times.sort()
    return statistics.median(times), times[len(times) * 99 // 100]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=100, help="percent of everything")
    parser.add_argument("--log", help="the operation log, as mimeo serve takes it")
    arguments = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def count(whole):
        return max(10, whole * arguments.scale // 100)

    cores = len(os.sched_getaffinity(0))
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    print(f"{cores} cores, {total / 1e9:.0f} GB; {harness.mimeo('--version').stdout.splitlines()[0]}\n")
    with harness.Workspace() as workspace:
        server = Server(workspace, ["--log", arguments.log] if arguments.log else [])
        time.sleep(2)
        base = server.memory()
        row("one", "memory", "disk", "processor", "time", "counted")
        row("---", "--:", "--:", "--:", "--:", "--:")
        row("empty server", size(base), size(server.disk()), "", "", "1")

        databases = count(200)
        headers = {"Authorization": f"Bearer {server.admin}"}

        def make():
            for number in range(databases):
                answer = server.one.request("POST", "/admin/auth/databases", {"id": f"tenant-{number}"}, headers)
                if answer.status not in (200, 201):
                    sys.exit(f"{answer.status} {answer.body[:300]}")

        cost = each(server, databases, make)
        row("database, empty", size(cost[0]), size(cost[1]), took(cost[2]), took(cost[3]), f"{databases:,}")

        documents = count(100_000)
        cost = each(server, documents, lambda: fill(server, 0, documents), settle=3)
        row("document of 300 bytes, inserted 1,000 at once", size(cost[0]), size(cost[1]), took(cost[2]),
            took(cost[3]), f"{documents:,}")
        of_document = cost

        operations = count(10_000)
        latency = []
        cost = each(server, operations, lambda: latency.append(updates(server, operations, 16)), settle=3)
        row("operation: a field set over HTTP, 16 at a time", size(cost[0]), size(cost[1]), took(cost[2]),
            took(cost[3]), f"{operations:,}")
        of_operation = cost

        warm = [server.session() for _ in range(100)]
        sessions = count(5_000)
        held = []
        cost = each(server, sessions, lambda: held.extend(server.session() for _ in range(sessions)))
        row("session, connected and idle", size(cost[0]), "", took(cost[2]), took(cost[3]), f"{sessions:,}")
        of_session = cost
        before = server.processor()
        time.sleep(20)
        idle = (server.processor() - before) / 20 / (sessions + len(warm))
        row("session for a second of rest", "", "", took(idle), "", f"{sessions:,}")
        for one in held:
            one.socket.close()
        held.clear()
        time.sleep(2)

        cost = each(server, sessions, lambda: held.extend(
            server.session([("SELECT * FROM cars WHERE owner = :o", {"o": f"o{number % documents}"})])
            for number in range(sessions)), settle=2)
        subscription = [cost[0] - of_session[0], cost[2] - of_session[2], cost[3] - of_session[3]]
        row("subscription of one document, beyond its session", size(subscription[0]), "", took(subscription[1]),
            took(subscription[2]), f"{sessions:,}")
        for one in held:
            one.socket.close()
        held.clear()
        time.sleep(2)

        readers = [server.session([("SELECT * FROM cars WHERE owner = 'o1'", {})]) for _ in range(count(1_000))]
        writes = count(200)
        cost = each(server, writes, lambda: updates_of_one(server, writes), settle=3)
        delivery = max(0, cost[2] - of_operation[2]) / len(readers)
        row("delivery of an operation to a session", "", "", took(delivery), "", f"{writes * len(readers):,}")
        del readers

        print(f"\nOne machine of {cores} cores and {total / 1e9:.0f} GB, {USED_CORES:.0%} of its processors and "
              f"{USED_MEMORY:.0%} of its memory used by the server, carries one of:\n")
        row("load", "carried", "bound by")
        row("---", "--:", "---")
        free = total * USED_MEMORY - base
        power = cores * USED_CORES
        row("idle sessions", *bound(free / max(1, of_session[0]), power / max(1e-9, idle)))
        row("sessions with a subscription of their own",
            *bound(free / max(1, of_session[0] + subscription[0]), power / max(1e-9, idle)))
        row("operations over HTTP a second", f"{round_down(power / of_operation[2]):,}", "processor")
        row("deliveries a second", f"{round_down(power / max(1e-9, delivery)):,}", "processor")
        row("documents inserted a second, 1,000 at once", f"{round_down(power / of_document[2]):,}", "processor")
        row("documents of 300 bytes for each 100 GB of disk", f"{round_down(100e9 / max(1, of_document[1])):,}", "disk")
        row("log for a day of 10 operations a second", size(864_000 * of_operation[1]), "")
        print(f"\nAn operation of 16 at a time took {latency[0][0] * 1e3:.1f} ms in the median, "
              f"{latency[0][1] * 1e3:.1f} ms in one of a hundred.")


def updates_of_one(server, count):
    for number in range(count):
        server.one.execute("UPDATE cars SET n = :n WHERE _id = 'd00000001'", {"n": number})


def round_down(number):
    """Two digits that count."""
    digits = max(0, len(str(int(number))) - 2)
    return int(number) // 10 ** digits * 10 ** digits


def bound(memory, processor):
    return f"{round_down(min(memory, processor)):,}", "memory" if memory < processor else "processor"


if __name__ == "__main__":
    main()
