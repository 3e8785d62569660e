"""The program as it is packed: without debug information, and looking for its libraries beside itself."""

import pathlib
import re
import struct
import subprocess
import tempfile
from dataclasses import dataclass

from source import SERVICES, Refused, run

NEWEST_GLIBC = (2, 36)
"""Of Debian 12. A program that needs a newer one would start on fewer machines than Docs/support.md names."""

RUNPATH, RPATH = 29, 15
"""Tags of the dynamic section. RPATH also holds for the libraries of libraries."""


@dataclass(frozen=True)
class Program:
    """The bytes to pack, the debug information beside them, and the names of the libraries that it needs itself."""

    stripped: bytes
    debug: bytes
    needed: tuple[str, ...]


def needed(path):
    return tuple(re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", path)))


def glibc(path):
    """The newest version of glibc that a file asks for."""
    found = re.findall(r"\bGLIBC_(\d+)\.(\d+)", run("readelf", "-V", "--wide", path))
    return max(((int(major), int(minor)) for major, minor in found), default=(0, 0))


def check_glibc(path):
    if glibc(path) > NEWEST_GLIBC:
        raise Refused(f"{path} needs glibc {'.'.join(map(str, glibc(path)))}; packages are made on Debian "
                      "12, so that they run on every system with glibc 2.36 or newer")


def check_names(path):
    """The one file has to be each service when a link to it has the service's name."""
    with tempfile.TemporaryDirectory() as name:
        for service in SERVICES:
            link = pathlib.Path(name) / service
            link.symlink_to(path)
            told = run(link, "--help")
            if f"USAGE: {service} " not in told:
                raise Refused(f"{path} called {service} is not that service; is the build older than the checkout?")


def looks_beside_itself(data):
    """The executable with `$ORIGIN` as the one folder in which it and its libraries look first, whatever folders of
    the build's machine were in that place."""
    image = bytearray(data)
    offset, size, count = (*struct.unpack_from("<Q", image, 32), *struct.unpack_from("<HH", image, 54))
    segments = [struct.unpack_from("<IIQQQQQQ", image, offset + size * index) for index in range(count)]
    dynamic = next((segment for segment in segments if segment[0] == 2), None)
    if dynamic is None:
        raise Refused("the executable has no dynamic section")
    entries = {}
    for place in range(dynamic[2], dynamic[2] + dynamic[5], 16):
        tag, value = struct.unpack_from("<QQ", image, place)
        entries.setdefault(tag, (place, value))
    found = entries.get(RUNPATH) or entries.get(RPATH)
    if found is None:
        raise Refused("the executable looks nowhere for libraries: build it with scripts/build-release")
    strings = next(segment[2] + entries[5][1] - segment[3] for segment in segments
                   if segment[0] == 1 and segment[3] <= entries[5][1] < segment[3] + segment[5])
    start = strings + found[1]
    end = image.index(b"\0", start)
    if end - start < len(b"$ORIGIN"):
        raise Refused("the executable's path for libraries is too short for $ORIGIN")
    image[start:end] = b"$ORIGIN".ljust(end - start, b"\0")
    struct.pack_into("<Q", image, found[0], RPATH)
    return bytes(image)


def load(path):
    """Strips the executable and keeps what is stripped apart."""
    check_glibc(path)
    check_names(path)
    with tempfile.TemporaryDirectory() as name:
        program, debug = pathlib.Path(name) / "mimeo", pathlib.Path(name) / "mimeo.debug"
        run("objcopy", "--only-keep-debug", path, debug)
        run("objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", path, program)
        return Program(looks_beside_itself(program.read_bytes()), debug.read_bytes(), needed(path))


def stripped_library(path):
    with tempfile.TemporaryDirectory() as name:
        copy = pathlib.Path(name) / path.name
        subprocess.run(["strip", "--strip-unneeded", "-o", copy, path], check=True)
        return copy.read_bytes()
