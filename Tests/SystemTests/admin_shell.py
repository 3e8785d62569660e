"""A server, and `mimeo admin` as its operator runs it from a shell."""

import json
import os
import subprocess

from mimeo_harness import OneProcess
from mimeo_harness.processes import binary
from system_test import SystemTest


class AdminShell(SystemTest):
    """Each test has a server of its own. The environment names none, until `know` is called."""

    arguments = ()
    """Further arguments of the server."""

    def setUp(self):
        super().setUp()
        self.server = OneProcess(self.workspace, extra_arguments=self.arguments).start()
        self.root = self.server.data / "auth" / "admin.token"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("MIMEO_")}
        self.environment["XDG_CONFIG_HOME"] = str(self.workspace.directory / "config")

    def know(self):
        """Names the server and its credential in the environment."""
        self.environment |= {"MIMEO_URL": self.server.origin, "MIMEO_ADMIN_CREDENTIAL_FILE": str(self.root)}

    def run_mimeo(self, *arguments, exit_code=0, given=""):
        done = subprocess.run(
            [binary("mimeo"), *map(str, arguments)], capture_output=True, text=True, timeout=60, input=given,
            env=self.environment, cwd=self.workspace.directory, check=False)
        self.assertEqual(done.returncode, exit_code, f"{arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done

    def admin(self, *arguments, exit_code=0):
        """The JSON of the answer; the finished process where there is none."""
        done = self.run_mimeo("admin", *arguments, exit_code=exit_code)
        return json.loads(done.stdout) if done.stdout.startswith(("{", "[")) else done

    def refused(self, code, *arguments):
        """A wrong use: its exit code is 2 if the command line is wrong, 1 if the server refuses."""
        done = self.run_mimeo("admin", *arguments, exit_code=2 if code.startswith("CLI-") else 1)
        self.assertRegex(done.stderr, rf"^mimeo: {code}\b", arguments)
