"""Every command of every page: the blocks in `sh`, `js` and `python` of all READMEs and of `Docs` are run as they stand,
page by page in a folder of its own, on one server for all. A block that is not run says what it needs (`markdown.py`).

A page reads as in the folder of the source. `fleet` is a database of the page's own, `http://127.0.0.1:4000` the server,
other loopback ports are free ones, and `postgres://mimeo@db/mimeo` is a cluster of the test.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

from mimeo_harness import ROOT, OneProcess, Postgres, Workspace, binary, free_port, mimeo, until
from mimeo_harness.markdown import NEEDS, RUN, blocks
from system_test import SystemTest

SOURCES = "Docs Shared Services Tests scripts compose packaging monitoring Makefile LICENSE".split()

COMMAND = re.compile(
    r"^\s*(sudo |exec |[A-Z_]+=\S+ )*(mimeo|curl|make|python3|docker|docker-compose|swift|npm|node|openssl|pg_dump|apt"
    r"|export|git|nginx|scripts/\S+|compose/\S+|auth-gateway|replicator) (?! )", re.MULTILINE)
"""A line that somebody would type."""

TARGET = ("MIMEO_URL", "MIMEO_DATABASE", "MIMEO_TOKEN")
"""The variables that lead commands to the server."""

STEP_SECONDS = 60


def pages():
    """The pages whose commands are run, by their path in the source."""
    found = ["README.md", "CONTRIBUTING.md"]
    for folder in ("Docs", "Shared", "Services", "Tests", "compose", "packaging", "monitoring", "deploy"):
        for path in sorted((ROOT / folder).rglob("*.md")):
            name = path.relative_to(ROOT).as_posix()
            if (folder == "Docs" or path.name == "README.md") and "/vendor/" not in name:
                found.append(name)
    return {name: blocks(name, (ROOT / name).read_text()) for name in found}


PAGES = pages()


class Marks(unittest.TestCase):
    def test_every_block_is_run_or_says_what_it_needs(self):
        for block in sum(PAGES.values(), []):
            needs = block.directives.get("needs", "")
            self.assertNotIn(block.language, ("bash", "console", "shell"), f"{block}: the word is `sh`")
            if needs:
                self.assertIn(re.split("[:,]", needs)[0], NEEDS, f"{block}: a need that `markdown.py` does not know")
            elif block.language not in (*RUN, "swift"):
                self.assertIsNone(COMMAND.search(block.text), f"{block}: a command in a block that is not marked as `sh`")

    def test_another_test_runs_a_block_only_where_it_reads_the_page(self):
        for block in sum(PAGES.values(), []):
            if "run by" in block.directives:
                test = ROOT / "Tests" / "SystemTests" / f"{block.directives['run by']}.py"
                self.assertIn(block.path, test.read_text(), str(block))

    def test_the_sample_data_is_what_its_program_writes(self):
        done = subprocess.run([sys.executable, ROOT / "scripts" / "sample-data", "--check"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_most_commands_are_run(self):
        """So that marks do not become the rule."""
        typed = [block for block in sum(PAGES.values(), []) if block.language in RUN and block.path.startswith("Docs/")]
        run = [block for block in typed if "needs" not in block.directives]
        self.assertGreater(len(run) / len(typed), 0.75)


class Mentions(unittest.TestCase):
    """Commands that stand within a sentence or a table are not run; but there is such a command, with such flags."""

    def test_every_command_in_a_sentence_exists_with_its_flags(self):
        helps = {}
        for name in PAGES:
            for span in re.findall(r"`(mimeo [^`]+)`", prose((ROOT / name).read_text())):
                words = command_of(span)
                if words not in helps:
                    helps[words] = help_of(words)
                self.assertIsNotNone(helps[words], f"{name}: there is no `mimeo {' '.join(words)}`")
                for flag in re.findall(r"--[a-z][a-z-]*", span):
                    self.assertRegex(helps[words], rf"{flag}\b", f"{name}: `mimeo {' '.join(words)}` has no {flag}")


def command_of(span):
    """The words of `mimeo admin databases create --id fleet` that name a command."""
    words = re.match(r"mimeo((?: [a-z][a-z-]*)*)", span)[1].split()
    longest = {"admin": 3, "backup": 2, "database": 2}.get(words[0] if words else "", 1)
    return tuple(word for word in words if word != "help")[:longest]


def prose(text):
    """A page without its code blocks, lines joined where a sentence goes on."""
    return re.sub(r"\s*\n\s*", " ", re.sub(r"^\s*```.*?^\s*```$", "", text, flags=re.MULTILINE | re.DOTALL))


def help_of(words):
    """The help of a command of `mimeo`; None if there is no such command."""
    done = mimeo("admin", "help", *words[1:]) if words[:1] == ("admin",) else mimeo(*words, "--help")
    return done.stdout if done.returncode == 0 else None


class Page:
    """The folder in which the blocks of one page run, and the processes that they leave behind."""

    def __init__(self, server, workspace, name):
        self.name, self.server, self._workspace = name, server, workspace
        self.word = "fleet-" + re.sub(r"[^a-z0-9]+", "-", name.lower().removesuffix(".md"))
        self.folder = workspace.directory / self.word
        self.folder.mkdir()
        for source in SOURCES:
            (self.folder / source).symlink_to(ROOT / source)
        (self.folder / "mimeo-data").symlink_to(server.data)
        package = self.folder / "node_modules" / "mimeo-client"
        package.parent.mkdir()
        package.symlink_to(ROOT / "Shared" / "ServiceKit" / "Client")
        self._ports = {"4000": server.port}
        self._count = 0
        self._left = []
        text = "".join(block.text for block in PAGES[name])
        if "fleet" in text and "create --id fleet" not in text:
            self._administer("databases", {"id": self.word})
        self._environment = self._variables()

    @property
    def _admin(self):
        return (self.server.data / "auth" / "admin.token").read_text().strip()

    def _administer(self, path, body):
        answer = self.server.request("POST", f"/admin/auth/{path}", body, {"Authorization": f"Bearer {self._admin}"})
        assert answer.status in (200, 201), answer.body
        return answer.json

    def _variables(self):
        """A database of the page's own, and the variables that pages speak of."""
        made = self._administer("databases", {"id": f"{self.word}-own"})
        token = self.folder / "development.token"
        token.write_text(made["developmentToken"] + "\n")
        token.chmod(0o600)
        login = self.server.login(made["id"], made["developmentToken"]).json
        return {
            **os.environ, "PATH": f"{pathlib.Path(binary('mimeo')).parent}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.folder), "MIMEO_URL": self.server.origin, "MIMEO_DATABASE": made["id"],
            "MIMEO_TOKEN": made["developmentToken"], "MIMEO_ADMIN_CREDENTIAL_FILE": "mimeo-data/auth/admin.token",
            "URL": self.server.origin, "DATABASE": made["id"], "TOKEN": login["accessToken"], "ADMIN": self._admin,
        }

    def _port(self, match):
        if match[3] not in self._ports:
            self._ports[match[3]] = free_port()
        return f"{match[1]}{match[2]}{self._ports[match[3]]}"

    def here(self, text):
        """A block's text with the test's addresses and database."""
        text = re.sub(r"(127\.0\.0\.1|0\.0\.0\.0|localhost)(:|\", )(\d{4,5})\b", self._port, text)
        if "postgres://mimeo@db/mimeo" in text:
            self.server.postgres = self.server.postgres or Postgres(self._workspace).start()
            text = text.replace("postgres://mimeo@db/mimeo", self.server.postgres.url)
        return re.sub(r"\bfleet\b", self.word, text)

    def run(self, block):
        self._count += 1
        text = self.here(block.text)
        if "file" in block.directives:
            self._write(block, text)
            return
        if "stops" in block.directives:
            for process in self._left:
                stop(process, signal.SIGINT)
            self._left.clear()
        state = self.folder / ".variables"
        before = f"[ -f {state} ] && . {state}\nset -e\n"
        if "without" in block.directives:
            before += f"unset {' '.join(TARGET)}\n"
        after = "" if "without" in block.directives else f"\nexport -p > {state}\n"
        if block.language == "sh":
            command = ["bash", "-c", before + text + after]
        else:
            file = self.folder / f"block{self._count}.{'mjs' if block.language == 'js' else 'py'}"
            file.write_text(text)
            command = ["bash", "-c", f"{before}exec {'node' if block.language == 'js' else sys.executable} {file}"]
        if "until" in block.directives:
            self._leave(block, command)
            return
        done = subprocess.run(command, cwd=self.folder, env=self._environment, capture_output=True, text=True,
                              timeout=STEP_SECONDS, check=False, stdin=subprocess.DEVNULL)
        said = done.stdout + done.stderr
        if done.returncode != 0:
            raise AssertionError(f"{block} ended with {done.returncode}:\n{text}\n{said[-3000:]}")
        if "shows" in block.directives and not re.search(block.directives["shows"], said):
            raise AssertionError(f"{block} does not show {block.directives['shows']}:\n{said[-3000:]}")

    def _write(self, block, text):
        """A file of the page. One that is in the source too has to be the same there."""
        name = block.directives["file"]
        if (ROOT / name).exists():
            assert (ROOT / name).read_text() == block.text, f"{block} is not {name}"
        else:
            (self.folder / name).write_text(text)

    def _leave(self, block, command):
        """Runs a command that goes on, until it has printed what the page says."""
        path = self.folder / f"block{self._count}.out"
        with open(path, "wb") as output:
            process = subprocess.Popen(command, cwd=self.folder, env=self._environment, stdin=subprocess.PIPE, text=True,
                                       stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        self._left.append(process)
        self._workspace.on_close(lambda: stop(process, signal.SIGKILL))

        def has_printed():
            if re.search(block.directives["until"], path.read_text(errors="replace")):
                return True
            if process.poll() is None and "types" in block.directives:
                process.stdin.write(block.directives["types"] + "\n")
                process.stdin.flush()
            return False

        until(has_printed, STEP_SECONDS,
              lambda: f"{block} prints no {block.directives['until']}:\n{path.read_text(errors='replace')[-3000:]}", 0.3)


def stop(process, with_signal):
    """Ends a command and what it has started; waits for it."""
    if process.poll() is None:
        os.killpg(process.pid, with_signal)
    process.wait(60)
    process.stdin.close()


class Commands(SystemTest):
    """A test for each page; see `add_tests`."""

    @classmethod
    def setUpClass(cls):
        cls.shared = Workspace()
        cls.addClassCleanup(cls.shared.close)
        cls.server = OneProcess(cls.shared).start()
        cls.server.postgres = None

    def run_page(self, name):
        found = [block for block in PAGES[name] if block.is_run or "file" in block.directives]
        for tool in ("node", "npm"):
            if any(uses(tool, block) for block in found) and not shutil.which(tool):
                self.skipTest(f"{tool} is not installed")
        page = Page(self.server, self.shared, name)
        for block in found:
            page.run(block)


def uses(tool, block):
    return block.language == "js" if tool == "node" else block.language == "sh" and block.text.startswith(f"{tool} ")


def add_tests():
    for name, found in PAGES.items():
        if any(block.is_run for block in found):
            word = re.sub(r"[^a-z0-9]+", "_", name.lower().removesuffix(".md"))
            setattr(Commands, f"test_{word}", lambda self, name=name: self.run_page(name))


add_tests()
