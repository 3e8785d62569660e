"""README.md as it stands: every block is run, with the address and the folder of the test."""

import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from mimeo_harness import ROOT, binary, until
from mimeo_harness.markdown import blocks
from system_test import SystemTest

README = "README.md"


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
        self.text = (ROOT / README).read_text()
        for name in ("Shared", "Tests"):
            (self.folder / name).symlink_to(ROOT / name)
        # `make run` is a build and this command; to a terminal it prints the token itself.
        self.server = Talk(self.workspace.start(
            "server", [binary("mimeo"), "serve", "--listen", "127.0.0.1:0", "--show-token"]))
        self.url, self.database, self.token = (self.server.next().split(": ")[1] for _ in range(3))
        self.exports = ""

    def here(self, text):
        """A text of the README with the test's address and paths, and what a reader fills in."""
        text = text.replace("http://127.0.0.1:4000", self.url)
        text = text.replace("MIMEO_DATABASE=…", f"MIMEO_DATABASE={self.database}")
        text = text.replace("MIMEO_TOKEN=…", f"MIMEO_TOKEN={self.token}")
        return text.replace("$PWD/.build/release", str(pathlib.Path(binary("mimeo")).parent))

    def shell(self, script):
        """Runs a block after the `export` lines of the blocks before it."""
        done = subprocess.run(["bash", "-e", "-c", self.exports + self.here(script)], cwd=self.folder,
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.exports += "".join(f"{line}\n" for line in self.here(script).splitlines() if line.startswith("export "))
        return done.stdout

    def peer(self, name, command):
        script = f"{self.exports}\nexec {command.strip()}"
        return Talk(self.workspace.start(name, ["bash", "-c", script], {"PATH": os.environ["PATH"]}))

    def start(self, block, name, *command):
        (self.folder / name).write_text(self.here(block.text))
        return Talk(self.workspace.start(name, ["bash", "-c", f"{self.exports}\nexec {' '.join(command)}"]))

    def test_every_block_runs_as_it_stands(self):
        """Documents over HTTP, sample data, two peers of which one is offline, JavaScript, Python."""
        image, make, ask, load, peers, typed, export, page, script = blocks(README, self.text)
        self.assertIn("docker run ", image.text)
        self.assertEqual([line.split("  ")[0] for line in make.text.splitlines()], ["make run", "make test"])
        self.assertIn("petrol", self.shell(ask.text))
        self.assertIn("5 rows", self.shell(load.text))
        self.two_peers(peers.text, typed.text)
        self.shell(export.text)
        self.two_programs(page, script)

    def two_peers(self, peers, typed):
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

    def two_programs(self, page, script):
        """The one in JavaScript, where Node is installed, sees what the one in Python writes."""
        follower = self.start(page, "cars.mjs", "node", "cars.mjs") if shutil.which("node") else None
        if follower:
            until(lambda: "owner: 'Ann'" in said(follower), 60, lambda: said(follower))
        self.assertEqual(self.start(script, "cars.py", sys.executable, "cars.py").next(), "['fiat']")
        if follower:
            until(lambda: "seats: 5" in said(follower), 60, lambda: said(follower))


def said(talk):
    """Everything that a process has printed so far."""
    return "\n".join(itertools.takewhile(bool, (talk.process.line(index, 0) for index in itertools.count())))
