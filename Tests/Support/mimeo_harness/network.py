"""Networks of the kernel: hosts in namespaces of their own, on bridges that are cut and joined."""

import itertools
import shutil
import subprocess


def why_no_namespaces():
    """The reason why this kernel or user cannot have network namespaces; None if it can."""
    for tool in ("ip", "unshare", "nsenter"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    run = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "mimeo0", "type", "bridge"], capture_output=True, text=True)
    return None if run.returncode == 0 else f"no network namespaces: {run.stderr.strip()[:200]}"


class Namespace:
    """A network namespace. It ends with this process: a `cat` that waits for its input holds it."""

    def __init__(self, workspace):
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; exec cat"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        workspace.on_close(self._close)
        self._holder.stdout.readline()
        self.pid = self._holder.pid
        self.run("ip", "link", "set", "lo", "up")

    def _close(self):
        self._holder.stdin.close()
        self._holder.wait(10)
        self._holder.stdout.close()

    @property
    def prefix(self):
        """The beginning of a command line that runs in here."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", "--"]

    def run(self, *command):
        done = subprocess.run([*self.prefix, *command], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout


class Host(Namespace):
    """A host with one network card, `eth0`, on a bridge."""

    def __init__(self, networks, bridge, number):
        super().__init__(networks.workspace)
        self._networks = networks
        self._plug = f"port{number}"
        networks.switch.run(
            "ip", "link", "add", self._plug, "type", "veth", "peer", "name", "eth0", "netns", str(self.pid))
        networks.switch.run("ip", "link", "set", self._plug, "master", bridge, "up")
        self.address = f"10.77.0.{number}"
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def pull(self):
        """Pulls the cable."""
        self._networks.switch.run("ip", "link", "set", self._plug, "down")

    def plug(self):
        self._networks.switch.run("ip", "link", "set", self._plug, "up")


class Networks:
    """Bridges in a namespace that has nothing else."""

    def __init__(self, workspace):
        self.workspace = workspace
        self.switch = Namespace(workspace)
        self._numbers = itertools.count(1)

    def bridge(self, name):
        self.switch.run("ip", "link", "add", name, "type", "bridge", "mcast_snooping", "0")
        self.switch.run("ip", "link", "set", name, "up")
        return name

    def host(self, bridge):
        return Host(self, bridge, next(self._numbers))

    def join(self, one, other):
        """A cable between two bridges."""
        number = next(self._numbers)
        ends = [f"cable{number}a", f"cable{number}b"]
        self.switch.run("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for end, bridge in zip(ends, (one, other)):
            self.switch.run("ip", "link", "set", end, "master", bridge, "up")
