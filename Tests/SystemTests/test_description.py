"""The served OpenAPI document, held against the server by schemathesis, and made into a client by a public generator."""

import importlib
import os
import subprocess
import sys

from mimeo_harness import OneProcess, pick, use_packages
from system_test import SystemTest

TOOLS = ("openapi-python-client==0.29.1", "schemathesis==4.32.5")
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
# Streams without an end, what would end the test's own server, logins or database, and what would fill its log.
LEFT_OUT = "observe|_ditto/sync|drain|sealing-key|truncations|erasures|log-level"
# How a piece of an upload goes into a request, and lines of JSON: as they are.
HOOKS = """
import schemathesis


@schemathesis.serializer("application/offset+octet-stream", "application/x-ndjson")
def piece(context, value):
    return value if isinstance(value, bytes) else str(value).encode()
"""


class Description(SystemTest):
    seconds = pick(240, 7_200)

    def setUp(self):
        super().setUp()
        self.server = OneProcess(self.workspace).start()
        self.document = self.workspace.directory / "openapi.json"
        self.document.write_bytes(self.server.request("GET", "/openapi.json").body)
        use_packages(*TOOLS)
        # Before the interpreter's own packages, whose versions may be others.
        (self.workspace.directory / "hooks.py").write_text(HOOKS)
        path = f"{sys.path[-1]}:{self.workspace.directory}"
        self.environment = {**os.environ, "PYTHONPATH": path, "SCHEMATHESIS_HOOKS": "hooks"}

    def run_tool(self, *arguments):
        done = subprocess.run(
            [sys.executable, "-m", *map(str, arguments)], capture_output=True, text=True, timeout=pick(200, 3_600),
            env=self.environment, cwd=self.workspace.directory, check=False)
        self.assertEqual(done.returncode, 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}")
        return done.stdout

    def test_no_answer_contradicts_the_document(self):
        self.server.execute("INSERT INTO c DOCUMENTS ({'_id': 'a', 'n': 1})")
        admin = (self.server.data / "auth" / "admin.token").read_text().strip()
        credentials = {"nobody": [], "user": [self.server.access_token], "administrator": [admin]}
        for name, token in credentials.items():
            with self.subTest(name):
                fields = [part for text in token for part in ("-H", f"Authorization: Bearer {text}")]
                paths = ["--include-path-regex", "^/admin"] if name == "administrator" else []
                self.run_tool(
                    "schemathesis.cli", "run", self.document, "--url", self.server.origin, *fields, *paths,
                    "--exclude-path-regex", LEFT_OUT, "--max-examples", pick(fast=2, deep=25),
                    "--phases", "coverage,fuzzing", "--request-timeout", 60, "--no-color",
                    *[part for check in CHECKS for part in ("-c", check)])
        self.assertTrue(self.server.process.is_running)

    def test_a_generated_client_runs_statements(self):
        self.run_tool(
            "openapi_python_client", "generate", "--path", self.document, "--output-path",
            self.workspace.directory / "generated", "--meta", "none")
        sys.path.insert(0, str(self.workspace.directory))
        self.addCleanup(sys.path.remove, str(self.workspace.directory))
        generated = importlib.import_module("generated")
        models = importlib.import_module("generated.models")
        client = generated.AuthenticatedClient(base_url=self.server.origin, token=self.server.access_token)

        def execute(statement, arguments=None):
            call = importlib.import_module("generated.api.statements.execute_statement")
            body = models.ExecuteStatementBody.from_dict({"statement": statement, "args": arguments or {}})
            return call.sync(client=client, body=body)

        made = execute("INSERT INTO cars DOCUMENTS (:car)", {"car": {"_id": "fiat", "seats": 4}})
        self.assertEqual((made.transaction_id, made.mutated_document_ids), (1, ["fiat"]))
        found = execute("SELECT seats FROM cars WHERE _id = :id", {"id": "fiat"})
        self.assertEqual(found.items, [{"seats": 4}])
        wrong = execute("SELECT FROM")
        self.assertTrue(wrong.error["code"].startswith("DQL-"))
        history = importlib.import_module("generated.api.statements.history")
        shown = history.sync(client=client, collection="cars", id="fiat")
        self.assertEqual([entry.transaction_id for entry in shown.entries], [1])
        health = importlib.import_module("generated.api.every_service.health")
        self.assertEqual(health.sync(client=client).status.value, "ok")
