"""Runs the Swift tests, the simulator and the system tests beside each other.

    python3 scripts/run_tests.py RESULTS [JOB...]

Each test target and each module of system tests is a job: a process with ports and folders of its own, in which tests
run one after the other. As many jobs run at once as there are cores, and one more, because many tests wait; those that
do little else than wait have a lane of their own beside them. The longest jobs begin first. A JOB (`CRDTTests`,
`test_kill`, `simulation-small`) runs alone; all run where none is named.

A job that fails in the fast tier runs once more, alone, after all others. A job that passes then has passed, and its
tests that failed are named in `flaky`, for the summary: each is to be mended. A run with many failed jobs repeats none,
and the deep tier never repeats.

The system tests run the executables of MIMEO_BIN, by default those of the tests' build.

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
import re
import signal
import subprocess
import sys
import threading
import time

import summary

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.path.abspath(ROOT / ".build" / "release"))
SHIPPED = pathlib.Path(os.path.abspath(ROOT / os.environ.get("MIMEO_BIN", BUILD)))
"""The executables that the system tests drive."""
DEPTH = os.environ.get("MIMEO_DEPTH", "fast")
if DEPTH not in ("fast", "deep"):
    sys.exit(f"MIMEO_DEPTH is '{DEPTH}': it has to be 'fast' or 'deep'")
IS_DEEP = DEPTH == "deep"
JOB_SECONDS = 4 * 3600 if IS_DEEP else 900
STOP_SECONDS = 10
REPEATED_JOBS = 4
"""The most failed jobs that are repeated: more of them did not fail by chance."""
LOG_LINES_SHOWN = 60
LINE_CHARACTERS_SHOWN = 1_000
LONGEST_FIRST = [
    "QueryServiceTests", "PostgresTests", "test_heavy_statements", "test_backup", "test_damage", "DQLTests",
    "test_description", "test_dist", "ReplicaTests", "DittoSwiftTests", "ReplicatorTests", "test_bucket",
    "OperationLogTests", "CRDTTests", "ServiceKitTests", "simulation-kept", "test_lan", "test_network",
    "test_import", "test_console", "test_console_habits", "test_console_operations", "test_console_states", "AuthGatewayTests",
    "simulation-small", "MimeoTests", "test_people", "test_budget", "TransportTests",
]
"""The jobs that take longest on a clean machine, so that none of them begins when the others end."""


WAITING = {"test_consistency", "test_contact", "test_http", "test_uploads"}
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


def leaves(command, words=()):
    """The commands below one that `--experimental-dump-help` describes, each as its words: those without others below."""
    below = [each for each in command.get("subcommands", []) if each["commandName"] != "help"]
    if not below:
        return [words]
    return [leaf for each in below for leaf in leaves(each, (*words, each["commandName"]))]


def commands():
    """Every command of `mimeo`, as it tells them itself, those of `mimeo admin` too, and the services."""
    described = subprocess.run([SHIPPED / "mimeo", "--experimental-dump-help"], check=True, stdout=subprocess.PIPE).stdout
    for words in leaves(json.loads(described)["command"]):
        # `admin` makes its commands of the table of routes, so the parser of command lines does not know them.
        below = admin_commands() if words == ("admin",) else [()]
        yield from (("mimeo", *words, *more) for more in below)
    yield from ((name,) for name in ["auth-gateway", "replicator", "query-service", "attachment-store"])


def admin_commands():
    """The words of each command in `mimeo admin help`: lines such as `  keys  list, rotate` and `  login, logout: …`."""
    told = subprocess.run([SHIPPED / "mimeo", "admin", "help"], check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in told.splitlines():
        if alone := re.fullmatch(r"  ([a-z, -]+): .*", line):
            yield from ((verb,) for verb in alone[1].split(", "))
        elif group := re.fullmatch(r"  ([a-z-]+) +([a-z, -]+)", line):
            yield from ((group[1], verb) for verb in group[2].split(", "))


def check_commands(results):
    """Notes whether the system tests ran each command of `mimeo` and each service, all from one folder.

    Returns 1 if one was left out: what no test has run is not known to work as it ships.
    """
    ran = set()
    for path in results.glob("test_*.json"):
        ran.update(tuple(words) for words in summary.written_counts(path).get("ran", []))
    wanted = list(commands())
    found = {(pathlib.Path(words[0]).name, *words[1:]) for words in ran if pathlib.Path(words[0]).parent == SHIPPED}
    missing = [" ".join(words) for words in wanted if not any(each[:len(words)] == words for each in found)]
    print(f"the system tests ran {len(wanted) - len(missing)} of {len(wanted)} commands, in {SHIPPED}: "
          f"{', '.join(sorted({words[0] for words in found}))}", flush=True)
    failures = [f"no system test runs `{command}`" for command in missing]
    (results / "commands.json").write_text(json.dumps(
        {"passed": len(wanted) - len(missing), "failed": len(missing), "skipped": 0, "failures": failures}))
    with open(results / "parts", "a", encoding="utf-8") as parts:
        parts.write(f"commands {1 if missing else 0}\n")
    return 1 if missing else 0


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
            # The last line of a job counts.
            with open(self.results / "parts", "a", encoding="utf-8") as parts:
                parts.write(f"{name} {status}\n")
            print(f"{'ok    ' if status == 0 else 'FAILED'} {time.monotonic() - began:6.1f} s  {name}", flush=True)
            if status:
                print("\n".join(f"    {line}" for line in telling(log)), flush=True)
        return status

    def repeat(self, job):
        """Runs a failed job again, and keeps the first run's results beside those of the second."""
        name = job[0]
        for path in self.results.glob(f"{name}.*"):
            if path.suffix in (".log", ".json", ".jsonl"):
                path.rename(path.with_name(f"{path.name}.first"))
        print(f"again, alone: {name}", flush=True)
        status = self.job(job)
        if status == 0:
            with open(self.results / "flaky", "a", encoding="utf-8") as flaky:
                flaky.writelines(f"{test}\n" for test in failed_tests(self.results, name))
        return status

    def stop(self, number, _):
        """Ends what runs, and starts nothing more."""
        print(f"stopping: {signal.Signals(number).name}", flush=True)
        self.is_stopping = True
        for process in list(self.processes):
            signal_group(process, signal.SIGTERM)
        threading.Timer(STOP_SECONDS, lambda: [signal_group(p, signal.SIGKILL) for p in list(self.processes)]).start()


def failed_tests(results, job):
    """The tests that failed when a repeated job ran first; the job itself where no test tells."""
    stream, counts = results / f"{job}.jsonl.first", results / f"{job}.json.first"
    failures = []
    if stream.exists():
        failures = summary.swift_counts(stream)["failures"]
    elif counts.exists():
        failures = summary.written_counts(counts)["failures"]
    return [f"{job}: {' '.join(failure.split())}" for failure in failures] or [f"{job}: ended without a failed test"]


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
    # `commands` is what `check_commands` writes: a run that does not come to it has failed.
    planned = [name for name, _ in chosen] + ([] if names else ["commands"])
    (results / "planned").write_text("".join(f"{name}\n" for name in planned))
    run = Run(results)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, run.stop)
    status = execute(run, chosen)
    return status if names or run.is_stopping else max(status, check_commands(results))


def execute(run, chosen):
    """Runs jobs beside each other, and in the fast tier those that failed again, one by one. Returns the exit code."""
    waiting = [job for job in chosen if job[0] in WAITING]
    computing = [job for job in chosen if job[0] not in WAITING]
    cores = len(os.sched_getaffinity(0))
    with (concurrent.futures.ThreadPoolExecutor(1) as lane,
          concurrent.futures.ThreadPoolExecutor(cores + 1) as pool):
        # Both begin before either is waited for.
        begun = [lane.map(run.job, waiting), pool.map(run.job, computing)]
        statuses = [status for part in begun for status in part]
    failed = [job for job, status in zip(waiting + computing, statuses) if status]
    if not IS_DEEP and not run.is_stopping and len(failed) <= REPEATED_JOBS:
        failed = [job for job in failed if run.repeat(job)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]))
