"""A database for threads. Every method may be called on any thread."""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from . import _events, _library, _values
from ._errors import ArgumentError, ClosedError, Error
from ._library import EITHER, READ_ONLY, CResult, answer, call, made_handle, released
from ._rows import Result, Row

Login = Callable[["Database"], None]
Self = TypeVar("Self", bound="Handle")
# The longest wait within the library, in seconds: between two of them the interpreter handles signals.
_LONGEST_WAIT = 0.5
# The code for JSON that the library cannot read, as one with an integer of more than 64 bits.
_NO_JSON = "CRDT-0201"
# The largest number of a commit.
_GREATEST = 2**64 - 1


def _together(arguments: Mapping[str, Any] | None, named: dict[str, Any]) -> Mapping[str, Any]:
    if arguments is None:
        return named
    if not isinstance(arguments, Mapping):
        raise ArgumentError("NATIVE-0105", "the arguments are no dict: name them as the statement does")
    return {**arguments, **named} if named else arguments


def _check_callable(handler: Any, name: str) -> None:
    # A handler that cannot be called would be found out on another thread, at each event.
    if not callable(handler):
        raise ArgumentError("NATIVE-0104", f"the {name} is no function but a value of type {type(handler).__name__}")


def _value(result: CResult) -> Any:
    return _values.decoded(result.data, result.size, result.format)


def _written_or_read(result: CResult) -> Result:
    if result.is_write:
        return Result([], _value(result), result.commit)
    return Result(_rows(_value(result)), [], None)


def run(where: int, statement: str, arguments: Mapping[str, Any]) -> Result:
    """Executes a statement in a database or transaction."""
    text, given = _values.text(statement), _values.encoded(arguments)
    try:
        return answer(_written_or_read, "execute", where, text, len(text), given, len(given), EITHER)
    except ArgumentError as problem:
        if problem.code == _NO_JSON:
            _values.as_cbor(arguments)  # says which value it is
        raise


def _rows(values: list[Any]) -> list[Row]:
    # A bare value, of SELECT RAW, is no row of fields.
    return [row if isinstance(row, dict) else {"$1": row} for row in values]


class Handle:
    """Something that is ended once: by `close`, or with its `with` block."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return not self._handle

    def close(self) -> None:
        """Ends it. Nothing if that happened before."""
        # In this order: an end that is interrupted can be repeated.
        if self._handle:
            released(self._handle)
            self._handle = 0

    def _open(self) -> int:
        if not self._handle:
            raise ClosedError("NATIVE-0101", f"this {type(self).__name__.lower()} was closed")
        return self._handle

    def __enter__(self: Self) -> Self:
        self._open()
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        self.close()


class Owned(Handle):
    """A handle that also ends when nobody has it any more."""

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


class Cursor(Owned):
    """The rows of a SELECT, fetched in parts."""

    def __init__(self, where: int, statement: str, arguments: Mapping[str, Any], rows_at_a_time: int) -> None:
        if rows_at_a_time < 1:
            raise ArgumentError("NATIVE-0104", "rows_at_a_time is less than 1")
        self._size = rows_at_a_time
        text, given = _values.text(statement), _values.encoded(arguments)
        self._handle = made_handle("query", where, text, len(text), given, len(given))

    def part(self) -> list[Row]:
        """The next rows; none at the end."""
        return _rows(answer(_value, "next_rows", self._open(), self._size, EITHER))


class Subscription(Handle):
    """A request for documents from others, until it is closed."""


class Watched(Handle):
    """Something that a handler is called for."""

    def __init__(
        self, database: Database, register: Callable[[], int], handler: _events.Handler,
        interrupted: Callable[[], None] | None = None,
    ) -> None:
        self._pump = database._pump
        super().__init__(self._pump.start(register, handler, interrupted))

    def close(self) -> None:
        if self._handle and not _library.is_forked():
            self._pump.stop(self._handle)
        super().close()


class Observer(Watched):
    """A SELECT whose results come again after each change, until it is closed."""


class Attachment(Owned):
    """The bytes of a file on this device. As an argument of a statement use its `token`."""

    def __init__(self, handle: int, token: dict[str, Any]) -> None:
        super().__init__(handle)
        self.token = token

    def read(self) -> bytes:
        """All its bytes."""
        return answer(lambda result: ctypes.string_at(result.data, result.size), "attachment_bytes", self._open())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Copies it to a file that does not exist yet."""
        name = os.fsencode(path)
        call("attachment_copy", self._open(), name, len(name))


class Fetch(Watched):
    """The fetch of an attachment from others."""

    def __init__(self, database: Database, token: Mapping[str, Any], on_progress: Callable[[int, int], None] | None) -> None:
        if not isinstance(token, Mapping):
            raise ArgumentError("SDK-0704", "the token of an attachment is the dict that a document holds")
        if on_progress is not None:
            _check_callable(on_progress, "handler of the progress")
        self._answer: concurrent.futures.Future[Attachment | None] = concurrent.futures.Future()
        self._on_progress = on_progress
        self._token = dict(token)
        given = _values.encoded(self._token)

        def register() -> int:
            return made_handle("fetch", database._open(), given, len(given), EITHER, None, None)

        super().__init__(database, register, self._heard, self._interrupted)

    def _heard(self, event: _events.Event) -> None:
        event.done()
        if event.kind == _library.FETCH_PROGRESS:
            if self._on_progress is not None:
                self._on_progress(event.value["downloaded"], event.value["total"])
            return
        attachment = Attachment(event.attachment, self._token) if event.attachment else None
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self._answer.set_result(attachment)

    def _interrupted(self) -> None:
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            self._answer.set_exception(
                ClosedError("NATIVE-0108", "the fetch was closed before the attachment came"))

    def wait(self, seconds: float | None = None) -> Attachment | None:
        """The attachment once it is here; None if it will not come. Raises TimeoutError after `seconds`, ClosedError if
        the fetch or its database is closed before."""
        try:
            attachment = self._answer.result(seconds)
        except concurrent.futures.TimeoutError:
            raise TimeoutError(f"the attachment did not come within {seconds} s") from None
        self.close()
        return attachment

    def close(self) -> None:
        super().close()
        self._interrupted()


class Transaction(Owned):
    """Statements that take effect as a whole or not at all. It belongs to the thread that began it, and is rolled back
    if nobody has it any more.

    >>> with db.transaction() as transaction:
    ...     _ = transaction.execute("UPDATE numbers SET n = 10 WHERE _id = 'one'")
    ...     transaction.execute("SELECT n FROM numbers WHERE _id = 'one'").scalar()
    10
    """

    def __init__(self, database: Database, flags: int) -> None:
        self._begun = database._begun
        # At once: an interrupt must find it in the object, whose end rolls it back.
        self._handle = made_handle("begin", database._open(), flags)
        self._begun.add(self._handle)
        self.commit_number: int | None = None

    def execute(self, statement: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Result:
        """Executes one statement in the transaction. One that raises has written nothing."""
        return run(self._open(), statement, _together(arguments, named))

    def commit(self) -> int:
        """Makes all its writes durable; returns the number of the commit, 0 if it wrote nothing."""
        number = ctypes.c_uint64()
        try:
            call("end", self._open(), 1, ctypes.addressof(number))
        finally:
            self.close()
        self.commit_number = number.value
        return self.commit_number

    def rollback(self) -> None:
        """Discards its writes. Nothing if it has ended."""
        self.close()

    def close(self) -> None:
        self._begun.discard(self._handle)
        super().close()

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        if kind is None and self._handle:
            self.commit()
        else:
            self.rollback()


class Database(Owned):
    """An open database; made by `mimeo.open`."""

    def __init__(self, handle: int, login: Login | None) -> None:
        super().__init__(handle)
        self._pump = _events.Pump(handle)
        # The handles of transactions that have not ended.
        self._begun: set[int] = set()
        # A signal handler may close what its own thread is closing.
        self._closing = threading.RLock()
        self._login: Watched | None = None
        _library.close_at_exit(self)
        if login is not None:
            self.on_login(login)

    # Statements

    def execute(self, statement: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Result:
        """Executes one statement of DQL. A write is on the disk when this returns.

        >>> db.execute("SELECT n FROM numbers WHERE n > :least ORDER BY n", least=1)
        Result([{'n': 2}, {'n': 3}])
        >>> db.execute("SELEC")
        Traceback (most recent call last):
        mimeo._errors.StatementError: DQL-0105: ...
        """
        return run(self._open(), statement, _together(arguments, named))

    def stream(
        self, statement: str, arguments: Mapping[str, Any] | None = None, /, *, rows_at_a_time: int = 500, **named: Any
    ) -> Iterator[Row]:
        """The rows of a SELECT one after the other, of one state of the database, without a list of all of them.

        >>> sum(row["n"] for row in db.stream("SELECT n FROM numbers"))
        6
        """
        cursor = self._cursor(statement, _together(arguments, named), rows_at_a_time)

        def rows() -> Iterator[Row]:
            with cursor:
                while part := cursor.part():
                    yield from part

        return rows()

    def _cursor(self, statement: str, arguments: Mapping[str, Any], rows_at_a_time: int) -> Cursor:
        """As `stream`, for callers that take the parts themselves."""
        return Cursor(self._open(), statement, arguments, rows_at_a_time)

    def transaction(self, *, read_only: bool = False) -> Transaction:
        """Begins a transaction, which its `with` block commits, or rolls back if it raises."""
        return Transaction(self, READ_ONLY if read_only else 0)

    # Events

    def observe(
        self, statement: str, handler: Callable[[Result], object], arguments: Mapping[str, Any] | None = None, /,
        **named: Any,
    ) -> Observer:
        """Calls a handler with the result of a SELECT, now and after each change, on a thread of the database.

        >>> import queue
        >>> results = queue.Queue()
        >>> with db.observe("SELECT n FROM numbers WHERE _id = 'two'", results.put):
        ...     first = results.get(timeout=60)
        ...     _ = db.execute("UPDATE numbers SET n = 20 WHERE _id = 'two'")
        ...     first, results.get(timeout=60)
        (Result([{'n': 2}]), Result([{'n': 20}]))
        """
        _check_callable(handler, "handler")

        def heard(event: _events.Event) -> None:
            try:
                handler(rows_of(event))
            finally:
                event.done()

        return self._watch_rows(statement, _together(arguments, named), heard)

    def _watch_rows(self, statement: str, arguments: Mapping[str, Any], handler: _events.Handler) -> Observer:
        """As `observe`, for handlers that say themselves when they are done."""
        text, given = _values.text(statement), _values.encoded(arguments)

        def register() -> int:
            return made_handle("observe", self._open(), text, len(text), given, len(given), EITHER, None, None)

        return Observer(self, register, handler)

    def _watch(self, kind: int, handler: _events.Handler) -> Watched:
        """Watches for events of one kind, for handlers that say themselves when they are done."""
        def register() -> int:
            return made_handle("watch", self._open(), kind, EITHER, None, None)

        return Watched(self, register, handler)

    def observe_presence(self, handler: Callable[[dict[str, Any]], object]) -> Watched:
        """Calls a handler with the peers around, now and after each change."""
        _check_callable(handler, "handler")

        def heard(event: _events.Event) -> None:
            try:
                handler(event.value)
            finally:
                event.done()

        return self._watch(_library.PRESENCE, heard)

    def on_login(self, login: Login) -> None:
        """Sets the function that logs in whenever a session is needed or ends soon: it calls `login`."""
        _check_callable(login, "login")

        def heard(event: _events.Event) -> None:
            try:
                login(self)
            except Error:
                pass  # the library logs it, and asks again after a pause
            finally:
                event.done()

        if self._login is not None:
            self._login.close()
        self._login = self._watch(_library.LOGIN, heard)

    # Sync

    def start_sync(self) -> None:
        """Starts sync, which reconnects by itself."""
        call("sync_start", self._open())

    def stop_sync(self) -> None:
        """Stops sync, and waits until the connection has ended."""
        call("sync_stop", self._open())

    def subscribe(self, statement: str, arguments: Mapping[str, Any] | None = None, /, **named: Any) -> Subscription:
        """Requests the documents of `SELECT * FROM c [WHERE ...]` from others."""
        text, given = _values.text(statement), _values.encoded(_together(arguments, named))
        return Subscription(made_handle("subscribe", self._open(), text, len(text), given, len(given)))

    def login(self, token: str, provider: str = "development") -> Any:
        """Logs in at the server. Returns the provider's information for the application."""
        who, what = _values.text(provider), _values.text(token)
        return answer(_value, "login", self._open(), who, len(who), what, len(what), EITHER)

    def logout(self) -> None:
        """Ends the session and stops sync. Documents stay."""
        call("logout", self._open())

    def _state(self, topic: int) -> Any:
        return answer(_value, "state", self._open(), topic, EITHER)

    @property
    def sync_state(self) -> dict[str, Any]:
        """Status, last error, login, last and last acknowledged commit, links.

        >>> db.sync_state["status"]
        'stopped'
        """
        state: dict[str, Any] = self._state(_library.SYNC)
        return state

    @property
    def presence(self) -> dict[str, Any]:
        """This peer and the peers around."""
        graph: dict[str, Any] = self._state(_library.PRESENCE)
        return graph

    def refused_commits(self, start: int = 0, limit: int = 1_000) -> list[dict[str, Any]]:
        """The local commits that the server refused, from a number on: `commit`, `code`, `message`."""
        first, most = (min(max(0, number), _GREATEST) for number in (start, limit))
        refused: list[dict[str, Any]] = answer(_value, "refused", self._open(), first, most, EITHER)
        return refused

    def wait_acknowledged(self, commit: int, seconds: float) -> bool:
        """Whether the server has everything up to a commit; waits for it. False also if it refused that commit."""
        if not isinstance(commit, int) or not 0 <= commit <= _GREATEST:
            raise ArgumentError("NATIVE-0104", f"{commit!r} is no number of a commit")
        self._open()
        deadline = time.monotonic() + max(0, seconds)
        with contextlib.suppress(ClosedError):
            while True:
                left = min(max(0, deadline - time.monotonic()), _LONGEST_WAIT)
                if call("wait_acknowledged", self._open(), commit, int(left * 1_000)) == _library.OK:
                    return True
                if left < _LONGEST_WAIT or any(each["commit"] == commit for each in self.refused_commits(commit, 1)):
                    break
        return False

    def configure(
        self, *, device_name: str | None = None, metadata: Mapping[str, Any] | None = None,
        transports: Mapping[str, Any] | None = None,
    ) -> None:
        """Changes the name and metadata for other peers, and the transports: what is named is merged into the present
        settings.

        >>> db.configure(transports={"listen": {"tcp": {"isEnabled": True, "interfaceIP": "127.0.0.1", "port": 0}}})
        """
        given = {"device_name": device_name, "metadata": metadata, "transports": transports}
        settings = _values.encoded({name: value for name, value in given.items() if value is not None})
        call("configure", self._open(), settings, len(settings))

    # Attachments

    def attach(self, content: bytes | str | os.PathLike[str], metadata: Mapping[str, str] | None = None) -> Attachment:
        """Makes an attachment of bytes, or of the file of a path, which is copied.

        >>> with db.attach(b"an image", {"name": "a.png"}) as image:
        ...     _ = db.execute("INSERT INTO photos DOCUMENTS (:p)", p={"_id": "p", "image": image.token})
        ...     image.read()
        b'an image'
        """
        given = _values.encoded(metadata or {})
        if isinstance(content, (bytes, bytearray, memoryview)):
            run, name = bytes(content), "attach_bytes"
        else:
            run, name = os.fsencode(content), "attach_file"

        def made(result: CResult) -> Attachment:
            attachment = Attachment(result.handle, _value(result))
            result.handle = 0
            return attachment

        return answer(made, name, self._open(), run, len(run), given, len(given), EITHER)

    def fetch(self, token: Mapping[str, Any], on_progress: Callable[[int, int], None] | None = None) -> Fetch:
        """Fetches the attachment whose token a document holds; `wait` of the returned fetch has it."""
        return Fetch(self, token, on_progress)

    # The end

    def close(self) -> None:
        """Ends transactions, observers and subscriptions, and waits until the directory is free."""
        if _library.is_forked():
            return
        with self._closing:
            handle, self._handle = self._handle, 0
        if not handle:
            return
        try:
            # Before the wait for the handler that runs: it may wait for one of them.
            for transaction in list(self._begun):
                released(transaction)
            self._pump.close()
        finally:
            with contextlib.suppress(ClosedError):
                call("close", handle)


def rows_of(event: _events.Event) -> Result:
    """The rows of an observer's event."""
    return Result(_rows(event.value), [], None)


def opened(
    path: str | os.PathLike[str], database: str, server: str | None, key: str | None, nearby: bool
) -> int:
    """The handle of an opened database."""
    connect = {"type": "server", "url": server} if server else {"type": "small_peers_only"}
    if key is not None:
        connect["private_key"] = key
    if not os.fspath(path):
        raise ArgumentError("NATIVE-0110", "the path is empty: '.' is the working directory")
    name = os.path.abspath(os.fspath(path))
    try:
        config = json.dumps({"database_id": database, "persistence_directory": name, "connect": connect}).encode()
    except (TypeError, ValueError) as problem:
        raise ArgumentError("NATIVE-0105", f"the configuration cannot be used: {problem}") from None
    return made_handle("open", config, len(config), 0 if nearby else _library.ALONE)


DEFAULT_DATABASE = "00000000-0000-4000-8000-000000000000"


def open(
    path: str | os.PathLike[str], *, database: str = DEFAULT_DATABASE, server: str | None = None,
    login: Login | tuple[str, str] | None = None, key: str | None = None, nearby: bool = False,
) -> Database:
    """Opens the database in a directory; creates it if it does not exist.

    `database` is its id, the same for all that sync with each other. `server` is the URL of a server, and `login` logs
    in there: a function that calls `db.login`, or a pair of provider and token. Without a server `key` is the key that
    all peers share. `nearby` links with peers on the same network once sync is started.

    >>> with mimeo.open(directory) as db:
    ...     db.execute("SELECT * FROM cars").first()
    {'_id': 'a', 'color': 'blue'}
    """
    if isinstance(login, tuple):
        if len(login) != 2 or not all(isinstance(each, str) for each in login):
            raise ArgumentError("NATIVE-0104", "the login is no function, and no pair of a provider and a token")
        provider, token = login

        def call_login(db: Database) -> None:
            db.login(token, provider)

        return Database(opened(path, database, server, key, nearby), call_login)
    if login is not None:
        _check_callable(login, "login")
    return Database(opened(path, database, server, key, nearby), login)
