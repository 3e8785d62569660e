"""A sensor that is offline most of the time: it writes what it measures, and syncs when the server can be reached.

    MIMEO_URL=… MIMEO_DATABASE=… MIMEO_TOKEN=… python3 sensor.py STORE [READINGS [SECONDS-BETWEEN]]

Every reading is on the disk before the next one is taken: a pulled plug loses none. The commits that the server has
not acknowledged yet are sent whenever it is there, in their order, each once.
"""

import math
import os
import sys
import time
from datetime import datetime, timezone

import mimeo


def measure(number):
    return round(20 + 5 * math.sin(number / 30), 2)


def main(store, readings, pause):
    database = os.environ["MIMEO_DATABASE"]
    with mimeo.open(store, database=database, server=os.environ["MIMEO_URL"],
                    login=("development", os.environ["MIMEO_TOKEN"])) as db:
        db.start_sync()
        commit = 0
        for number in range(readings):
            reading = {"_id": f"{store}-{number}", "celsius": measure(number), "at": datetime.now(timezone.utc)}
            commit = db.execute("INSERT INTO readings DOCUMENTS (:r) ON ID CONFLICT DO UPDATE", r=reading).commit
            time.sleep(pause)
        print(f"{readings} readings, {db.sync_state['status']}, up to {db.sync_state['acknowledged_commit']} of {commit}"
              " are on the server", flush=True)
        while not db.wait_acknowledged(commit, 3_600):
            print("the server has not been reached for an hour", flush=True)
        print(f"all {readings} readings are on the server", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3_600, float(sys.argv[3]) if len(sys.argv) > 3 else 10.0)
