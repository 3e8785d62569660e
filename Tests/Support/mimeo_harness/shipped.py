"""A release as people get it: the files that `scripts/dist` has written into a folder."""

import hashlib
import io
import json
import os
import pathlib
import subprocess
import tarfile

from .processes import ROOT


class Shipped:
    """The files of a release, by what they are. Reading checks nothing but that each is there once."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def _only(self, pattern):
        found = [path for path in self.folder.glob(pattern) if "-debug." not in path.name]
        if len(found) != 1:
            raise FileNotFoundError(f"{self.folder} has {len(found)} files {pattern}: `make dist` makes one of each")
        return found[0]

    @property
    def tarball(self):
        return self._only("mimeo-*-linux-*.tar.gz")

    @property
    def debian(self):
        return self._only("mimeo_*.deb")

    @property
    def image(self):
        return self._only("mimeo-*-image-*.tar")

    @property
    def bill(self):
        return json.loads(self._only("mimeo-*.cdx.json").read_text())

    @property
    def files(self):
        return sorted(path for path in self.folder.iterdir() if path.name != "SHA256SUMS")

    @property
    def version(self):
        return self.tarball.name.split("-")[1]

    def unpack(self, folder):
        """Unpacks the tarball as its user would; returns the one folder in it."""
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-C", folder, "-xzf", self.tarball], check=True)
        (found,) = folder.iterdir()
        return found

    def image_parts(self):
        """The image's configuration, and its layers as open tar archives, the lowest first."""
        with tarfile.open(self.image) as archive:
            def read(name):
                return archive.extractfile(name).read()

            (listed,) = json.loads(read("manifest.json"))
            layers = [read(name) for name in listed["Layers"]]
            for name, data in zip(listed["Layers"], layers, strict=True):
                if hashlib.sha256(data).hexdigest() != name.split("/")[-1]:
                    raise ValueError(f"{name} of {self.image} has another digest")
            return json.loads(read(listed["Config"])), [tarfile.open(fileobj=io.BytesIO(data)) for data in layers]

    def unpack_image(self, folder):
        """Lays the layers of the image over one another, with their owners (root only)."""
        for layer in self.image_parts()[1]:
            layer.extractall(folder, numeric_owner=True, filter="fully_trusted")


def pack(built, folder):
    """Packs the executables of a folder, as `make dist` does with those of a release build of the commit."""
    done = subprocess.run(
        [ROOT / "scripts" / "dist", folder, "--any-commit"], capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "MIMEO_BIN": str(built)})
    if done.returncode != 0:
        raise RuntimeError(f"scripts/dist: {done.stderr[-2000:]}")
    return Shipped(folder)
