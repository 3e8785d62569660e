"""Signals, and other calls that come in the middle of a call."""

import functools
import signal
import threading
import unittest.mock

import mimeo
from mimeo import _library

from .support import SECONDS, DatabaseTest


def after(name, body):
    """Runs a body as soon as a function of the library has returned, before its answer is read. Once."""
    function, left = _library._functions[name], [body]

    @functools.wraps(function)
    def called(*arguments):
        status = function(*arguments)
        if left:
            left.pop()()
        return status

    return unittest.mock.patch.dict(_library._functions, {name: called})


def interrupt():
    raise KeyboardInterrupt


class Interrupts(DatabaseTest):
    def test_a_call_in_the_middle_of_another_changes_neither_answer(self):
        db = self.open()
        db.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})")
        inner = []

        def read():
            inner.extend(db.execute("SELECT _id FROM c WHERE _id = 2"))
            self.assert_code("NATIVE-0106", db.configure, transports={"carrier": {}})

        with after("execute", read):
            self.assertEqual(db.execute("SELECT _id FROM c WHERE _id = 1"), [{"_id": 1}])
        with after("execute", read):
            self.assert_code("DQL-0105", db.execute, "SELEC")
        self.assertEqual(inner, [{"_id": 2}] * 2)

    def test_an_observer_begun_in_the_middle_of_beginning_another_is_another(self):
        db = self.open()
        begun = []
        with after("observe", lambda: begun.append(db.observe("SELECT * FROM c", lambda rows: None))):
            begun.append(db.observe("SELECT * FROM c", lambda rows: None))
        self.assertNotEqual(begun[0]._handle, begun[1]._handle)

    def test_a_signal_handler_reads(self):
        db = self.open()
        db.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        found = []
        before = signal.signal(signal.SIGUSR1, lambda *_: found.extend(db.execute("SELECT 'signal' AS it FROM c")))
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        with after("execute", lambda: signal.raise_signal(signal.SIGUSR1)):
            self.assertEqual(db.execute("SELECT _id FROM c"), [{"_id": 1}])
        self.assertEqual(found, [{"it": "signal"}])

    def test_an_interrupted_begin_or_commit_leaves_no_transaction(self):
        db = self.open()
        with self.assertRaises(KeyboardInterrupt), after("begin", interrupt):
            db.transaction()
        with self.assertRaises(KeyboardInterrupt), unittest.mock.patch.object(
                mimeo._database, "call", side_effect=KeyboardInterrupt):
            with db.transaction() as transaction:
                transaction.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        self.assertTrue(transaction.closed)
        db.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
        self.assertEqual(db.execute("SELECT _id FROM c"), [{"_id": 2}])

    def test_an_interrupted_read_gives_its_result_back(self):
        db = self.open()
        handles = []

        with unittest.mock.patch.object(mimeo._values, "decoded", side_effect=KeyboardInterrupt), \
                unittest.mock.patch.dict(_library._functions, {"release": lambda handle, _: handles.append(handle)}):
            self.assertRaises(KeyboardInterrupt, db.execute, "SELECT * FROM c")
        self.assertEqual(len(handles), 1)
        _library.released(handles[0])

    def test_a_wait_for_the_server_ends_with_a_signal(self):
        db = self.open()
        before = signal.signal(signal.SIGALRM, lambda *_: interrupt())
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        self.assertRaises(KeyboardInterrupt, db.wait_acknowledged, 1, SECONDS * 60)

    def test_an_interrupted_close_frees_the_directory(self):
        db = self.open()
        called, goes_on = threading.Event(), threading.Event()
        self.addCleanup(goes_on.set)

        def changed(rows):
            called.set()
            goes_on.wait(SECONDS)

        db.observe("SELECT * FROM c", changed)
        self.assertTrue(called.wait(SECONDS))
        with unittest.mock.patch.object(threading.Thread, "join", side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, db.close)
        self.open().close()
