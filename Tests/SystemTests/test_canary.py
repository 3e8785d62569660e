"""A canary: its rounds, what they say when a service is gone, and when it is back."""

import json
import re
import unittest

from mimeo_harness import Client, FourProcesses, binary, free_port, mimeo, until
from system_test import SystemTest

TOKEN = "a long text that only the canary has"


class Canary(SystemTest):
    def setUp(self):
        super().setUp()
        providers = self.workspace.directory / "providers.json"
        providers.write_text(json.dumps({"databases": {"canary": {"development": False, "providers": {
            "canary": {"anonymous": {"sharedToken": TOKEN, "permission": "readWrite"}}}}}}))
        self.server = FourProcesses(self.workspace)
        self.server.extra_arguments["auth-gateway"] = ["--providers", providers]
        self.server.start()
        self.token = self.workspace.directory / "canary-token"
        self.token.write_text(TOKEN)

    def arguments(self, name, *more):
        return ["canary", "--url", self.server.origin, "--database", "canary", "--provider", "canary", "--token-file",
                self.token, "--store", self.workspace.directory / name, *more]

    def start(self):
        port = free_port()
        self.workspace.start("canary", [
            binary("mimeo"), *self.arguments("store", "--listen", f"127.0.0.1:{port}", "--interval", 1, "--patience", 3)])
        self.canary = Client(f"http://127.0.0.1:{port}")

    def health(self):
        try:
            answer = self.canary.request("GET", "/health")
        except OSError:
            return None, ""
        return answer.status, answer.json["checks"]["canary"].get("detail", "")

    def metrics(self):
        text = self.canary.request("GET", "/metrics").body.decode()
        failures = {stage: int(float(count)) for stage, count in
                    re.findall(r'^mimeo_canary_failures_total\{stage="(\w+)"\} (\S+)$', text, re.M)}
        return float(re.search(r"^mimeo_canary_seconds (\S+)$", text, re.M)[1]), failures

    def rounds(self):
        """The changes of the canary's document that came back over HTTP."""
        found = Client(self.server.origin).login("canary", TOKEN, "canary")
        headers = {"Authorization": f"Bearer {found.json['accessToken']}"}
        answer = self.server.request(
            "POST", "/api/v5/store/execute", {"statement": "SELECT * FROM mimeo_canary"}, headers)
        return answer.json["items"]

    def test_rounds_go_on_and_a_service_that_is_gone_fails_them_at_its_stage(self):
        self.start()
        until(lambda: self.health() == (200, "") and self.rounds(), 90, lambda: str(self.health()))
        (first,) = self.rounds()
        until(lambda: self.rounds()[0].get("back") not in (None, first.get("back")), 60, "no second round")
        # One document, however many rounds.
        self.assertEqual(len(self.rounds()), 1)
        seconds, failures = self.metrics()
        self.assertGreater(seconds, 0)
        self.assertEqual(set(failures), {"login", "sync", "write", "echo"})

        for service, stage in (("replicator", "sync"), ("query-service", "sync"), ("auth-gateway", "login")):
            self.server.processes[service].kill()
            until(lambda stage=stage: self.health()[1].startswith(stage), 90, lambda: f"{service}: {self.health()}")
            self.assertEqual(self.health()[0], 503)
            # The gauge is read for an answer at most every second.
            until(lambda: self.metrics()[0] >= 3, 30, lambda: str(self.metrics()))
            self.assertGreaterEqual(self.metrics()[1][stage], 1)
            self.server.start_service(service)
            until(lambda: self.health() == (200, ""), 120, lambda: f"{service}: {self.health()}")

    def test_one_round_is_an_exit_code(self):
        done = mimeo(*self.arguments("once", "--once"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(json.loads(done.stdout)["seconds"], 0)
        self.server.processes["replicator"].kill()
        done = mimeo(*self.arguments("again", "--once", "--patience", 2))
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, "CLI-0301: sync: ")

    def test_wrong_options_are_refused(self):
        for wrong in (["--interval", "0"], ["--patience", "0"], ["--listen", "nowhere"]):
            self.assertEqual(mimeo(*self.arguments("wrong", *wrong)).returncode, 2, wrong)


if __name__ == "__main__":
    unittest.main()
