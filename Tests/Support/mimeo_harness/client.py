"""An HTTP client of a server."""

import http.client
import json
import urllib.parse
import uuid


class Response:
    """Status, headers and the whole body of an answer."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The error object of a refusal; `{}` if the body has none."""
        try:
            found = self.json.get("error")
        except (ValueError, AttributeError):
            return {}
        return found if isinstance(found, dict) else {}


class Client:
    """Sends requests to one origin. `database` and `token` are for logins with the development provider.

    `issuer` is the origin for logins if it is another one: a service reached without nginx has no logins.
    """

    def __init__(self, origin, database=None, token=None, issuer=None):
        self.origin = origin
        self._issuer = issuer
        self.database = database
        self.token = token
        self._access_token = None

    @property
    def address(self):
        """(host, port) of the origin."""
        parts = urllib.parse.urlsplit(self.origin)
        return parts.hostname, parts.port

    def request(self, method, path, body=None, headers=None, seconds=60):
        """Sends one request on a new connection. A dict as body is sent as JSON."""
        headers = dict(headers or {})
        if isinstance(body, dict):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        if isinstance(body, str):
            body = body.encode()
        return self._send(self.address, method, path, body, headers, seconds)

    @staticmethod
    def _send(address, method, path, body, headers, seconds):
        host, port = address
        connection = http.client.HTTPConnection(host, port, timeout=seconds)
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return Response(answer.status, answer.headers, answer.read())
        except http.client.HTTPException as problem:
            raise ConnectionError(f"{method} {path}: {problem!r}") from problem  # cut off in the middle
        finally:
            connection.close()

    # Logging in

    def login(self, database=None, token=None, provider="development"):
        """The answer to a login, success or not."""
        body = {"databaseID": database or self.database, "provider": provider, "token": token or self.token}
        speaker = Client(self._issuer) if self._issuer else self
        return speaker.request("POST", "/_ditto/auth/login", body)

    @property
    def access_token(self):
        if self._access_token is None:
            answer = self.login()
            if answer.status != 200:
                raise RuntimeError(f"login: {answer.status} {answer.body[:500]!r}")
            self._access_token = answer.json["accessToken"]
        return self._access_token

    def forget_login(self):
        """Logs in again at the next request: the token has ended, or the server's clock says so."""
        self._access_token = None

    def authorization(self):
        return {"Authorization": f"Bearer {self.access_token}"}

    # DQL

    def post_statement(self, statement, arguments=None, headers=None, version="v5", seconds=60):
        """The answer to a statement, success or not."""
        body = {"statement": statement}
        if arguments is not None:
            body["args"] = arguments
        all_headers = {**self.authorization(), **(headers or {})}
        return self.request("POST", f"/api/{version}/store/execute", body, all_headers, seconds)

    def execute(self, statement, arguments=None, headers=None):
        """The result object of a statement that must succeed."""
        answer = self.post_statement(statement, arguments, headers)
        if answer.status != 200:
            raise RuntimeError(f"{statement}: {answer.status} {answer.body[:500]!r}")
        return answer.json

    def query(self, statement, arguments=None):
        return self.execute(statement, arguments)["items"]

    def count(self, collection, where=None):
        condition = f" WHERE {where}" if where else ""
        return self.query(f"SELECT COUNT(*) AS n FROM {collection}{condition}")[0]["n"]

    # Attachments

    def upload(self, content, name="file"):
        """Uploads bytes as a form, as the original's API expects."""
        boundary = uuid.uuid4().hex
        head = (f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
                "Content-Type: application/octet-stream\r\n\r\n")
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        headers = {**self.authorization(), "Content-Type": f"multipart/form-data; boundary={boundary}"}
        return self.request("POST", "/api/v5/attachments/upload", body, headers)

    def download(self, attachment, byte_range=None):
        """Downloads an attachment, or `byte_range` (first and last byte) of it."""
        headers = self.authorization()
        if byte_range:
            headers["Range"] = f"bytes={byte_range[0]}-{byte_range[1]}"
        return self.request("GET", f"/api/v5/attachments/{attachment}", headers=headers)
