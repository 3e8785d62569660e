"""A client of Mimeo's HTTP API, of the standard library only: copy it into your program."""

import json
import urllib.error
import urllib.request


class Mimeo:
    def __init__(self, url, database=None, token=None, provider="development", api_key=None):
        self.url, self.bearer = url.rstrip("/"), api_key
        if api_key is None:                                         # a login, for a day
            login = {"databaseID": database, "provider": provider, "token": token}
            self.bearer = json.load(self._post("/_ditto/auth/login", login))["accessToken"]

    def execute(self, statement, as_of=None, **args):
        """The rows of a statement, of a SELECT also as of an offset or time in the past. The arguments fill its
        parameters: execute("… WHERE n > :n", n=5)"""
        body = {"statement": statement, "args": args} | ({"asOf": as_of} if as_of is not None else {})
        return json.load(self._post("/api/v5/store/execute", body))["items"]

    def follow(self, select, **args):
        """Yields the event "result" with the rows of a SELECT, then the event "change" after each change of them."""
        for line in self._post("/api/v5/store/observe", {"statement": select, "args": args}, "application/x-ndjson"):
            if line.strip():                                        # an empty line says that the stream is alive
                yield json.loads(line)

    def _post(self, path, body, accept="application/json"):
        headers = {"Content-Type": "application/json", "Accept": accept}
        if self.bearer:
            headers["Authorization"] = f"Bearer {self.bearer}"
        try:
            return urllib.request.urlopen(urllib.request.Request(self.url + path, json.dumps(body).encode(), headers))
        except urllib.error.HTTPError as problem:
            error = json.load(problem)["error"]
            raise RuntimeError(f"{error['code']}: {error['message']}") from None
