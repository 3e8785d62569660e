"""Runs Mimeo's executables from the outside, for the demo and the system tests. It needs the standard library only,
except `use_packages` and `package_file`.

    with Workspace() as workspace:
        server = OneProcess(workspace).start()
        peer = Peer(workspace, "a", server, subscribe=["SELECT * FROM cars"])
        commit = peer.execute("INSERT INTO cars DOCUMENTS ({'_id': '1'})")["commitID"]
        peer.wait_for_commit(commit)
        server.query("SELECT * FROM cars")

All files of a workspace are in one temporary directory. When it closes, it ends each process it started by its id, and
removes the directory. MIMEO_BIN names the directory of the executables (default `.build/release`); MIMEO_KEEP=1 keeps
the temporary directory and prints its path.
"""

from .avahi import NO_BUS, Avahi, why_no_avahi
from .browser import EXECUTABLE as CHROMIUM
from .browser import Browser
from .bucket import Bucket
from .client import Client, Response
from .command import mimeo
from .depth import IS_DEEP, SEED, deep_only, pick
from .documents import canonical, digest, iso_codes
from .engine import docker_engine
from .fault_proxy import DOWN, UP, FaultProxy, Through
from .network import Networks, why_no_namespaces
from .packages import package_file, use_packages
from .peer import Peer, PeerGone, StatementError, peer_command
from .postgres import Postgres
from .processes import ROOT, Workspace, binary, free_port
from .servers import FourProcesses, OneProcess
from .shipped import Shipped, pack
from .until import until
from .websocket import WebSocket

__all__ = [
    "CHROMIUM", "DOWN", "IS_DEEP", "NO_BUS", "ROOT", "SEED", "UP", "Avahi", "Browser", "Bucket", "Client", "FaultProxy", "FourProcesses", "Networks", "OneProcess", "Peer", "PeerGone", "Postgres", "Response",
    "Shipped", "StatementError", "Through", "WebSocket", "Workspace", "binary", "canonical", "deep_only", "digest", "docker_engine", "free_port",
    "iso_codes", "mimeo", "pack", "package_file", "peer_command", "pick", "until", "use_packages", "why_no_avahi",
    "why_no_namespaces",
]
