"""Measures how long a document takes to be everywhere: every few seconds, and after the end of each fault."""

import threading
import time

from .seats import Refused, Unknown

COLLECTION = "marks"
PAUSE_SECONDS = 5
"""The time between two marks while nothing happens."""
MOST_SECONDS = 60
"""A mark that takes longer is told as one that did not come."""
LOOK_SECONDS = 0.1


class Watch(threading.Thread):
    """Writes a mark through the first of its seats and looks for it at all of them, one mark at a time.

    Each mark becomes a note of the history: `seconds` from the end of a fault, or from the first try to write it, until
    it is everywhere; null if that took too long. `disturbed`: a fault was active meanwhile.
    """

    def __init__(self, seats, recorder):
        super().__init__(name="watch", daemon=True)
        self._seats = seats
        self._recorder = recorder
        self._changed = threading.Condition()
        self._active = 0
        self._begun = 0
        """The number of faults so far."""
        self._ended = []
        self._stopping = False

    def fault_began(self):
        with self._changed:
            self._active += 1
            self._begun += 1

    def fault_ended(self, name):
        with self._changed:
            self._active -= 1
            self._ended.append((name, self._recorder.now, self._begun))
            self._changed.notify()

    def stop(self):
        """Takes a last mark, for the faults that have just ended."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self.join(3 * MOST_SECONDS)

    def run(self):
        number = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._stopping, PAUSE_SECONDS)
                ended, self._ended = self._ended, []
                if self._stopping and not ended:
                    return
                ended = ended or [(None, self._recorder.now, self._begun)]
                is_calm = self._active == 0
            number += 1
            came = self._everywhere(f"m{number}")
            for name, since, begun in ended:
                self._recorder.note(
                    "mark", after=name, seconds=came - since if came is not None else None,
                    disturbed=not is_calm or begun != self._begun)

    def _everywhere(self, mark):
        """The moment when all seats show the mark; None if it takes too long."""
        end = time.monotonic() + MOST_SECONDS
        write = f"INSERT INTO {COLLECTION} DOCUMENTS ({{'_id': '{mark}'}}) ON ID CONFLICT DO NOTHING"
        if not self._try_until(end, lambda: self._seats[0].ask(write)):
            return None
        for seat in self._seats:
            look = f"SELECT _id FROM {COLLECTION} WHERE _id = '{mark}'"
            if not self._try_until(end, lambda seat=seat, look=look: seat.ask(look).items):
                return None
        return self._recorder.now

    @staticmethod
    def _try_until(end, ask):
        while time.monotonic() < end:
            try:
                if ask():
                    return True
            except (Refused, Unknown):
                pass
            time.sleep(LOOK_SECONDS)
        return False
