"""The core that a browser shares with a server compiles for it."""

import pathlib
import subprocess
import tempfile

from mimeo_harness import ROOT
from system_test import SystemTest


class Portable(SystemTest):
    def test_crdt_and_exchange_compile_in_embedded_swift(self):
        with tempfile.TemporaryDirectory(prefix="mimeo-portable.") as folder:
            done = subprocess.run(
                [ROOT / "scripts" / "portable", folder], capture_output=True, text=True, timeout=600, check=False)
            self.assertEqual(done.returncode, 0, done.stderr[-4_000:])
            for module in ("CRDT", "Exchange"):
                self.assertEqual((pathlib.Path(folder) / f"{module}.o").read_bytes()[:4], b"\0asm", module)
