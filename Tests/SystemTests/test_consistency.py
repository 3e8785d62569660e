"""The consistency campaign (`Tests/Consistency`): a minute of one topology; in the deep tier ten minutes of each."""

import pathlib
import signal
import subprocess
import sys

from mimeo_harness import SEED, pick
from system_test import SystemTest

CAMPAIGN = pathlib.Path(__file__).resolve().parents[1] / "Consistency"
sys.path.append(str(CAMPAIGN))
from tally import TOPOLOGIES  # noqa: E402

MINUTES = pick(fast=1, deep=10)
FAST = ("one", "peers", "links")
"""They need neither nginx nor PostgreSQL."""
CHOSEN = pick(fast=[FAST[SEED % len(FAST)]], deep=TOPOLOGIES)


class Campaign(SystemTest):
    seconds = (MINUTES * 60 + 420) * len(CHOSEN)

    def test_every_claim_is_kept_under_faults(self):
        for topology in CHOSEN:
            run = subprocess.Popen(
                [sys.executable, CAMPAIGN, "--minutes", str(MINUTES), "--seed", str(SEED), "--topology", topology],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                told, _ = run.communicate()
            finally:
                if run.poll() is None:
                    run.send_signal(signal.SIGTERM)
                    run.wait(60)
            self.assertEqual(run.returncode, 0, told)
