"""The compose file and what it is made of, as far as that can be told without a container running.

`make compose-test` is the one real `up`: it needs images and a Docker engine.
"""

import json
import os
import re
import shutil
import subprocess
import unittest

from mimeo_harness import ROOT, FourProcesses, binary
from system_test import SystemTest

COMPOSE = ROOT / "compose"
SERVICES = {"postgres", "auth-gateway", "replicator", "query-service", "attachment-store", "backup", "front"}
MONITORING = {"prometheus", "alertmanager", "grafana"}
PROFILES = MONITORING | {"doctor", "restore"}
"""Services of profiles, which some versions of compose list when they are not asked for."""


class Compose(SystemTest):
    def setUp(self):
        super().setUp()
        self.secrets = self.workspace.directory / "secrets"
        self.run_command(COMPOSE / "secrets", self.secrets)

    def run_command(self, *command):
        environment = {**os.environ, "MIMEO_SECRETS": str(self.secrets)}
        done = subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, timeout=60, env=environment, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def compose(self, *arguments):
        if shutil.which("docker-compose") is None:
            raise unittest.SkipTest("docker-compose is not here: scripts/setup compose installs it where apt does")
        return self.run_command("docker-compose", "-f", COMPOSE / "compose.yaml", *arguments)

    def test_the_file_is_valid_and_has_every_service(self):
        self.assertEqual(set(self.compose("config", "--services").split()) - PROFILES, SERVICES)
        all_of_them = self.compose("--profile", "monitoring", "--profile", "restore", "--profile", "doctor",
            "config", "--services").split()
        self.assertEqual(set(all_of_them), SERVICES | PROFILES)
        volumes = set(self.compose("config", "--volumes").split())
        self.assertEqual(volumes - MONITORING, {"postgres", "auth-gateway", "attachment-store", "backup"})

    def test_a_cluster_is_a_second_file(self):
        files = ["-f", str(COMPOSE / "cluster.yaml")]
        shown = self.compose(*files, "config", "--services").split()
        self.assertEqual(set(shown) - PROFILES, SERVICES | {"postgres-b", "etcd"})
        config = self.compose(*files, "config")
        for name in ("postgres", "postgres-b"):
            self.assertIn(f"MEMBER: {name}\n", config)
        self.assertEqual(len(re.findall(r"MEMBER_COPIES: ['\"]yes", config)), 1)
        first = (self.secrets / "services.json").read_text()
        self.assertNotIn("postgres-b", first)
        for _ in range(2):
            self.run_command(COMPOSE / "secrets", "--cluster", self.secrets)
            log = json.loads((self.secrets / "services.json").read_text())["log"]
            self.assertTrue(log.endswith("@postgres:5432,postgres-b:5432/mimeo?target_session_attrs=read-write"), log)
        self.assertIn((self.secrets / "postgres-password").read_text(), log)
        self.run_command(COMPOSE / "secrets", self.secrets)
        self.assertEqual(json.loads((self.secrets / "services.json").read_text())["log"], log)

    def test_a_canary_is_another_file_and_has_a_login_for_its_own_database_alone(self):
        config = self.compose("-f", COMPOSE / "canary.yaml", "config")
        self.assertIn("MIMEO_PROVIDERS: /run/secrets/providers.json", config)
        self.assertNotIn("providers.json", self.compose("config"))
        canary = config[config.index("  canary:\n"):config.index("  front:\n")]
        self.assertNotIn("admin-token", canary)
        providers = json.loads((self.secrets / "providers.json").read_text())["databases"]
        self.assertEqual(list(providers), ["canary"])
        shared = providers["canary"]["providers"]["canary"]["anonymous"]["sharedToken"]
        self.assertEqual(shared, (self.secrets / "canary-token").read_text())
        # The words are those that the programs have.
        words = re.findall(r"^    - (--[a-z]+)=", canary, re.M)
        shown = subprocess.run([binary("mimeo"), "canary", "--help"], capture_output=True, text=True, timeout=60, check=True)
        for word in words:
            self.assertIn(f"{word} <", shown.stdout)
        server = FourProcesses(self.workspace)
        server.extra_arguments["auth-gateway"] = ["--providers", self.secrets / "providers.json"]
        server.start()
        self.assertEqual(server.login("canary", shared, "canary").status, 200)
        self.assertNotEqual(server.login("canary", f"{shared}x", "canary").status, 200)

    def restored(self, *arguments, status=0):
        """What compose/restore asks of docker-compose, when `run` ends with this status; and its own status."""
        tools = self.workspace.directory / "tools"
        tools.mkdir(exist_ok=True)
        (tools / "docker-compose").write_text(f"#!/bin/sh\necho \"$@\"\n[ \"$1\" != run ] || exit {status}\n")
        (tools / "docker-compose").chmod(0o755)
        done = subprocess.run([COMPOSE / "restore", *arguments], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
        return done.returncode, done.stdout.splitlines()

    def test_a_restore_stops_the_services_and_one_that_is_only_tried_does_not(self):
        stop, start = "stop front backup replicator query-service attachment-store auth-gateway", "up -d"
        self.assertEqual(self.restored(), (0, [stop, "run --rm -T restore", start]))
        at = ("--to", "2026-11-26T08:30:00Z")
        self.assertEqual(self.restored(*at, status=3), (3, [stop, f"run --rm -T restore {' '.join(at)}", start]))
        self.assertEqual(self.restored(*at, "--dry-run"), (0, [f"run --rm -T restore {' '.join(at)} --dry-run"]))
        self.assertEqual(self.restored("--dry-run", *at, status=3), (3, [f"run --rm -T restore --dry-run {' '.join(at)}"]))

    def test_the_example_of_settings_has_every_one(self):
        text = (COMPOSE / "compose.yaml").read_text()
        example = dict(line.split("=", 1) for line in (COMPOSE / ".env.example").read_text().splitlines()
                       if line and not line.startswith("#"))
        for name, value in re.findall(r"\$\{(\w+):-([^}]*)\}", text):
            self.assertEqual(example.get(name), value, name)

    def test_every_service_is_watched_and_comes_back_and_holds_no_secret(self):
        config = self.compose("config")
        services = config[config.index("services:"):config.index("volumes:\n  a")]
        blocks = re.split(r"^  (?=[a-z-]+:$)", services, flags=re.M)
        self.assertIn(len(blocks) - 1, (len(SERVICES), len(SERVICES | PROFILES)))
        for block in blocks[1:]:
            name = block.splitlines()[0]
            if name in ("doctor:", "restore:"):
                continue
            self.assertIn("healthcheck:", block, name)
            self.assertIn("restart: unless-stopped", block, name)
        for secret in ("postgres-password", "backup-passphrase", "grafana-password", "admin-token", "canary-token"):
            text = (self.secrets / secret).read_text()
            self.assertGreaterEqual(len(text), 32)
            self.assertNotIn(text, config)

    def test_secrets_are_made_once_and_are_their_owners_alone(self):
        first = (self.secrets / "services.json").read_text()
        self.assertIn((self.secrets / "postgres-password").read_text(), json.loads(first)["log"])
        self.assertEqual(self.secrets.stat().st_mode & 0o777, 0o700)
        self.run_command(COMPOSE / "secrets", self.secrets)
        self.assertEqual((self.secrets / "services.json").read_text(), first)

    def test_an_older_installation_gets_a_passphrase_and_keeps_its_other_secrets(self):
        first = {path.name: path.read_text() for path in self.secrets.iterdir()}
        (self.secrets / "backup-passphrase").unlink()
        self.run_command(COMPOSE / "secrets", self.secrets)
        second = {path.name: path.read_text() for path in self.secrets.iterdir()}
        self.assertNotEqual(second.pop("backup-passphrase"), first.pop("backup-passphrase"))
        self.assertEqual(second, first)

    def test_a_restore_reads_what_the_backups_write_from_the_volumes_of_the_services(self):
        def mounts(name):
            return dict(part.split(":")[:2] for part in re.findall(r"^    - (\S+:/\S+)$", self.blocks()[name], re.M))

        self.assertEqual(mounts("backup"), {
            "backup": "/backups", "auth-gateway": "/data", "attachment-store": "/attachments"})
        self.assertEqual(mounts("restore"), mounts("backup"))
        for name in ("backup", "restore"):
            for word in ("/backups", "--data=/data", "--attachments=/attachments/attachments",
                         "--config=/run/secrets/services.json", "--passphrase-file=/run/secrets/backup-passphrase"):
                self.assertIn(word, self.blocks()[name])
        # The services' own folders: the key is in DATA/auth, blobs are in DATA/attachments.
        for name in ("auth-gateway", "attachment-store"):
            self.assertEqual(mounts(name), {name: "/data"})

    def test_whoever_sees_dashboards_does_not_get_the_admin_credential(self):
        grafana = self.blocks()["grafana"]
        self.assertIn("GF_SECURITY_ADMIN_PASSWORD__FILE: /run/secrets/grafana-password", grafana)
        self.assertNotIn("admin-token", grafana)
        passwords = [(self.secrets / name).read_text() for name in ("grafana-password", "admin-token")]
        self.assertNotEqual(*passwords)

    def test_the_doctor_sees_what_the_services_and_the_backups_have(self):
        doctor = self.blocks()["doctor"]
        for word in ("auth-gateway:/data", "backup:/backups:ro"):
            self.assertIn(word, doctor)
        words = re.findall(r"^    - (--\w+)=(\S+)$", doctor, re.M)
        self.assertEqual({name for name, _ in words}, {"--data", "--config", "--backups"})
        folder = self.workspace.directory / "container"
        for path in ("data", "backups", "run/secrets"):
            (folder / path).mkdir(parents=True)
        (folder / "run/secrets/services.json").write_text(json.dumps({"log": f"sqlite:{folder}/data/log.sqlite"}))
        done = subprocess.run(
            [binary("mimeo"), "doctor", *(f"{name}={folder}{path}" for name, path in words)],
            capture_output=True, text=True, timeout=60, check=False)
        # It understands the words, and looks at the backups: there are none.
        self.assertIn("DOC-0701", done.stdout, done.stderr)

    def blocks(self):
        profiles = [word for name in ("restore", "doctor", "monitoring") for word in ("--profile", name)]
        config = self.compose(*profiles, "config")
        parts = re.split(r"^  (?=[a-z-]+:$)", config[config.index("services:"):config.index("\nvolumes:\n")], flags=re.M)
        return {part.split(":")[0]: part for part in parts[1:]}

    def test_backups_may_go_into_a_bucket(self):
        with self.assertRaisesRegex(AssertionError, "BACKUP_BUCKET"):
            self.compose("-f", COMPOSE / "bucket.yaml", "config")
        os.environ["BACKUP_BUCKET"] = "bucket/prefix"
        self.addCleanup(os.environ.pop, "BACKUP_BUCKET")
        config = self.compose("-f", COMPOSE / "bucket.yaml", "--profile", "restore", "config")
        self.assertIn("- --to=s3://bucket/prefix\n", config)
        self.assertEqual(config.count("- --credentials=/run/secrets/backup-bucket\n"), 3)

    def test_every_service_is_opened_by_the_same_credential(self):
        config = json.loads((self.secrets / "services.json").read_text())
        self.assertEqual(config["adminToken"], "/run/secrets/admin-token")
        credential = (self.secrets / "admin-token").read_text()
        self.assertGreaterEqual(len(credential), 43)
        services = self.compose("config").split("\nservices:\n")[1]
        blocks = re.split(r"^  (?=[a-z-]+:$)", services, flags=re.M)
        with_admin = [block for block in blocks if "/run/secrets/services.json" in block and "image: mimeo:" in block]
        self.assertGreaterEqual(len(with_admin), 5)
        for block in with_admin:
            self.assertIn("admin-token", block)
        file = self.workspace.directory / "services.json"
        file.write_text(json.dumps({"adminToken": str(self.secrets / "admin-token")}))
        server = FourProcesses(self.workspace)
        for name in ("auth-gateway", "replicator", "query-service"):
            server.extra_arguments[name] = ["--config", file]
        server.start()
        for path in ("/admin/replicator/databases", "/admin/auth/databases"):
            asked = server.request("GET", path, headers={"Authorization": f"Bearer {credential}"}, seconds=60)
            self.assertEqual(asked.status, 200, path)

    def test_the_front_runs_as_nobody_in_particular(self):
        self.assertRegex((COMPOSE / "Dockerfile").read_text(), r"(?m)^USER mimeo$")

    def test_nothing_is_compiled(self):
        for path in [*COMPOSE.glob("*Dockerfile"), *COMPOSE.glob("*.yaml")]:
            self.assertNotRegex(path.read_text(), r"\bswift\b", path.name)

    def test_the_scripts_are_sound(self):
        scripts = [COMPOSE / name for name in ("secrets", "load", "restore")]
        for script in [*scripts, *(COMPOSE / "container").iterdir()]:
            is_python = "python3" in script.read_text().splitlines()[0]
            self.run_command(*(("python3", "-m", "ast") if is_python else ("bash", "-n")), script)
