"""Writers that go on over the death of whom they write to."""

import threading
import time

from mimeo_harness import PeerGone, StatementError


class Writer(threading.Thread):
    """Writes small documents until told to stop, over the death of whom it writes to.

    `acknowledged` are the ids of writes that were answered; `attempted` those that may or may not be there.
    """

    def __init__(self, name, write):
        super().__init__(name=name, daemon=True)
        self._label = name
        self._write = write
        self._stopping = threading.Event()
        self.acknowledged = []
        self.attempted = []
        self.problem = None

    def run(self):
        number = 0
        while not self._stopping.is_set():
            identifier = f"{self._label}-{number:05}"
            number += 1
            self.attempted.append(identifier)
            try:
                self._write(f"INSERT INTO notes DOCUMENTS ({{'_id': '{identifier}', 'by': '{self._label}'}})")
                self.acknowledged.append(identifier)
            except (PeerGone, OSError, RuntimeError) as problem:
                if isinstance(problem, StatementError):
                    self.problem = problem
                    return
                time.sleep(0.05)  # killed; it comes back
            time.sleep(0.01)

    def stop(self):
        self._stopping.set()
        self.join(90)
