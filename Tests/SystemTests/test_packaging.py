"""The Debian package: its files, and in full its installation in a fresh Debian."""

import configparser
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from mimeo_harness import ROOT, pick
from system_test import SystemTest

DEBIAN = ROOT / "packaging" / "debian"


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=500, check=False, **options)
    if done.returncode:
        raise AssertionError(f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


class Packaging(SystemTest):
    seconds = 900

    def test_the_unit_may_nothing_that_it_does_not_need(self):
        unit = (DEBIAN / "mimeo.service").read_text()
        for line in ("User=mimeo", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=",
                     "MemoryDenyWriteExecute=yes", "StateDirectory=mimeo", "UMask=0077", "Restart=on-failure",
                     "SystemCallFilter=@system-service"):
            self.assertIn(f"\n{line}\n", unit, line)
        settings = json.loads((DEBIAN / "mimeo.json").read_text())
        self.assertEqual(settings["data"], "/var/lib/mimeo")
        self.assertIn(f"--config /{(DEBIAN / 'conffiles').read_text().strip().lstrip('/')}", unit)
        for script in ("postinst", "prerm", "postrm"):
            self.assertTrue((DEBIAN / script).stat().st_mode & 0o100, script)
            run("sh", "-n", DEBIAN / script)

    def test_a_crash_is_followed_by_a_start_however_often(self):
        sections = configparser.ConfigParser(strict=False, interpolation=None)
        sections.optionxform = str
        sections.read(DEBIAN / "mimeo.service")
        self.assertEqual(sections["Unit"]["StartLimitIntervalSec"], "0")
        service = sections["Service"]
        self.assertEqual(service["Restart"], "on-failure")
        self.assertEqual(service["RestartSec"], "500ms")
        self.assertEqual(service["Environment"], "SWIFT_BACKTRACE=enable=no")

    def test_the_package_installs_in_a_fresh_debian(self):
        if not pick(fast=False, deep=True):
            raise unittest.SkipTest("in full only: it needs debootstrap and some minutes")
        if shutil.which("debootstrap") is None or os.geteuid() != 0:
            raise unittest.SkipTest("needs debootstrap and root")
        package = run(ROOT / "scripts" / "deb", self.workspace.directory / "deb", cwd=ROOT, env={
            **os.environ, "MIMEO_BIN": os.environ.get("MIMEO_BIN", ".build/release")}).strip()
        listed = run("dpkg-deb", "-c", package)
        for path in ("./usr/bin/mimeo", "./usr/lib/systemd/system/mimeo.service", "./etc/mimeo/mimeo.json",
                     "./usr/share/doc/mimeo/changelog.gz"):
            self.assertIn(path, listed)
        root = pathlib.Path(tempfile.mkdtemp(dir=self.workspace.directory))
        # It becomes the root folder of the service's user.
        root.chmod(0o755)
        packages = "adduser,ca-certificates,libedit2,libpq5,libsqlite3-0,tzdata,zlib1g"
        run("debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", root)
        # Where the program's own libraries are is what /proc tells.
        run("mount", "-t", "proc", "proc", root / "proc")
        self.addCleanup(run, "umount", root / "proc")
        shutil.copy(package, root / "mimeo.deb")
        run("chroot", root, "dpkg", "-i", "/mimeo.deb")
        self.assertIn("mimeo:", (root / "etc/passwd").read_text())
        self.assertEqual((root / "etc/mimeo/mimeo.json").stat().st_mode & 0o777, 0o640)
        self.assertEqual((root / "var/lib/mimeo").stat().st_mode & 0o777, 0o700)
        self.assertRegex(run("chroot", root, "mimeo", "--version"), r"^\d+\.\d+\.\d+")
        # Its libraries are those beside it, whatever toolchain the machine has.
        self.assertIn("[$ORIGIN]", run("readelf", "-d", root / "usr/lib/mimeo/mimeo"))
        told = run("chroot", "--userspec=mimeo:mimeo", root, "timeout", "--preserve-status", "-s", "INT", "8",
                   "mimeo", "serve", "--config", "/etc/mimeo/mimeo.json", "--listen", "127.0.0.1:0")
        self.assertIn("url: http://127.0.0.1:", told)
        run("chroot", root, "dpkg", "-r", "mimeo")
        self.assertTrue((root / "var/lib/mimeo/log.sqlite").exists())
        self.assertFalse((root / "usr/bin/mimeo").exists())
