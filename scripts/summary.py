"""Adds up what the parts of `make test` left in a directory and prints one line for a person or a machine.

The directory holds `parts` (a line `name exit-status` each), `swift.jsonl` (Swift Testing's event stream) and
`simulation.json` and `system.json` (`{"passed": n, "failed": n, "skipped": n}`). A part that failed without naming a
failed test (a crash, a build or lint error) counts as one failure: the sum must never look better than the run was.
"""

import json
import pathlib
import sys


def swift_counts(path):
    """Counts test functions (not suites, not single arguments); started and never ended means crashed: failed."""
    functions, state = set(), {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
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
        if kind == "testStarted":
            state.setdefault(test, "running")
        elif kind == "testSkipped":
            state[test] = "skipped"
        elif kind == "issueRecorded" and not payload.get("issue", {}).get("isKnown", False):
            state[test] = "failed"
        elif kind == "testEnded" and state.get(test) == "running":
            state[test] = "passed"
    outcomes = [state[test] for test in functions if test in state]
    passed, skipped = outcomes.count("passed"), outcomes.count("skipped")
    return {"passed": passed, "failed": len(outcomes) - passed - skipped, "skipped": skipped}


def system_counts(path):
    return json.loads(path.read_text()) if path.exists() else {"passed": 0, "failed": 0, "skipped": 0}


def main(directory):
    statuses = dict(line.split() for line in (directory / "parts").read_text().splitlines())
    counts = {"swift": swift_counts(directory / "swift.jsonl")}
    for name in ["simulation", "system"]:
        counts[name] = system_counts(directory / f"{name}.json")
    broken = [name for name, status in statuses.items() if status != "0"]
    failed = sum(part["failed"] for part in counts.values())
    failed += sum(1 for name in broken if counts.get(name, {"failed": 0})["failed"] == 0)
    for name in broken:
        print(f"make test: {name} failed")
    passed = sum(part["passed"] for part in counts.values())
    skipped = sum(part["skipped"] for part in counts.values())
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
