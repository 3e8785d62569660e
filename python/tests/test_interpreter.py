"""Programs of their own: locks held, ends of the interpreter, forks."""

import time

from .support import DatabaseTest


class Interpreter(DatabaseTest):
    def test_a_lock_held_for_long_delays_events_and_loses_none(self):
        # A C function that keeps the interpreter's lock, as a bad extension does.
        program = """if True:
            import ctypes, sys, mimeo, queue
            mimeo.set_log_level(None)
            db = mimeo.open(sys.argv[1])
            results = queue.Queue()
            db.observe("SELECT * FROM c", results.put)
            assert len(results.get(timeout=60)) == 0
            db.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            ctypes.PyDLL(None).sleep(int(sys.argv[2]))
            assert len(results.get(timeout=60)) == 1
        """
        began = time.monotonic()
        self.run_python(program, "10")
        self.assertGreater(time.monotonic() - began, 10)

    def test_the_interpreter_ends_while_observers_are_called_and_transactions_are_open(self):
        program = """if True:
            import sys, threading, time, mimeo
            mimeo.set_log_level(None)
            db = mimeo.open(sys.argv[1])
            called = threading.Event()
            def changed(rows):
                called.set()
                for i in range(20):
                    time.sleep(0.01)
                db.execute("INSERT INTO c DOCUMENTS ({'n': 1})")
            db.observe("SELECT * FROM c", changed)
            assert called.wait(60)
            transaction = db.transaction(read_only=True)
            print("end")
        """
        done = self.run_python(program)
        self.assertEqual(done.stdout, "end\n")
        self.assertNotIn("Fatal", done.stderr)
        self.open().close()

    def test_the_interpreter_ends_while_a_handler_waits_for_the_open_transaction(self):
        program = """if True:
            import sys, threading, mimeo
            mimeo.set_log_level(None)
            db = mimeo.open(sys.argv[1])
            transaction = db.transaction()
            called = threading.Event()
            def changed(rows):
                called.set()
                print(db.execute("INSERT INTO c DOCUMENTS ({'_id': 1})").mutated_ids, flush=True)
            db.observe("SELECT * FROM c", changed)
            assert called.wait(60)
        """
        self.assertEqual(self.run_python(program).stdout, "[1]\n")

    def test_the_interpreter_ends_while_a_handler_never_returns(self):
        program = """if True:
            import sys, threading, mimeo
            mimeo.set_log_level(None)
            db = mimeo.open(sys.argv[1])
            called = threading.Event()
            def changed(rows):
                called.set()
                threading.Event().wait()
            db.observe("SELECT * FROM c", changed)
            assert called.wait(60)
            print("end")
        """
        self.assertEqual(self.run_python(program).stdout, "end\n")
        self.open().close()

    def test_a_forked_worker_gets_a_clear_error_and_its_parent_goes_on(self):
        program = """if True:
            import multiprocessing, os, sys, mimeo
            mimeo.set_log_level(None)
            db = mimeo.open(sys.argv[1])
            db.observe("SELECT * FROM c", lambda rows: None)
            def work(_):
                try:
                    db.execute("SELECT * FROM c")
                except mimeo.ForkedError as error:
                    return error.code
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(pool.map(work, range(3)))
            child = os.fork()
            if child == 0:
                sys.exit(0)
            print(os.waitpid(child, 0)[1], len(db.execute("SELECT * FROM c")))
        """
        self.assertEqual(self.run_python(program).stdout, "['NATIVE-0103', 'NATIVE-0103', 'NATIVE-0103']\n0 0\n")

    def test_a_forked_worker_closes_what_it_got_although_a_lock_was_held_at_the_fork(self):
        program = """if True:
            import os, sys, threading, mimeo
            mimeo.set_log_level(None)
            db = mimeo.open(sys.argv[1])
            observer = db.observe("SELECT * FROM c", lambda rows: None)
            is_held, goes_on = threading.Event(), threading.Event()
            def hold():
                with db._pump._lock:
                    is_held.set()
                    goes_on.wait()
            holding = threading.Thread(target=hold)
            holding.start()
            is_held.wait()
            child = os.fork()
            if child == 0:
                observer.close()
                db.close()
                os._exit(7)
            print(os.WEXITSTATUS(os.waitpid(child, 0)[1]))
            goes_on.set()
            holding.join()
        """
        self.assertEqual(self.run_python(program).stdout, "7\n")

    def test_a_worker_that_was_forked_before_anything_was_opened_opens_its_own(self):
        program = """if True:
            import multiprocessing, sys, mimeo
            mimeo.set_log_level(None)
            def work(number):
                with mimeo.open(f"{sys.argv[1]}-{number}") as db:
                    db.execute("INSERT INTO c DOCUMENTS (:d)", d={"_id": number})
                    return db.execute("SELECT * FROM c").scalar()
            with multiprocessing.get_context("fork").Pool(2) as pool:
                print(pool.map(work, range(4)))
        """
        self.assertEqual(self.run_python(program).stdout, "[0, 1, 2, 3]\n")

    def test_a_handler_that_ends_its_thread_or_forks_harms_nobody(self):
        program = """if True:
            import os, queue, sys, mimeo
            mimeo.set_log_level(None)
            db = mimeo.open(sys.argv[1])
            results = queue.Queue()
            def changed(rows):
                if len(rows) == 1:
                    child = os.fork()
                    if child == 0:
                        try:
                            db.execute("SELECT * FROM c")
                        except mimeo.ForkedError:
                            os._exit(7)
                    results.put(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                else:
                    results.put(len(rows))
                sys.exit(3)
            db.observe("SELECT * FROM c", changed)
            print(results.get(timeout=60))
            for number in range(2):
                db.execute("INSERT INTO c DOCUMENTS (:d)", d={"_id": number})
                print(results.get(timeout=60))
        """
        self.assertEqual(self.run_python(program).stdout, "0\n7\n2\n")

    def test_no_thread_is_left_when_all_is_closed(self):
        program = """if True:
            import sys, threading, mimeo
            mimeo.set_log_level(None)
            with mimeo.open(sys.argv[1]) as db:
                db.observe("SELECT * FROM c", lambda rows: None)
            print([thread.name for thread in threading.enumerate()])
        """
        self.assertEqual(self.run_python(program).stdout, "['MainThread']\n")
