"""Makes everything that is given to people out of one build: `scripts/dist [FOLDER]`, by default .build/dist.

MIMEO_BIN names the folder of the executable (.build-release/release, where scripts/build-release puts it). The same
build and checkout give the same bytes. Debian's libraries are this machine's: upgrade it first.
"""

import argparse
import hashlib
import os
import pathlib
import re
import sys

import debian
import image
import libraries
import program as programs
import sbom
import source
import tarball
from archive import Tree, zipped


def swift_version():
    """The compiler's version, which is also that of the libraries that it links in."""
    return re.search(r"Swift version (\S+)", source.run("swift", "--version"))[1]


def artifacts(build):
    """The name and the bytes of each file, one after the other."""
    version, epoch, (machine, architecture) = source.version(), source.epoch(), source.machine()
    executable = (build.executables / "mimeo").resolve()
    program, closure, packages = programs.load(executable), libraries.closure(executable), build.packages()
    carried = sorted({library.package for library in closure if library.package and not library.is_of_system},
                     key=lambda package: package.name)
    below = [package for package in image.base_packages() if package not in carried]
    bill = sbom.bill(version, epoch, swift_version(), packages, carried, below, architecture)
    name = f"mimeo-{version}-linux-{machine}"
    yield f"mimeo-{version}.cdx.json", bill

    installed = tarball.installation(program, closure)
    release = tarball.release(installed, packages, carried, bill)
    yield f"{name}.tar.gz", zipped(release.tar(epoch, f"{name}/"))
    debug = Tree()
    debug.file("lib/mimeo/mimeo.debug", program.debug)
    yield f"{name}-debug.tar.gz", zipped(debug.tar(epoch, f"{name}/"))

    tree = debian.contents(version, epoch, program, closure, packages, bill)
    yield f"mimeo_{version}_{architecture}.deb", debian.package(version, epoch, architecture, tree)
    layers = [image.base(), image.application(release, below + carried)]
    yield f"mimeo-{version}-image-{machine}.tar", image.archive(
        version, source.commit(), epoch, architecture, layers)


def main():
    parser = argparse.ArgumentParser(prog="scripts/dist", description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=source.ROOT / ".build" / "dist")
    parser.add_argument("--any-commit", action="store_true",
                        help="pack a build of another commit, or beside changes: for tests, not to give away")
    arguments = parser.parse_args()
    folder = arguments.folder
    try:
        build = source.Build(os.environ.get("MIMEO_BIN", ".build-release/release"))
        if not arguments.any_commit:
            build.check_commit()
        folder.mkdir(parents=True, exist_ok=True)
        # The folder holds one release.
        for earlier in (*folder.glob("mimeo[-_]*"), *folder.glob("SHA256SUMS")):
            earlier.unlink()
        sums = []
        for name, data in artifacts(build):
            (folder / name).write_bytes(data)
            sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")
            print(f"{len(data):>12,}  {folder / name}", flush=True)
        (folder / "SHA256SUMS").write_text("".join(sorted(sums, key=lambda line: line.split()[1])))
    except source.Refused as refusal:
        sys.exit(f"scripts/dist: {refusal}")


if __name__ == "__main__":
    main()
