"""The compose file and what it is made of, as far as that can be told without a container running.

`make compose-test` is the one real `up`: it needs images and a Docker engine.
"""

import json
import os
import re
import shutil
import subprocess
import unittest

from mimeo_harness import ROOT, FourProcesses
from system_test import SystemTest

COMPOSE = ROOT / "compose"
SERVICES = {"postgres", "auth-gateway", "replicator", "query-service", "attachment-store", "front"}
MONITORING = {"prometheus", "grafana"}
"""Of a profile of their own."""


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
        self.assertEqual(set(self.compose("config", "--services").split()) - MONITORING, SERVICES)
        all_of_them = set(self.compose("--profile", "monitoring", "config", "--services").split())
        self.assertEqual(all_of_them, SERVICES | MONITORING)
        volumes = set(self.compose("config", "--volumes").split())
        self.assertEqual(volumes - MONITORING, {"postgres", "auth-gateway", "attachment-store"})

    def test_a_standby_is_a_second_file(self):
        files = ["-f", str(COMPOSE / "standby.yaml")]
        shown = self.compose(*files, "config", "--services").split()
        self.assertEqual(set(shown) - MONITORING, SERVICES | {"postgres-standby"})
        config = self.compose(*files, "config")
        for name, other in [("postgres", "postgres-standby"), ("postgres-standby", "postgres")]:
            self.assertIn(f"PAIR_OTHER: {other}\n      PAIR_SELF: {name}\n", re.sub(r"      PAIR_FIRST.*\n", "", config))
        first = (self.secrets / "services.json").read_text()
        self.assertNotIn("standby", first)
        for _ in range(2):
            self.run_command(COMPOSE / "secrets", "--standby", self.secrets)
            log = json.loads((self.secrets / "services.json").read_text())["log"]
            self.assertTrue(log.endswith("@postgres:5432,postgres-standby:5432/mimeo?target_session_attrs=read-write"), log)
        self.assertIn((self.secrets / "postgres-password").read_text(), log)
        self.run_command(COMPOSE / "secrets", self.secrets)
        self.assertEqual(json.loads((self.secrets / "services.json").read_text())["log"], log)

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
        # Some versions of compose list a profile that is not asked for.
        self.assertIn(len(blocks) - 1, (len(SERVICES), len(SERVICES | MONITORING)))
        for block in blocks[1:]:
            name = block.splitlines()[0]
            self.assertIn("healthcheck:", block, name)
            self.assertIn("restart: unless-stopped", block, name)
        password = (self.secrets / "postgres-password").read_text()
        self.assertGreaterEqual(len(password), 32)
        self.assertNotIn(password, config)

    def test_secrets_are_made_once_and_are_their_owners_alone(self):
        first = (self.secrets / "services.json").read_text()
        self.assertIn((self.secrets / "postgres-password").read_text(), json.loads(first)["log"])
        self.assertEqual(self.secrets.stat().st_mode & 0o777, 0o700)
        self.run_command(COMPOSE / "secrets", self.secrets)
        self.assertEqual((self.secrets / "services.json").read_text(), first)

    def test_every_service_is_opened_by_the_same_credential(self):
        config = json.loads((self.secrets / "services.json").read_text())
        self.assertEqual(config["adminToken"], "/run/secrets/admin-token")
        credential = (self.secrets / "admin-token").read_text()
        self.assertGreaterEqual(len(credential), 43)
        services = self.compose("config").split("\nservices:\n")[1]
        blocks = re.split(r"^  (?=[a-z-]+:$)", services, flags=re.M)
        with_admin = [block for block in blocks if "/run/secrets/services.json" in block]
        self.assertEqual(len(with_admin), 4)
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

    def test_the_images_run_as_nobody_in_particular(self):
        text = (COMPOSE / "Dockerfile").read_text()
        stages = {part.split("AS ")[1].split()[0]: part for part in re.split(r"^(?=FROM )", text, flags=re.M)[1:]}
        for stage in ("runtime", "front"):
            self.assertRegex(stages[stage], r"(?m)^USER mimeo$")
        self.assertRegex(stages["services"], r"^FROM runtime ")

    def test_a_crash_in_an_image_ends_it_at_once(self):
        """Docker starts it again as soon as it is gone; a backtrace would keep it."""
        runtime = (COMPOSE / "Dockerfile").read_text().split(" AS runtime\n")[1].split("\nFROM ")[0]
        self.assertRegex(runtime, r"(?m)^ENV .*\bSWIFT_BACKTRACE=enable=no$")

    def test_the_scripts_are_sound(self):
        for script in [COMPOSE / "secrets", COMPOSE / "stage", *(COMPOSE / "container").iterdir()]:
            self.run_command("bash", "-n", script)
