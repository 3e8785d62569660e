"""Shared libraries that the program needs: Debian's, from this machine's packages, and those of a dynamic Swift."""

import pathlib
import re
import subprocess
from dataclasses import dataclass
from functools import cache

from source import Refused, run


@dataclass(frozen=True)
class DebianPackage:
    """A package that is installed here."""

    name: str
    version: str

    def copyright(self):
        path = pathlib.Path("/usr/share/doc") / self.name / "copyright"
        if not path.is_file():
            raise Refused(f"{path} is missing: this machine leaves out documentation, so no licence can be packed")
        return path.read_bytes()

    def status(self):
        """Its entry in dpkg's list; scanners of images read this."""
        return run("dpkg-query", "--status", self.name)


@dataclass(frozen=True)
class Library:
    """A shared library by the name that is asked for. `package` is None for one of Swift's."""

    name: str
    path: pathlib.Path
    package: DebianPackage | None

    @property
    def is_of_system(self):
        """Whether it belongs to glibc, which every system has."""
        return self.package is not None and self.package.name == "libc6"


@cache
def package_of(path):
    """The installed package that a file came with. dpkg knows files by the name from before /usr was merged."""
    for known in dict.fromkeys((str(path), str(path).removeprefix("/usr"), f"/usr{path}")):
        done = subprocess.run(["dpkg-query", "--search", known], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            name = done.stdout.split(": ")[0].split(",")[0].split(":")[0]
            return installed(name)
    raise Refused(f"{path} is of no Debian package: packages are made on Debian 12 with Debian's libraries")


@cache
def installed(name):
    told = run("dpkg-query", "--show", "--showformat", "${Package}\t${Version}\t${db:Status-Status}\n", name)
    package, version, status = told.splitlines()[0].split("\t")
    if status != "installed":
        raise Refused(f"the Debian package {name} is missing: apt-get install {name}")
    return DebianPackage(package, version)


def closure(executable):
    """All libraries that the loader takes for an executable, by name."""
    found = []
    for line in run("ldd", executable).splitlines():
        if "not found" in line:
            raise Refused(f"{executable}: {line.strip()}")
        match = re.match(r"\s*(\S+) => (\S+) ", line)
        if match is None:
            continue
        path = pathlib.Path(match[2]).resolve()
        package = None if "/swift/linux/" in match[2] else package_of(path)
        found.append(Library(match[1], path, package))
    return sorted(found, key=lambda library: library.name)
