"""A database for threads: statements, transactions, observers, ends."""

import concurrent.futures
import contextlib
import io
import logging
import pathlib
import pickle
import queue
import threading

import mimeo

from .support import SECONDS, DatabaseTest

CALLS = pathlib.Path(__file__).resolve().parents[2] / "Tests" / "Native" / "calls.txt"


class Statements(DatabaseTest):
    def test_rows_ids_and_commits(self):
        db = self.open()
        written = db.execute("INSERT INTO c DOCUMENTS (:all)", {"all": [{"_id": i, "n": i * i} for i in range(5)]})
        self.assertEqual((written.mutated_ids, written.commit, len(written)), ([0, 1, 2, 3, 4], 1, 0))
        rows = db.execute("SELECT * FROM c WHERE n > :n ORDER BY n", n=3)
        self.assertEqual([row["n"] for row in rows], [4, 9, 16])
        self.assertEqual((rows[0], rows[-1]["n"], len(rows[1:]), rows.commit), ({"_id": 2, "n": 4}, 16, 2, None))
        self.assertEqual(db.execute("SELECT RAW n FROM c WHERE _id = 2"), [{"$1": 4}])
        self.assertIsNone(db.execute("SELECT * FROM nothing").first())
        self.assert_code("PYTHON-0103", rows.one)

    def test_a_stream_reads_one_state_in_parts(self):
        db = self.open()
        db.execute("INSERT INTO c DOCUMENTS (:all)", all=[{"_id": i} for i in range(25)])
        rows = db.stream("SELECT * FROM c ORDER BY _id", rows_at_a_time=10)
        first = next(rows)
        db.execute("DELETE FROM c")
        self.assertEqual([first["_id"], *(row["_id"] for row in rows)], list(range(25)))
        db.stream("SELECT * FROM c").close()
        for size in (0, -1):
            self.assert_code("NATIVE-0104", db.stream, "SELECT * FROM c", rows_at_a_time=size)

    def test_an_error_has_its_code_and_goes_through_pickle(self):
        db = self.open()
        error = self.assert_code("DQL-0105", db.execute, "SELEC")
        self.assertIsInstance(error, mimeo.StatementError)
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(copy), copy.code, copy.message), (type(error), error.code, error.message))

    def test_a_directory_has_one_owner(self):
        self.open()
        self.assertIsInstance(self.assert_code("STORE-0101", mimeo.open, self.path), mimeo.LockedError)

    def test_an_empty_path_is_not_the_working_directory(self):
        self.assertIsInstance(self.assert_code("NATIVE-0110", mimeo.open, ""), mimeo.ArgumentError)

    def test_a_path_with_the_characters_of_urls_is_that_folder(self):
        self.path = self.directory / "a b%20#c?ü"
        self.open().close()
        self.assertEqual([each.name for each in self.directory.iterdir()], ["a b%20#c?ü"])


class Transactions(DatabaseTest):
    def test_a_block_commits_and_an_exception_rolls_back(self):
        db = self.open()
        with db.transaction() as transaction:
            transaction.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        self.assertEqual(transaction.commit_number, 1)
        with self.assertRaises(KeyError), db.transaction() as transaction:
            transaction.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            raise KeyError
        with db.transaction() as transaction:
            transaction.execute("INSERT INTO c DOCUMENTS ({'_id': 3})")
            transaction.rollback()
        self.assertEqual(db.execute("SELECT _id FROM c"), [{"_id": 1}])
        self.assert_code("NATIVE-0101", transaction.execute, "SELECT * FROM c")

    def test_a_write_beside_the_own_transaction_is_refused_and_another_thread_waits(self):
        db = self.open()
        with db.transaction() as transaction:
            transaction.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            self.assert_code("SDK-0205", db.execute, "INSERT INTO c DOCUMENTS ({'_id': 2})")
            self.assert_code("SDK-0205", db.transaction)
            self.assertEqual(db.execute("SELECT * FROM c"), [])
            with db.transaction(read_only=True) as reading:
                self.assertEqual(reading.execute("SELECT * FROM c"), [])
                self.assert_code("SDK-0209", reading.execute, "DELETE FROM c")
            other = threading.Thread(target=db.execute, args=["INSERT INTO c DOCUMENTS ({'_id': 3})"])
            other.start()
        other.join(SECONDS)
        self.assertEqual(db.execute("SELECT COUNT(*) AS n FROM c").scalar(), 2)

    def test_many_threads_count_exactly(self):
        db = self.open()
        db.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 0})")

        def add(_):
            with db.transaction() as transaction:
                n = transaction.execute("SELECT n FROM c").scalar()
                transaction.execute("UPDATE c SET n = :n WHERE _id = 1", n=n + 1)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(add, range(40)))
        self.assertEqual(db.execute("SELECT n FROM c").scalar(), 40)


    def test_a_transaction_that_nobody_has_any_more_is_rolled_back(self):
        db = self.open()
        transaction = db.transaction()
        transaction.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        del transaction
        db.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
        self.assertEqual(db.execute("SELECT _id FROM c"), [{"_id": 2}])


class Observers(DatabaseTest):
    def test_results_come_on_a_thread_of_the_database(self):
        db = self.open()
        results, threads = queue.Queue(), set()

        def changed(rows):
            threads.add(threading.current_thread().name)
            results.put([row["_id"] for row in rows])

        observer = db.observe("SELECT * FROM c WHERE n > :n ORDER BY _id", changed, n=5)
        self.assertEqual(results.get(timeout=SECONDS), [])
        db.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 9})")
        self.assertEqual(results.get(timeout=SECONDS), [1])
        db.execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'n': 1})")
        db.execute("INSERT INTO c DOCUMENTS ({'_id': 3, 'n': 7})")
        self.assertEqual(results.get(timeout=SECONDS), [1, 3])
        observer.close()
        observer.close()
        db.execute("DELETE FROM c")
        self.assertEqual((threads, observer.closed, results.qsize()), ({"mimeo-events"}, True, 0))

    def test_a_handler_that_raises_is_reported_and_called_again(self):
        db = self.open()
        reports, calls = queue.Queue(), queue.Queue()
        before, threading.excepthook = threading.excepthook, reports.put
        self.addCleanup(setattr, threading, "excepthook", before)

        def changed(rows):
            calls.put(len(rows))
            raise ValueError("of the application")

        db.observe("SELECT * FROM c", changed)
        self.assertEqual(calls.get(timeout=SECONDS), 0)
        db.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        self.assertEqual(calls.get(timeout=SECONDS), 1)
        self.assertIs(reports.get(timeout=SECONDS).exc_type, ValueError)

    def test_a_hook_for_exceptions_that_raises_ends_no_observer(self):
        db = self.open()
        calls = queue.Queue()

        def raising(_):
            raise ValueError("of the application")

        before, threading.excepthook = threading.excepthook, raising
        self.addCleanup(setattr, threading, "excepthook", before)
        with contextlib.redirect_stderr(io.StringIO()):
            db.observe("SELECT * FROM c", lambda rows: (calls.put(len(rows)), raising(rows)))
            self.assertEqual(calls.get(timeout=SECONDS), 0)
            db.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            self.assertEqual(calls.get(timeout=SECONDS), 1)
            db.close()

    def test_a_handler_may_write_close_its_observer_and_close_the_database(self):
        db = self.open()
        done = threading.Event()

        def changed(rows):
            if len(rows) == 0:
                db.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
                return
            observer.close()
            db.close()
            done.set()

        observer = db.observe("SELECT * FROM c", changed)
        self.assertTrue(done.wait(SECONDS))
        self.assertEqual(self.open().execute("SELECT COUNT(*) AS n FROM c").scalar(), 1)

    def test_a_handler_that_is_no_function_is_refused_at_once(self):
        db = self.open()
        self.assert_code("NATIVE-0104", db.observe, "SELECT * FROM c", None)
        self.assert_code("NATIVE-0104", db.observe_presence, {})
        self.assert_code("NATIVE-0104", db.on_login, "token")
        token = {"~attachment": {"id": "A" * 43, "len": 7, "metadata": {}}}
        self.assert_code("NATIVE-0104", db.fetch, token, 5)
        for login in ("token", ("a", "b", "c"), ("a", 5)):
            self.assert_code("NATIVE-0104", mimeo.open, self.directory / "other", server="http://127.0.0.1:1", login=login)
        for token in ("x", None, ["x"]):
            self.assert_code("SDK-0704", db.fetch, token)

    def test_a_slow_handler_gets_the_latest_result_and_not_all(self):
        db = self.open()
        results, goes_on = queue.Queue(), threading.Semaphore(0)

        def changed(rows):
            results.put(len(rows))
            goes_on.acquire(timeout=SECONDS)

        db.observe("SELECT * FROM c", changed)
        self.assertEqual(results.get(timeout=SECONDS), 0)
        for i in range(20):
            db.execute("INSERT INTO c DOCUMENTS (:d)", d={"_id": i})
        goes_on.release(100)
        seen = [results.get(timeout=SECONDS)]
        while seen[-1] != 20:
            seen.append(results.get(timeout=SECONDS))
        self.assertLess(len(seen), 4)

    def test_presence_names_this_peer(self):
        db = self.open()
        db.configure(device_name="bench", metadata={"role": "test"})
        graphs = queue.Queue()
        with db.observe_presence(graphs.put):
            self.assertEqual(graphs.get(timeout=SECONDS)["localPeer"]["deviceName"], "bench")
        self.assertEqual(db.presence["localPeer"]["deviceName"], "bench")
        self.assert_code("NATIVE-0106", db.configure, transports={"carrier": {"pigeon": True}})


class Ends(DatabaseTest):
    def test_everything_is_closed_once_and_says_so_when_it_is_used_later(self):
        db = self.open()
        transaction, observer = db.transaction(), db.observe("SELECT * FROM c", lambda rows: None)
        attachment, rows = db.attach(b"x"), db.stream("SELECT * FROM c")
        db.close()
        db.close()
        for body in [lambda: db.execute("SELECT * FROM c"), lambda: transaction.execute("SELECT * FROM c"),
                     db.transaction, lambda: db.sync_state, db.start_sync, lambda: db.__enter__()]:
            self.assertIsInstance(self.assert_code("NATIVE-0101", body), mimeo.ClosedError)
        for each in (transaction, observer, attachment, rows):
            each.close()
            each.close()
        self.assert_code("NATIVE-0101", attachment.read)

    def test_closing_ends_a_wait_for_an_attachment_and_for_the_server(self):
        db = self.open()
        token = {"~attachment": {"id": "A" * 43, "len": 7, "metadata": {}}}
        with db.fetch(token) as fetch:
            self.assertRaises(TimeoutError, fetch.wait, 0)
        self.assert_code("NATIVE-0108", fetch.wait)
        fetch = db.fetch(token)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            waits = pool.submit(fetch.wait), pool.submit(db.wait_acknowledged, 1, float("inf"))
            db.close()
            self.assertIsInstance(waits[0].exception(SECONDS), mimeo.ClosedError)
            self.assertIs(waits[1].result(SECONDS), False)

    def test_numbers_out_of_range_are_no_other_numbers(self):
        db = self.open()
        db.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        # Nothing was acknowledged: a time that is cut to 32 bits would be none, or no end.
        self.assertIs(db.wait_acknowledged(1, -1.0), False)
        self.assertEqual([db.refused_commits(-1, -1), db.refused_commits(2**64 - 1), db.refused_commits(0, 2**63)], [[], [], []])
        for commit in (None, -1, 2**64, 1.5, "1"):
            self.assert_code("NATIVE-0104", db.wait_acknowledged, commit, 0)
        self.assertEqual(db.refused_commits(2**64), [])
        self.assert_code("NATIVE-0104", db.execute, b"SELECT * FROM c")
        self.assert_code("NATIVE-0104", db.login, 5)

    def test_closing_ends_the_thread(self):
        db = self.open()
        db.observe("SELECT * FROM c", lambda rows: None)
        self.assertIn("mimeo-events", [thread.name for thread in threading.enumerate()])
        db.close()
        self.assertNotIn("mimeo-events", [thread.name for thread in threading.enumerate()])

    def test_threads_that_read_while_another_closes_get_an_answer_or_a_clear_error(self):
        for _ in range(5):
            db = self.open()
            codes = queue.Queue()

            def read(db=db):
                for _ in range(200):
                    try:
                        db.execute("SELECT * FROM c")
                    except mimeo.ClosedError as error:
                        codes.put(error.code)

            threads = [threading.Thread(target=read) for _ in range(4)]
            for thread in threads:
                thread.start()
            db.close()
            for thread in threads:
                thread.join(SECONDS)
                self.assertFalse(thread.is_alive())

    def test_lines_of_the_log_reach_a_logger(self):
        lines = queue.Queue()
        logger = logging.getLogger("mimeo-test")
        handler = logging.Handler()
        handler.emit = lines.put
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        mimeo.set_log_level(logging.INFO)
        self.addCleanup(mimeo.set_log_level, None)
        mimeo.forward_logs(logger)
        db = self.open(database="not-a-uuid")
        self.assertIn("not a UUID", lines.get(timeout=SECONDS).getMessage())
        mimeo.forward_logs(level=None)
        self.assertNotIn("mimeo-events", [thread.name for thread in threading.enumerate()])


class Attachments(DatabaseTest):
    def test_bytes_and_files_come_back(self):
        db = self.open()
        source = self.directory / "source"
        source.write_bytes(b"y" * 100_000)
        for content, expected in [(b"\x00\xffx", b"\x00\xffx"), (source, b"y" * 100_000), (b"", b"")]:
            with db.attach(content, {"name": "a"}) as attachment:
                self.assertEqual(attachment.read(), expected)
                db.execute("INSERT INTO files DOCUMENTS (:d) ON ID CONFLICT DO UPDATE",
                           d={"_id": str(content), "file": attachment.token})
                token = db.execute("SELECT file FROM files WHERE _id = :id", id=str(content)).scalar()
                self.assertEqual((token["len"], token["metadata"]), (len(expected), {"name": "a"}))
                found = db.fetch(token).wait(SECONDS)
                self.assertEqual(found.read(), expected)
                found.save(self.directory / f"copy-{len(expected)}")
                self.assertEqual((self.directory / f"copy-{len(expected)}").read_bytes(), expected)
                self.assert_code("SDK-0705", found.save, self.directory / f"copy-{len(expected)}")
        self.assert_code("SDK-0701", db.attach, self.directory / "missing")
        self.assert_code("SDK-0704", db.fetch, {"id": "x"})


class Conformance(DatabaseTest):
    def test_the_calls_that_swift_c_and_python_share(self):
        self.assertGreater(run_calls(self.open()), 30)


def run_calls(db):
    """Runs the file of calls; returns the number of results that were compared."""
    import json

    from mimeo import _database

    results, observer, transaction, statement, arguments, code, compared = queue.Queue(), None, None, "", {}, "", 0
    for number, line in enumerate(CALLS.read_text(encoding="utf-8").splitlines(), 1):
        verb, rest = line[:1], line[2:]
        where = transaction or db
        if verb == "?":
            arguments = json.loads(rest)
        elif verb == ">":
            statement = rest
        elif verb in ("=", "x"):
            result = where.execute(statement, arguments)
            found = result.mutated_ids if result.commit is not None else [row.get("$1", row) for row in result]
            expected = json.loads(rest) if verb == "=" else mimeo._values.cbor(bytes.fromhex(rest))
            assert json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True), (number, found, expected)
            arguments, compared = {}, compared + 1
        elif verb == "!":
            if statement:
                try:
                    where.execute(statement, arguments)
                    code = "nothing"
                except mimeo.Error as error:
                    code = error.code
            assert code == rest, (number, code, rest)
            arguments, compared = {}, compared + 1
        elif verb == "@":
            if observer is not None:
                observer.close()
            observer, statement = None, ""
            try:
                observer = db.observe(rest, results.put)
            except mimeo.Error as error:
                code = error.code
        elif verb == "~":
            found = results.get(timeout=SECONDS)
            assert list(found) == json.loads(rest), (number, found, rest)
            compared += 1
        elif verb == "(":
            transaction = db.transaction()
        elif verb == ")":
            transaction.rollback() if rest else transaction.commit()
            transaction = None
    assert isinstance(db, _database.Database)
    return compared
