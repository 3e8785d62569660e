"""Faults, drawn from a seed. Each victim has faults that begin and end; several victims may suffer at once."""

import os
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


class OwnClock:
    """The clock of day of one process, ahead of the others' by some seconds; it can go back."""

    def __init__(self, path):
        self._path = path
        self.set(0)

    @property
    def environment(self):
        return {"MIMEO_TEST_CLOCK": str(self._path)}

    def set(self, seconds):
        with open(self._path, "r+b" if self._path.exists() else "wb") as file:
            file.write(b"%020d" % seconds)


def ahead(name, clock, seconds, longest=10):
    """A clock jumps ahead, and back at the end."""
    return Fault(f"clock of {name}", lambda: clock.set(seconds), lambda: clock.set(0), longest)


class Nemesis(threading.Thread):
    """Draws a victim, one of its faults, and times. A victim has one fault at a time."""

    def __init__(self, victims, dice, recorder, most=2, rest=(0.5, 4.0)):
        super().__init__(name="nemesis", daemon=True)
        self._victims = victims
        self._dice = dice
        self._recorder = recorder
        self._most = most
        self._rest = rest
        self._stopping = threading.Event()
        self._running = []
        self.counts = {}
        self.problem = None

    def run(self):
        try:
            while not self._stopping.wait(self._dice.uniform(*self._rest)):
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

    def stop(self):
        """Ends all faults."""
        self._stopping.set()
        self.join(120)
        for entry in list(self._running):
            self._end(entry)
