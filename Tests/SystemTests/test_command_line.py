"""`mimeo dql`, `parse` and `import`: exit codes and the shape of what they print."""

import json

from mimeo_harness import Client, OneProcess, Peer, iso_codes, mimeo
from system_test import SystemTest


class LocalStatements(SystemTest):
    def setUp(self):
        super().setUp()
        self.store = self.workspace.directory / "store"

    def dql(self, *arguments, given=""):
        return mimeo("dql", "--store", self.store, *arguments, given=given)

    def test_a_write_and_a_read_print_one_object_each(self):
        """Exit 0; ids and commit of a write, items of a read."""
        write = self.dql("INSERT INTO cars DOCUMENTS ({'_id': '1', 'colour': 'blue'})")
        self.assertEqual(write.returncode, 0, write.stderr)
        answer = json.loads(write.stdout)
        self.assertEqual(answer["mutatedDocumentIDs"], ["1"])
        self.assertGreater(answer["commitID"], 0)
        read = self.dql("SELECT * FROM cars")
        self.assertEqual(json.loads(read.stdout)["items"], [{"_id": "1", "colour": "blue"}])

    def test_arguments_fill_parameters(self):
        self.dql("--args", '{"car": {"_id": "1", "n": 7}}', "INSERT INTO cars DOCUMENTS (:car)")
        read = self.dql("--args", '{"n": 7}', "SELECT _id FROM cars WHERE n = :n")
        self.assertEqual(json.loads(read.stdout)["items"], [{"_id": "1"}])

    def test_after_a_bad_statement_the_next_one_still_runs(self):
        """Exit 1; the error has a code, a message, a line and a column."""
        run = self.dql("-", given="SELEKT * FROM cars\nSELECT COUNT(*) AS n FROM cars\n")
        self.assertEqual(run.returncode, 1, run.stderr)
        bad, good = [json.loads(line) for line in run.stdout.splitlines()]
        self.assertRegex(bad["error"]["code"], r"^DQL-\d{4}$")
        self.assertTrue(bad["error"]["message"])
        self.assertEqual((bad["error"]["line"], bad["error"]["column"]), (1, 1))
        self.assertEqual(good["items"], [{"n": 0}])

    def test_a_missing_parameter_is_a_statement_error(self):
        run = self.dql("SELECT * FROM cars WHERE n = :n")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn("error", json.loads(run.stdout))

    def test_nonsense_on_the_command_line_is_a_usage_error(self):
        for arguments in (["dql", "SELECT 1"], ["dql", "--nonsense"], ["nonsense"], ["import", "--store", "x"]):
            with self.subTest(arguments):
                run = mimeo(*arguments, cwd=self.workspace.directory)
                self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
                self.assertTrue(run.stderr)

    def test_arguments_that_are_no_json_are_a_usage_error(self):
        run = self.dql("--args", "{n: 7", "SELECT * FROM cars")
        self.assertEqual(run.returncode, 2, run.stdout + run.stderr)

    def test_a_table_is_for_people(self):
        self.dql("INSERT INTO cars DOCUMENTS ({'_id': '1', 'colour': 'blue'})")
        run = self.dql("--format", "table", "SELECT * FROM cars")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("colour", run.stdout)
        self.assertIn("blue", run.stdout)


class RemoteStatements(SystemTest):
    def test_over_http_with_the_development_token(self):
        """Exit 0 and the same object as locally; the commit is the server's transaction."""
        server = OneProcess(self.workspace).start()
        run = self._dql(server, server.token, "INSERT INTO cars DOCUMENTS ({'_id': '1'})")
        self.assertEqual(run.returncode, 0, run.stderr)
        answer = json.loads(run.stdout)
        self.assertEqual(answer["mutatedDocumentIDs"], ["1"])
        self.assertGreater(answer["commitID"], 0)
        self.assertEqual(server.query("SELECT * FROM cars"), [{"_id": "1"}])

    def test_a_statement_error_over_http_has_its_position(self):
        server = OneProcess(self.workspace).start()
        run = self._dql(server, server.token, "SELECT * FROM cars WHERE")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        error = json.loads(run.stdout)["error"]
        self.assertRegex(error["code"], r"^DQL-\d{4}$")
        self.assertEqual(error["line"], 1)
        self.assertGreater(error["column"], 20)

    def test_a_wrong_token_and_a_dead_server_are_exit_3(self):
        server = OneProcess(self.workspace).start()
        run = self._dql(server, "wrong-token", "SELECT * FROM cars")
        self.assertEqual(run.returncode, 3, run.stdout + run.stderr)
        self.assertNotIn("wrong-token", run.stdout + run.stderr)
        server.stop()
        run = self._dql(server, server.token, "SELECT * FROM cars")
        self.assertEqual(run.returncode, 3, run.stdout + run.stderr)

    @staticmethod
    def _dql(server, token, statement):
        return mimeo("dql", "--url", server.origin, "--database", server.database, "--token", token, statement)


class StoreLock(SystemTest):
    def test_a_store_has_one_process_at_a_time(self):
        """Exit 4 for the second one; free again when the first ends."""
        nowhere = Client("http://127.0.0.1:9", "00000000-0000-4000-8000-000000000000", "none")
        peer = Peer(self.workspace, "a", nowhere, offline=True)
        peer.execute("INSERT INTO cars DOCUMENTS ({'_id': '1'})")
        locked = mimeo("dql", "--store", peer.store, "SELECT * FROM cars")
        self.assertEqual(locked.returncode, 4, locked.stdout + locked.stderr)
        self.assertEqual(peer.stop(), 0)
        free = mimeo("dql", "--store", peer.store, "SELECT * FROM cars")
        self.assertEqual(free.returncode, 0, free.stderr)
        self.assertEqual(json.loads(free.stdout)["items"], [{"_id": "1"}])


class StoreOfOneDatabase(SystemTest):
    BOATS, CARS = "b0a75000-0000-4000-8000-000000000001", "ca750000-0000-4000-8000-000000000002"

    def store_of_boats(self):
        peer = Peer(self.workspace, "a", Client("http://127.0.0.1:9", self.BOATS, "none"), offline=True)
        peer.execute("INSERT INTO c DOCUMENTS ({'_id': '1'})")
        self.assertEqual(peer.stop(), 0)
        return peer.store

    def refuse(self, command, store, *arguments, given=""):
        run = mimeo(command, "--store", store, "--database", self.CARS, *arguments, given=given)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        for part in ("CLI-0201", "STORE-0106", self.BOATS, self.CARS):
            self.assertIn(part, run.stderr)
        self.assertEqual(run.stdout, "")

    def test_every_command_that_names_another_database_is_refused(self):
        """Exit 1, with both ids; nothing of the store is changed."""
        store = self.store_of_boats()
        for arguments in (
            ["peer", "--url", "http://127.0.0.1:9", "--token", "none"],
            ["peer", "--listen-tcp", "127.0.0.1:0"],
            ["dql", "SELECT * FROM c"],
            ["import", "--collection", "c", "--format", "ndjson", "-"],
            ["export", "--collection", "c"],
        ):
            with self.subTest(arguments):
                self.refuse(arguments[0], store, *arguments[1:], given='{"_id": "2"}\n')
        for database in ([], ["--database", self.BOATS], ["--database", self.BOATS.upper()]):
            run = mimeo("dql", "--store", store, *database, "SELECT * FROM c")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(json.loads(run.stdout)["items"], [{"_id": "1"}])

    def test_a_store_that_was_made_without_a_database_takes_the_first_one(self):
        store = self.workspace.directory / "imported"
        mimeo("dql", "--store", store, "INSERT INTO c DOCUMENTS ({'_id': '1'})")
        run = mimeo("peer", "--store", store, "--database", self.BOATS, "--listen-tcp", "127.0.0.1:0")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.refuse("dql", store, "SELECT * FROM c")


class Parse(SystemTest):
    def test_one_line_a_statement(self):
        run = mimeo("parse", "-", given="SELECT * FROM cars WHERE a.b = 1\nSELECT FROM\n")
        self.assertEqual(run.returncode, 1, run.stderr)
        good, bad = [json.loads(line) for line in run.stdout.splitlines()]
        self.assertTrue(good["ok"])
        self.assertTrue(good["ast"])
        self.assertFalse(bad["ok"])
        self.assertRegex(bad["error"]["code"], r"^DQL-\d{4}$")
        self.assertEqual(bad["error"]["line"], 1)
        self.assertGreater(bad["error"]["column"], 1)

    def test_a_good_statement_is_exit_0(self):
        run = mimeo("parse", "DELETE FROM cars WHERE colour = 'blue'")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertTrue(json.loads(run.stdout)["ok"])


class Import(SystemTest):
    def load(self, name, text, *arguments):
        """Imports a file with this text into `c` and returns its documents by id."""
        path = self.workspace.directory / name
        path.write_text(text, encoding="utf-8")
        store = self.workspace.directory / "store"
        run = mimeo("import", "--store", store, "--collection", "c", *arguments, path)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        read = mimeo("dql", "--store", store, "SELECT * FROM c")
        return {item["_id"]: item for item in json.loads(read.stdout)["items"]}

    def test_a_json_array(self):
        found = self.load("a.json", '[{"k": "x", "n": 1}, {"k": "ü", "a b": null, "d": {"e": [1, 2.5]}}]', "--id", "k")
        self.assertEqual(set(found), {"x", "ü"})
        self.assertEqual(found["x"]["n"], 1)
        self.assertEqual(found["ü"]["d"], {"e": [1, 2.5]})
        self.assertIsNone(found["ü"]["a b"])

    def test_lines_of_json(self):
        found = self.load("a.ndjson", '{"_id": "x", "n": 1}\n\n{"_id": "y", "n": 2}\n')
        self.assertEqual({key: item["n"] for key, item in found.items()}, {"x": 1, "y": 2})

    def test_comma_separated_values(self):
        found = self.load("a.csv", 'k,name\r\nx,"one, ""two"""\r\ny,"three\nfour"\r\n', "--id", "k")
        self.assertEqual(found["x"]["name"], 'one, "two"')
        self.assertEqual(found["y"]["name"], "three\nfour")

    def test_documents_without_an_id_get_one(self):
        self.assertEqual(len(self.load("a.json", '[{"n": 1}, {"n": 2}]')), 2)

    def test_a_table_of_iso_codes_as_it_is(self):
        rows, path, field = iso_codes("countries")
        found = self.load("countries.json", path.read_text(encoding="utf-8"), "--id", field)
        self.assertEqual(set(found), {row[field] for row in rows})

    def test_a_broken_file_imports_nothing(self):
        path = self.workspace.directory / "broken.json"
        path.write_text('[{"_id": "x"}, {"_id": ')
        store = self.workspace.directory / "store"
        run = mimeo("import", "--store", store, "--collection", "c", path)
        self.assertNotEqual(run.returncode, 0)
        self.assertTrue(run.stderr)
        read = mimeo("dql", "--store", store, "SELECT * FROM c")
        self.assertEqual(json.loads(read.stdout)["items"], [])
