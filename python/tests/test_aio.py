"""The face for asyncio."""

import asyncio
import gc
import inspect
import threading

import mimeo

from .support import SECONDS, DatabaseTest


class Asynchronous(DatabaseTest):
    def run_async(self, body):
        async def main():
            async with mimeo.aio.open(self.path) as db:
                return await asyncio.wait_for(body(db), SECONDS)

        return asyncio.run(main())

    def test_statements_and_transactions(self):
        async def body(db):
            await db.execute("INSERT INTO c DOCUMENTS (:d)", d={"_id": 1, "b": b"x"})
            async with db.transaction() as transaction:
                await transaction.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
                with self.assertRaises(mimeo.Error) as raised:
                    await db.execute("DELETE FROM c")
                self.assertEqual(raised.exception.code, "SDK-0205")
            with self.assertRaises(KeyError):
                async with db.transaction() as transaction:
                    await transaction.execute("INSERT INTO c DOCUMENTS ({'_id': 3})")
                    raise KeyError
            async with db.transaction(read_only=True) as transaction:
                return [row["_id"] for row in await transaction.execute("SELECT * FROM c ORDER BY _id")]

        self.assertEqual(self.run_async(body), [1, 2])

    def test_a_login_may_be_asked_for_before_the_opening_has_ended(self):
        async def main():
            with mimeo.open(self.path) as opened:
                db = mimeo.aio.open(self.path)
                seen = []

                async def login(database):
                    seen.append((database, await database.execute("SELECT * FROM c")))

                await asyncio.wait_for(asyncio.to_thread(mimeo.aio._on_loop(db, login), opened), SECONDS)
                return db, seen

        db, seen = asyncio.run(main())
        self.assertEqual([(database, len(rows)) for database, rows in seen], [(db, 0)])

    def test_a_task_begun_in_a_transaction_writes_once_that_has_ended(self):
        async def body(db):
            goes_on = asyncio.Event()

            async def write(number):
                await goes_on.wait()
                return (await db.execute("INSERT INTO c DOCUMENTS (:d)", d={"_id": number})).mutated_ids

            async with db.transaction() as transaction:
                await transaction.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
                later = asyncio.create_task(write(2))
                # A task that it waits for would wait for its end.
                goes_on.set()
                with self.assertRaises(mimeo.Error) as raised:
                    await asyncio.create_task(write(3))
                self.assertEqual(raised.exception.code, "SDK-0205")
                self.assertIsInstance(await asyncio.gather(later, return_exceptions=True), list)
                goes_on.clear()
                later = asyncio.create_task(write(4))
            goes_on.set()
            return await later

        self.assertEqual(self.run_async(body), [4])

    def test_a_transaction_ends_also_in_another_task_than_it_began_in(self):
        async def body(db):
            transaction = db.transaction()
            await asyncio.create_task(transaction.__aenter__())
            await transaction.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            await transaction.__aexit__(None)
            return (await db.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")).mutated_ids

        self.assertEqual(self.run_async(body), [2])

    def test_a_cancelled_opening_leaves_the_directory_free(self):
        async def main():
            logins = []
            db = mimeo.aio.open(self.path, login=logins.append, server="http://127.0.0.1:1")
            opening = asyncio.create_task(db._open())
            while not db._writers._threads:
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            await db.close()
            db._writers.shutdown()

        asyncio.run(asyncio.wait_for(main(), SECONDS))
        self.open().close()

    def test_a_database_or_transaction_that_is_not_open_yet_says_so(self):
        async def body(db):
            unopened = mimeo.aio.open(self.directory / "other")
            for call in (unopened.execute("SELECT * FROM c"), db.transaction().execute("SELECT * FROM c"),
                         db.transaction().rollback()):
                with self.assertRaises(mimeo.ClosedError) as raised:
                    await call
                self.assertEqual(raised.exception.code, "PYTHON-0104")
            await unopened.close()
            with self.assertRaises(mimeo.ClosedError):
                await unopened
            for statement in (None, b"SELECT * FROM c"):
                with self.assertRaises(mimeo.ArgumentError):
                    await db.execute(statement)

        self.run_async(body)

    def test_all_loops_over_a_closed_observation_end(self):
        async def body(db):
            observation = db.observe("SELECT * FROM c")
            await observation.__anext__()
            waiting = [asyncio.create_task(observation.__anext__()) for _ in range(3)]
            await asyncio.sleep(0)
            observation.close()
            ended = await asyncio.gather(*waiting, return_exceptions=True)
            self.assertEqual([type(each) for each in ended], [StopAsyncIteration] * 3)

        self.run_async(body)

    def test_two_tasks_add_in_turns(self):
        async def body(db):
            await db.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 0})")

            async def add():
                for _ in range(10):
                    async with db.transaction() as transaction:
                        n = (await transaction.execute("SELECT n FROM c")).scalar()
                        await transaction.execute("UPDATE c SET n = :n WHERE _id = 1", n=n + 1)

            await asyncio.gather(*(add() for _ in range(4)))
            return (await db.execute("SELECT n FROM c")).scalar()

        self.assertEqual(self.run_async(body), 40)

    def test_an_observation_is_iterated_until_it_is_closed(self):
        async def body(db):
            seen = []
            observation = db.observe("SELECT * FROM c WHERE n > :n ORDER BY _id", n=0)
            async for rows in observation:
                seen.append([row["_id"] for row in rows])
                if len(seen) == 3:
                    observation.close()
                else:
                    await db.execute("INSERT INTO c DOCUMENTS (:d)", d={"_id": len(seen), "n": 1})
            return seen

        self.assertEqual(self.run_async(body), [[], [1], [1, 2]])

    def test_closing_the_database_ends_a_loop_that_waits(self):
        async def body(db):
            first = asyncio.Event()

            async def follow():
                async for _ in db.observe("SELECT * FROM c"):
                    first.set()

            following = asyncio.create_task(follow())
            await first.wait()
            await db.close()
            await following

        self.run_async(body)
        self.assertNotIn("mimeo-events", [thread.name for thread in threading.enumerate()])

    def test_a_cancelled_task_gives_back_its_transaction(self):
        async def body(db):
            inside = asyncio.Event()

            async def hold():
                async with db.transaction() as transaction:
                    await transaction.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
                    inside.set()
                    await asyncio.sleep(SECONDS)

            holding = asyncio.create_task(hold())
            await inside.wait()
            waiting = asyncio.create_task(hold())
            await asyncio.sleep(0)
            waiting.cancel()
            holding.cancel()
            await asyncio.gather(holding, waiting, return_exceptions=True)
            await db.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            return [row["_id"] for row in await db.execute("SELECT * FROM c")]

        self.assertEqual(self.run_async(body), [2])

    def test_the_faces_for_threads_and_for_asyncio_have_the_same_methods_and_parameters(self):
        # Handlers of the one are the loop's body in the other.
        handlers = {"handler", "self"}

        def parameters(kind, name):
            found = getattr(kind, name)
            return () if isinstance(found, property) else tuple(
                each for each in inspect.signature(found).parameters if each not in handlers)

        for sync, asynchronous in [(mimeo.Database, mimeo.aio.Database), (mimeo.Transaction, mimeo.aio.Transaction)]:
            names = [name for name in dir(sync) if not name.startswith("_")]
            if sync is mimeo.Transaction:  # its block is the only way to use it
                names = ["execute", "rollback"]
            self.assertEqual(
                [(name, parameters(sync, name)) for name in names],
                [(name, parameters(asynchronous, name)) for name in names])
        self.assertEqual(parameters(mimeo, "open"), parameters(mimeo.aio, "open"))

    def test_more_tasks_than_threads_that_wait_for_a_transaction_do_not_hold_it_up(self):
        async def body(db):
            await db.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 0})")
            begun = asyncio.Event()

            async def add(first):
                async with db.transaction() as transaction:
                    if first:
                        begun.set()
                        # Others wait for this one on as many threads as there are.
                        while len(db._writers._threads) < mimeo.aio._THREADS:
                            await asyncio.sleep(0.01)
                    # A read beside it is not the transaction's, and waits for nobody either.
                    n = (await db.execute("SELECT n FROM c")).scalar()
                    await transaction.execute("UPDATE c SET n = :n WHERE _id = 1", n=n + 1)

            async def write(number):
                await begun.wait()
                await db.execute("INSERT INTO other DOCUMENTS (:d)", d={"_id": number})

            await asyncio.gather(*(add(number == 0) for number in range(20)), *(write(number) for number in range(20)))
            return [(await db.execute(text)).scalar() for text in ("SELECT n FROM c", "SELECT COUNT(*) AS n FROM other")]

        self.assertEqual(self.run_async(body), [20, 20])

    def test_rows_are_streamed_from_one_state_in_parts(self):
        async def body(db):
            await db.execute("INSERT INTO c DOCUMENTS (:all)", all=[{"_id": i} for i in range(25)])
            seen = []
            async for row in db.stream("SELECT * FROM c ORDER BY _id", rows_at_a_time=10):
                seen.append(row["_id"])
                await db.execute("DELETE FROM c")
            with self.assertRaises(mimeo.ArgumentError):
                async for _ in db.stream("SELECT * FROM c", rows_at_a_time=0):
                    pass
            return seen

        self.assertEqual(self.run_async(body), list(range(25)))

    def test_leaving_the_loop_ends_an_observation(self):
        async def body(db):
            for _ in range(3):
                async for rows in db.observe("SELECT * FROM c"):
                    break
            async for graph in db.observe_presence():
                break
            gc.collect()
            handlers = db._sync._pump._handlers
            self.assertEqual((len(rows), sorted(graph), len(handlers), len(db._observations)),
                             (0, ["localPeer", "remotePeers"], 0, 0))
            with self.assertRaises(mimeo.StatementError):
                db.observe("SELEC")

        self.run_async(body)

    def test_a_closed_database_says_so_and_its_waiting_fetches_end(self):
        async def body(db):
            token = {"~attachment": {"id": "A" * 43, "len": 7, "metadata": {}}}
            fetching = [asyncio.create_task(db.fetch(token)) for _ in range(20)]
            waiting = [asyncio.create_task(db.wait_acknowledged(1, 10**9)) for _ in range(3)]
            await db.execute("SELECT * FROM c")
            await db.close()
            await db.close()
            ended = await asyncio.gather(*fetching, return_exceptions=True)
            self.assertEqual({type(each) for each in ended}, {mimeo.ClosedError})
            self.assertEqual(await asyncio.gather(*waiting), [False] * 3)
            for body in (db.execute("SELECT * FROM c"), db.execute("DELETE FROM c"), db.attach(b""), db.stop_sync()):
                with self.assertRaises(mimeo.ClosedError):
                    await body

        self.run_async(body)

    def test_a_forked_process_gets_a_clear_error_from_its_loop(self):
        program = """if True:
            import asyncio, os, sys, mimeo
            mimeo.set_log_level(None)
            async def main():
                async with mimeo.aio.open(sys.argv[1]) as db:
                    await db.execute("SELECT * FROM c")
                    child = os.fork()
                    if child == 0:
                        for where in (db.execute("SELECT * FROM c"), mimeo.aio.open(sys.argv[1] + "-child")._open()):
                            try:
                                where.send(None)
                            except mimeo.ForkedError as error:
                                os.write(1, error.code.encode() + b"\\n")
                        os._exit(0)
                    os.waitpid(child, 0)
                    print(len(await db.execute("SELECT * FROM c")))
            asyncio.run(main())
        """
        self.assertEqual(self.run_python(program).stdout, "NATIVE-0103\nNATIVE-0103\n0\n")

    def test_an_attachment_comes_back(self):
        async def body(db):
            attachment = await db.attach(b"bytes")
            await db.execute("INSERT INTO files DOCUMENTS (:d)", d={"_id": 1, "file": attachment.token})
            token = (await db.execute("SELECT file FROM files")).scalar()
            return (await db.fetch(token)).read()

        self.assertEqual(self.run_async(body), b"bytes")
