"""Third-party Python packages that a few tests use as clients; `use_packages()` makes them importable.

They are installed from PyPI, pinned, into a folder that is made once and kept: ~/.cache/mimeo/python (MIMEO_CACHE names
another place for the caches).
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

PINS = ("cbor2==6.2.1", "requests==2.34.2", "websockets==17.4", "wsproto==1.3.2")


def use_packages(*pins):
    """Installs missing packages, and appends their folder to the path: PINS, or the ones that a single test needs."""
    folder = str(packages_folder(pins or PINS))
    if folder not in sys.path:
        sys.path.append(folder)


def package_file(pin, path):
    """A file of a package that is only read: what the package itself needs is not installed."""
    return _folder((pin,), "--no-deps") / path


def packages_folder(pins):
    """The folder of installed packages; for a process that is to import them."""
    return _folder(pins)


def _folder(pins, *options):
    cache = pathlib.Path(os.environ.get("MIMEO_CACHE", pathlib.Path.home() / ".cache" / "mimeo"))
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = hashlib.sha256("\n".join((version, *options, *pins)).encode()).hexdigest()[:12]
    folder = cache / "python" / name
    if not folder.exists():
        _install(folder, pins, options)
    return folder


def _install(folder, pins, options):
    """Installs into a temporary folder, then renames it, so that an interrupted installation leaves nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        venv.create(f"{work}/venv", with_pip=True)
        done = subprocess.run(
            [f"{work}/venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             *options, "--target", f"{work}/packages", *pins], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{', '.join(pins)} cannot be installed from PyPI:\n{done.stderr[-2000:]}")
        try:
            os.rename(f"{work}/packages", folder)
        except OSError:  # another run was faster
            if not folder.exists():
                shutil.move(f"{work}/packages", folder)
