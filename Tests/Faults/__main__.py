"""Faults in real containers: what is lost, how long it takes, and who says so.

    python3 Tests/Faults [--dist .build/dist] [--only WORD]… [--after NAME] [--page Docs/faults.md]

Runs compose with two servers of PostgreSQL, as check.py does, and Prometheus and Alertmanager with the shipped
configuration. While one client and one peer write all the time, it makes a fault after the other (faults.py), and notes
acknowledged writes, health, readiness, metrics and alerts with their seconds. It ends with exit code 1 if an acknowledged
write was lost, an alert did not come within a minute, health said nothing, or something did not recover. Needs root, for
networks and disks; takes some two minutes for each fault.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import secrets
import signal
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests" / "Support"), str(ROOT / "compose")]

import check  # noqa: E402  (its folder had to be named first)
import tour  # noqa: E402
from faults import FAULTS  # noqa: E402
from mimeo_harness import Client, Peer, Workspace, docker_engine, until  # noqa: E402
from page import page  # noqa: E402
from stack import COMPOSE, WATCHERS, Stack, run  # noqa: E402
from watch import Echo, Watch, Writer  # noqa: E402

ALERT_SECONDS = 60
"""The latest that an alert may be at Alertmanager."""
PATIENCE_SECONDS = 90
"""How long a fault waits for its alert."""
GAP_SECONDS = 15
"""A longer gap between acknowledged writes is an outage."""
TARGETS = 12
"""The targets of Prometheus: each service by DNS, by its name, and through the front."""


@dataclasses.dataclass
class Verdict:
    """One fault's row."""

    name: str
    write_gap: float = 0
    sync_gap: float = 0
    refused: dict = dataclasses.field(default_factory=dict)
    health: float | None = None
    ready: float | None = None
    services: dict = dataclasses.field(default_factory=dict)
    metrics: dict = dataclasses.field(default_factory=dict)
    alerts: dict = dataclasses.field(default_factory=dict)
    recovery: float | None = None
    lost: int = 0
    problems: list = dataclasses.field(default_factory=list)


def gap(entries, began, ended):
    """The longest time without an entry. The last one before counts as the beginning."""
    times = [at for at, *_ in entries if at <= ended]
    before = [at for at in times if at < began][-1:] or [began]
    marks = [*before, *(at for at in times if at >= began), ended]
    return max(after - earlier for earlier, after in zip(marks, marks[1:], strict=False))


class Matrix:
    def __init__(self, stack, workspace):
        self.stack = stack
        database, token = stack.database(), secrets.token_hex(16)
        until(lambda: tour.provider(Client(stack.origin), database, stack.credential, token), 60, "the front is away")
        self.reader = Client(stack.origin, database, token)
        self.peer = Peer(workspace, "a", self.reader, ["SELECT * FROM writes"])
        self.watch = Watch(stack.origin, stack.ports)
        self.writer = Writer(Client(stack.origin, database, token))
        self.echo = Echo(self.peer, Client(stack.origin, database, token))

    def is_well(self, since):
        """Writes, health and sync have been well for three seconds in a row."""
        now = time.monotonic()
        recent = max(since, now - 3)
        if now - recent < 3:
            return False
        written = sum(at >= recent for at, _ in self.writer.acknowledged)
        refused = sum(at >= recent for at, *_ in self.writer.refused)
        healthy = {status for name in self.watch.answers for _, status in self.watch.statuses_since(name, recent)}
        return written >= 3 and not refused and healthy == {200} and any(at >= recent for at, _ in self.echo.seen)

    def settle(self, expected):
        """All is well, PostgreSQL has its standby, Prometheus sees everybody, and none of these alerts is left, nor a
        critical one."""
        until(lambda: self.is_well(0), 180, "it is not well before a fault")
        until(self.stack.is_whole, 180, "the standby does not follow", 1)
        until(lambda: self.watch.is_up(TARGETS), 90, "Prometheus does not see all", 1)
        critical = {name for name, severity in self.watch.severities.items() if severity == "critical"}
        until(lambda: not (critical | set(expected)) & set(self.watch.alerts), 150, lambda: f"still {self.watch.alerts}", 1)

    def try_fault(self, fault):
        self.settle(fault.alerts)
        verdict = Verdict(fault.name)
        known = set(self.watch.alerts)
        began, began_wall = time.monotonic(), time.time()
        made = fault.make(self.stack)

        def came():
            return {name: at - began for at, name in self.watch.firings if at >= began and name not in known}

        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end and (
                time.monotonic() < began + fault.seconds or fault.alerts and not set(fault.alerts) & set(came())):
            time.sleep(0.5)
        mended = time.monotonic()
        fault.mend(self.stack, made)
        undone = time.monotonic()
        try:
            until(lambda: self.is_well(mended), fault.settles, "", 0.5)
            verdict.recovery = max(0, time.monotonic() - 3 - undone)
        except TimeoutError:
            verdict.problems.append(f"not well {fault.settles:.0f} s after it was mended")
        ended = time.monotonic()
        verdict.write_gap = gap(self.writer.acknowledged, began, ended)
        verdict.sync_gap = gap(self.echo.seen, began, ended)
        for at, status, code in self.writer.refused:
            if at >= began:
                key = f"{status or '–'} {code}".strip()
                verdict.refused[key] = verdict.refused.get(key, 0) + 1
        for name in self.watch.answers:
            ill = [at - began for at, status in self.watch.statuses_since(name, began) if status != 200]
            if ill and name in ("health", "ready"):
                setattr(verdict, name, ill[0])
            elif ill:
                verdict.services[name] = ill[0]
        verdict.metrics = self.watch.figures(began_wall, time.time())
        verdict.alerts = came()
        self.judge(fault, verdict)
        return verdict

    def judge(self, fault, verdict):
        told = [verdict.alerts[name] for name in fault.alerts if name in verdict.alerts]
        if fault.alerts and not told:
            verdict.problems.append(f"none of {', '.join(fault.alerts)}")
        elif fault.alerts and min(told) > ALERT_SECONDS:
            verdict.problems.append(f"alert after {min(told):.0f} s")
        critical = [name for name in verdict.alerts if self.watch.severities.get(name) == "critical"]
        if not fault.alerts and critical:
            verdict.problems.append(f"needless: {', '.join(critical)}")
        if fault.is_seen and verdict.health is None:
            verdict.problems.append("health said nothing")
        if fault.goes_on and verdict.write_gap > GAP_SECONDS:
            verdict.problems.append(f"no write for {verdict.write_gap:.0f} s")
        # Before the read: a write that is acknowledged after it cannot be in it.
        acknowledged = [name for _, name in [*self.writer.acknowledged, *self.echo.seen]]
        present = self.present()
        if present is None:
            verdict.problems.append("nothing can be read")
            return
        verdict.lost = len([name for name in acknowledged if name not in present])
        if verdict.lost:
            verdict.problems.append(f"{verdict.lost} acknowledged writes are lost")

    def present(self):
        for _ in range(60):
            try:
                return {item["_id"] for item in self.reader.query("SELECT _id FROM writes")}
            except (OSError, RuntimeError):
                self.reader.forget_login()
                time.sleep(1)
        return None

    def end(self):
        """Stops writing; what the server and the peer then have has to be the same."""
        self.writer.end()
        self.echo.end()
        until(lambda: {item["_id"] for item in self.peer.query("SELECT _id FROM writes")} == self.present(), 120,
              "the peer and the server differ", 1)
        self.watch.end()
        return len(self.writer.acknowledged), len(self.echo.seen)


def say(verdict):
    alerts = ", ".join(f"{name} {at:.0f} s" for name, at in verdict.alerts.items()) or "no alert"
    state = "; ".join(verdict.problems) or "as it should be"
    recovery = "never" if verdict.recovery is None else f"{verdict.recovery:.0f} s"
    print(f"{verdict.name}: gap {verdict.write_gap:.1f}/{verdict.sync_gap:.1f} s, back after {recovery}, {alerts}: {state}",
          flush=True)


def rows(result):
    """The verdicts that a file has, by name."""
    return {row["name"]: Verdict(**row) for row in json.loads(result.read_text())["verdicts"]} if result.exists() else {}


def keep(result, verdicts, written):
    """Writes all verdicts in the order of the faults, and adds to the writes that were acknowledged."""
    before = json.loads(result.read_text())["written"] if result.exists() else [0, 0]
    order = [fault.name for fault in FAULTS if fault.name in verdicts]
    result.parent.mkdir(exist_ok=True)
    result.write_text(json.dumps({
        "written": [earlier + more for earlier, more in zip(before, written, strict=True)],
        "verdicts": [dataclasses.asdict(verdicts[name]) for name in order]}, indent=1) + "\n")


def run_all(dist, chosen, folder, result):
    check.images(dist, None, folder)
    for target in WATCHERS:
        run("docker", "build", "-q", "-f", COMPOSE / "monitoring.Dockerfile", "--target", target, "-t", f"mimeo-{target}",
            COMPOSE, seconds=900)
    os.environ["MIMEO_BIN"] = str(check.Shipped(dist).unpack(folder / "unpacked") / "bin")
    bad = []
    with Stack(folder, f"mimeo-faults-{secrets.token_hex(4)}") as stack, Workspace() as workspace:
        stack.start()
        matrix = Matrix(stack, workspace)
        for fault in chosen:
            try:
                verdict = matrix.try_fault(fault)
            except (RuntimeError, TimeoutError, OSError) as problem:
                verdict = Verdict(fault.name, problems=[str(problem)[:300]])
            say(verdict)
            bad += [fault.name] if verdict.problems else []
            keep(result, {**rows(result), fault.name: verdict}, (0, 0))
        keep(result, rows(result), matrix.end())
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=pathlib.Path, default=ROOT / ".build" / "dist", help="what `make dist` made")
    parser.add_argument("--only", action="append", default=[], help="the faults with this in their name; other rows stay")
    parser.add_argument("--after", help="the faults that come after the one of this name")
    parser.add_argument("--page", type=pathlib.Path, help="where the table goes, as Markdown")
    parser.add_argument("--result", type=pathlib.Path, default=ROOT / ".build" / "faults.json", help="all figures, as JSON")
    options = parser.parse_args()
    # Containers, disks and networks are taken away on this way out too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))
    chosen = [fault for fault in FAULTS if not options.only or any(word in fault.name for word in options.only)]
    if options.after:
        chosen = chosen[[fault.name for fault in chosen].index(options.after) + 1:]
    with tempfile.TemporaryDirectory(prefix="mimeo-faults.") as name:
        folder = pathlib.Path(name)
        with docker_engine(folder):
            bad = run_all(options.dist.resolve(), chosen, folder, options.result)
    if options.page:
        known = rows(options.result)
        options.page.write_text(page(list(known.values()), json.loads(options.result.read_text())["written"]))
    print(f"{len(chosen)} faults, {len(bad)} not as they should be: {', '.join(bad) or '–'}", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
