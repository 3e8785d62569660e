"""The README's five minutes, as they stand: every block is run, with the address and the folder of the test."""

import json
import os
import pathlib
import re
import subprocess

from mimeo_harness import ROOT, binary, until
from system_test import SystemTest


class Talk:
    """A process and the lines that it printed, one after the other."""

    def __init__(self, process):
        self.process = process
        self._count = 0

    def next(self):
        line = self.process.line(self._count, 60)
        if line is None:
            raise AssertionError(f"{self.process.name} says nothing more: {self.process.log_tail()}")
        self._count += 1
        return line

    def ask(self, line):
        self.process.write(line)
        return json.loads(self.next())


class FiveMinutes(SystemTest):
    def setUp(self):
        super().setUp()
        self.folder = self.workspace.directory
        section = (ROOT / "README.md").read_text().split("## Five minutes\n")[1].split("\n## ")[0]
        self.blocks = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        self.text = section
        # `make run` is a build and this command; it prints the same lines.
        self.server = Talk(self.workspace.start("server", [binary("mimeo"), "serve", "--listen", "127.0.0.1:0"]))
        lines = []
        while not lines or not lines[-1].startswith("token-file: "):
            lines.append(self.server.next())
        self.origin = lines[0].removeprefix("url: ")
        (self.folder / "mimeo.txt").write_text("\n".join(lines) + "\n")

    def here(self, text):
        """A text of the README with the test's address and paths."""
        text = text.replace("http://127.0.0.1:4000", self.origin).replace("/tmp/mimeo.txt", "mimeo.txt")
        return text.replace("$PWD/.build/release", str(pathlib.Path(binary("mimeo")).parent))

    def shell(self, script):
        done = subprocess.run(["bash", "-e", "-c", self.here(script)], cwd=self.folder, capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def peer(self, name, command):
        path = f"{pathlib.Path(binary('mimeo')).parent}:{os.environ['PATH']}"
        script = f"{self.exports}\nexec {command.strip()}"
        return Talk(self.workspace.start(name, ["bash", "-c", self.here(script)], {"PATH": path}))

    def test_every_block_runs_as_it_stands(self):
        """Documents over HTTP, two peers of which one is offline, real data, and curl."""
        serve, ask, peers, typed, load, curl = self.blocks
        self.assertEqual(serve, "make run | tee /tmp/mimeo.txt\n")
        self.exports = "\n".join(line for line in ask.splitlines() if line.startswith("export "))
        self.assertIn("petrol", self.shell(ask))
        a = self.peer("a", peers)
        b = self.peer("b", peers.replace("./peer-a", "./peer-b"))
        for peer in (a, b):
            until(lambda peer=peer: peer.ask("SELECT * FROM cars")["items"], 60, "the car has come")
        for line in typed.splitlines():
            self.assertNotIn("error", a.ask(line))
        in_b, in_a = re.findall(r"`([^`]+)`", self.text[self.text.index("While A is offline"):])[:2]
        self.assertEqual(b.ask(in_b)["mutatedDocumentIDs"], ["fiat"])
        self.assertEqual(a.ask(in_a), {"sync": "started"})
        wanted = [{"_id": "fiat", "seats": 4, "engine": {"kind": "electric", "litres": 1.4}, "colour": "red"}]
        for peer in (a, b):
            until(lambda peer=peer: peer.ask("SELECT * FROM cars")["items"] == wanted, 60, "both have both changes")
            peer.process.close_input()
            self.assertEqual(peer.process.wait(30), 0)
        setup, rest = load.split("\n", 1)
        self.assertTrue(setup.startswith("scripts/setup system"))
        self.assertIn("5 rows", self.shell(self.exports + "\n" + rest))
        self.assertIn('"colour":"red"', self.shell(self.exports + "\n" + curl))
