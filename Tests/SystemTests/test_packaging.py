"""The units of systemd and the scripts of the Debian package. `test_dist` has the packages themselves."""

import configparser
import json
import shutil
import subprocess
import unittest

from mimeo_harness import ROOT
from system_test import SystemTest

DEBIAN = ROOT / "packaging" / "debian"
SYSTEMD = ROOT / "packaging" / "systemd"
HARDENED = (
    "User=mimeo", "NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=", "MemoryDenyWriteExecute=yes",
    "UMask=0077", "SystemCallFilter=@system-service")


def run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=60, check=False, **options)
    if done.returncode:
        raise AssertionError(f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


class Packaging(SystemTest):
    def test_no_unit_may_anything_that_it_does_not_need(self):
        for name in ("mimeo.service", "mimeo@.service", "mimeo-backup.service"):
            for line in HARDENED:
                self.assertIn(f"\n{line}\n", (SYSTEMD / name).read_text(), name)
        for name in ("mimeo.service", "mimeo@.service"):
            for line in ("StateDirectory=mimeo", "Restart=on-failure"):
                self.assertIn(f"\n{line}\n", (SYSTEMD / name).read_text(), name)

    def test_a_crash_is_followed_by_a_start_however_often(self):
        for name in ("mimeo.service", "mimeo@.service"):
            sections = configparser.ConfigParser(strict=False, interpolation=None)
            sections.optionxform = str
            sections.read(SYSTEMD / name)
            self.assertEqual(sections["Unit"]["StartLimitIntervalSec"], "0")
            service = sections["Service"]
            self.assertEqual(service["Restart"], "on-failure")
            self.assertEqual(service["RestartSec"], "500ms")
            self.assertEqual(service["Environment"], "SWIFT_BACKTRACE=enable=no")

    def test_the_service_reads_the_settings_that_the_package_brings(self):
        settings = json.loads((DEBIAN / "mimeo.json").read_text())
        self.assertEqual(settings["data"], "/var/lib/mimeo")
        configured = f"--config /{(DEBIAN / 'conffiles').read_text().strip().lstrip('/')}"
        for name in ("mimeo.service", "mimeo-backup.service"):
            self.assertIn(configured, (SYSTEMD / name).read_text())

    def test_the_scripts_are_sound(self):
        for script in ("postinst", "prerm", "postrm"):
            self.assertTrue((DEBIAN / script).stat().st_mode & 0o100, script)
            run("sh", "-n", DEBIAN / script)

    @unittest.skipIf(shutil.which("systemd-analyze") is None, "systemd is not here")
    def test_systemd_understands_every_unit(self):
        folder = self.workspace.directory / "units"
        folder.mkdir()
        for path in SYSTEMD.iterdir():
            text = path.read_text().replace("@BIN@/mimeo", "/bin/true").replace("@SERVICES@/%i", "/bin/true")
            (folder / path.name.replace("@.", "@replicator.")).write_text(text.replace("@DOC@", "/usr/share/doc/mimeo"))
        told = run("systemd-analyze", "verify", "--man=no", *sorted(folder.iterdir()))
        self.assertEqual(told, "")
        # In tenths: no service has more than it needs.
        for path in sorted(folder.glob("*.service")):
            run("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=16", path)

    def test_the_nightly_backup_is_full_on_sundays_and_incremental_on_other_days(self):
        lines = (SYSTEMD / "mimeo-backup.service").read_text().replace("\\\n", " ")
        (command,) = [line for line in lines.splitlines() if line.startswith("ExecStart=/bin/sh -c '")]
        script = command.removeprefix("ExecStart=/bin/sh -c '").removesuffix("'").replace("$$", "$").replace("%%", "%")
        folder = self.workspace.directory / "bin"
        folder.mkdir()
        for name, text in (("mimeo", 'printf "%s\\n" "$*"'), ("date", 'echo "$DAY"')):
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)
        for day, expected in (("7", False), ("1", True), ("6", True)):
            told = run("sh", "-c", script.replace("@BIN@", str(folder)), env={
                "PATH": f"{folder}:/usr/bin:/bin", "DAY": day, "BACKUP_TO": "/var/backups/mimeo", "BACKUP_BUCKET": ""})
            self.assertEqual(told.split()[:6], [
                "backup", "create", "--config", "/etc/mimeo/mimeo.json", "--to", "/var/backups/mimeo"])
            self.assertEqual("--incremental" in told.split(), expected, day)
            self.assertEqual(told.split()[-2:], ["--passphrase-file", "/etc/mimeo/backup-passphrase"])
