"""The client that the server serves at /mimeo.js, run by Node where it is installed."""

import json
import shutil
import subprocess
import unittest

from mimeo_harness import FaultProxy, OneProcess
from system_test import SystemTest

PROGRAM = """
import { Mimeo, MimeoError } from "./mimeo.mjs";
const [url, database, token] = process.argv.slice(2);
const say = (...words) => console.log(JSON.stringify(words));
let logins = 0;
const db = new Mimeo({ url, database, token: () => { logins += 1; return token; } });
"""

STATEMENTS = PROGRAM + """
await Promise.all([1, 2, 3].map((n) => db.execute("INSERT INTO c DOCUMENTS (:d)", { d: { _id: n, n } })));
say("logins", logins);
const { items, transactionId } = await db.execute("SELECT * FROM c WHERE n > :n ORDER BY n", { n: 1 });
say(items, transactionId);
say((await db.execute("SELECT * FROM c", {}, { asOf: 1 })).items.length);
try { await db.execute("SELECT"); } catch (error) { say(error instanceof MimeoError, error.code, error.status); }
const moved = await db.transaction([
  "UPDATE c SET n = 20 WHERE _id = 2", ["SELECT RAW n FROM c WHERE _id = :id", { id: 2 }],
  { statement: "UPDATE c SET n = 2 WHERE _id = :id", args: { id: 2 } },
]);
say(moved.results.map((one) => one.items), moved.transactionId);
try { await db.transaction(["DELETE FROM c", "SELECT"]); } catch (error) { say(error.code, error.details.index); }
const { id, len } = await db.upload(new Blob(["hello"]));
say(len, await (await db.download(id)).text());
const history = await db.history("c", 1);
say(history.id, history.entries.length);
const seen = [];
for await (const change of db.changes({ values: "none" })) seen.push(change.id);
say(seen.sort());
"""

FOLLOW = PROGRAM + """
for await (const { rows, transactionId } of db.observe("SELECT * FROM c ORDER BY n")) {
  say(rows.map((row) => row.n), transactionId);
  if (rows.length === 3) break;
}
const aborter = new AbortController();
const ids = [];
for await (const { id } of db.changes({ follow: true, signal: aborter.signal })) {
  ids.push(id);
  if (ids.length === 3) aborter.abort();
}
say(ids);
try { for await (const _ of db.observe("DELETE FROM c")) say("?"); } catch (error) { say(error.code); }
"""


@unittest.skipUnless(shutil.which("node"), "Node is not installed")
class JavaScript(SystemTest):
    def setUp(self):
        super().setUp()
        self.server = OneProcess(self.workspace).start()
        module = self.server.request("GET", "/mimeo.js")
        self.assertEqual((module.status, module.headers["Content-Type"]), (200, "text/javascript; charset=utf-8"))
        (self.workspace.directory / "mimeo.mjs").write_bytes(module.body)

    def node(self, program, origin=None):
        path = self.workspace.directory / "program.mjs"
        path.write_text(program)
        process = subprocess.Popen(
            ["node", path, origin or self.server.origin, self.server.database, self.server.token],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def test_statements_files_history_and_changes(self):
        process = self.node(STATEMENTS)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        said = [json.loads(line) for line in output.splitlines()]
        self.assertEqual(said[0], ["logins", 1])
        self.assertEqual([row["n"] for row in said[1][0]], [2, 3])
        self.assertEqual(said[2:4], [[1], [True, "DQL-0107", 400]])
        self.assertEqual(said[4:6], [[[[], [20], []], 4], ["DQL-0107", 1]])
        self.assertEqual(said[6:], [[5, "hello"], [1, 1], [[1, 2, 2, 3]]])

    def test_streams_go_on_where_they_were_cut(self):
        self.server.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
        proxy = FaultProxy(self.workspace, self.server.address)
        self.addCleanup(proxy.close)
        process = self.node(FOLLOW, proxy.origin)
        self.assertEqual(json.loads(process.stdout.readline()), [[1], 1])
        proxy.reset()
        self.server.execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'n': 0})")
        self.assertEqual(json.loads(process.stdout.readline()), [[0, 1], 2])
        self.server.kill()
        self.server.start()
        self.server.execute("INSERT INTO c DOCUMENTS ({'_id': 3, 'n': 5})")
        output, errors = process.communicate(timeout=90)
        said = [json.loads(line) for line in output.splitlines()]
        self.assertEqual(said[-3:], [[[0, 1, 5], 3], [[1, 2, 3]], ["QUERY-0101"]], errors)
