"""Traces: spans at a collector of OTLP/HTTP JSON, handed on to webhooks, or as lines of the log."""

import http.server
import json
import threading

from mimeo_harness import OneProcess, mimeo, until
from system_test import SystemTest

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes spans at /v1/traces, and logins at any other path."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {}
        if self.path == "/v1/traces":
            for resource in body["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    self.server.spans.extend(scope["spans"])
        else:
            self.server.logins.append(self.headers["traceparent"])
            everything = {"everything": True, "queriesByCollection": {}}
            answer = {"authenticate": True, "expirationSeconds": 600, "userID": "u",
                      "permissions": {"read": everything, "write": everything}}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        """Says nothing."""


class Traces(SystemTest):
    def setUp(self):
        super().setUp()
        self.collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
        self.collector.spans, self.collector.logins = [], []
        thread = threading.Thread(target=self.collector.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.collector.server_close)
        self.addCleanup(self.collector.shutdown)
        self.url = f"http://127.0.0.1:{self.collector.server_port}"

    def spans(self, trace):
        return [span for span in list(self.collector.spans) if span["traceId"] == trace]

    def test_a_request_is_a_tree_of_spans_below_its_callers(self):
        providers = self.workspace.directory / "providers.json"
        providers.write_text(json.dumps({"databases": {"shop": {"development": False, "providers": {
            "mine": {"webhookUrl": f"{self.url}/secret-path"}}}}}))
        server = OneProcess(self.workspace, extra_arguments=[
            "--traces", self.url, "--trace-percent", "0", "--providers", providers]).start()
        parent = f"00-{TRACE}-{CALLER}-01"
        token = server.login(database="shop", token="t", provider="mine").json["accessToken"]
        wanted = {"Authorization": f"Bearer {token}", "traceparent": parent}
        write = {"statement": "INSERT INTO cars DOCUMENTS ({'_id': 'a s3cret'})"}
        answer = server.request("POST", "/api/v5/store/execute", write, wanted)
        self.assertEqual(answer.status, 200, answer.body)
        unwanted = {**wanted, "traceparent": parent[:-2].replace(TRACE, "a" * 32) + "00"}
        server.request("POST", "/api/v5/store/execute", write, unwanted)

        names = {"POST /api/v5/store/execute", "statement", "log append"}
        until(lambda: names <= {span["name"] for span in self.spans(TRACE)}, 30, lambda: f"{self.spans(TRACE)}")
        spans = {span["spanId"]: span for span in self.spans(TRACE)}
        for span in spans.values():
            # Each span's line of parents ends at the caller.
            above = span
            while above["parentSpanId"] in spans:
                above = spans[above["parentSpanId"]]
            self.assertEqual((above["parentSpanId"], above["kind"]), (CALLER, 2))
        request = next(span for span in spans.values() if span["kind"] == 2)
        told = {pair["key"]: pair["value"] for pair in request["attributes"]}
        self.assertEqual(told["http.response.status_code"], {"intValue": "200"})
        self.assertEqual(told["http.route"], {"stringValue": "/api/v5/store/execute"})
        append = next(span for span in spans.values() if span["name"] == "log append")
        self.assertLessEqual(int(request["startTimeUnixNano"]), int(append["startTimeUnixNano"]))
        self.assertLessEqual(int(append["endTimeUnixNano"]), int(request["endTimeUnixNano"]))
        # Neither the caller who wants no record has one, nor what begins here at 0 percent.
        self.assertEqual({span["traceId"] for span in self.collector.spans}, {TRACE})
        self.assertNotIn("s3cret", json.dumps(self.collector.spans))

        # A login is handed on to its webhook, below the span of our call.
        login = {"provider": "mine", "token": "t"}
        server.request("POST", "/_ditto/auth/login", {**login, "databaseID": "shop"}, {"traceparent": parent})
        until(lambda: any((text or "").split("-")[1] == TRACE for text in self.collector.logins if text), 30,
              lambda: f"{self.collector.logins}")
        handed = next(text for text in self.collector.logins if text and TRACE in text)
        until(lambda: handed.split("-")[2] in {span["spanId"] for span in self.spans(TRACE)}, 30, "no span of the call")
        call = next(span for span in self.spans(TRACE) if span["spanId"] == handed.split("-")[2])
        self.assertEqual((call["name"], call["kind"]), ("webhook", 3))
        self.assertNotIn("secret-path", json.dumps(self.collector.spans))

    def test_a_collector_that_is_away_holds_up_nothing_and_spans_may_be_lines(self):
        away = OneProcess(self.workspace, extra_arguments=["--traces", "http://127.0.0.1:9"]).start()
        away.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
        self.assertEqual(away.stop(), 0)
        server = OneProcess(self.workspace, "lines", ["--traces", "log", "--log-format", "json"]).start()
        server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")

        def lines():
            found = [json.loads(line) for line in server.process.log_tail(1 << 20).splitlines() if line.startswith("{")]
            return {line["name"]: line for line in found if line["message"] == "span"}

        until(lambda: {"POST /api/v5/store/execute", "log append"} <= set(lines()), 30, lambda: f"{list(lines())}")
        found = lines()
        self.assertEqual(len(found["log append"]["trace"]), 32)
        self.assertIn("parent", found["log append"])
        wrong = mimeo("serve", "--data", self.workspace.directory / "other", "--traces", "jaeger")
        self.assertEqual(wrong.returncode, 2, wrong.stderr)
        self.assertIn("SRV-0104", wrong.stderr)
        self.assertIn("--traces", wrong.stderr)
