"""A headless small peer: `mimeo peer` driven over its pipes."""

import json
import os
import threading

from .processes import binary

ANSWER_SECONDS = 120
"""Timeout of one statement. Generous: it only has to end a test that hangs."""


class StatementError(RuntimeError):
    """The peer answered with an error object."""

    def __init__(self, line, error):
        super().__init__(f"{line[:200]}: {error}")
        self.error = error


PLAIN_USER = ["setpriv", "--bounding-set=-net_admin,-net_raw", "--inh-caps=-net_admin,-net_raw"] if os.geteuid() == 0 else []
"""Takes from a process what only root may do with sockets: applications do not run as root."""

DATABASE = "00000000-0000-4000-8000-00000000cafe"
"""The database of peers without a server."""


def peer_command(store, server, subscribe=(), offline=False, links=(), executable=None):
    """The command line that starts a peer; without a server `links` says with whom it syncs."""
    arguments = [executable or binary("mimeo"), "peer", "--store", store, *links]
    if server is None:
        arguments += ["--database", DATABASE]
    else:
        arguments += ["--url", server.origin, "--database", server.database]
        arguments += ["--provider", "development", "--token", server.token]
    for select in subscribe:
        arguments += ["--subscribe", select]
    return arguments + (["--offline"] if offline else [])


class PeerGone(RuntimeError):
    """The peer's process ended (or was killed) before it answered."""


class Peer:
    """A store directory and the process that has it open. Runs one statement at a time, from any thread."""

    executable = None
    """The `mimeo` to run; None for the one that was built."""

    def __init__(self, workspace, name, server, subscribe=(), offline=False, environment=None, links=(), within=()):
        self._workspace = workspace
        self._server = server
        self._subscribe = list(subscribe)
        self._environment = environment
        self._within = list(within)
        self.links = list(links)
        self.name = name
        self.store = workspace.directory / f"peer-{name}"
        self.process = None
        self._asking = threading.Lock()
        self.start(offline)

    def start(self, offline=False):
        """Opens the store; also after `kill` or `stop`."""
        arguments = self._within + PLAIN_USER + peer_command(
            self.store, self._server, self._subscribe, offline, self.links, self.executable)
        with self._asking:  # callers that wait for the former process first learn that it is gone
            self._next_line = 0
            self.events = []
            self.process = self._workspace.start(f"peer-{self.name}", arguments, self._environment)
        return self

    def kill(self):
        self.process.kill()

    def stop(self):
        """Ends the peer by the end of its input, as its user would; returns the exit code."""
        self.process.close_input()
        return self.process.wait(60)

    def ask(self, line, seconds=ANSWER_SECONDS):
        """Sends a line and returns the JSON object that answers it. Events before the answer go to `events`."""
        with self._asking:
            try:
                self.process.write(line)
            except (BrokenPipeError, ValueError):
                raise PeerGone(f"{self.name} is gone\n{self.process.log_tail()}") from None
            while True:
                answer = self._next(seconds, line)
                if "event" not in answer:
                    return answer
                self.events.append(answer)

    def _next(self, seconds, what):
        text = self.process.line(self._next_line, seconds)
        if text is None:
            if not self.process.is_at_end:
                raise TimeoutError(f"{self.name} did not answer within {seconds:g} s: {what[:200]}")
            raise PeerGone(f"{self.name} ended before it answered: {what[:200]}\n{self.process.log_tail()}")
        self._next_line += 1
        return json.loads(text)

    def await_event(self, matches, seconds):
        """The first event, old or new, with `matches(event)`. Must not be called while another thread asks."""
        for event in self.events:
            if matches(event):
                return event
        while True:
            event = self._next(seconds, "an event")
            self.events.append(event)
            if matches(event):
                return event

    def execute(self, line, seconds=ANSWER_SECONDS):
        """The answer to a statement or dot command that must succeed."""
        answer = self.ask(line, seconds)
        if answer.get("error"):
            raise StatementError(line, answer["error"])
        return answer

    def query(self, statement):
        return self.execute(statement)["items"]

    def count(self, collection, where=None):
        condition = f" WHERE {where}" if where else ""
        return self.query(f"SELECT COUNT(*) AS n FROM {collection}{condition}")[0]["n"]

    def wait_for_commit(self, commit, seconds=60):
        """Returns once the server has acknowledged everything up to this commit."""
        self.execute(f".wait {commit} {seconds}", seconds + 10)

    def start_sync(self):
        self.execute(".sync start")

    def stop_sync(self):
        self.execute(".sync stop")
