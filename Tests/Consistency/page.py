#!/usr/bin/env python3
"""Writes the tables and plots of `Docs/consistency.md` from the kept tallies.

    python3 Tests/Consistency/page.py                                   writes them again
    python3 Tests/Consistency/page.py --keep .build/consistency/*.json  keeps the tallies of runs first

A tally keeps its time line only where a plot is made of it.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
RESULTS = FOLDER / "results"
PAGE = ROOT / "Docs" / "consistency.md"
sys.path[:0] = [str(FOLDER)]
sys.dont_write_bytecode = True

from tally import BIN_SECONDS, TOPOLOGIES  # noqa: E402

PLOTTED = "peers"
"""The topology whose longest run is drawn over time."""


def keep(paths):
    RESULTS.mkdir(exist_ok=True)
    for path in paths:
        found = json.loads(path.read_text())
        if found["topology"] != PLOTTED:
            del found["timeline"]  # no plot needs it
        (RESULTS / path.name).write_text(json.dumps(found, sort_keys=True) + "\n")


def tallies():
    return [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]


def number(value):
    return f"{value:,}"


def seconds(value):
    return "-" if value is None else f"{value:.1f}"


def middle(values):
    return statistics.median(values) if values else None


def table_of_runs(runs):
    rows = ["| topology | runs | hours | operations | unknown | faults | violations | to rest, median / worst s |",
            "|---|--:|--:|--:|--:|--:|---|--:|"]
    for topology in [*TOPOLOGIES, None]:
        some = [run for run in runs if topology in (None, run["topology"])]
        counts = [row for run in some for row in run["operations"].values()]
        rests = [run["rest"] for run in timed(some) if run["rest"] is not None]
        broken = {}
        for run in some:
            for claim, count in run["violations"].items():
                broken[claim] = broken.get(claim, 0) + count
        told = ", ".join(f"{claim} {count}" for claim, count in sorted(broken.items())) or "none"
        rows.append(
            f"| {f'`{topology}`' if topology else 'all'} | {len(some)} | "
            f"{sum(run['minutes'] for run in some) / 60:.2f} | "
            f"{number(sum(sum(row.values()) for row in counts))} | {number(sum(row['info'] for row in counts))} | "
            f"{number(sum(sum(run['faults'].values()) for run in some))} | {told} | "
            f"{seconds(middle(rests))} / {seconds(max(rests, default=None))} |")
    versions = sorted({run["version"] for run in runs})
    return [*rows, "", f"Versions: {', '.join(versions)}."]


def table_of_workloads(runs):
    kinds = {}
    for run in runs:
        for kind, row in run["operations"].items():
            sums = kinds.setdefault(kind, {"ok": 0, "fail": 0, "info": 0})
            for outcome in sums:
                sums[outcome] += row[outcome]
    return ["| operation | done | refused | unknown |", "|---|--:|--:|--:|"] + [
        f"| `{kind}` | {number(row['ok'])} | {number(row['fail'])} | {number(row['info'])} |"
        for kind, row in sorted(kinds.items())]


def timed(runs):
    """The runs whose times say something: at idle priority a busy machine lets processes wait for seconds."""
    return [run for run in runs if run.get("priority") != "idle"]


def recoveries(runs):
    """For each kind of fault its count, the times that nothing else disturbed, all times, and how often none came."""
    found = {}
    for run in timed(runs):
        for kind, count in run["faults"].items():
            found.setdefault(kind, [0, [], [], 0])[0] += count
        for kind, marks in run["recovery"].items():
            for time, disturbed in marks:
                if time is None:
                    found[kind][3] += 1
                else:
                    found[kind][2].append(time)
                    if not disturbed:
                        found[kind][1].append(time)
    return dict(sorted(found.items()))


def table_of_recovery(runs):
    rows = ["| fault | times | undisturbed | median s | worst s | with other faults meanwhile: worst s | not in 60 s |",
            "|---|--:|--:|--:|--:|--:|--:|"]
    for kind, (count, alone, every, missed) in recoveries(runs).items():
        rows.append(
            f"| {kind} | {count} | {len(alone)} | {seconds(middle(alone))} | {seconds(max(alone, default=None))} | "
            f"{seconds(max(every, default=None))} | {missed} |")
    lag = [time for run in timed(runs) for time in run["lag"] if time is not None]
    rows.append(
        f"| no fault at all | {len(lag)} | | {seconds(middle(lag))} | {seconds(max(lag, default=None))} | | |")
    return rows


# Plots

INK, GRID, ACCENT, SOFT = "#57606a", "#d0d7de", "#0969da", "#54aeff"


def svg(width, height, parts):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="11" fill="{INK}">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>', *parts, "</svg>", ""])


def text(x, y, words, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def line(x1, y1, x2, y2, color=GRID, width=1):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width}"/>'


def dot(x, y, radius=2, color=SOFT):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{color}"/>'


def plot_of_recovery(runs):
    """Each recovery as a dot on a scale of powers of ten from 0.1 s to 100 s, with the median."""
    found = [(kind, alone) for kind, (_, alone, _, _) in recoveries(runs).items() if alone]
    left, width, row = 150, 720, 18
    height = 40 + row * len(found)

    def x(time):
        return left + (width - left - 20) * (math.log10(min(max(time, 0.1), 100)) + 1) / 3

    parts = []
    for tick in (0.1, 1, 10, 100):
        parts += [line(x(tick), 10, x(tick), height - 24), text(x(tick), height - 8, f"{tick:g} s", "middle")]
    for place, (kind, alone) in enumerate(found):
        y = 20 + row * place
        parts.append(text(left - 10, y + 4, kind, "end"))
        parts += [dot(x(time), y) for time in alone]
        parts.append(line(x(middle(alone)), y - 6, x(middle(alone)), y + 6, ACCENT, 2))
    return svg(width, height, parts)


def plot_of_time(run):
    """Operations, lag and faults of one run over time."""
    times = run["timeline"]
    kinds = sorted({span[0] for span in times["faults"]})
    end = max(len(times["operations"]) * BIN_SECONDS, max((span[2] for span in times["faults"]), default=0))
    left, width, row, high = 150, 900, 14, 70
    most = max(times["operations"])
    longest = max((lag for _, lag in times["lag"] if lag is not None), default=1)

    def x(moment):
        return left + (width - left - 20) * moment / end

    parts = [text(left - 10, 20, f"operations in {BIN_SECONDS} s, up to {most}", "end")]
    for place, count in enumerate(times["operations"]):
        high_of = high * count / most
        parts.append(f'<rect x="{x(place * BIN_SECONDS):.1f}" y="{10 + high - high_of:.1f}" width="'
                     f'{x(BIN_SECONDS) - x(0) - 0.5:.1f}" height="{high_of:.1f}" fill="{SOFT}"/>')
    top = 10 + high + 16
    parts.append(text(left - 10, top + 10, f"lag, up to {longest:.1f} s", "end"))
    for moment, lag in times["lag"]:
        if lag is not None:
            parts.append(dot(x(moment), top + high - high * lag / longest, 2, ACCENT))
    top += high + 20
    for place, kind in enumerate(kinds):
        y = top + row * place
        parts.append(text(left - 10, y + 4, kind, "end"))
        parts += [line(x(began), y, max(x(ended), x(began) + 1.5), y, INK, 6)
                  for name, began, ended in times["faults"] if name == kind]
    bottom = top + row * len(kinds)
    step = 60 if end <= 900 else 300
    for moment in range(0, int(end) + 1, step):
        parts.append(text(x(moment), bottom + 14, f"{moment // 60} min", "middle"))
    return svg(width, bottom + 24, parts)


def put(page, mark, rows):
    """Replaces what stands between two comments of a page."""
    begin, end = f"<!-- {mark}: written by Tests/Consistency/page.py -->", f"<!-- end of {mark} -->"
    before, rest = page.split(begin, 1)
    return before + begin + "\n" + "\n".join(rows) + "\n" + end + rest.split(end, 1)[1]


def made(page, runs):
    """The content of each file that is made of the tallies: the page with its tables, and the plots."""
    for mark, rows in (("runs", table_of_runs(runs)), ("operations", table_of_workloads(runs)),
                       ("recovery", table_of_recovery(runs))):
        page = put(page, mark, rows)
    files = {PAGE: page, PAGE.with_name("consistency-recovery.svg"): plot_of_recovery(runs)}
    drawn = [run for run in timed(runs) if run["topology"] == PLOTTED and "timeline" in run]
    if drawn:
        longest = max(drawn, key=lambda run: (run["minutes"], run["seed"]))
        files[PAGE.with_name("consistency-time.svg")] = plot_of_time(longest)
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", nargs="*", type=pathlib.Path, default=[])
    keep(parser.parse_args().keep)
    for path, content in made(PAGE.read_text(encoding="utf-8"), tallies()).items():
        path.write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
