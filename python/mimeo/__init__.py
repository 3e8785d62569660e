"""A Mimeo peer in Python: a local database that is read and written with DQL, observed, and synced.

>>> import mimeo
>>> with mimeo.open(directory) as db:
...     _ = db.execute("INSERT INTO cars DOCUMENTS (:car)", car={"_id": "a", "color": "blue"})
...     for row in db.execute("SELECT * FROM cars"):
...         print(row)
{'_id': 'a', 'color': 'blue'}

`mimeo.open` opens a database for threads, `mimeo.aio.open` the same for asyncio.
"""

from . import aio
from ._database import Attachment, Database, Fetch, Observer, Subscription, Transaction, open
from ._errors import (
    ArgumentError,
    AuthenticationError,
    ClosedError,
    Error,
    ForkedError,
    LockedError,
    StatementError,
    UnavailableError,
)
from ._library import abi_version, version
from ._log import forward_logs, set_log_level
from ._rows import Result

__version__ = version()

__all__ = [
    "ArgumentError", "Attachment", "AuthenticationError", "ClosedError", "Database", "Error", "Fetch", "ForkedError",
    "LockedError", "Observer", "Result", "StatementError", "Subscription", "Transaction", "UnavailableError",
    "abi_version", "aio", "forward_logs", "open", "set_log_level", "version",
]
