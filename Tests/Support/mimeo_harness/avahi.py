"""Avahi on a host of `Networks`: a bus and a daemon of its own, with avahi's own tools to look and to announce."""

import shutil
import subprocess

from .until import until

BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={socket}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/>
<allow receive_sender="*"/></policy></busconfig>
"""

# Several hosts of a test are in one place: nothing of the machine's own avahi may be used.
DAEMON = """[server]
host-name={host}
use-ipv4=yes
use-ipv6=yes
enable-dbus=yes
disallow-other-stacks=no
allow-interfaces=eth0
[wide-area]
enable-wide-area=no
[publish]
publish-hinfo=no
publish-workstation=no
"""

NO_BUS = {"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nowhere/bus"}
"""The environment of a peer on a host without avahi: that of the machine must not be found."""


def why_no_avahi():
    """The reason why there is no avahi to test with; None if there is."""
    for tool, package in (("avahi-daemon", "avahi-daemon"), ("dbus-daemon", "dbus"), ("avahi-browse", "avahi-utils")):
        if shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin") is None:
            return f"{tool} is not installed (Debian's package {package})"
    return None


class Avahi:
    """A bus and avahi on a host. `environment` leads a peer, and avahi's tools, to them."""

    def __init__(self, workspace, host, name):
        self._workspace, self._host, self._name = workspace, host, name
        self.directory = workspace.directory / f"avahi-{name}"
        self.directory.mkdir()
        socket = self.directory / "bus"
        (self.directory / "bus.conf").write_text(BUS.format(socket=socket))
        (self.directory / "avahi.conf").write_text(DAEMON.format(host=f"host-{name}"))
        self.environment = {"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={socket}"}
        workspace.start(f"bus-{name}", [
            *host.prefix, "dbus-daemon", f"--config-file={self.directory}/bus.conf", "--nofork", "--nopidfile"])
        until(socket.exists, 20, "the bus has no socket")
        self.daemon = None
        self.start()

    def start(self):
        """Starts the daemon, and waits until it answers."""
        # The folder of its pid and socket is this daemon's own.
        script = ("mkdir -p /run/avahi-daemon && mount -t tmpfs tmpfs /run/avahi-daemon && exec avahi-daemon"
                  f" --file {self.directory}/avahi.conf --no-drop-root --no-chroot --no-rlimits")
        self.daemon = self._workspace.start(
            f"avahi-{self._name}", [*self._host.prefix, "unshare", "--mount", "sh", "-c", script], self.environment)
        until(lambda: self.browse() is not None, 30, lambda: f"avahi does not answer: {self.daemon.log_tail()}")

    def kill(self):
        self.daemon.kill()

    def browse(self):
        """The text records of the peers that this host sees by DNS-SD, by instance; None if avahi does not answer.

        avahi-browse waits for ever if the daemon stops meanwhile."""
        try:
            run = subprocess.run(
                [*self._host.prefix, "env", *[f"{key}={value}" for key, value in self.environment.items()],
                 "avahi-browse", "--parsable", "--resolve", "--terminate", "_mimeo._tcp"],
                capture_output=True, text=True, timeout=15)
        except subprocess.TimeoutExpired:
            return None
        if run.returncode != 0:
            return None
        found = {}
        for line in run.stdout.splitlines():
            fields = line.split(";")
            if fields[0] == "=":
                found[fields[3]] = fields[9]
        return found

    def publish(self, name, port, *texts):
        """Announces a service until the workspace closes, as anybody on a network can."""
        return self._workspace.start(
            f"publish-{name}", [*self._host.prefix, "avahi-publish", "-s", name, "_mimeo._tcp", port, *texts],
            self.environment)
