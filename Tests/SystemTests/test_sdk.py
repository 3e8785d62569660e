"""The SDK in a process of its own: killed in the middle of transactions, locked out, and under many observers."""

import json
import random
import time

from mimeo_harness import SEED, pick
from mimeo_harness.processes import binary
from system_test import SystemTest, report

KILLS = pick(fast=4, deep=200)
LIMIT = 300 * 1024 * 1024


class SDK(SystemTest):
    seconds = 400 + 2 * KILLS

    def probe(self, verb, *arguments):
        name = f"probe-{verb}-{time.monotonic_ns()}"
        return self.workspace.start(name, [binary("sdk-probe"), verb, *arguments])

    def answer(self, process, index=0, seconds=60):
        line = process.line(index, seconds)
        self.assertIsNotNone(line, process.log_tail())
        return json.loads(line)

    def test_kill_nine_loses_no_committed_transaction_and_never_half_of_one(self):
        dice = random.Random(SEED)
        store = self.workspace.directory / "store"
        acknowledged, unacknowledged = 0, 0
        for _ in range(KILLS):
            process = self.probe("write", store)
            self.answer(process)
            # Some transactions get through, then it dies somewhere in the next one.
            self.answer(process, dice.randrange(1, 40))
            time.sleep(dice.uniform(0, 0.02))
            process.kill()
            index, last = 0, None
            while (line := process.line(index, 30)) is not None:
                last, index = line, index + 1
            acknowledged = json.loads(last).get("number", acknowledged)
            checking = self.probe("check", store)
            found = self.answer(checking)
            self.assertEqual(checking.wait(60), 0)
            message = f"seed {SEED}: {acknowledged} acknowledged, found {found}"
            self.assertGreaterEqual(found["last"], acknowledged, message)
            self.assertLessEqual(found["last"], acknowledged + 1, message)
            self.assertEqual((found["halves"], found["missing"]), ([], []), message)
            self.assertEqual(found["transactions"], found["last"], message)
            unacknowledged += found["last"] - acknowledged
            acknowledged = found["last"]
        report(f"{KILLS} kills, {acknowledged} transactions of 8 documents, none lost, none halved; "
               f"{unacknowledged} were committed and not yet acknowledged")

    def test_a_second_process_on_the_same_directory_is_told_that_it_is_locked(self):
        store = self.workspace.directory / "store"
        holder = self.probe("hold", store)
        self.assertEqual(self.answer(holder), {"open": True})
        second = self.answer(self.probe("open", store))
        self.assertEqual(second["case"], "persistenceDirectoryLocked")
        # Five tries with 200 ms in between; how much longer depends on the machine.
        self.assertGreaterEqual(second["seconds"], 0.75)
        report(f"locked out after {second['seconds']:.2f} s")
        holder.kill()
        third = self.answer(self.probe("open", store))
        self.assertTrue(third.get("open"), third)

    def test_two_hundred_observers_on_fifty_thousand_documents(self):
        store = self.workspace.directory / "store"
        process = self.probe("observers", store, "5")
        found = self.answer(process, seconds=300)
        self.assertEqual(process.wait(60), 0)
        self.assertEqual(found["wrong"], 0, found)
        self.assertGreater(found["calls"], found["observers"])
        self.assertLess(found["residentPeak"], LIMIT, found)
        report(f"{found['observers']} observers, {found['documents']} documents, "
               f"{found['writesPerSecond']:.0f} writes/s: {found['residentPeak'] / 1024 / 1024:.0f} MiB at most, every final state delivered "
               f"{found['settledSeconds']:.2f} s after the last write")
