"""The front's own health: that of all four services, with the name of the one that is not well."""

import http.server
import json
import shutil
import string
import threading
import unittest

from mimeo_harness import ROOT, Client, free_port, until
from system_test import SystemTest

SERVICES = ("auth-gateway", "replicator", "attachment-store", "query-service")
"""In the order in which the front asks."""
UNTIL_SILENT_SECONDS = 30


class Service(http.server.ThreadingHTTPServer):
    """Answers every request with its name and path, and `status`; while `may_answer` is not set it says nothing."""

    def __init__(self, name, port=0):
        super().__init__(("127.0.0.1", port), Answer)
        self.name, self.status = name, 200
        self.may_answer = threading.Event()
        self.may_answer.set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """The front has left before the answer, as it should."""

    def end(self):
        self.may_answer.set()
        self.shutdown()
        self.server_close()


class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.may_answer.wait(UNTIL_SILENT_SECONDS)
        body = json.dumps({"of": self.server.name, "path": self.path}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        # The front keeps connections, on which a service that ended would answer here.
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


class FrontHealth(SystemTest):
    def setUp(self):
        super().setUp()
        if shutil.which("nginx") is None:
            raise unittest.SkipTest("nginx is missing: scripts/setup system installs it")
        self.services = {}
        for name in SERVICES:
            self.begin(name)
        folder = self.workspace.directory / "front"
        folder.mkdir()
        port = free_port()
        values = {name.upper().replace("-", "_"): f"127.0.0.1:{service.server_port}"
                  for name, service in self.services.items()}
        values |= {"PUBLIC_LISTEN": f"127.0.0.1:{port}", "RUN_DIRECTORY": str(folder)}
        template = string.Template((ROOT / "compose" / "nginx.conf").read_text())
        (folder / "nginx.conf").write_text(template.safe_substitute(values))
        self.workspace.start("nginx", [
            "nginx", "-c", folder / "nginx.conf", "-e", folder / "error.log", "-g", "daemon off;"])
        self.front = Client(f"http://127.0.0.1:{port}")
        until(self.is_live, 30, "nginx does not start")

    def begin(self, name, port=0):
        self.services[name] = Service(name, port)
        self.addCleanup(self.services[name].end)

    def is_live(self):
        try:
            return self.front.request("GET", "/health/live").status == 200
        except OSError:
            return False

    def ask(self, path, method="GET"):
        answer = self.front.request(method, path)
        return answer.status, answer.json if answer.body else None

    def test_all_are_well_and_the_last_one_answers_for_them(self):
        for path in ("/health", "/health/ready"):
            self.assertEqual(self.ask(path), (200, {"of": "query-service", "path": path}))
            self.assertEqual(self.ask(f"{path}/"), (200, {"of": "query-service", "path": path}))
            self.assertEqual(self.ask(path, "HEAD"), (200, None))
        self.assertEqual(self.ask("/health/nothing")[0], 404)

    def test_a_service_that_is_not_well_says_why_itself(self):
        for name, service in self.services.items():
            service.status = 503
            for path in ("/health", "/health/ready"):
                self.assertEqual(self.ask(path), (503, {"of": name, "path": path}))
            self.assertEqual(self.ask("/health/live"), (200, {"status": "live"}))
            service.status = 200
        self.assertEqual(self.ask("/health")[0], 200)

    def test_a_service_that_is_gone_is_named(self):
        for name, service in list(self.services.items()):
            service.end()
            for path in ("/health", "/health/ready"):
                self.assert_names(name, path)
            self.begin(name, service.server_port)
            self.assertEqual(self.ask("/health")[0], 200)

    def test_a_service_that_stands_still_is_named(self):
        for service in (self.services["auth-gateway"], self.services["query-service"]):
            service.may_answer.clear()
            self.assert_names(service.name, "/health")
            service.may_answer.set()

    def assert_names(self, name, path):
        answer = self.front.request("GET", path)
        self.assertEqual(answer.status, 503)
        self.assertEqual(answer.json["checks"], {name: {"status": "failing", "detail": "it does not answer"}})
        self.assertEqual([(row["part"], row["code"]) for row in answer.json["reasons"]], [(name, "SRV-0502")])
        self.assertEqual(answer.headers["Retry-After"], "1")

    def test_the_first_of_several_is_named(self):
        for name in ("attachment-store", "replicator"):
            self.services[name].end()
        self.assert_names("replicator", "/health")


if __name__ == "__main__":
    unittest.main()
