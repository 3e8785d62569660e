"""The consistency campaign: `python3 Tests/Consistency [--minutes M] [--seed N] [--topology NAME]`, or
`python3 Tests/Consistency --judge HISTORY` for a history that was kept.

MIMEO_BIN names the directory of the executables (default `.build/release`). Exits with 1 if a claim is broken.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "Support")]
sys.dont_write_bytecode = True

from judge import CLAIMS, operations  # noqa: E402
from tally import TOPOLOGIES, tally  # noqa: E402

KNOWN = {"both": ("C5", "C6")}
"""Claims that a topology may break: a server takes some of what links bring in parts (G26 of `Shared/Sync/Gaps.md`)."""

SHOWN = 3
"""The violations of one claim that are printed in full."""


def report(path):
    """Prints what a history tells, and writes a tally beside it; returns the number of violations."""
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    history = operations(lines)
    print(f"{path}: {lines[0]['run']}")
    counts = {}
    for operation in history:
        row = counts.setdefault(operation.kind, {"ok": 0, "fail": 0, "info": 0})
        row[operation.outcome] += 1
    for kind, row in sorted(counts.items()):
        print(f"  {kind:15} {row['ok']:6} ok {row['fail']:6} refused {row['info']:6} unknown")
    faults = {}
    for line in lines:
        if line.get("begins"):
            faults[line["fault"]] = faults.get(line["fault"], 0) + 1
    print("  faults: " + ", ".join(f"{name} {count}" for name, count in sorted(faults.items())))
    violations = {}
    for claim, module in CLAIMS.items():
        found = module.judge(history)
        is_known = claim in KNOWN.get(lines[0]["run"]["topology"], ())
        if found and not is_known:
            violations[claim] = len(found)
        words = f"{'broken as is known,' if is_known else 'BROKEN'} {len(found)} times"
        print(f"  {claim:4} {words if found else 'kept'}")
        for violation in found[:SHOWN]:
            print(f"  {violation}")
    over = len(CLAIMS["C5"].over_collections(history))
    print(f"  not promised: {over} gaps of causal order over collections, at peers")
    with open(path.with_suffix(".json"), "w", encoding="utf-8") as file:
        json.dump(tally(lines, history, violations, over), file, indent=1)
    return sum(violations.values())


def end(number, _):
    """A termination ends the run as an interrupt does: its processes and files go."""
    sys.exit(128 + number)


def main():
    signal.signal(signal.SIGTERM, end)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--topology", default="all", choices=["all", *TOPOLOGIES])
    parser.add_argument("--output", type=pathlib.Path, default=FOLDER.parents[1] / ".build" / "consistency")
    parser.add_argument("--judge", type=pathlib.Path, metavar="HISTORY")
    arguments = parser.parse_args()
    if arguments.judge:
        return 1 if report(arguments.judge) else 0
    seed = random.SystemRandom().randrange(1 << 30) if arguments.seed is None else arguments.seed
    os.environ["MIMEO_SEED"] = str(seed)  # the harness would draw and print another one
    from campaign import run  # a judgement alone needs no harness
    names = TOPOLOGIES if arguments.topology == "all" else [arguments.topology]
    arguments.output.mkdir(parents=True, exist_ok=True)
    broken = 0
    for name in names:
        print(f"consistency: make consistency MINUTES={arguments.minutes:g} SEED={seed} TOPOLOGY={name}", flush=True)
        path = arguments.output / f"{name}-{seed}.jsonl"
        run.run(name, arguments.minutes * 60, seed, path)
        broken += report(path)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
