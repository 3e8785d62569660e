"""`mimeo import` and `export` from outside: where files come from, what is told, servers, large files, exit codes."""

import bz2
import gzip
import http.server
import json
import lzma
import os
import pty
import re
import subprocess
import threading

from mimeo_harness import ROOT, OneProcess, binary, mimeo, pick
from system_test import SystemTest, report

ROWS = "sku,price,zip\nx1,0.75,20095\nx2,1.50,01067\n"


class Importing(SystemTest):
    def setUp(self):
        super().setUp()
        self.folder = self.workspace.directory
        self.store = self.folder / "store"

    def file(self, name, content):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def load(self, *arguments, given="", code=0):
        """The answer of an import that ends with this exit code."""
        run = mimeo("import", "--store", self.store, "--collection", "c", *arguments, given=given)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return json.loads(run.stdout) if run.stdout else run.stderr

    def items(self, query="SELECT * FROM c"):
        return json.loads(mimeo("dql", "--store", self.store, query).stdout)["items"]

    def test_one_type_a_column_and_the_answer_names_it(self):
        """A leading zero makes the whole column text, and that is told; a flag decides otherwise."""
        answer = self.load(self.file("a.csv", ROWS), "--id", "sku")
        self.assertEqual(answer["columns"], {"sku": "text", "price": "decimal", "zip": "text"})
        self.assertEqual([warning["code"] for warning in answer["warnings"]], ["CLI-W102"])
        self.assertEqual(self.items("SELECT SUM(price) AS s FROM c"), [{"s": 2.25}])
        self.assertEqual({item["zip"] for item in self.items()}, {"20095", "01067"})
        answer = self.load(self.folder / "a.csv", "--text", "price", "--types", "zip=integer")
        self.assertEqual(answer["columns"], {"sku": "text", "price": "text", "zip": "integer"})

    def test_standard_input_and_packed_files(self):
        """`-` takes a pipe as it takes a file; the content tells the format, or --format does."""
        self.assertEqual(self.load("-", given=ROWS)["format"], "csv")
        self.assertEqual(self.load("-", given='{"n": 1}\n{"n": 2}\n')["format"], "ndjson")
        self.assertEqual(self.load("--format", "tsv", "-", given="a\tb\n1\t2\n")["delimiter"], "tab")
        packed = gzip.compress(ROWS.encode(), 9)
        for name in ("a.csv.gz", "a.gz", "a.txt.gz", "a.csv"):
            with self.subTest(name):
                self.assertEqual(self.load(self.file(name, packed))["documents"], 2)
        self.assertIn("CLI-0403", self.load(self.file("cut.csv.gz", packed[:-9]), code=1))
        self.assertEqual(len(self.items()), 2 + 2 + 1 + 4 * 2)

    def test_what_can_be_refused_is_refused_by_name(self):
        """Each with its code and exit code, and nothing is stored."""
        path = self.file("a.csv", ROWS)
        for arguments, code, text in (
                (["--collection", "system:x", path], 2, "system:x"),
                (["--collection", "c", self.file("a.pdf", "x")], 2, "--format"),
                (["--collection", "c", self.file("l.csv", b"a\n\xe4\n")], 1, "--encoding"),
                (["--collection", "c", "--delimiter", ";", path], 1, "--delimiter"),
                (["--collection", "c", "--types", "nope=text", path], 2, "nope"),
                (["--collection", "c", "--types", "zip=date", path], 2, "dates stay text"),
                (["--collection", "c", "--path", "a", path], 2, "--path"),
                (["--collection", "c", "--token-file", "-", "-"], 2, "standard input"),
                (["--collection", "c", "--on-conflict", "overwrite", path], 2, "update-local-diff"),
                (["--collection", "c", self.folder / "none.csv"], 1, "none.csv")):
            with self.subTest(text):
                run = mimeo("import", "--store", self.store, *arguments)
                self.assertEqual(run.returncode, code, run.stdout + run.stderr)
                self.assertIn(text, run.stderr)
        run = mimeo("export", "--store", self.store, "--collection", "system:indexes")
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("--query", run.stderr)
        self.assertEqual(self.items(), [])

    def test_a_dry_run_writes_nothing(self):
        """It needs no target, and shows types and first documents."""
        run = mimeo("import", "--collection", "c", "--dry-run", self.file("a.csv", ROWS))
        self.assertEqual(run.returncode, 0, run.stderr)
        answer = json.loads(run.stdout)
        self.assertEqual((answer["dryRun"], answer["documents"], answer["columns"]["price"]), (True, 2, "decimal"))
        self.assertEqual(answer["first"][1], {"sku": "x2", "price": 1.5, "zip": "01067"})
        self.assertFalse(self.store.exists())

    def test_wrong_records_are_skipped_if_asked(self):
        """Exit 1, counted in the answer, each named on stderr; without the flag nothing is stored."""
        path = self.file("a.csv", "a,b\n1,2\n3\n4,5\n")
        self.assertIn("a.csv:3", self.load(path, code=1))
        self.assertEqual(self.items(), [])
        run = mimeo("import", "--store", self.store, "--collection", "c", "--keep-going", path)
        self.assertEqual(run.returncode, 1, run.stderr)
        answer = json.loads(run.stdout)
        self.assertEqual((answer["documents"], answer["skipped"]), (2, 1))
        self.assertEqual([warning["code"] for warning in answer["warnings"]], ["CLI-W107"])
        self.assertIn("a.csv:3", run.stderr)
        self.assertEqual(sorted(item["a"] for item in self.items()), [1, 4])

    def terminal(self, *arguments):
        """Output and exit code of an import whose standard output is a terminal."""
        ours, theirs = pty.openpty()
        run = subprocess.Popen(
            [binary("mimeo"), "import", "--store", str(self.store), "--collection", "c", *map(str, arguments)],
            stdout=theirs, stderr=subprocess.PIPE, cwd=ROOT)
        os.close(theirs)
        seen = b""
        try:
            while part := os.read(ours, 100_000):
                seen += part
        except OSError:  # the end of what the other side wrote
            pass
        os.close(ours)
        errors = run.communicate()[1].decode()
        return seen.decode().replace("\r\n", "\n"), run.returncode, errors

    def test_a_terminal_gets_a_text_and_a_program_json(self):
        """The same counts, types and warnings; --answer decides, and an error stays on stderr."""
        path = self.file("shops.csv", "id;area;city\nn1;0.5;Oslo\nn2;n/a;Bergen\nn3;7;Moss\nn4;8;Voss\n")
        shown, code, errors = self.terminal(path, "--id", "id")
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(shown.splitlines()[:4], [
            "4 documents imported into 'c' (csv, delimiter ';')", "  id    text", "  area  text", "  city  text"])
        self.assertRegex(shown, r"warning: CLI-W102: .*shops\.csv: column 'area' \(line 3: n/a\).*--null n/a")
        shown = self.terminal(path, "--id", "id", "--null", "n/a", "--answer", "json")[0]
        answer = json.loads(shown)
        self.assertEqual((answer["updated"], answer["columns"]["area"], answer["warnings"]), (4, "decimal", []))
        run = mimeo("import", "--collection", "c", "--dry-run", "--answer", "text", path)
        self.assertTrue(run.stdout.startswith("4 documents read, nothing written (csv, delimiter ';')\n"), run.stdout)
        self.assertIn('{"id":"n1","area":"0.5","city":"Oslo"}\n', run.stdout)
        shown, code, errors = self.terminal(self.folder / "none.csv")
        self.assertEqual((shown, code), ("", 1))
        self.assertIn("CLI-0401", errors)

    def test_a_second_import_without_ids_is_told(self):
        """It adds all documents again; with --id it updates, and there is nothing to tell."""
        path = self.file("a.csv", "sku,price\nx1,0.75\nx2,1.50\n")
        self.assertEqual(self.load(path)["warnings"], [])
        again = self.load(path)
        self.assertEqual([warning["code"] for warning in again["warnings"]], ["CLI-W109"])
        self.assertIn("--id", again["warnings"][0]["message"])
        self.assertEqual(len(self.items()), 4)
        self.load(path, "--id", "sku")
        keyed = self.load(path, "--id", "sku")
        self.assertEqual((keyed["updated"], keyed["warnings"]), (2, []))
        self.assertEqual(len(self.items()), 6)

    def test_tables_without_a_header_and_with_missing_values(self):
        """Flags as a shell gives them: values may begin with a dash."""
        text = "9;-;0.5\n8;-999;1.5\n"
        answer = self.load("--columns", "-x,y,z", "--null", "-", "--null", "-999", "-", given=text)
        self.assertEqual(answer["columns"], {"-x": "integer", "y": "empty", "z": "decimal"})
        self.assertEqual(sorted(item["-x"] for item in self.items()), [8, 9])
        self.assertEqual(sum("y" in item for item in self.items()), 0)
        typed = self.load("--columns", "-x,y,z", "--types", "-x=text", "--text", "y", "-", given=text)
        self.assertEqual(typed["columns"], {"-x": "text", "y": "text", "z": "decimal"})
        self.assertEqual(self.load("--no-header", "-", given=text)["columns"]["column3"], "decimal")
        told = self.load("-", given="7,8\n9,10\n")
        self.assertEqual([warning["code"] for warning in told["warnings"]], ["CLI-W103", "CLI-W109"])
        self.assertIn("--no-header", told["warnings"][0]["message"])

    def test_the_message_of_lines_before_a_table_has_the_flag_that_reads_it(self):
        """As exports of statistics have them."""
        path = self.file("a.csv", "Source: a survey\n\nkey,area\nk1,2.5\nk2,3\nk3,4\n")
        message = self.load(path, code=1)
        flags = re.search(r"--skip-lines (\d+)", message)
        self.assertIsNotNone(flags, message)
        self.assertEqual(self.load(path, "--id", "key", *flags.group().split())["documents"], 3)
        self.assertEqual({item["_id"]: item["area"] for item in self.items()}, {"k1": 2.5, "k2": 3, "k3": 4})

    def test_other_packers_are_named_with_their_command(self):
        """By the first bytes, in a file of any name and from standard input."""
        for pack, command in ((bz2.compress, "bzip2 -dc"), (lzma.compress, "xz -dc")):
            packed = pack(ROWS.encode())
            for name in ("a.csv", f"a.csv.{command[:2]}", "a.txt"):
                with self.subTest(command, name=name):
                    message = self.load(self.file(name, packed), code=2)
                    self.assertIn("CLI-0402", message)
                    self.assertIn(command, message)
                    self.assertNotIn("encoding", message)

    def test_a_progress_bar_is_for_terminals(self):
        """Drawn on stderr if that is a terminal, and removed at the end; stdout has the answer alone."""
        path = self.file("a.ndjson", "".join(f'{{"n": {n}}}\n' for n in range(3_000)))
        ours, theirs = pty.openpty()
        run = subprocess.Popen(
            [binary("mimeo"), "import", "--store", str(self.store), "--collection", "c", str(path)],
            stdout=subprocess.PIPE, stderr=theirs, cwd=ROOT)
        self.assertEqual(json.loads(run.communicate()[0])["documents"], 3_000)
        os.close(theirs)
        seen = b""
        try:
            while part := os.read(ours, 100_000):
                seen += part
        except OSError:  # the end of what the other side wrote
            pass
        os.close(ours)
        seen = seen.decode()
        self.assertIn("100 % imported", seen)
        self.assertTrue(seen.endswith("\r\x1b[K"), seen[-50:])
        quiet = mimeo("import", "--store", self.store, "--collection", "c", path)
        self.assertEqual(quiet.stderr, "")

    def test_memory_does_not_grow_with_the_file(self):
        """One array of many objects, larger than the memory that the process may have."""
        size = pick(fast=80, deep=800) * 1_000_000
        path = self.folder / "large.json"
        filler = "x" * 20_000
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"rows": [')
            for number in range(size // len(filler)):
                file.write(f'{"," if number else ""}{{"_id": {number}, "text": "{filler}"}}')
            file.write("]}")
        run = subprocess.run(
            ["/usr/bin/env", "python3", "-c", "import resource, subprocess, sys\n"
             "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
             "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
             binary("mimeo"), "import", "--collection", "c", "--dry-run", str(path)],
            capture_output=True, text=True, check=True, cwd=ROOT)
        code, peak = map(int, run.stdout.split())
        self.assertEqual(code, 0, run.stderr)
        report(f"{size / 1e6:.0f} MB of JSON read with {peak / 1024:.0f} MB of memory")
        self.assertLess(peak * 1024, 75_000_000)


class Expiring(http.server.BaseHTTPRequestHandler):
    """A server whose access tokens are good for two statements each."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        if self.path.endswith("/login"):
            server.logins += 1
            server.left = 2
            return self.answer(200, {"accessToken": f"t{server.logins}"})
        if self.headers["Authorization"] != f"Bearer t{server.logins}" or server.left == 0:
            return self.answer(401, {"error": {"code": "AUTH-0101", "message": "the token has expired"}})
        server.left -= 1
        documents = body["args"].get("documents")
        if documents is None:
            return self.answer(200, {"items": [{"n": len(server.documents)}], "transactionId": 0})
        server.documents += [document["_id"] for document in documents]
        return self.answer(200, {"mutatedDocumentIds": [], "transactionId": len(server.documents)})

    def answer(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


class OnServer(SystemTest):
    def test_a_long_import_logs_in_again(self):
        """A token that expires in the middle is renewed; the refused batch is sent again, and once."""
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Expiring)
        server.logins, server.left, server.documents = 0, 0, []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        path = self.workspace.directory / "a.ndjson"
        path.write_text("".join(f'{{"_id": {n}}}\n' for n in range(4_500)))
        run = mimeo("import", "--url", f"http://127.0.0.1:{server.server_port}", "--database", "d", "--token", "t",
                    "--collection", "c", path)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(server.documents, list(range(4_500)))
        self.assertEqual(server.logins, 4)
        self.assertEqual(json.loads(run.stdout)["commitID"], 4_500)

    def test_import_to_a_server_and_export_from_it(self):
        """The documents that went in come out; a second import of the export changes nothing."""
        server = OneProcess(self.workspace).start()
        target = ["--url", server.origin, "--database", server.database, "--token", server.token]
        path = self.workspace.directory / "a.ndjson"
        documents = [{"_id": n, "a": {"b": [n, str(n), None, n + 0.5]}, "t": "ü\n"} for n in range(2_300)]
        path.write_text("".join(json.dumps(document) + "\n" for document in documents))
        run = mimeo("import", *target, "--collection", "c", path)
        self.assertEqual(run.returncode, 0, run.stderr)
        answer = json.loads(run.stdout)
        self.assertEqual((answer["documents"], answer["updated"]), (2_300, 0))
        out = self.workspace.directory / "out.json"
        run = mimeo("export", *target, "--collection", "c", "--format", "json", "--output", out)
        self.assertEqual(run.returncode, 0, run.stderr)
        found = json.loads(out.read_text())
        self.assertEqual(sorted(found, key=lambda item: item["_id"]), documents)
        again = mimeo("import", *target, "--collection", "c", "--on-conflict", "ignore", out)
        self.assertEqual(json.loads(again.stdout)["ignored"], 2_300, again.stderr)
        path.write_text('{"_id": 5, "a": {}}\n{"_id": 6, "b": 1}\n')
        replaced = mimeo("import", *target, "--collection", "c", "--on-conflict", "replace", path)
        self.assertEqual(json.loads(replaced.stdout)["updated"], 2, replaced.stderr)
        found = server.query("SELECT * FROM c WHERE _id IN (5, 6)")
        self.assertEqual(sorted(found, key=lambda item: item["_id"]), [{"_id": 5, "a": {}}, {"_id": 6, "b": 1}])
        wrong = mimeo("import", *target[:-1], "no-token", "--collection", "c", path)
        self.assertEqual(wrong.returncode, 3, wrong.stderr)

    def test_an_export_from_a_server_tells_of_numbers_that_json_cannot_hold(self):
        server = OneProcess(self.workspace).start()
        target = ["--url", server.origin, "--database", server.database, "--token", server.token]
        server.execute("INSERT INTO c DOCUMENTS ({'_id': 'i', 'x': 1e308 * 10}), ({'_id': 'j', 'x': 1})")
        for form in ("ndjson", "json", "csv"):
            for rows in (["--collection", "c"], ["--query", "SELECT * FROM c"]):
                run = mimeo("export", *target, *rows, "--format", form, "--output", self.workspace.directory / "out")
                self.assertEqual(run.returncode, 0, run.stderr)
                told = [warning["message"] for warning in json.loads(run.stdout)["warnings"]]
                self.assertEqual(len([text for text in told if "a row has inf" in text]), 1, told)

    def test_an_export_goes_where_its_path_leads(self):
        """A link stays and its file keeps its mode; a pipe is written to, and stays one."""
        path = self.workspace.directory / "a.ndjson"
        path.write_text('{"_id": 1}\n')
        store = ["--store", self.workspace.directory / "store"]
        self.assertEqual(mimeo("import", *store, "--collection", "c", path).returncode, 0)
        target, link, pipe = (self.workspace.directory / name for name in ("target.json", "link.json", "pipe"))
        target.write_text("old")
        target.chmod(0o600)
        link.symlink_to(target)
        os.mkfifo(pipe)
        run = mimeo("export", *store, "--collection", "c", "--output", link)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue(link.is_symlink())
        self.assertEqual((json.loads(target.read_text()), target.stat().st_mode & 0o777), ({"_id": 1}, 0o600))
        received = []
        reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
        reader.start()
        run = mimeo("export", *store, "--collection", "c", "--output", pipe)
        reader.join(10)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual([json.loads(text) for text in received], [{"_id": 1}])
        self.assertTrue(pipe.is_fifo())

    def test_attachment_tokens_come_back_as_they_appear(self):
        """An export has the token's fields, and the import gives them back as they stood."""
        server = OneProcess(self.workspace).start()
        target = ["--url", server.origin, "--database", server.database, "--token", server.token]
        token = {"id": "ab" * 32, "len": 3, "metadata": {"name": "x.txt"}}
        answer = server.post_statement(
            "INSERT INTO COLLECTION files (file ATTACHMENT) DOCUMENTS (:one)", {"one": {"_id": "1", "file": token}})
        self.assertEqual(answer.status, 200, answer.body)
        run = mimeo("export", *target, "--collection", "files")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(json.loads(run.stdout), server.query("SELECT * FROM files")[0])
        back = mimeo("import", *target, "--collection", "copies", "--format", "ndjson", "-", given=run.stdout)
        self.assertEqual(back.returncode, 0, back.stderr)
        self.assertEqual(server.query("SELECT * FROM copies"), server.query("SELECT * FROM files"))

    def test_an_export_without_rows_imports_again(self):
        """Every format, of a store and of a server, of a collection and of a SELECT, by a file and by a pipe."""
        server = OneProcess(self.workspace).start()
        store = self.workspace.directory / "empty"
        mimeo("dql", "--store", store, "INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 2})")
        targets = {
            "store": ["--store", store],
            "server": ["--url", server.origin, "--database", server.database, "--token", server.token]}
        for name, target in targets.items():
            for form in ("ndjson", "json", "csv"):
                for given in (["--collection", "none"], ["--query", "SELECT a AS `x;y`, _id FROM c WHERE a = 7"]):
                    with self.subTest(name, format=form, given=given):
                        out = self.workspace.directory / f"none.{form}"
                        told = mimeo("export", *target, *given, "--format", form, "--output", out)
                        self.assertEqual((told.returncode, json.loads(told.stdout)["documents"]), (0, 0), told.stderr)
                        back = mimeo("import", *target, "--collection", "none", out)
                        self.assertEqual((back.returncode, json.loads(back.stdout)["documents"]), (0, 0), back.stderr)
                        piped = mimeo("import", *target, "--collection", "none", "-", given=out.read_text())
                        self.assertEqual((piped.returncode, piped.stderr), (0, ""))
