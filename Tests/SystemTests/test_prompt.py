"""`mimeo dql` on a terminal: prompt, lines, history, completion, commands; and tokens that no command line shows."""

import json
import os
import pty
import re
import select
import signal
import time

from mimeo_harness import OneProcess, mimeo
from mimeo_harness.processes import binary
from system_test import SystemTest

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]|\r")
PROMPT = "mimeo> "
MORE = "  ...> "


class Terminal:
    """A program on a terminal of its own, typed at and read like a person does."""

    def __init__(self, arguments, environment):
        self.seen = ""
        self.place = 0
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.execve(arguments[0], [str(argument) for argument in arguments], environment)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def expect(self, text, seconds=60):
        """Waits for a text after the one found last, and returns everything between."""
        end = time.monotonic() + seconds
        while (found := self.seen.find(text, self.place)) < 0:
            left = end - time.monotonic()
            if left <= 0 or not self._read(left):
                raise AssertionError(f"no {text!r} in {self.seen[self.place:]!r} of {self.seen!r}")
        between = self.seen[self.place:found]
        self.place = found + len(text)
        return between

    def run(self, line, prompt=PROMPT):
        """Types a line and returns what is shown until the next prompt, its echo included."""
        self.type(line + "\n")
        return self.expect(prompt)

    def exit_code(self, seconds=60):
        """Waits for the end of the program, reads whatever it still says, and fails if it does not end."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and self._read(left):
            pass
        while True:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > end:
                raise AssertionError(f"the program does not end: {self.seen[self.place:]!r} of {self.seen!r}")
            time.sleep(0.02)

    def close(self):
        os.close(self.terminal)
        try:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass

    def _read(self, seconds):
        if not select.select([self.terminal], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.terminal, 65536)
        except OSError:  # the program has closed the other side
            return False
        self.seen += ESCAPES.sub("", data.decode(errors="replace"))
        return bool(data)


class OnTerminal(SystemTest):
    def setUp(self):
        super().setUp()
        self.store = self.workspace.directory / "store"
        self.history = self.workspace.directory / "history"

    def terminal(self, *arguments, **environment):
        terminal = Terminal([binary("mimeo"), "dql", *arguments], {
            **os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "MIMEO_HISTORY": str(self.history), **environment})
        self.addCleanup(terminal.close)
        return terminal

    def started(self):
        terminal = self.terminal("--store", self.store)
        terminal.expect(PROMPT)
        return terminal


class Lines(OnTerminal):
    def test_statements_of_one_and_of_several_lines(self):
        terminal = self.started()
        self.assertIn("2 documents written", terminal.run(
            "INSERT INTO ships DOCUMENTS ({'_id': 'Ægir', 'tons': 7}), ({'_id': 'b', 'tons': 70});"))
        table = terminal.run("SELECT tons FROM ships ORDER BY tons")
        self.assertRegex(table, r"(?s)tons\n----\n   7\n  70\n2 rows")
        terminal.run("SELECT _id", MORE)
        terminal.run("FROM ships", MORE)
        self.assertIn("Ægir", terminal.run("WHERE tons = 7;"))
        terminal.run("DELETE FROM ships", MORE)
        self.assertIn("1 document written", terminal.run("WHERE tons = 70;"))
        terminal.type("\x04")
        self.assertEqual(terminal.exit_code(), 0)

    def test_a_pasted_text_is_taken_whole(self):
        terminal = self.started()
        terminal.type("SELECT 4 AS four\nFROM system:dual\nLIMIT 1\n;\nSELECT 5 AS five FROM system:dual;\n")
        terminal.expect("four\n----\n   4\n1 row")
        terminal.expect("five\n----\n   5\n1 row")
        self.assertNotIn("DQL-", terminal.seen)

    def test_an_error_has_its_place_and_the_prompt_stays(self):
        terminal = self.started()
        self.assertIn("DQL-0105 at 1:1", terminal.run("SELEKT 1"))
        self.assertIn("DQL-", terminal.run("SELECT * FROM ships WHERE n = :n"))
        self.assertIn("   1\n", terminal.run("SELECT COUNT(*) AS many FROM system:dual"))
        terminal.type(".quit\n")
        self.assertEqual(terminal.exit_code(), 0)

    def test_control_c_abandons_what_is_typed(self):
        terminal = self.started()
        terminal.run("DELETE FROM ships", MORE)
        terminal.type("WHERE")
        terminal.expect("WHERE")
        terminal.type("\x03")
        terminal.expect(PROMPT)
        terminal.type("SELECT 3 AS thr\x03")
        terminal.expect(PROMPT)
        self.assertIn("12\n1 row", terminal.run("SELECT 12 AS twelve FROM system:dual"))

    def test_history_outlives_the_prompt(self):
        terminal = self.started()
        terminal.run("SELECT 41 AS first FROM system:dual", PROMPT)
        terminal.run("SELECT 42", MORE)
        terminal.run("AS second FROM system:dual;")
        terminal.run(" SELECT 43 AS secret FROM system:dual;")
        terminal.type("\x1b[A\n")
        terminal.expect("second\n------\n    42\n1 row")
        terminal.expect(PROMPT)  # control-D means the end only to a prompt that reads
        terminal.type("\x04")
        self.assertEqual(terminal.exit_code(), 0)
        self.assertEqual(self.history.stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.history.read_text().splitlines()[:2], [
            "SELECT 41 AS first FROM system:dual", "SELECT 42 AS second FROM system:dual;"])
        self.assertNotIn("43", self.history.read_text())
        again = self.started()
        again.type("\x12first\n")
        again.expect("first\n-----\n   41\n1 row")

    def test_tab_completes_words_collections_and_fields(self):
        mimeo("dql", "--store", self.store, "INSERT INTO warehouses DOCUMENTS ({'_id': 1, 'capacity': 12})")
        terminal = self.started()
        terminal.type("SEL\t* FR\tware\tWHERE capa\t= 12\n")
        self.assertIn("SELECT * FROM warehouses WHERE capacity = 12", terminal.expect("1 row"))
        terminal.expect(PROMPT)
        terminal.type(".ind\t\n")
        terminal.expect("no indexes")
        terminal.expect(PROMPT)
        terminal.type("SELECT * FROM system:v\t\tsystem:a")
        terminal.expect("system:vitals")

    def test_commands(self):
        terminal = self.started()
        self.assertIn("no collections", terminal.run(".tables"))
        terminal.run("CREATE INDEX by_tons ON ships (tons);")
        terminal.run("INSERT INTO ships DOCUMENTS ({'_id': 1, 'tons': 7});")
        self.assertIn("ships\n", terminal.run(".tables"))
        self.assertIn("by_tons on ships (tons)", terminal.run(".indexes"))
        self.assertIn("└─ indexScan  ships.by_tons  equal [7]",
                      terminal.run(".explain SELECT * FROM ships WHERE tons = 7"))
        self.assertIn("timing: on", terminal.run("\\timing"))
        self.assertRegex(terminal.run("SELECT 1 AS x FROM system:dual"), r"1 row\ntime: [\d.]+ (ms|s)\n")
        self.assertIn("timing: off", terminal.run(".timing"))
        self.assertNotIn("time: ", terminal.run("SELECT 1 AS x FROM system:dual"))
        self.assertIn("mode: csv", terminal.run(".mode csv"))
        self.assertIn("_id,tons\n1,7\n", terminal.run("SELECT _id, tons FROM ships"))
        self.assertIn("did you mean .tables?", terminal.run(".tabels"))
        self.assertIn(".explain STATEMENT", terminal.run(".help"))


class OnServer(OnTerminal):
    def test_the_prompt_works_on_a_server_and_outlives_it(self):
        server = OneProcess(self.workspace).start()
        terminal = self.terminal("--url", server.origin, "--database", server.database, MIMEO_TOKEN=server.token)
        terminal.expect(PROMPT)
        terminal.run("INSERT INTO harbours DOCUMENTS ({'_id': 'x', 'depth': 9});")
        self.assertIn("harbours\n", terminal.run(".tables"))
        terminal.type("SELECT dep\t\x15SELECT depth FROM harb\t\n")
        terminal.expect("depth\n-----\n    9\n1 row")
        terminal.expect(PROMPT)
        server.stop()
        self.assertIn("CLI-0301", terminal.run("SELECT 1 AS x FROM system:dual"))
        terminal.type("\x04")
        self.assertEqual(terminal.exit_code(), 0)

    def test_a_token_that_is_typed_is_not_shown(self):
        server = OneProcess(self.workspace).start()
        terminal = self.terminal(
            "--url", server.origin, "--database", server.database, "--token-file", "-")
        terminal.expect("token: ")
        terminal.type(server.token + "\n")
        terminal.expect(PROMPT)
        self.assertNotIn(server.token, terminal.seen)
        self.assertIn("no collections", terminal.run(".tables"))


class PeerOnTerminal(SystemTest):
    def test_a_peer_greets_edits_lines_and_says_whether_it_is_connected(self):
        server = OneProcess(self.workspace).start()
        environment = {**os.environ, "MIMEO_HISTORY": "", "TERM": "xterm"}
        terminal = Terminal(
            [binary("mimeo"), "peer", "--store", self.workspace.directory / "peer", "--url", server.origin, "--database",
             server.database, "--token", server.token], environment)
        self.addCleanup(terminal.close)
        terminal.expect(f"a peer of database {server.database}")
        connected = "connected> "
        end = time.monotonic() + 60
        # Each empty line asks once more for the state that the prompt shows.
        while not terminal.expect("> ").endswith("connected"):
            self.assertLess(time.monotonic(), end, terminal.seen)
            time.sleep(0.1)
            terminal.type("\n")
        written = terminal.run("SELECT nothing\x15INSERT INTO c DOCUMENTS ({'_id': 1});", connected)
        self.assertIn("1 document written", written)
        self.assertIn("acknowledged  1", terminal.run(".wait 1", connected))
        self.assertIn("connected  ", terminal.run(".status", connected))
        self.assertIn(".sync start|stop", terminal.run("help", connected))
        self.assertIn("sync  stopped", terminal.run(".sync stop", "stopped> "))
        terminal.type("quit\n")
        self.assertEqual(terminal.exit_code(), 0)
        self.assertEqual(server.query("SELECT * FROM c"), [{"_id": 1}])


class Tokens(SystemTest):
    def test_a_token_comes_from_a_file_or_standard_input(self):
        server = OneProcess(self.workspace).start()
        target = ["--url", server.origin, "--database", server.database]
        path = self.workspace.directory / "token"
        path.write_text(server.token + "\n")
        run = mimeo("dql", *target, "--token-file", path, "SELECT 1 AS x FROM system:dual")
        self.assertEqual((run.returncode, json.loads(run.stdout)["items"]), (0, [{"x": 1}]), run.stderr)
        run = mimeo("dql", *target, "--token-file", "-", given="\n".join([
            server.token, "SELECT 1 AS x FROM system:dual", "SELECT 2 AS x FROM system:dual"]))
        self.assertEqual([json.loads(line)["items"] for line in run.stdout.splitlines()], [[{"x": 1}], [{"x": 2}]])
        run = mimeo("peer", *target, "--store", self.workspace.directory / "peer", "--token-file", "-",
                    given=f"{server.token}\nINSERT INTO c DOCUMENTS ({{'_id': 1}})\n.wait 1\n")
        self.assertEqual(json.loads(run.stdout.splitlines()[-1]), {"acknowledged": 1}, run.stderr)
        path.write_text("wrong")
        run = mimeo("dql", *target, "--token-file", path, "SELECT 1 AS x FROM system:dual")
        self.assertEqual(run.returncode, 3, run.stderr)


class Formats(SystemTest):
    def test_a_plan_is_a_tree_in_a_table(self):
        run = mimeo("dql", "--store", self.workspace.directory / "s", "--format", "table",
                    "EXPLAIN SELECT * FROM ships WHERE tons = 1 AND name = 'a very long name that fills the line up'")
        self.assertIn("└─ scan  ships\n", run.stdout)
        self.assertNotIn("…", run.stdout)
        self.assertNotIn("{", run.stdout)

    def test_the_version_is_printed(self):
        run = mimeo("--version")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"^\d+\.\d+\.\d+( \(commit [0-9a-f]{12}\))?\n$")

    def test_a_misspelt_variable_ends_every_command(self):
        os.environ["MIMEO_TOKNE"] = "x"
        self.addCleanup(os.environ.pop, "MIMEO_TOKNE")
        for arguments in (["serve", "--data", self.workspace.directory / "d"], ["parse", "SELECT * FROM cars"]):
            run = mimeo(*arguments)
            self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
            self.assertIn("did you mean MIMEO_TOKEN?", run.stderr)
