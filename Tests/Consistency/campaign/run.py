"""One run: a topology under its nemesis and all workloads, then rest, then the last reads."""

import concurrent.futures
import os
import random
import subprocess
import threading
import time

from mimeo_harness import Workspace, binary, digest, until

from .nemesis import Nemesis
from .recorder import Recorder
from .seats import Refused, Unknown
from .topologies import COLLECTIONS, TOPOLOGIES
from .watch import Watch
from .workloads import ALL, EPOCH_SECONDS, canonical

PACE_SECONDS = 0.12
"""The mean pause of a client between two operations: low load, so that a run fits beside other work."""

REST_SECONDS = 240
"""Timeout from the end of all faults until all replicas agree. Longer is told as a violation of C1."""

START_SECONDS = 180
"""Timeout until the first documents are everywhere, before any fault."""

CUT_OFF = 0.01
"""The probability per operation that a peer cuts itself off for a while, so that its writes are concurrent."""


class Run:
    def __init__(self, seconds, recorder):
        self.epochs = int(seconds / EPOCH_SECONDS) + 2
        self._recorder = recorder
        self._numbers = {}
        self._began = None

    def begin(self):
        self._began = self._recorder.now

    @property
    def epoch(self):
        return min(self.epochs - 1, int((self._recorder.now - self._began) / EPOCH_SECONDS))

    def unique(self, seat):
        """A word that no other call returns. Each client asks only for itself."""
        self._numbers[seat.name] = self._numbers.get(seat.name, 0) + 1
        return f"{seat.name}x{self._numbers[seat.name]}"


class ClientThread(threading.Thread):
    """Draws one operation after the other for a seat, until told to stop."""

    def __init__(self, seat, workloads, dice):
        super().__init__(name=seat.name, daemon=True)
        self.seat = seat
        self._workloads = [each for each in workloads if each.takes(seat)]
        self._dice = dice
        self._stopping = threading.Event()
        self._apart = 0
        self.problem = None

    def run(self):
        weights = [each.weight for each in self._workloads]
        try:
            while not self._stopping.wait(self._dice.expovariate(1 / PACE_SECONDS)):
                if self.seat.door == "peer":
                    self._perhaps_apart()
                self._dice.choices(self._workloads, weights)[0].step(self.seat, self._dice)
        except Exception as problem:  # noqa: BLE001  the run ends with it
            self.problem = problem

    def _perhaps_apart(self):
        if self._apart == 1:
            self.seat.rejoin()
        elif self._apart == 0 and self._dice.random() < CUT_OFF:
            self._apart = self._dice.randrange(10, 40)
            self.seat.cut_off()
        self._apart = max(0, self._apart - 1)

    def stop(self):
        self._stopping.set()

    def await_end(self):
        self.join(180)
        if self.problem:
            raise self.problem
        if self.is_alive():
            raise TimeoutError(f"{self.seat.name} hangs")


def documents(seat, collection):
    return seat.ask(f"SELECT * FROM {collection}").items


def agree(seats):
    """True if all seats read the same now."""
    for collection in COLLECTIONS:
        try:
            if len({digest(documents(seat, collection)) for seat in seats}) != 1:
                return False
        except (Refused, Unknown):
            return False
    return True


def rest(seats, recorder):
    """Waits until all agree. Afterwards each replica is read, whether they do or not."""
    for seat in seats:
        if seat.door == "peer":
            seat.rejoin()
    began = recorder.now
    try:
        until(lambda: agree(seats), REST_SECONDS, "", pause=0.5)
        recorder.note("rest", seconds=recorder.now - began)
    except TimeoutError:
        recorder.note("no rest", seconds=recorder.now - began)
    at_each(seats, read_everything)


def read_everything(seat):
    for collection in COLLECTIONS:
        seat.do("final", {"replica": seat.name, "collection": collection}, lambda seat, collection=collection: {
            "documents": [canonical(document) for document in documents(seat, collection)]})


def at_each(seats, work):
    """Does the work at all seats at once."""
    with concurrent.futures.ThreadPoolExecutor(len(seats)) as pool:
        for future in [pool.submit(work, seat) for seat in seats]:
            future.result()


def work(topology, workloads, seconds, seed, recorder):
    threads = [ClientThread(seat, workloads, random.Random(f"{seed} {seat.name}")) for seat in topology.seats]
    watch = Watch(topology.watched, recorder)
    faults = Nemesis(topology.victims, random.Random(f"{seed} nemesis"), recorder, watch)
    for thread in [watch, *threads]:
        thread.start()
    faults.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end and not any(each.problem for each in [faults, *threads]):
        time.sleep(0.2)
    faults.stop()
    watch.stop()
    for thread in threads:
        thread.stop()
    for thread in threads:
        thread.await_end()
    if faults.problem:
        raise faults.problem


def run(name, seconds, seed, path):
    """Writes the history of a run to `path`."""
    version = subprocess.run([binary("mimeo"), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    is_idle = os.sched_getscheduler(0) == os.SCHED_IDLE
    recorder = Recorder(path, {
        "topology": name, "seed": seed, "minutes": seconds / 60, "version": version,
        "priority": "idle" if is_idle else f"nice {os.nice(0)}"})
    try:
        with Workspace() as workspace:
            topology = TOPOLOGIES[name](workspace, recorder, random.Random(f"{seed} topology")).build()
            run_on(topology, seconds, seed, recorder)
    finally:
        recorder.close()


def run_on(topology, seconds, seed, recorder):
    state = Run(seconds, recorder)
    workloads = [each(state) for each in ALL]
    whole = [seat for seat in topology.seats if not seat.is_reader]
    for workload in workloads:
        workload.setup(topology.seats[0])
    try:
        until(lambda: agree(whole), START_SECONDS, "")
        state.begin()
        work(topology, workloads, seconds, seed, recorder)
    except TimeoutError as problem:
        # The last reads tell who lacks which document, or the judge has less to judge.
        recorder.note("timeout", problem=str(problem) or "the first documents do not reach everybody")
        print(f"  timeout: {problem}")
    rest(whole, recorder)
    if topology.followers:
        topology.followers.finish(topology.seats[0], recorder)

    def finish(seat):
        for workload in workloads:
            if workload.takes(seat):
                workload.finish(seat)

    at_each(topology.seats, finish)
