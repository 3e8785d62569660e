"""Python packages of others that a few tests speak to us with: `use_packages()` makes them importable.

They come from PyPI, pinned, into a folder of their own that is made once and kept: ~/.cache/mimeo/python
(MIMEO_CACHE names another place for `mimeo`'s caches).
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

PINS = ("cbor2==6.2.1", "websockets==17.4", "wsproto==1.3.2")


def use_packages():
    """Installs what is missing, and puts it behind everything else on the path."""
    folder = str(_folder())
    if folder not in sys.path:
        sys.path.append(folder)


def _folder():
    cache = pathlib.Path(os.environ.get("MIMEO_CACHE", pathlib.Path.home() / ".cache" / "mimeo"))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = hashlib.sha256("\n".join((version, *PINS)).encode()).hexdigest()[:12]
    folder = cache / "python" / name
    if not folder.exists():
        _install(folder)
    return folder


def _install(folder):
    """Beside its place, then moved there: an installation that was broken off is none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        venv.create(f"{work}/venv", with_pip=True)
        done = subprocess.run(
            [f"{work}/venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             "--target", f"{work}/packages", *PINS], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{', '.join(PINS)} cannot be installed from PyPI:\n{done.stderr[-2000:]}")
        try:
            os.rename(f"{work}/packages", folder)
        except OSError:  # another run was faster
            if not folder.exists():
                shutil.move(f"{work}/packages", folder)
