"""Runs the Swift tests, the simulator and the system tests beside each other.

    python3 scripts/run_tests.py RESULTS [JOB...]

Each test target and each module of system tests is a job: a process with ports and folders of its own, in which tests
run one after the other. As many jobs run at once as there are cores, and one more, because many tests wait; those that
do little else than wait have a lane of their own beside them. The longest jobs begin first. A JOB (`CRDTTests`,
`test_kill`, `simulation-small`) runs alone; all run where none is named.

RESULTS is a directory: it gets the names of all jobs in `planned`, then for each job `NAME.log`, `NAME.jsonl` (Swift
Testing's event stream) or `NAME.json` (counts, see `scripts/summary.py`), and a line `NAME STATUS` in `parts`. A planned
job without such a line has failed. A job that fails prints the telling lines of its log. An interrupt, a termination and
a time-out end the jobs with a SIGTERM, so that they stop what they have started, and with a SIGKILL ten seconds later.
Exits non-zero if a job failed.
"""

import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / ".build" / "debug"
DEPTH = os.environ.get("MIMEO_DEPTH", "fast")
if DEPTH not in ("fast", "deep"):
    sys.exit(f"MIMEO_DEPTH is '{DEPTH}': it has to be 'fast' or 'deep'")
IS_DEEP = DEPTH == "deep"
JOB_SECONDS = 4 * 3600 if IS_DEEP else 900
STOP_SECONDS = 10
LOG_LINES_SHOWN = 60
LINE_CHARACTERS_SHOWN = 1_000
LONGEST_FIRST = [
    "QueryServiceTests", "PostgresTests", "test_heavy_statements", "test_backup", "test_damage", "DQLTests",
    "test_description", "ReplicaTests", "DittoSwiftTests", "ReplicatorTests", "test_bucket", "OperationLogTests",
    "CRDTTests", "ServiceKitTests", "simulation-kept", "test_lan", "test_network", "test_import", "test_console",
    "test_console_operations", "AuthGatewayTests", "simulation-small", "MimeoTests", "TransportTests",
]
"""The jobs that take longest on a clean machine, so that none of them begins when the others end."""


WAITING = {"test_contact", "test_http", "test_uploads"}
"""Jobs that compute for a tenth of their time and wait for timeouts and pauses for the rest: one at a time runs beside
the others."""


def swift_targets():
    """The test targets of the package."""
    dump = subprocess.run(["swift", "package", "--ignore-lock", "dump-package"], cwd=ROOT, check=True,
                          stdout=subprocess.PIPE, text=True)
    return [target["name"] for target in json.loads(dump.stdout)["targets"] if target["type"] == "test"]


def jobs(results):
    """Every job: its name and its command."""
    bundle = BUILD / "mimeoPackageTests.xctest"
    for target in swift_targets():
        yield target, [bundle, "--testing-library", "swift-testing", "--filter", rf"^{target}\.", "--no-parallel",
                       "--event-stream-output-path", results / f"{target}.jsonl"]
    for module in sorted((ROOT / "Tests" / "SystemTests").glob("test_*.py")):
        yield module.stem, [sys.executable, ROOT / "Tests" / "SystemTests", "--results",
                            results / f"{module.stem}.json", module.stem]
    for name in ["kept", "small", "drawn"]:
        yield f"simulation-{name}", [ROOT / "scripts" / "simulate-some", name, results / f"simulation-{name}.json"]


def rank(job):
    """Long jobs first, the others in the order of their names."""
    name = job[0]
    return (LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST), name)


def telling(log):
    """The lines of a failed job's log that tell of the failure: of a Swift job, not those of what passed."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    wanted = [line[:LINE_CHARACTERS_SHOWN] for line in lines if " started." not in line and "✔" not in line]
    return wanted[-LOG_LINES_SHOWN:]


class Run:
    """One run of some jobs. `lock` guards the parts file, what is printed, and the processes that run."""

    def __init__(self, results):
        self.results = results
        self.lock = threading.Lock()
        self.processes = set()
        self.is_stopping = False

    def job(self, job):
        name, command = job
        log = self.results / f"{name}.log"
        began = time.monotonic()
        with open(log, "wb") as output:
            with self.lock:
                if self.is_stopping:
                    return 143
                # A session of its own, so that the whole of it can be ended.
                process = subprocess.Popen([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL,
                                           stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
                self.processes.add(process)
            try:
                status = process.wait(JOB_SECONDS)
            except subprocess.TimeoutExpired:
                end(process)
                output.write(f"\n{name} took more than {JOB_SECONDS} s and was ended\n".encode())
                status = 124
        with self.lock:
            self.processes.discard(process)
            with open(self.results / "parts", "a", encoding="utf-8") as parts:
                parts.write(f"{name} {status}\n")
            print(f"{'ok    ' if status == 0 else 'FAILED'} {time.monotonic() - began:6.1f} s  {name}", flush=True)
            if status:
                print("\n".join(f"    {line}" for line in telling(log)), flush=True)
        return status

    def stop(self, number, _):
        """Ends what runs, and starts nothing more."""
        print(f"stopping: {signal.Signals(number).name}", flush=True)
        self.is_stopping = True
        for process in list(self.processes):
            signal_group(process, signal.SIGTERM)
        threading.Timer(STOP_SECONDS, lambda: [signal_group(p, signal.SIGKILL) for p in list(self.processes)]).start()


def signal_group(process, number):
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        pass


def end(process):
    signal_group(process, signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        signal_group(process, signal.SIGKILL)
        process.wait()


def main(results, names):
    every = sorted(jobs(results), key=rank)
    unknown = set(names) - {name for name, _ in every}
    if unknown:
        sys.exit(f"no such job: {', '.join(sorted(unknown))}")
    chosen = [job for job in every if not names or job[0] in names]
    (results / "planned").write_text("".join(f"{name}\n" for name, _ in chosen))
    run = Run(results)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, run.stop)
    waiting = [job for job in chosen if job[0] in WAITING]
    computing = [job for job in chosen if job[0] not in WAITING]
    cores = len(os.sched_getaffinity(0))
    with (concurrent.futures.ThreadPoolExecutor(1) as lane,
          concurrent.futures.ThreadPoolExecutor(cores + 1) as pool):
        # Both begin before either is waited for.
        begun = [lane.map(run.job, waiting), pool.map(run.job, computing)]
        statuses = [status for part in begun for status in part]
    return 1 if any(statuses) else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]))
