"""The examples of docstrings."""

import doctest
import importlib
import pathlib
import tempfile
import unittest

import mimeo

mimeo.set_log_level(None)
MODULES = ["mimeo", "mimeo._database", "mimeo._log", "mimeo._rows", "mimeo._values", "mimeo.aio"]


class Examples(unittest.TestCase):
    def test_the_examples_of_docstrings_print_what_they_say(self):
        finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        with tempfile.TemporaryDirectory() as folder:
            for number, name in enumerate(MODULES):
                found = [each for each in finder.find(importlib.import_module(name)) if each.examples]
                self.assertTrue(found, name)
                for place, test in enumerate(found):
                    directory = str(pathlib.Path(folder, f"{number}-{place}"))
                    with mimeo.open(directory + "-db") as db, mimeo.open(directory) as other:
                        db.execute("INSERT INTO numbers DOCUMENTS (:all)", all=[
                            {"_id": name, "n": n} for n, name in enumerate(["one", "two", "three"], 1)])
                        if name != "mimeo":
                            other.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a', 'color': 'blue'})")
                        other.close()
                        test.globs.update(db=db, mimeo=mimeo, directory=directory)
                        runner.run(test, clear_globs=True)
        self.assertEqual(runner.failures, 0)
        self.assertGreater(runner.tries, 15)
