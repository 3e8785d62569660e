"""A page of another origin in headless Chromium: its fetch needs CORS for every route, streams included."""

import base64
import http.server
import json
import queue
import threading
import unittest
import urllib.parse

from mimeo_harness import CHROMIUM, ROOT, Browser, OneProcess, until
from system_test import SystemTest

PAGE = """<!doctype html><meta charset="utf-8"><script type="module">
const server = "SERVER", bearer = "Bearer TOKEN", said = {};
const headers = { Authorization: bearer, "Content-Type": "application/json" };
const execute = (body, more = {}) => fetch(`${server}/api/v5/store/execute`,
  { method: "POST", headers: { ...headers, ...more }, body: JSON.stringify(body) });
async function lines(response, count) {
  const reader = response.body.getReader(), decoder = new TextDecoder(), found = [];
  for (let rest = ""; found.length < count;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + decoder.decode(value, { stream: true })).split("\\n");
    rest = parts.pop();
    found.push(...parts.filter((part) => part).map((part) => JSON.parse(part)));
  }
  await reader.cancel();
  return found;
}
try {
  const written = await execute({ statement: "INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})" },
    { "Idempotency-Key": "page" });
  said.status = written.status;
  said.requestID = written.headers.get("X-Request-ID") !== null;
  const refused = await execute({ statement: "SELECT" });
  said.refused = [refused.status, (await refused.json()).error.code];
  const stream = await fetch(`${server}/api/v5/store/observe`, { method: "POST",
    headers: { ...headers, Accept: "application/x-ndjson" }, body: JSON.stringify({ statement: "SELECT * FROM c" }) });
  const seen = lines(stream, 2);
  await execute({ transaction: [{ statement: "UPDATE c SET n = 2" }, { statement: "UPDATE c SET n = n + 1" }] });
  said.events = (await seen).map((event) => [event.event, event.items ?? event.rows]);
  const rows = await execute({ statement: "SELECT RAW n FROM c" }, { Accept: "application/x-ndjson" });
  said.rows = (await lines(rows, 2))[0];
  said.changes = (await lines(await fetch(`${server}/api/v5/changes?since=0`, { headers }), 2)).map((line) => line.method);
  said.methods = (await fetch(`${server}/api/v1/collections/c/documents/1`, { method: "DELETE", headers })).status;
  const { Mimeo } = await import(`${server}/mimeo.js`);
  const db = new Mimeo({ database: "DATABASE", token: "SECRET" });
  said.client = (await db.execute("SELECT * FROM c")).items;
} catch (error) {
  said.error = String(error);
}
await fetch("/said", { method: "POST", body: JSON.stringify(said) });
</script>"""


class Pages(http.server.ThreadingHTTPServer):
    """Serves the page, and takes what it says."""

    daemon_threads = True

    def __init__(self, page):
        self.said = queue.Queue()
        pages = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer(page().encode())

            def do_POST(self):
                pages.said.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.answer(b"")

            def answer(self, body):
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


@unittest.skipUnless(CHROMIUM, "no Chromium is installed: scripts/setup system")
class AnotherOrigin(SystemTest):
    def open_page(self, allowed):
        pages = Pages(lambda: page)
        self.addCleanup(pages.shutdown)
        origin = pages.origin if allowed else "https://app.example.org"
        server = OneProcess(self.workspace, extra_arguments=["--cors-origin", origin]).start()
        page = PAGE
        for word, value in (("SERVER", server.origin), ("TOKEN", server.access_token), ("DATABASE", server.database),
                            ("SECRET", server.token)):
            page = page.replace(word, value)
        # Debian's command is a script that starts the browser: the workspace ends the whole process group.
        self.workspace.start("browser", [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            f"--user-data-dir={self.workspace.directory / 'browser'}", "--remote-debugging-port=0", pages.origin])
        return server, pages.said.get(timeout=120)

    def test_a_page_of_an_allowed_origin_reads_streams_and_errors(self):
        _, said = self.open_page(allowed=True)
        self.assertEqual(said, {
            "status": 200, "requestID": True, "refused": [400, "DQL-0107"],
            "events": [["result", [{"_id": 1, "n": 1}]], ["change", [[0, {"_id": 1, "n": 3}]]]], "rows": 3,
            "changes": ["insert", "update"], "methods": 200, "client": []})

    def test_a_page_of_another_origin_gets_nothing(self):
        server, said = self.open_page(allowed=False)
        self.assertEqual(list(said), ["error"], said)
        self.assertIn("TypeError", said["error"])
        self.assertEqual(server.query("SELECT * FROM c"), [])


HOOK_PAGE = """<!doctype html><meta charset="utf-8"><main></main>
<script type="importmap">{"imports": {"react": "data:text/javascript;base64,PREACT"}}</script>
<script type="module">
import { h, render, useState } from "react";
const { Mimeo } = await import("SERVER/mimeo.js");
const { useQuery } = await import(URL.createObjectURL(new Blob([atob("HOOK")], { type: "text/javascript" })));
const db = new Mimeo({ database: "DATABASE", token: "TOKEN" });
function Cars() {
  const [most, setMost] = useState(5);
  const rows = useQuery(db, "SELECT * FROM cars WHERE seats < :most ORDER BY _id", { most });
  return h("button", { onClick: () => setMost(9) }, rows.map((row) => row._id).join(" ") || "none");
}
render(h(Cars), document.querySelector("main"));
</script>"""


@unittest.skipUnless(CHROMIUM, "no Chromium is installed: scripts/setup system")
class Example(SystemTest):
    def test_the_hook_of_the_documentation_follows_its_query_and_other_arguments(self):
        """With the console's Preact in the place of React."""
        pages = Pages(lambda: page)
        self.addCleanup(pages.shutdown)
        server = OneProcess(self.workspace, extra_arguments=["--cors-origin", pages.origin]).start()
        files = {"PREACT": "Services/Console/Web/vendor/preact.js", "HOOK": "Docs/examples/use-query.js"}
        page = HOOK_PAGE.replace("SERVER", server.origin).replace("DATABASE", server.database).replace("TOKEN", server.token)
        for word, path in files.items():
            page = page.replace(word, base64.b64encode((ROOT / path).read_bytes()).decode())
        browser = Browser(self.workspace)
        self.addCleanup(browser.close)
        browser.open(pages.origin)
        browser.await_text("none")
        server.execute("INSERT INTO cars DOCUMENTS ({'_id': 'fiat', 'seats': 4}), ({'_id': 'van', 'seats': 8})")
        browser.await_true("document.body.innerText.trim() === 'fiat'")
        browser.click("fiat")
        browser.await_true("document.body.innerText.trim() === 'fiat van'")
        server.execute("DELETE FROM cars WHERE _id = 'fiat'")
        browser.await_true("document.body.innerText.trim() === 'van'")
        self.assertEqual(browser.complaints, [])

    def test_the_page_of_the_documentation_shows_what_others_write_and_writes_itself(self):
        pages = Pages((ROOT / "Docs" / "examples" / "todo.html").read_text)
        self.addCleanup(pages.shutdown)
        server = OneProcess(self.workspace, extra_arguments=["--cors-origin", pages.origin]).start()
        browser = Browser(self.workspace)
        self.addCleanup(browser.close)
        query = urllib.parse.urlencode({"url": server.origin, "database": server.database, "token": server.token})
        browser.open(f"{pages.origin}/todo.html?{query}")
        browser.await_text("live")
        browser.fill("What is to be done?", "Buy <b>milk</b>")
        browser.run("document.forms[0].requestSubmit()")
        browser.await_text("Buy <b>milk</b>")
        browser.click("Buy")
        until(lambda: server.query("SELECT done FROM todos") == [{"done": True}], 60, "the tick is not on the server")
        server.execute("INSERT INTO todos DOCUMENTS ({'text': 'Sing', 'done': false})")
        browser.await_text("Sing")
        self.assertEqual(browser.complaints, [])
