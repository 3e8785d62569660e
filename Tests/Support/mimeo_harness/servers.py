"""The server in its two forms: one process, and four processes behind nginx."""

import os
import pathlib
import shutil
import signal
import string

from .client import Client
from .processes import ROOT, binary, free_port
from .until import until

START_SECONDS = 90
"""Timeout from the start of a server until it is healthy."""


class ServerFailed(RuntimeError):
    """A server did not start; the text has the end of its log."""


def announcement(process):
    """The first three lines of a server that owns databases: `url`, `database` and `token-file`, whose content is
    `token` in the result. With `--show-token` the third line is `token`."""
    values = {}
    for index, keys in enumerate((("url",), ("database",), ("token-file", "token"))):
        line = process.line(index, START_SECONDS)
        key, _, value = (line or "").partition(": ")
        if key not in keys:
            raise ServerFailed(f"{process.name}: line {index + 1} is {line!r}, not '{keys[0]}: …'\n{process.log_tail()}")
        values[key] = value.strip()
    if "token" not in values:
        values["token"] = pathlib.Path(values["token-file"]).read_text().strip()
    return values


def await_health(process, client, path="/health"):
    def healthy():
        if not process.is_running:
            raise ServerFailed(f"{process.name} ended while starting\n{process.log_tail()}")
        try:
            return client.request("GET", path, seconds=5).status == 200
        except OSError:
            return False

    until(healthy, START_SECONDS, lambda: f"{process.name} is not healthy\n{process.log_tail()}")


class OneProcess(Client):
    """`mimeo serve`. Keeps its port and data folder over restarts."""

    def __init__(self, workspace, name="server", extra_arguments=(), program=None):
        """`program` is the path of another `mimeo` than the tests' own."""
        self._workspace = workspace
        self._program = program
        self._name = name
        self._extra_arguments = list(extra_arguments)
        self.data = workspace.directory / name
        self.port = free_port()
        self.process = None
        super().__init__(f"http://127.0.0.1:{self.port}")

    @property
    def processes(self):
        return {"mimeo": self.process}

    def start(self):
        listen = f"127.0.0.1:{self.port}"
        arguments = [self._program or binary("mimeo"), "serve", "--data", self.data, "--listen", listen]
        arguments += self._extra_arguments
        self.process = self._workspace.start(self._name, arguments)
        values = announcement(self.process)
        self.announced_url, self.database, self.token = values["url"], values["database"], values["token"]
        self._access_token = None
        await_health(self.process, self)
        return self

    def stop(self, with_signal=signal.SIGINT):
        return self.process.stop(with_signal)

    def kill(self):
        self.process.kill()

    def own_origins(self):
        """The clients of the processes that serve `/health` and `/metrics`, by name."""
        return {"mimeo": self}


class FourProcesses(Client):
    """The four executables on one data folder and one log, behind nginx with the configuration in `compose/`."""

    services = ("auth-gateway", "replicator", "query-service", "attachment-store")

    def __init__(self, workspace, name="cluster", log=None):
        """`log` is the URL of the operation log; the default is a file in the data folder."""
        self._workspace = workspace
        self._name = name
        self.data = workspace.directory / name
        self.data.mkdir()
        self._log = log or f"sqlite:{self.data / 'log.sqlite'}"
        self.logs = {}
        """URLs of the log for services that reach it in another way, by label."""
        self.extra_arguments = {}
        self.drain_seconds = 0
        """How long a service serves on when it is told to stop; the default behind a proxy, 3 s, is for those who look."""
        self.fronts = {}
        """Addresses for nginx instead of a service's own, by service: a proxy of a test, or several instances."""
        self._ports = {service: free_port() for service in self.services}
        self._public_port = free_port()
        self.processes = {}
        super().__init__(f"http://127.0.0.1:{self._public_port}")

    def start(self):
        gateway = self.start_service("auth-gateway")
        values = announcement(gateway)
        self.database, self.token = values["database"], values["token"]
        await_health(gateway, self.client_of("auth-gateway"))
        for service in self.services[1:]:
            self.start_service(service)
        for service in self.services[1:]:
            await_health(self.processes[service], self.client_of(service))
        self._start_nginx()
        return self

    def start_service(self, service, label=None):
        """Starts an executable; with a label, a second copy of it on its own port.

        `extra_arguments` holds further arguments by label.
        """
        label = label or service
        port = self._ports.setdefault(label, free_port())
        arguments = ["--data", self.data, "--listen", f"127.0.0.1:{port}", "--behind-proxy",
                     "--drain-seconds", self.drain_seconds]
        if service == "auth-gateway":
            arguments.append("--development-login")
        arguments += ["--log", self.logs.get(label, self._log), *self.extra_arguments.get(label, [])]
        process = self._workspace.start(f"{self._name}-{label}", self.command(service, label, arguments))
        self.processes[label] = process
        return process

    def command(self, service, label, arguments):
        """The command line of an instance."""
        return [binary(service), *arguments]

    def address_of(self, label):
        return ("127.0.0.1", self._ports.setdefault(label, free_port()))

    def origin_of(self, label):
        return f"http://127.0.0.1:{self._ports[label]}"

    def client_of(self, label):
        """A client that reaches one service directly, without nginx."""
        return Client(self.origin_of(label), self.database, self.token, issuer=self.origin_of("auth-gateway"))

    def own_origins(self):
        return {service: self.client_of(service) for service in self.services}

    def _start_nginx(self):
        executable = shutil.which("nginx") or "/usr/sbin/nginx"
        if not os.path.exists(executable):
            raise FileNotFoundError("nginx is not installed: run scripts/setup system")
        directory = self._workspace.directory / f"{self._name}-nginx"
        directory.mkdir()
        names = {}
        for service in self.services:
            # The template has one `server` line per service; `between` ends one and begins the next.
            addresses = [f"{host}:{port}" for host, port in self.fronts.get(service, [self.address_of(service)])]
            names[service.upper().replace("-", "_")] = " max_fails=0; server ".join(addresses)
        names |= {"PUBLIC_LISTEN": f"127.0.0.1:{self._public_port}", "RUN_DIRECTORY": str(directory)}
        template = string.Template(pathlib.Path(ROOT / "compose" / "nginx.conf").read_text())
        configuration = directory / "nginx.conf"
        configuration.write_text(template.safe_substitute(names))
        # "-e" too: nginx opens its compiled-in error log before it reads the configuration.
        arguments = [executable, "-c", configuration, "-p", directory, "-e", directory / "error.log"]
        process = self._workspace.start(f"{self._name}-nginx-process", arguments + ["-g", "daemon off;"])
        self.processes["nginx"] = process
        await_health(process, self)

    def stop(self, with_signal=signal.SIGINT):
        """Stops all processes; returns their exit codes by name. nginx ends cleanly on an interrupt too."""
        return {name: process.stop(with_signal) for name, process in reversed(list(self.processes.items()))}
