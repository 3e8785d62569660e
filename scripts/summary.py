"""Adds up what the jobs of `make test` left in a directory: the slowest tests, the failures by name, one line of counts.

The directory holds `planned` (the name of each job), `parts` (a line `name exit-status` for each job, and for lint and
build), and for each job `NAME.jsonl` (Swift Testing's event stream) or `NAME.json` (`{"passed": n, "failed": n,
"skipped": n, "failures": [text], "seconds": {test: s}}`; the last two may be missing). A planned job without a status,
a run without a passed test and a part that failed without naming a failed test (a crash, a build or lint error) counts
as one failure: the sum must never look better than the run was. The failures stand at the end because the end of a log
is what a reader of it is sure to have. `flaky` has the tests that failed once and passed when their job was repeated;
they are printed, and added to `.build/flaky.txt` with the time and the seed of the run.
"""

import datetime
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOWN_FAILURES = 12
SHOWN_CHARACTERS = 600
SHOWN_SLOWEST = 20


def swift_counts(path):
    """Counts test functions (not suites, not single arguments); started and never ended means crashed: failed."""
    functions, state, issues, began, seconds = set(), {}, {}, {}, {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the last line of a crashed process may be cut
        payload = record.get("payload", {})
        if record.get("kind") == "test":
            if payload.get("kind") == "function":
                functions.add(payload["id"])
            continue
        test, kind = payload.get("testID"), payload.get("kind")
        time = payload.get("instant", {}).get("absolute")
        if kind == "testStarted":
            state.setdefault(test, "running")
            began[test] = time
        elif kind == "testSkipped":
            state[test] = "skipped"
        elif kind == "issueRecorded" and not payload.get("issue", {}).get("isKnown", False):
            state[test] = "failed"
            issues.setdefault(test, issue_text(payload))
        elif kind == "testEnded":
            if state.get(test) == "running":
                state[test] = "passed"
            if test in functions and time is not None and began.get(test) is not None:
                seconds[short(test)] = time - began[test]
    outcomes = {test: state[test] for test in functions if test in state}
    passed, skipped = (list(outcomes.values()).count(outcome) for outcome in ["passed", "skipped"])
    failures = [f"{test}: {issues.get(test, 'started and never ended')}"
                for test, outcome in sorted(outcomes.items()) if outcome in ("failed", "running")]
    if not outcomes:
        failures.append(f"{path.stem}: no test ran")
    return {"passed": passed, "failed": len(failures), "skipped": skipped, "failures": failures, "seconds": seconds}


def short(test):
    """`Module.Suite/function()` without the place in the file."""
    return "/".join(test.split("/")[:2])


def issue_text(payload):
    """What Swift Testing says of an issue, on one line: the messages, without their symbols."""
    texts = [message.get("text", "") for message in payload.get("messages", [])]
    return " | ".join(text for text in texts if text).replace("\n", " ")


def all_counts(directory):
    """The counts of every job that left some, by its name."""
    counts = {path.stem: swift_counts(path) for path in sorted(directory.glob("*.jsonl"))}
    counts.update({path.stem: written_counts(path) for path in sorted(directory.glob("*.json"))})
    return counts


def written_counts(path):
    """What a job wrote of itself; a job that died while it wrote has failed."""
    try:
        return json.loads(path.read_text())
    except ValueError:
        return {"passed": 0, "failed": 1, "skipped": 0, "failures": [f"{path.stem}: its results are cut off"]}


def planned(directory):
    path = directory / "planned"
    return path.read_text().split() if path.exists() else []


def shown(failures):
    """The lines that name failures: not all of many, not the whole of a long one."""
    lines = [f"failed: {failure[:SHOWN_CHARACTERS]}" for failure in failures[:SHOWN_FAILURES]]
    return lines + ([f"and {len(failures) - SHOWN_FAILURES} more"] if len(failures) > SHOWN_FAILURES else [])


def slowest(counts):
    """The lines that name the slowest tests of all jobs."""
    seconds = [(s, test) for part in counts.values() for test, s in part.get("seconds", {}).items()]
    chosen = sorted(seconds, reverse=True)[:SHOWN_SLOWEST]
    return ["the slowest tests:", *(f"{s:7.1f} s  {test}" for s, test in chosen)] if chosen else []


def tell_flaky(directory, kept):
    """Names the tests that passed at the second try only, and adds them to a file, if one is named: a name stays there
    until somebody has mended the test and removes it."""
    path = directory / "flaky"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines:
        print(f"FLAKY {line[:SHOWN_CHARACTERS]}")
    if kept and lines:
        run = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%dT%H:%MZ} seed {os.environ.get('MIMEO_SEED', '-')}"
        with open(kept, "a", encoding="utf-8") as names:
            names.writelines(f"{run} {line}\n" for line in lines)


def main(directory, kept=None):
    statuses = dict.fromkeys(planned(directory), "none: it did not end")
    statuses.update(line.split() for line in (directory / "parts").read_text().splitlines())
    counts = all_counts(directory)
    broken = [name for name, status in statuses.items() if status != "0"]
    failed = sum(part["failed"] for part in counts.values())
    failed += sum(1 for name in broken if counts.get(name, {"failed": 0})["failed"] == 0)
    for line in slowest(counts):
        print(line)
    for line in shown([failure for part in counts.values() for failure in part.get("failures", [])]):
        print(line)
    for name in broken:
        print(f"make test: {name} failed")
    tell_flaky(directory, kept)
    passed = sum(part["passed"] for part in counts.values())
    if not passed and not failed:
        failed = 1
        print("make test: no test ran")
    skipped = sum(part["skipped"] for part in counts.values())
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), ROOT / ".build" / "flaky.txt"))
