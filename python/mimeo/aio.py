"""The same database for asyncio: the methods that wait are coroutines, and observers are asynchronous iterators.

>>> import asyncio
>>> async def main():
...     async with mimeo.aio.open(directory) as db:
...         await db.execute("INSERT INTO cars DOCUMENTS (:car)", car={"_id": "b", "color": "red"})
...         async for cars in db.observe("SELECT * FROM cars WHERE color = 'red'"):
...             return list(cars)
>>> asyncio.run(main())
[{'_id': 'b', 'color': 'red'}]

Statements run on threads of the database, so that the loop never waits for the disk.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import os
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar

from . import _database, _events, _library
from ._database import DEFAULT_DATABASE, Attachment, Login, Observer, Subscription
from ._errors import Error
from ._rows import Result

Value = TypeVar("Value")
_THREADS = 8

# The databases in whose writing transactions the task is.
_inside: contextvars.ContextVar[frozenset[int]] = contextvars.ContextVar("mimeo_inside", default=frozenset())


class Transaction:
    """Statements that take effect as a whole or not at all: `async with db.transaction() as transaction`."""

    def __init__(self, database: Database, flags: int) -> None:
        self._database = database
        self._flags = flags
        self._transaction: _database.Transaction | None = None
        self._token: contextvars.Token[frozenset[int]] | None = None

    async def __aenter__(self) -> Transaction:
        if not self._flags & _library.READ_ONLY:
            self._database._check_not_inside()
        sync = self._database._sync
        begin = asyncio.ensure_future(
            self._database._run(lambda: _database.Transaction(sync._open(), self._flags | _library.ANY_THREAD)))
        try:
            self._transaction = await asyncio.shield(begin)
        except asyncio.CancelledError:
            # Nobody would end the transaction that begins later.
            begin.add_done_callback(_roll_back)
            raise
        if not self._flags & _library.READ_ONLY:
            self._token = _inside.set(_inside.get() | {id(self._database)})
        return self

    async def execute(self, statement: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Result:
        """Executes one statement in the transaction. One that raises has written nothing."""
        assert self._transaction is not None, "use it within its `async with` block"
        return await self._database._run(functools.partial(self._transaction.execute, statement, arguments, **named))

    async def rollback(self) -> None:
        """Discards its writes."""
        assert self._transaction is not None, "use it within its `async with` block"
        await self._database._run(self._transaction.rollback)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._token is not None:
            _inside.reset(self._token)
        transaction = self._transaction
        assert transaction is not None
        ends = kind is None and not transaction.closed
        end: Callable[[], object] = transaction.commit if ends else transaction.rollback
        # Also when the task is cancelled: an open transaction would hold up all others.
        await asyncio.shield(asyncio.ensure_future(self._database._run(end)))


def _roll_back(begin: asyncio.Future[_database.Transaction]) -> None:
    if not begin.cancelled() and begin.exception() is None:
        begin.result().rollback()


class Observation(AsyncIterator[Result]):
    """The results of an observed SELECT: `async for`, until it is closed or the loop is left.

    A result that nobody has taken yet is the only one that waits: the next one has all changes until then.
    """

    def __init__(self, database: Database, statement: str, arguments: Mapping[str, Any]) -> None:
        self._loop = asyncio.get_running_loop()
        self._results: asyncio.Queue[_events.Event | None] = asyncio.Queue()
        self._database = database
        self._is_closed = False
        database._observations.add(self)
        self._observer: Observer = database._sync.watch_rows(statement, arguments, self._heard)

    def _heard(self, event: _events.Event) -> None:
        try:
            self._loop.call_soon_threadsafe(self._results.put_nowait, event)
        except RuntimeError:  # the loop was closed
            event.done()

    async def __anext__(self) -> Result:
        event = None if self._is_closed else await self._results.get()
        if event is None:
            self.close()
            raise StopAsyncIteration
        event.done()
        return _database.rows_of(event)

    def close(self) -> None:
        """Ends the observer, and a loop that waits for its next result."""
        if self._is_closed:
            return
        self._is_closed = True
        self._database._observations.discard(self)
        self._observer.close()
        self._results.put_nowait(None)

    async def __aenter__(self) -> Observation:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        observer = getattr(self, "_observer", None)
        if observer is not None:
            observer.close()


class Database:
    """An open database; made by `mimeo.aio.open`."""

    def __init__(self, opening: Callable[[], _database.Database]) -> None:
        self._opening = opening
        self._opened: _database.Database | None = None
        self._threads = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="mimeo")
        self._observations: set[Observation] = set()

    @property
    def _sync(self) -> _database.Database:
        assert self._opened is not None, "await open(...), or use it in `async with`"
        return self._opened

    async def _run(self, body: Callable[[], Value]) -> Value:
        return await asyncio.get_running_loop().run_in_executor(self._threads, body)

    async def _open(self) -> Database:
        if self._opened is None:
            self._opened = await self._run(self._opening)
        return self

    def __await__(self) -> Any:
        return self._open().__await__()

    async def __aenter__(self) -> Database:
        return await self._open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_not_inside(self) -> None:
        if id(self) in _inside.get():
            raise Error("SDK-0205", "this task has a transaction of the database open, and would wait for it forever")

    async def execute(self, statement: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Result:
        """Executes one statement of DQL. A write is on the disk when this returns."""
        if not statement.lstrip()[:6].upper() == "SELECT":
            self._check_not_inside()
        return await self._run(functools.partial(self._sync.execute, statement, arguments, **named))

    def transaction(self, *, read_only: bool = False) -> Transaction:
        """A transaction for `async with`, which commits, or rolls back if the block raises."""
        return Transaction(self, _library.READ_ONLY if read_only else 0)

    def observe(self, statement: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Observation:
        """The results of a SELECT, now and after each change: `async for rows in db.observe(...)`."""
        return Observation(self, statement, _database._together(arguments, named))

    def subscribe(self, statement: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Subscription:
        """Requests the documents of `SELECT * FROM c [WHERE ...]` from others."""
        return self._sync.subscribe(statement, arguments, **named)

    def start_sync(self) -> None:
        """Starts sync, which reconnects by itself."""
        self._sync.start_sync()

    async def stop_sync(self) -> None:
        """Stops sync, and waits until the connection has ended."""
        await self._run(self._sync.stop_sync)

    async def login(self, token: str, provider: str = "development") -> Any:
        """Logs in at the server. Returns the provider's information for the application."""
        return await self._run(lambda: self._sync.login(token, provider))

    def logout(self) -> None:
        """Ends the session and stops sync. Documents stay."""
        self._sync.logout()

    @property
    def sync_state(self) -> dict[str, Any]:
        """As `mimeo.Database.sync_state`."""
        return self._sync.sync_state

    @property
    def presence(self) -> dict[str, Any]:
        """This peer and the peers around."""
        return self._sync.presence

    async def refused_commits(self, start: int = 0, limit: int = 1_000) -> list[dict[str, Any]]:
        """The local commits that the server refused."""
        return await self._run(lambda: self._sync.refused_commits(start, limit))

    async def wait_acknowledged(self, commit: int, seconds: float) -> bool:
        """Whether the server has everything up to a commit; waits for it."""
        return await self._run(lambda: self._sync.wait_acknowledged(commit, seconds))

    def configure(self, **settings: Any) -> None:
        """As `mimeo.Database.configure`."""
        self._sync.configure(**settings)

    async def attach(
        self, content: bytes | str | os.PathLike[str], metadata: Mapping[str, str] | None = None
    ) -> Attachment:
        """Makes an attachment of bytes, or of the file of a path."""
        return await self._run(lambda: self._sync.attach(content, metadata))

    async def fetch(self, token: Mapping[str, Any]) -> Attachment | None:
        """Fetches the attachment whose token a document holds; None if it will not come."""
        loop = asyncio.get_running_loop()
        fetch = self._sync.fetch(token)
        waiting = loop.run_in_executor(self._threads, fetch._ended.wait)
        try:
            await waiting
        finally:
            if not fetch._ended.is_set():
                fetch._ended.set()
                fetch.close()
        return fetch.wait()

    async def close(self) -> None:
        """Ends transactions, observers and subscriptions, and waits until the directory is free."""
        for observation in list(self._observations):
            observation.close()
        if self._opened is not None and not self._opened.closed:
            await self._run(self._opened.close)
        self._threads.shutdown(wait=False)


def open(
    path: str | os.PathLike[str], *, database: str = DEFAULT_DATABASE, server: str | None = None,
    login: Login | tuple[str, str] | None = None, key: str | None = None, nearby: bool = False,
) -> Database:
    """As `mimeo.open`: `async with mimeo.aio.open(path) as db`, or `db = await mimeo.aio.open(path)`."""
    return Database(
        lambda: _database.open(path, database=database, server=server, login=login, key=key, nearby=nearby))


__all__ = ["Database", "Observation", "Transaction", "open"]
