"""The face for asyncio."""

import asyncio
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

    def test_an_attachment_comes_back(self):
        async def body(db):
            attachment = await db.attach(b"bytes")
            await db.execute("INSERT INTO files DOCUMENTS (:d)", d={"_id": 1, "file": attachment.token})
            token = (await db.execute("SELECT file FROM files")).scalar()
            return (await db.fetch(token)).read()

        self.assertEqual(self.run_async(body), b"bytes")
