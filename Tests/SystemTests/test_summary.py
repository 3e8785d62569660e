"""The end of `make test`: the sum must never look better than the run was, and a failure by chance is named."""

import importlib.util
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

from mimeo_harness import ROOT


def script(name, path=None):
    """A module of scripts/, or of another file."""
    specification = importlib.util.spec_from_file_location(name, ROOT / (path or f"scripts/{name}.py"))
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module
    specification.loader.exec_module(module)
    return module


summary = script("summary")
run_tests = script("run_tests")
runner = script("system_tests", "Tests/SystemTests/__main__.py")


def test_record(name, kind="function"):
    return {"kind": "test", "payload": {"id": name, "kind": kind}}


def event(kind, name, at=None, **more):
    instant = {} if at is None else {"instant": {"absolute": at}}
    return {"kind": "event", "payload": {"kind": kind, "testID": name, **instant, **more}}


class Summary(unittest.TestCase):
    def summarize(self, parts, records=(), cut="", system=None):
        """The exit code and the lines of a summary over these results."""
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            (directory / "parts").write_text("".join(f"{part} {status}\n" for part, status in parts.items()))
            text = "".join(json.dumps(record) + "\n" for record in records) + cut
            if text:
                (directory / "swift.jsonl").write_text(text)
            if system:
                (directory / "system.json").write_text(json.dumps(system))
            output = io.StringIO()
            with redirect_stdout(output):
                code = summary.main(directory)
            return code, output.getvalue().splitlines()

    def test_functions_count_once_and_suites_not_at_all(self):
        records = [test_record("S", "suite"), test_record("a"), test_record("b"), test_record("c")]
        records += [event("testStarted", "S")]
        records += [event("testStarted", "a"), event("testCaseEnded", "a"), event("testEnded", "a")]
        issue = [{"symbol": "fail", "text": "Test b recorded an issue"}, {"symbol": "details", "text": "1\n!= 2"}]
        records += [event("testStarted", "b"), event("issueRecorded", "b", messages=issue)]
        records += [event("issueRecorded", "b")]
        records += [event("testEnded", "b"), event("testSkipped", "c"), event("testEnded", "S")]
        code, lines = self.summarize({"lint": 0, "build": 0, "swift": 1, "system": 0}, records,
                                     system={"passed": 5, "failed": 0, "skipped": 1})
        self.assertEqual((code, lines[-1]), (1, "6 passed, 1 failed, 2 skipped"))
        self.assertEqual(lines[0], "failed: b: Test b recorded an issue | 1 != 2")

    def test_a_crash_is_a_failure_even_if_every_finished_test_passed(self):
        records = [test_record("a"), test_record("b"), event("testStarted", "a"), event("testEnded", "a")]
        records += [event("testStarted", "b")]
        code, lines = self.summarize({"swift": 1}, records, cut='{"kind": "ev')
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertEqual(lines[0], "failed: b: started and never ended")

    def test_failures_are_named_whoever_counted_them_and_not_without_bound(self):
        failures = [f"test {number}: {'x' * 1000}" for number in range(20)]
        code, lines = self.summarize({"system": 1}, system={"passed": 0, "failed": 20, "skipped": 0,
                                                           "failures": failures})
        self.assertEqual(code, 1)
        self.assertEqual(len(lines), summary.SHOWN_FAILURES + 3)
        self.assertEqual(lines[summary.SHOWN_FAILURES], "and 8 more")
        self.assertTrue(all(len(line) < summary.SHOWN_CHARACTERS + 20 for line in lines))

    def test_a_part_that_failed_without_a_test_is_one_failure(self):
        code, lines = self.summarize({"lint": 1, "build": 0, "swift": 0})
        self.assertEqual((code, lines), (1, ["make test: lint failed", "0 passed, 1 failed, 0 skipped"]))

    def test_the_slowest_of_both_languages_come_first(self):
        records = [test_record("S.a/f()/x.swift:1:2"), test_record("b")]
        records += [event("testStarted", "S.a/f()/x.swift:1:2", at=10), event("testEnded", "S.a/f()/x.swift:1:2", at=12.5)]
        records += [event("testStarted", "b", at=13), event("testEnded", "b", at=13.2)]
        system = {"passed": 1, "failed": 0, "skipped": 0, "seconds": {"test_kill": 9.0}}
        code, lines = self.summarize({"swift": 0, "system": 0}, records, system=system)
        self.assertEqual(code, 0)
        self.assertEqual([line.split() for line in lines[:4]],
                         [["the", "slowest", "tests:"], ["9.0", "s", "test_kill"], ["2.5", "s", "S.a/f()"], ["0.2", "s", "b"]])

    def test_a_job_that_ran_no_test_has_failed(self):
        code, lines = self.summarize({"swift": 0}, [test_record("a")])
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))

    def test_a_planned_job_that_did_not_end_has_failed(self):
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            (directory / "planned").write_text("one\ntwo\n")
            (directory / "parts").write_text("lint 0\none 0\n")
            (directory / "one.json").write_text('{"passed": 3, "failed": 0, "skipped": 0}')
            output = io.StringIO()
            with redirect_stdout(output):
                code = summary.main(directory)
        self.assertEqual((code, output.getvalue().splitlines()),
                         (1, ["make test: two failed", "3 passed, 1 failed, 0 skipped"]))

    def test_a_run_without_a_test_and_results_that_are_cut_off_have_failed(self):
        code, lines = self.summarize({"lint": 0, "build": 0})
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            (directory / "parts").write_text("one 1\n")
            (directory / "one.json").write_text('{"passed": 3, "fai')
            with redirect_stdout(io.StringIO()) as output:
                code = summary.main(directory)
        self.assertEqual((code, output.getvalue().splitlines()[-1]), (1, "0 passed, 1 failed, 0 skipped"))

    def test_all_is_well(self):
        records = [test_record("a"), event("testStarted", "a"), event("testEnded", "a")]
        code, lines = self.summarize({"lint": 0, "build": 0, "swift": 0, "system": 0}, records)
        self.assertEqual((code, lines), (0, ["1 passed, 0 failed, 0 skipped"]))


class Repeats(unittest.TestCase):
    """A job is a shell command here. It leaves counts as a system test does, and its first run makes `marker`."""

    FLAKY = """test -e $0.marker && { echo '{"passed": 2, "failed": 0, "skipped": 0}' >$0.json; exit 0; }
               touch $0.marker
               echo '{"passed": 1, "failed": 1, "skipped": 0, "failures": ["a test: 1 != 2"]}' >$0.json; exit 1"""
    PASSING = """echo '{"passed": 3, "failed": 0, "skipped": 0}' >$0.json"""
    BROKEN = """echo '{"passed": 0, "failed": 1, "skipped": 0, "failures": ["another: broken"]}' >$0.json; exit 1"""

    def run_jobs(self, is_deep=False, **commands):
        """The exit code of a run, the lines of its summary, the names it kept, and what it printed."""
        with tempfile.TemporaryDirectory() as name, redirect_stdout(io.StringIO()) as printed:
            results = pathlib.Path(name)
            (results / "planned").write_text("".join(f"{job}\n" for job in commands))
            jobs = [(job, ["bash", "-c", command, results / job]) for job, command in commands.items()]
            kept_depth, run_tests.IS_DEEP = run_tests.IS_DEEP, is_deep
            try:
                code = run_tests.execute(run_tests.Run(results), jobs)
            finally:
                run_tests.IS_DEEP = kept_depth
            with redirect_stdout(io.StringIO()) as lines:
                for _ in range(2):
                    summary.main(results, results / "kept.txt")
            kept = (results / "kept.txt").read_text() if (results / "kept.txt").exists() else ""
            return code, lines.getvalue().splitlines(), kept, printed.getvalue()

    def test_a_job_that_passes_alone_has_passed_and_its_test_is_named(self):
        code, lines, kept, printed = self.run_jobs(one=self.FLAKY, two=self.PASSING)
        self.assertEqual((code, lines[-1]), (0, "5 passed, 0 failed, 0 skipped"))
        self.assertIn("again, alone: one", printed)
        self.assertNotIn("again, alone: two", printed)
        self.assertRegex(kept, r"\A(20\d\d-\d\d-\d\dT\d\d:\d\dZ seed \S+ one: a test: 1 != 2\n){2}\Z")
        self.assertIn("FLAKY one: a test: 1 != 2", lines)

    def test_a_job_that_fails_twice_has_failed(self):
        code, lines, kept, _ = self.run_jobs(one=self.BROKEN)
        self.assertEqual((code, lines[-1], kept), (1, "0 passed, 1 failed, 0 skipped", ""))
        self.assertIn("failed: another: broken", lines)

    def test_a_crash_without_results_is_named_by_its_job(self):
        crash = "test -e $0.marker && { echo '{\"passed\": 1, \"failed\": 0, \"skipped\": 0}' >$0.json; exit 0; }; touch $0.marker; exit 139"
        code, lines, kept, _ = self.run_jobs(one=crash)
        self.assertEqual((code, lines[-1], kept),
                         (0, "1 passed, 0 failed, 0 skipped", 2 * f"{kept[:kept.index(' one: ')]} one: ended without a failed test\n"))

    def test_neither_the_deep_tier_nor_a_run_with_many_failures_repeats(self):
        self.assertEqual(self.run_jobs(is_deep=True, one=self.FLAKY)[0], 1)
        many = {f"job{number}": self.FLAKY for number in range(run_tests.REPEATED_JOBS + 1)}
        self.assertEqual(self.run_jobs(**many)[0], 1)

    def test_a_run_that_is_told_to_stop_repeats_nothing(self):
        with tempfile.TemporaryDirectory() as name, redirect_stdout(io.StringIO()) as printed:
            run = run_tests.Run(pathlib.Path(name))
            run.is_stopping = True
            self.assertEqual(run_tests.execute(run, [("one", ["false"])]), 1)
        self.assertNotIn("again", printed.getvalue())


class ContinuousIntegration(unittest.TestCase):
    """`.ci/run` of a clone in which make, the compiler and the list of users are scripts."""

    def run_in_clone(self, users, **environment):
        """The exit code, what it said, and the names in the folder of its builds in `users`' home."""
        with tempfile.TemporaryDirectory() as name:
            clone, tools, home = (pathlib.Path(name) / each for each in ("clone", "tools", "home"))
            for folder in (clone / ".ci", tools, home):
                folder.mkdir(parents=True)
            shutil.copy(run_tests.ROOT / ".ci" / "run", clone / ".ci" / "run")
            (clone / "Package.swift").write_text("// a manifest\n")
            for tool, script in {"make": "echo \"make $1 in $HOME, $(readlink .build)\"", "swift": "echo 6",
                                 "getent": users.format(home=home)}.items():
                (tools / tool).write_text(f"#!/bin/sh\n{script}\n")
                (tools / tool).chmod(0o755)
            given = {key: value.format(home=home) for key, value in environment.items()}
            done = subprocess.run([clone / ".ci" / "run"], capture_output=True, text=True, check=False, timeout=60,
                                  env={"PATH": f"{tools}:/usr/bin:/bin", **given})
            kept = sorted(path.name for path in home.rglob("build-*") if path.is_dir())
            return done.returncode, (done.stdout + done.stderr).replace(str(home), "HOME"), kept

    def test_a_run_without_home_keeps_its_build_in_the_home_that_the_system_knows(self):
        users = "echo 'ci:x:7:7::{home}:/bin/sh'"
        for environment in ({}, {"HOME": "{home}"}):
            code, said, kept = self.run_in_clone(users, **environment)
            self.assertEqual((code, len(kept)), (0, 1), said)
            self.assertEqual(said, f"make test in HOME, HOME/.cache/mimeo/{kept[0]}\n")

    def test_a_run_of_a_user_without_a_home_says_so(self):
        code, said, kept = self.run_in_clone("exit 2")
        self.assertEqual((code, kept), (2, []))
        self.assertIn("set HOME", said)


class Commands(unittest.TestCase):
    """The system tests are held to every command of the executables that they drive."""

    HELP = {"command": {"commandName": "mimeo", "subcommands": [
        {"commandName": "dql"}, {"commandName": "help"}, {"commandName": "admin"},
        {"commandName": "backup", "subcommands": [{"commandName": "create"}, {"commandName": "list"}]}]}}
    ADMIN = """mimeo admin GROUP COMMAND [ARGUMENTS] [--OPTION VALUE]

  api-keys    list, create
  server      settings

  login, logout: servers and credentials that are kept

mimeo admin help GROUP tells the options."""
    USED = [("mimeo", "dql"), ("mimeo", "backup", "create"), ("mimeo", "backup", "list"), ("mimeo", "admin", "login"),
            ("mimeo", "admin", "logout"), ("mimeo", "admin", "api-keys", "list"), ("mimeo", "admin", "api-keys", "create"),
            ("mimeo", "admin", "server", "settings")]
    SERVICES = (("auth-gateway",), ("replicator",), ("query-service",), ("attachment-store",))

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.program = self.folder / "mimeo"
        self.program.write_text(f"#!/bin/sh\n[ $1 = admin ] && echo '{self.ADMIN}' || echo '{json.dumps(self.HELP)}'\n")
        self.program.chmod(0o755)

    def noted(self, *words):
        """The commands that the start of a process counts as run."""
        runner.ran.clear()
        runner.note_start("subprocess.Popen", (words[0], list(words), None, None))
        return {(pathlib.Path(each[0]).name, *each[1:]) for each in runner.ran}

    def checked(self, *commands):
        """The exit code and the failures of a run whose system tests ran these commands."""
        kept, run_tests.SHIPPED = run_tests.SHIPPED, self.folder
        ran = [(str(self.folder / words[0]), *words[1:]) for words in (*commands, *self.SERVICES)]
        (self.folder / "test_one.json").write_text(json.dumps({"passed": 1, "failed": 0, "skipped": 0, "ran": ran}))
        try:
            with redirect_stdout(io.StringIO()):
                code = run_tests.check_commands(self.folder)
        finally:
            run_tests.SHIPPED = kept
        return code, json.loads((self.folder / "commands.json").read_text())["failures"]

    def test_a_command_counts_by_its_words_also_behind_a_launcher(self):
        mimeo = str(self.program)
        self.assertEqual(self.noted(mimeo, "backup", "create", "--to", "x"), {("mimeo", "backup", "create")})
        self.assertEqual(self.noted("ip", "netns", "exec", "a", mimeo, "dql"), {("mimeo", "dql")})
        self.assertEqual(self.noted("cat", "x"), set())

    def test_a_command_that_is_asked_for_its_help_or_version_was_not_run(self):
        for words in (("backup", "create", "--help"), ("dql", "-h"), ("--version",)):
            self.assertEqual(self.noted(str(self.program), *words), set(), words)

    def test_a_command_that_no_test_runs_is_a_failure(self):
        self.assertEqual(self.checked(*self.USED), (0, []))
        for command in self.USED:
            others = [each for each in self.USED if each != command]
            words = " ".join(command)
            with self.subTest(words):
                self.assertEqual(self.checked(*others), (1, [f"no system test runs `{words}`"]))

    def test_the_group_of_an_admin_command_alone_is_not_the_command(self):
        self.assertEqual(self.checked(*self.USED[:-1], ("mimeo", "admin", "server"))[1],
                         ["no system test runs `mimeo admin server settings`"])
