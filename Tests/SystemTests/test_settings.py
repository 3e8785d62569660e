"""Where programs get their settings from, and where scripts get the development token from."""

import json
import os
import pathlib
import stat
import subprocess
import time

from mimeo_harness import binary, free_port, mimeo
from system_test import SystemTest

SERVICES = ("auth-gateway", "replicator", "query-service", "attachment-store")


class Settings(SystemTest):
    seconds = 120

    def start(self, name, *command, **variables):
        """A program with further variables, and the lines that it announces itself with."""
        process = self.workspace.start(name, command, variables)
        lines = {}
        for index in range(3 if "serve" in command or name == "auth-gateway" else 1):
            line = process.line(index, 60)
            self.assertIsNotNone(line, process.log_tail())
            key, _, value = line.partition(": ")
            lines[key] = value
        return process, lines

    def test_server_and_client_without_a_flag(self):
        folder = self.workspace.directory / "data with ' and blank"
        port = free_port()
        server, lines = self.start(
            "server", binary("mimeo"), "serve", MIMEO_DATA=str(folder), MIMEO_LISTEN=f"127.0.0.1:{port}")
        self.assertEqual(lines["url"], f"http://127.0.0.1:{port}")
        token_file = lines["token-file"]
        self.assertEqual(stat.S_IMODE(os.stat(token_file).st_mode), 0o600)
        token = pathlib.Path(token_file).read_text().strip()
        self.assertGreater(len(token), 40)
        client = {**os.environ, "MIMEO_URL": lines["url"], "MIMEO_DATABASE": lines["database"],
                  "MIMEO_TOKEN_FILE": token_file}
        run = subprocess.run(
            [binary("mimeo"), "dql", "SELECT 1 AS x FROM system:dual"], env=client, capture_output=True, text=True,
            timeout=60, check=False)
        self.assertEqual(json.loads(run.stdout)["items"], [{"x": 1}], run.stderr)
        # The examples that it prints work as they are, and hold no token.
        example = next(line.strip() for line in self.output(server) if "SELECT * FROM cars" in line and "peer" not in line)
        run = subprocess.run(["/bin/sh", "-c", example], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(run.returncode, 0, f"{example}\n{run.stderr}")
        self.assertEqual(server.stop(), 0)
        self.assertNotIn(token, "\n".join(self.output(server)) + server.log_tail())
        _, lines = self.start("shown", binary("mimeo"), "serve", "--data", folder, "--show-token",
                              MIMEO_LISTEN="127.0.0.1:0")
        self.assertEqual(lines["token"], token)

    def output(self, process):
        lines, index = [], 0
        while (line := process.line(index, 1)) is not None:
            lines.append(line)
            index += 1
        return lines

    def test_a_client_finds_the_server_that_runs_here(self):
        """Not after its end, nor what a killed one left; a server or a store that is named comes first."""
        here = self.workspace.directory
        plain = {key: value for key, value in os.environ.items() if not key.startswith("MIMEO_")}

        def dql(*arguments):
            return subprocess.run(
                [binary("mimeo"), "dql", *map(str, arguments), "SELECT 1 AS x FROM system:dual"], cwd=here, env=plain,
                capture_output=True, text=True, timeout=60, check=False)

        data = here / "mimeo-data"
        server, lines = self.start("found", binary("mimeo"), "serve", "--data", data, "--listen", "127.0.0.1:0")
        run = dql()
        self.assertEqual(json.loads(run.stdout)["items"], [{"x": 1}], run.stderr)
        self.assertIn(lines["url"], run.stderr)
        self.assertIn(lines["database"], run.stderr)
        self.assertEqual(stat.S_IMODE(os.stat(data / "server.json").st_mode), 0o600)
        run = dql("--store", here / "store")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn(lines["url"], run.stderr)
        kept = (data / "server.json").read_bytes()
        self.assertEqual(server.stop(), 0)
        self.assertFalse((data / "server.json").exists())
        (data / "server.json").write_bytes(kept)
        (data / "server.json").chmod(0o600)
        run = dql()
        self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
        self.assertIn("CLI-0101", run.stderr)

    def test_an_empty_path_is_refused_and_makes_nothing(self):
        here = self.workspace.directory / "here"
        here.mkdir(mode=0o755)
        for arguments in (["serve", "--data", ""], ["dql", "--store", "", "SELECT 1"],
                          ["export", "--store", "", "--collection", "c"], ["peer", "--store", "", "--lan"],
                          ["backup", "create", "--data", "", "--to", "x"], ["backup", "list", ""],
                          ["serve", "--admin-token", ""], ["serve", "--config", ""], ["serve", "--providers", ""]):
            with self.subTest(arguments):
                run = mimeo(*arguments, cwd=here)
                self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
                self.assertIn("SRV-0108: ", run.stderr)
                self.assertIn(" is empty", run.stderr)
        # Nothing behind the sign is a value that is missing, for the parser.
        run = mimeo("serve", "--data=", cwd=here)
        self.assertEqual((run.returncode, "Missing value for '--data" in run.stderr), (2, True), run.stderr)
        self.assertEqual(list(here.iterdir()), [])
        self.assertEqual(stat.S_IMODE(here.stat().st_mode), 0o755)

    def test_one_file_for_server_and_client_and_flags_over_it(self):
        config = self.workspace.directory / "mimeo.json"
        port = free_port()
        config.write_text(json.dumps({
            "data": str(self.workspace.directory / "filed"), "listen": f"127.0.0.1:{port}", "tombstoneTTLHours": 3,
            "showToken": True, "url": f"http://127.0.0.1:{port}", "provider": "development"}))
        _, lines = self.start("filed", binary("mimeo"), "serve", "--config", config)
        secret = self.workspace.directory / "secret"
        secret.write_text(lines["token"])
        run = mimeo("dql", "--config", config, "--database", lines["database"], "--token-file", secret,
                    "SELECT 1 AS x FROM system:dual")
        self.assertEqual(run.returncode, 0, run.stderr)
        # A store on the command line wins over the server of the file.
        run = mimeo("dql", "--config", config, "--store", self.workspace.directory / "store",
                    "SELECT 2 AS x FROM system:dual")
        self.assertEqual(json.loads(run.stdout)["items"], [{"x": 2}], run.stderr)
        for name in ("mimeo", *SERVICES):
            shown = subprocess.run([binary(name), "--version"], capture_output=True, text=True, timeout=60, check=True)
            self.assertRegex(shown.stdout, r"^\d+\.\d+\.\d+( \(commit [0-9a-f]+\))?\n$")
        for arguments, variables, told in (
                (["serve", "--config", config], {"MIMEO_LISTEN": "nowhere"}, "SRV-0101"),
                (["serve", "--keep-alive-seconds", "0"], {}, "SRV-0104"),
                (["serve"], {"MIMEO_KEPT_OPERATIONS": "many"}, "SRV-0108"),
                (["serve"], {"MIMEO_LISTN": "x"}, "MIMEO_LISTEN")):
            run = subprocess.run([binary("mimeo"), *map(str, arguments)], env={**os.environ, **variables},
                                 capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(run.returncode, 2, run.stderr)
            self.assertIn(told, run.stderr)

    def test_services_that_share_a_folder_start_at_once(self):
        folder = self.workspace.directory / "shared"
        seconds = []
        for label, name in (*zip(SERVICES, SERVICES), ("another", "query-service")):
            begun = time.monotonic()
            self.start(label, binary(name), "--data", folder, "--listen", "127.0.0.1:0")
            seconds.append(time.monotonic() - begun)
        # Each waited 0.8 s for every earlier one. The first makes the folder, and is the measure of the machine.
        self.assert_in_time(max(seconds[1:]), 0.7 + 2 * seconds[0], "the slowest start beside others")
