"""A Docker engine for checks that need real containers."""

import contextlib
import os
import shutil
import subprocess
import sys
import time


def _runs():
    return subprocess.run(["docker", "info"], capture_output=True, timeout=60, check=False).returncode == 0


@contextlib.contextmanager
def docker_engine(folder):
    """The engine that DOCKER_HOST names or the machine has; where none runs, root starts one of its own in the folder."""
    if _runs():
        yield
        return
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        sys.exit("no Docker engine runs; as root, and with Debian's docker.io, this starts one of its own")
    socket = f"unix://{folder}/docker.sock"
    os.environ["DOCKER_HOST"] = socket
    with open(folder / "dockerd.log", "w") as log:
        daemon = subprocess.Popen(
            ["dockerd", "--data-root", folder / "data", "--exec-root", folder / "exec", "-H", socket,
             "-p", folder / "pid"], stdout=log, stderr=log)
    try:
        until = time.monotonic() + 60
        while not _runs():
            if daemon.poll() is not None or time.monotonic() > until:
                sys.exit(f"dockerd does not start:\n{(folder / 'dockerd.log').read_text()[-2000:]}")
            time.sleep(0.5)
        yield
    finally:
        daemon.terminate()
        daemon.wait(60)
