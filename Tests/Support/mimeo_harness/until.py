"""Waiting for a condition."""

import time


def until(condition, seconds, what, pause=0.05):
    """Calls `condition` until its result is true, and returns that. After `seconds` raises TimeoutError with `what`.

    `what` is a string, or a function that describes the state at the end.
    """
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what() if callable(what) else what}")
        time.sleep(pause)
