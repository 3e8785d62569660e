"""Faults, drawn from a seed. Each victim has faults that begin and end; several victims may suffer at once."""

import os
import shutil
import signal
import threading
import time


class Fault:
    """`begin` and `end` of one fault. Whoever starts it ends it, always."""

    def __init__(self, name, begin, end, longest):
        self.name = name
        self.begin = begin
        self.end = end
        self.longest = longest
        """Seconds that it lasts at most."""


def pause(name, processes, longest=8):
    """SIGSTOP and SIGCONT of all processes that `processes()` gives. One that is killed meanwhile stays as it is."""
    stopped = []

    def begin():
        for process in processes():
            if process.is_running:
                os.kill(process.pid, signal.SIGSTOP)
                stopped.append(process)

    def end():
        while stopped:
            process = stopped.pop()
            if process.is_running:
                os.kill(process.pid, signal.SIGCONT)

    return Fault(f"stop {name}", begin, end, longest)


def kill(name, victim, before_start=lambda: None, longest=4):
    """kill -9, and a start on the same folder and port."""

    def end():
        before_start()
        victim.start()

    return Fault(f"kill {name}", victim.kill, end, longest)


def cut(name, proxy, longest=10):
    """Connections are reset, and no later ones get through."""
    return Fault(f"cut {name}", proxy.cut, proxy.mend, longest)


def one_way(name, proxy, direction, longest=10):
    """Nothing is delivered in one direction, silently; connections stay open."""

    def end():
        proxy.thaw()
        proxy.reset()

    return Fault(f"one way {direction} {name}", lambda: proxy.freeze(direction), end, longest)


def slow(name, proxy, longest=10):
    def begin():
        proxy.delay, proxy.rate = 0.3, 40_000

    def end():
        proxy.delay, proxy.rate = 0.0, None

    return Fault(f"slow {name}", begin, end, longest)


def put_back(name, peer, seat, folder):
    """A copy of a peer's folder after kill -9; the next time it takes the folder's place, as an old backup would."""
    copy = folder / f"copy-{name}"
    taken = []

    def begin():
        peer.kill()
        if not taken:
            shutil.copytree(peer.store, copy)
            taken.append(seat.recorder.now)

    def end():
        with seat.turn:
            if taken and taken[0] < seat.recorder.now - OLDEST_COPY_SECONDS:
                shutil.rmtree(peer.store)
                shutil.move(copy, peer.store)
                seat.was_put_back(taken.pop())
            seat.starts += 1
            peer.start()

    return Fault(f"put back {name}", begin, end, 4)


OLDEST_COPY_SECONDS = 10
"""A younger copy is kept for the next time."""


def absence(name, peer, seat, server, advance, hours=2, longest=8):
    """A peer that is away while the clock goes on by hours, and the server reaps the tombstones of that time."""

    def end():
        advance(hours * 3600)
        # A server looks for old tombstones when it starts, and once a day.
        server.kill()
        server.start()
        time.sleep(REAPING_SECONDS)
        seat.starts += 1
        peer.start()

    return Fault(f"absence of {name}", peer.kill, end, longest)


REAPING_SECONDS = 3
"""Housekeeping looks each second (`--housekeeping-seconds 1`)."""


class OwnClock:
    """The clock of day of one process, ahead of the others' by some seconds; it can go back."""

    def __init__(self, path):
        self._path = path
        self._base = self._ahead = 0
        self._write()

    def advance(self, seconds):
        """The clock of all goes on."""
        self._base += seconds
        self._write()

    @property
    def environment(self):
        return {"MIMEO_TEST_CLOCK": str(self._path)}

    def set(self, seconds):
        self._ahead = seconds
        self._write()

    def _write(self):
        with open(self._path, "r+b" if self._path.exists() else "wb") as file:
            file.write(b"%020d" % (self._base + self._ahead))


def ahead(name, clock, seconds, longest=10):
    """A clock jumps ahead, and back at the end."""
    return Fault(f"clock of {name}", lambda: clock.set(seconds), lambda: clock.set(0), longest)


CALM, CALM_SECONDS = 0.12, (6.0, 12.0)
"""The probability, for each fault, that all of them end before it, and how long nothing begins then: so that it can be
measured how long recovery takes."""


class Nemesis(threading.Thread):
    """Draws a victim, one of its faults, and times. A victim has one fault at a time."""

    def __init__(self, victims, dice, recorder, watch, most=2, rest=(0.5, 4.0)):
        super().__init__(name="nemesis", daemon=True)
        self._victims = victims
        self._dice = dice
        self._recorder = recorder
        self._watch = watch
        self._most = most
        self._rest = rest
        self._stopping = threading.Event()
        self._running = []
        self.counts = {}
        self.problem = None

    def run(self):
        try:
            while not self._stopping.wait(self._dice.uniform(*self._rest)):
                if self._dice.random() < CALM:
                    self._end_all()
                    self._stopping.wait(self._dice.uniform(*CALM_SECONDS))
                self._end_those_due()
                self._begin_another()
        except Exception as problem:  # noqa: BLE001  the run ends with it
            self.problem = problem

    def _begin_another(self):
        busy = {victim for _, victim, _ in self._running}
        free = sorted(set(self._victims) - busy)
        if not free or len(self._running) >= self._most:
            return
        victim = self._dice.choice(free)
        fault = self._dice.choice(self._victims[victim])
        until = time.monotonic() + self._dice.uniform(0.0, fault.longest)
        self._recorder.note(fault.name, begins=True)
        self._watch.fault_began()
        fault.begin()
        self.counts[fault.name] = self.counts.get(fault.name, 0) + 1
        self._running.append((until, victim, fault))

    def _end_those_due(self):
        for entry in list(self._running):
            if entry[0] <= time.monotonic():
                self._end(entry)

    def _end(self, entry):
        self._running.remove(entry)
        entry[2].end()
        self._recorder.note(entry[2].name, begins=False)
        self._watch.fault_ended(entry[2].name)

    def stop(self):
        """Ends all faults."""
        self._stopping.set()
        self.join(120)
        self._end_all()

    def _end_all(self):
        for entry in list(self._running):
            self._end(entry)
