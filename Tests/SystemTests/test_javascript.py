"""The client that the server serves at /mimeo.js, run by Node where it is installed, and its package for npm."""

import json
import re
import shutil
import subprocess
import sys
import unittest

from mimeo_harness import ROOT, FaultProxy, OneProcess
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

ARGUMENTS = PROGRAM + """
class Car { seats = 4; }
class Nothing {}
const insert = (value) => db.execute("INSERT INTO c DOCUMENTS (:d)", { d: { _id: 1, value } });
for (const value of [
  NaN, [-Infinity], new Map([["a", 1]]), new Set([1]), new Uint8Array([1]), new Date("?"), 1n, [undefined],
  Promise.resolve(1), new Error("x"),
]) {
  try { await insert(value); say("sent", String(value)); } catch (error) { say(error.code, error.message); }
}
await insert([new Date(0), { gone: undefined }, new Car(), new Nothing(), new Number(2), [], null, "", false]);
say((await db.execute("SELECT `value` FROM c")).items);
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

    def test_an_argument_that_json_has_no_form_for_is_refused_and_not_stored_as_another_value(self):
        process = self.node(ARGUMENTS)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        *refused, stored = map(json.loads, output.splitlines())
        kinds = [
            "NaN", "-Infinity", "a Map", "a Set", "a Uint8Array", "an invalid date", "a BigInt", "undefined",
            "a Promise", "a Error"]
        self.assertEqual([code for code, _ in refused], ["ARGUMENT"] * len(kinds))
        for (_, message), kind in zip(refused, kinds):
            self.assertIn(f" is {kind}, which JSON cannot hold", message)
        held = ["1970-01-01T00:00:00.000Z", {}, {"seats": 4}, {}, 2, [], None, "", False]
        self.assertEqual(stored, [[{"value": held}]])

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


CLIENT = ROOT / "Shared" / "ServiceKit" / "Client"

USE = """
import * as client from "mimeo-client";
const say = (...words) => console.log(JSON.stringify(words));
say(Object.keys(client).sort());
const options = { database: "d", token: "t" };
try { new client.Mimeo(options); } catch (error) { say(error.name, error.message); }
new client.Mimeo({ ...options, url: "http://127.0.0.1:1" });
const { applied } = client;
const change = { insertions: [], deletions: [], updates: [], moves: [], rows: [] };
say(applied(["a", "b", "c"], change));
say(applied([], { ...change, insertions: [0, 1], rows: [[0, "a"], [1, "b"]] }));
say(applied(["a", "b", "c"], { ...change, deletions: [0, 2] }));
say(applied(["a", "b", "c"], { ...change, moves: [[0, 2]], updates: [2], rows: [[2, "A"]] }));
say(applied(["a", "b", "c", "d"], { deletions: [1], insertions: [3], updates: [], moves: [[3, 0]], rows: [[3, "e"]] }));
const before = ["a"];
applied(before, { ...change, deletions: [0] });
say(before);
"""

PUBLIC = re.compile(r"^export (?:class|function) (\w+)", re.MULTILINE)


class Package(SystemTest):
    """What `npm pack` makes of the folder of the client."""

    def test_the_types_say_what_the_comments_say(self):
        done = subprocess.run([sys.executable, ROOT / "scripts" / "javascript-types", "--check"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_types_have_every_public_method_with_its_parameters(self):
        """Read from the code, not from the comments that the types are made of."""
        code, types = (CLIENT / "mimeo.js").read_text(), (CLIENT / "mimeo.d.ts").read_text()
        self.assertEqual(PUBLIC.findall(code), PUBLIC.findall(types))
        signature = r"^(?:export function |  )(?:async )?\*?(\w+)\(([^\n]*)\)(?: \{|:[^\n]*;|;)$"
        words = {"for", "if", "while", "switch", "super"}
        coded = [(name, [part.split(" = ")[0].strip() for part in re.split(r", (?![^{]*\})", given) if part])
                 for name, given in re.findall(signature, code, re.MULTILINE) if name not in words]
        typed = [(name, [one.rstrip("?:") for one in re.findall(r"(?:^|, )(\w+\??:)", re.sub(r"\{.*?\}|<.*?>", "", given))])
                 for name, given in re.findall(signature, types, re.MULTILINE)]
        self.assertEqual(coded, typed)
        self.assertIn(("execute", ["statement", "args", "options"]), typed)
        self.assertGreater(len(typed), 10)

    def test_the_version_and_the_licence_are_those_of_the_source(self):
        build = (ROOT / "Shared" / "ServiceKit" / "Host" / "BuildVersion.swift").read_text()
        number = re.search(r'static let number = "([^"]+)"', build)[1]
        self.assertEqual(json.loads((CLIENT / "package.json").read_text())["version"], number)
        self.assertEqual((CLIENT / "LICENSE").read_text(), (ROOT / "LICENSE").read_text())

    @unittest.skipUnless(shutil.which("npm"), "npm is not installed")
    def test_a_packed_client_installs_without_a_network_and_is_imported_by_its_name(self):
        folder = self.workspace.directory
        # npm writes its caches and logs below HOME.
        settings = {"cwd": folder, "capture_output": True, "text": True, "timeout": 120, "check": False,
                    "env": {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "npm_config_offline": "true"}}
        packed = subprocess.run(["npm", "pack", "--json", CLIENT], **settings)
        self.assertEqual(packed.returncode, 0, packed.stderr)
        (told,) = json.loads(packed.stdout)
        self.assertEqual([file["path"] for file in told["files"]],
                         ["LICENSE", "README.md", "mimeo.d.ts", "mimeo.js", "package.json"])
        (folder / "package.json").write_text("{}")
        installed = subprocess.run(["npm", "install", "--no-audit", "--no-fund", f"./{told['filename']}"], **settings)
        self.assertEqual(installed.returncode, 0, installed.stderr)
        (folder / "use.mjs").write_text(USE)
        used = subprocess.run(["node", "use.mjs"], **settings)
        self.assertEqual(used.returncode, 0, used.stderr)
        said = [json.loads(line) for line in used.stdout.splitlines()]
        self.assertEqual(said, [
            [sorted(PUBLIC.findall((CLIENT / "mimeo.js").read_text()))],
            ["TypeError", "Mimeo needs url: this module was read from a file, not from a server"],
            [["a", "b", "c"]], [["a", "b"]], [["b"]], [["b", "c", "A"]], [["d", "a", "c", "e"]], [["a"]]])
