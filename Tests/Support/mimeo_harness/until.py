"""Waiting for something that will be so soon."""

import time


def until(condition, seconds, what, pause=0.05):
    """Calls `condition` until it returns something true, and returns that. TimeoutError names `what` otherwise.

    `what` is text, or a function that tells how things stood at the end.
    """
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what() if callable(what) else what}")
        time.sleep(pause)
