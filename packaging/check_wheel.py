#!/usr/bin/env python3
"""Tries the Python package on a machine that has nothing but Python: python3 packaging/check_wheel.py WHEEL

The machine is a fresh Debian 12 of debootstrap with python3-venv: no Swift, no compiler, no package index. There a user
without rights installs the wheel into a new environment and runs all that `Docs/python-peer.md` shows, with a server of
the programs in MIMEO_BIN. Needs root and debootstrap.
"""

import os
import pathlib
import shutil
import sys
import tempfile

from check import ROOT, Machine, debian, expect, run

sys.path.insert(0, str(ROOT / "Tests" / "Support"))

from mimeo_harness import OneProcess, Workspace  # noqa: E402  (its folder was named first)
from mimeo_harness.native import FIVE_MINUTES, shown_program  # noqa: E402

NOBODY = 65534


def main(wheel):
    wheel = pathlib.Path(wheel).resolve()
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        sys.exit("needs root and debootstrap: scripts/setup engine installs it")
    with tempfile.TemporaryDirectory(prefix="mimeo-wheel.") as name, Workspace() as workspace:
        folder = pathlib.Path(name)
        # Users of the machine pass through it.
        folder.chmod(0o755)
        root = debian(folder / "machine", ("python3", "python3-venv"))
        expect([path.name for path in root.rglob("*swift*")], [], "files of Swift on the machine")
        machine = Machine(workspace, "wheel", root, "/usr/bin/env", NOBODY, "srv/mimeo")
        machine.put(wheel.name, wheel.read_bytes())
        machine.put("page.py", shown_program(ROOT / "Docs" / "python-peer.md").encode())
        python = machine.path("environment/bin/python")
        run(*machine.command("python3", "-m", "venv", machine.path("environment")))
        run(*machine.command(python, "-m", "pip", "install", "--no-index", machine.path(wheel.name)))
        server = OneProcess(workspace).start()
        printed = run(*machine.command(
            f"--chdir={machine.path('')}", f"MIMEO_URL={server.origin}", f"MIMEO_DATABASE={server.database}",
            f"MIMEO_TOKEN={server.token}", python, machine.path("page.py")))
        expect([text for text in FIVE_MINUTES if text not in printed], [], f"what is missing in {printed}")
        version = (root / "etc" / "debian_version").read_text().strip()
        print(f"{wheel.name} works on Debian {version} with Python alone", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
