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
import contextlib
import contextvars
import functools
import inspect
import os
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar, cast

from . import _database, _events, _library
from ._database import DEFAULT_DATABASE, Attachment, Login, Subscription
from ._errors import ClosedError, Error
from ._rows import Result, Row

Value = TypeVar("Value")
AsyncLogin = Callable[["Database"], Coroutine[Any, Any, None]]
_THREADS = 8

# The writing transactions that the task has begun, or the one that began the task: also some that have ended since.
_inside: contextvars.ContextVar[tuple[Transaction, ...]] = contextvars.ContextVar("mimeo_inside", default=())


class Transaction:
    """Statements that take effect as a whole or not at all: `async with db.transaction() as transaction`."""

    def __init__(self, database: Database, flags: int) -> None:
        self._database = database
        self._flags = flags
        self._begun: _database.Transaction | None = None
        self._holds_up = False

    async def __aenter__(self) -> Transaction:
        if not self._flags & _library.READ_ONLY:
            self._database._check_not_inside()
        sync = self._database._sync
        self._begun = await _kept(
            self._database, lambda: _database.Transaction(sync, self._flags | _library.ANY_THREAD))
        if not self._flags & _library.READ_ONLY:
            self._holds_up = True
            _inside.set((*(each for each in _inside.get() if each._holds_up), self))
        return self

    @property
    def _transaction(self) -> _database.Transaction:
        if self._begun is None:
            raise ClosedError("PYTHON-0104", "the transaction has not begun: use it within its `async with` block")
        return self._begun

    async def execute(self, statement: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Result:
        """Executes one statement in the transaction. One that raises has written nothing."""
        return await self._database._run(functools.partial(self._transaction.execute, statement, arguments, **named))

    async def rollback(self) -> None:
        """Discards its writes."""
        await self._database._run(self._transaction.rollback)

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._holds_up = False
        transaction = self._transaction
        ends = kind is None and not transaction.closed
        if not ends and self._database.closed:
            return  # rolled back with it
        end: Callable[[], object] = transaction.commit if ends else transaction.rollback
        # Also when the task is cancelled: an open transaction would hold up all others.
        await asyncio.shield(asyncio.ensure_future(self._database._run(end)))


Opened = TypeVar("Opened", bound=_database.Handle)


async def _kept(database: Database, opening: Callable[[], Opened]) -> Opened:
    """What opens on a thread. If the task is cancelled meanwhile, it is closed once it is there: nobody else would do it."""
    made: list[Opened] = []
    is_cancelled = False

    def close() -> None:
        # By whichever of the two comes last: only one of them gets it.
        with contextlib.suppress(IndexError):
            made.pop().close()

    def body() -> None:
        made.append(opening())
        if is_cancelled:
            close()

    try:
        await database._run_waiting(body)
        return made.pop()
    except asyncio.CancelledError:
        is_cancelled = True
        if made:
            asyncio.get_running_loop().run_in_executor(None, close)
        raise


class Observation(AsyncIterator[Value]):
    """The results of an observed SELECT, or the peers around: `async for`, until it is closed or the loop is left.

    A result that nobody has taken yet is the only one that waits: the next one has all changes until then.
    """

    def __init__(
        self, database: Database, watch: Callable[[_events.Handler], _database.Watched],
        read: Callable[[_events.Event], Value],
    ) -> None:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[_events.Event | None] = asyncio.Queue()

        # Without the observation: once nobody has it any more, it ends.
        def heard(event: _events.Event) -> None:
            try:
                loop.call_soon_threadsafe(waiting.put_nowait, event)
            except RuntimeError:  # the loop was closed
                event.done()

        self._waiting = waiting
        self._read = read
        self._watched: _database.Watched | None = watch(heard)
        database._observations.add(self)

    async def __anext__(self) -> Value:
        event = None if self._watched is None else await self._waiting.get()
        if event is None:
            self.close()
            self._waiting.put_nowait(None)  # for the next loop that waits
            raise StopAsyncIteration
        event.done()
        return self._read(event)

    def close(self) -> None:
        """Ends the observer, and a loop that waits for its next result."""
        watched, self._watched = self._watched, None
        if watched is None:
            return
        watched.close()
        while not self._waiting.empty():
            event = self._waiting.get_nowait()
            if event is not None:
                event.done()
        self._waiting.put_nowait(None)

    async def __aenter__(self) -> Observation[Value]:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


class Database:
    """An open database; made by `mimeo.aio.open`."""

    def __init__(self, opening: Callable[[Database], Awaitable[_database.Database]]) -> None:
        self._opening = opening
        self._opened: _database.Database | None = None
        self._threads = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="mimeo")
        self._writers = concurrent.futures.ThreadPoolExecutor(_THREADS, thread_name_prefix="mimeo-writer")
        self._observations: weakref.WeakSet[Observation[Any]] = weakref.WeakSet()
        self._is_closed = False

    @property
    def _sync(self) -> _database.Database:
        if self._opened is None:
            raise ClosedError("PYTHON-0104", "the database is not open: await it, or use it in `async with`")
        return self._opened

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._is_closed or self._opened is not None and self._opened.closed

    async def _run(self, body: Callable[[], Value]) -> Value:
        """Runs what waits for nobody: reads, and statements of a transaction that has begun."""
        return await self._run_on(self._threads, body)

    async def _run_waiting(self, body: Callable[[], Value]) -> Value:
        """Runs what may wait for a transaction of another task. On threads of its own: that transaction needs some."""
        return await self._run_on(self._writers, body)

    async def _run_on(self, threads: concurrent.futures.Executor | None, body: Callable[[], Value]) -> Value:
        # In a forked process the threads are the parent's: nobody would do the work.
        _library.check_not_forked()
        if self.closed:
            raise ClosedError("NATIVE-0101", "this database was closed")
        return await asyncio.get_running_loop().run_in_executor(threads, body)

    async def _open(self) -> Database:
        if self.closed:
            raise ClosedError("NATIVE-0101", "this database was closed")
        if self._opened is None:
            self._opened = await self._opening(self)
        return self

    def __await__(self) -> Any:
        return self._open().__await__()

    async def __aenter__(self) -> Database:
        return await self._open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_not_inside(self) -> None:
        if any(each._holds_up and each._database is self for each in _inside.get()):
            raise Error(
                "SDK-0205", "this task, or the one that began it, has a transaction of the database open, and would wait"
                " for it forever")

    async def execute(self, statement: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Result:
        """Executes one statement of DQL. A write is on the disk when this returns."""
        body = functools.partial(self._sync.execute, statement, arguments, **named)
        if isinstance(statement, str) and statement.lstrip()[:6].upper() == "SELECT":
            return await self._run(body)
        self._check_not_inside()
        return await self._run_waiting(body)

    def transaction(self, *, read_only: bool = False) -> Transaction:
        """A transaction for `async with`, which commits, or rolls back if the block raises."""
        return Transaction(self, _library.READ_ONLY if read_only else 0)

    async def stream(
        self, statement: str, arguments: Mapping[str, Any] | None = None, /, *, rows_at_a_time: int = 500, **named: Any
    ) -> AsyncIterator[Row]:
        """The rows of a SELECT, of one state of the database: `async for row in db.stream(...)`."""
        given = _database._together(arguments, named)
        with await self._run(lambda: self._sync._cursor(statement, given, rows_at_a_time)) as cursor:
            while part := await self._run(cursor.part):
                for row in part:
                    yield row

    def observe(
        self, statement: str, arguments: Mapping[str, Any] | None = None, /, **named: Any
    ) -> Observation[Result]:
        """The results of a SELECT, now and after each change: `async for rows in db.observe(...)`."""
        given = _database._together(arguments, named)
        return Observation(
            self, lambda heard: self._sync._watch_rows(statement, given, heard), _database.rows_of)

    def observe_presence(self) -> Observation[dict[str, Any]]:
        """The peers around, now and after each change: `async for graph in db.observe_presence()`."""
        return Observation(
            self, lambda heard: self._sync._watch(_library.PRESENCE, heard), lambda event: dict(event.value))

    def on_login(self, login: AsyncLogin | Login) -> None:
        """Sets the function that logs in whenever a session is needed or ends soon: it awaits `login` of the database
        that it gets. A function that is no coroutine runs on another thread, and gets a database for threads."""
        self._sync.on_login(_on_loop(self, login))

    def subscribe(self, statement: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Subscription:
        """Requests the documents of `SELECT * FROM c [WHERE ...]` from others."""
        return self._sync.subscribe(statement, arguments, **named)

    def start_sync(self) -> None:
        """Starts sync, which reconnects by itself."""
        self._sync.start_sync()

    async def stop_sync(self) -> None:
        """Stops sync, and waits until the connection has ended."""
        await self._run_on(None, self._sync.stop_sync)

    async def login(self, token: str, provider: str = "development") -> Any:
        """Logs in at the server. Returns the provider's information for the application."""
        return await self._run_on(None, lambda: self._sync.login(token, provider))

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
        return await self._run_on(None, lambda: self._sync.wait_acknowledged(commit, seconds))

    def configure(
        self, *, device_name: str | None = None, metadata: Mapping[str, Any] | None = None,
        transports: Mapping[str, Any] | None = None,
    ) -> None:
        """As `mimeo.Database.configure`."""
        self._sync.configure(device_name=device_name, metadata=metadata, transports=transports)

    async def attach(
        self, content: bytes | str | os.PathLike[str], metadata: Mapping[str, str] | None = None
    ) -> Attachment:
        """Makes an attachment of bytes, or of the file of a path."""
        return await self._run_waiting(lambda: self._sync.attach(content, metadata))

    async def fetch(
        self, token: Mapping[str, Any], on_progress: Callable[[int, int], None] | None = None
    ) -> Attachment | None:
        """Fetches the attachment whose token a document holds; None if it will not come. `on_progress` is called on
        another thread."""
        with self._sync.fetch(token, on_progress) as fetch:
            return await asyncio.wrap_future(fetch._answer)

    async def close(self) -> None:
        """Ends transactions, observers and subscriptions, and waits until the directory is free."""
        for observation in list(self._observations):
            observation.close()
        if self._opened is not None and not self._opened.closed:
            await self._run_on(None, self._opened.close)
        self._is_closed = True
        for threads in (self._threads, self._writers):
            threads.shutdown(wait=False)


def _on_loop(database: Database, login: AsyncLogin | Login) -> Login:
    """A login for a thread, which runs a coroutine on the loop."""
    if not inspect.iscoroutinefunction(login):
        return cast(Login, login)
    loop = asyncio.get_running_loop()

    async def begin(opened: _database.Database) -> None:
        # A session may be needed before the loop has heard that the database is open.
        if database._opened is None:
            database._opened = opened
        await cast(AsyncLogin, login)(database)

    def run(opened: _database.Database) -> None:
        running = asyncio.run_coroutine_threadsafe(begin(opened), loop)
        # The loop may end without it.
        while not loop.is_closed() and not running.cancelled():
            if concurrent.futures.wait([running], timeout=1).done:
                return None if running.cancelled() else running.result()

    return run


def open(
    path: str | os.PathLike[str], *, database: str = DEFAULT_DATABASE, server: str | None = None,
    login: AsyncLogin | Login | tuple[str, str] | None = None, key: str | None = None, nearby: bool = False,
) -> Database:
    """As `mimeo.open`: `async with mimeo.aio.open(path) as db`, or `db = await mimeo.aio.open(path)`. A `login` that is
    a coroutine runs on the loop, see `Database.on_login`."""
    async def body(opened: Database) -> _database.Database:
        given = login if login is None or isinstance(login, tuple) else _on_loop(opened, login)
        return await _kept(opened, lambda: _database.open(
            path, database=database, server=server, login=given, key=key, nearby=nearby))

    return Database(body)


__all__ = ["Database", "Observation", "Transaction", "open"]
