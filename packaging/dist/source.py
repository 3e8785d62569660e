"""Facts about the checkout and the build: version, commit, time, executables, packages."""

import json
import os
import pathlib
import platform
import re
import subprocess
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVICES = ("attachment-store", "auth-gateway", "query-service", "replicator")
PROGRAMS = ("mimeo", *SERVICES)
LICENCE_NAMES = re.compile(r"(licen[cs]e|notices?|copying)(\.txt|\.md)?", re.IGNORECASE)


class Refused(Exception):
    """Nothing can be packed: the text says why, and what to do."""


def run(*command):
    """The output of a command that has to succeed."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    except OSError as problem:
        raise Refused(f"{command[0]} cannot be run: {problem}") from problem
    if done.returncode != 0:
        raise Refused(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def version():
    text = (ROOT / "Shared/ServiceKit/Host/BuildVersion.swift").read_text()
    return re.search(r'let number = "(.*)"', text)[1]


def commit():
    """The commit of the checkout, or nothing where there is no repository."""
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def epoch():
    """The time that every packed file gets: SOURCE_DATE_EPOCH, otherwise the commit's."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    if given:
        if not given.isdecimal():
            raise Refused(f"SOURCE_DATE_EPOCH is '{given}': it has to be a number of seconds")
        return int(given)
    return int(run("git", "-C", ROOT, "log", "-1", "--format=%ct"))


def machine():
    """The machine's name for people (x86_64) and Debian's and the container world's name for it (amd64)."""
    name = platform.machine()
    names = {"x86_64": "amd64", "aarch64": "arm64"}
    if name not in names:
        raise Refused(f"packages are made on x86_64 and aarch64, not on {name}")
    return name, names[name]


@dataclass(frozen=True)
class SwiftPackage:
    """A package that the build has taken, as it was checked out."""

    name: str
    location: str
    version: str
    revision: str
    folder: pathlib.Path

    def licences(self):
        """The texts of licences and notices, by path in the package: at its top, and beside sources of others."""
        places = [path for path in self.folder.iterdir() if path.is_file()]
        sources = self.folder / "Sources"
        places += [path for path in sources.rglob("*") if path.is_file()] if sources.is_dir() else []
        found = {path.relative_to(self.folder).as_posix(): path.read_bytes()
                 for path in places if LICENCE_NAMES.fullmatch(path.name)}
        if not found:
            raise Refused(f"{self.name} has no licence in {self.folder}")
        return dict(sorted(found.items()))


class Build:
    """A folder of executables: MIMEO_BIN or the one given."""

    def __init__(self, folder):
        self.executables = ROOT / folder
        if not (self.executables / "mimeo").is_file():
            raise Refused(f"{self.executables / 'mimeo'} is missing: scripts/build-release makes it")

    def check_commit(self):
        """Refuses an executable of another commit than the checkout's, and a checkout with changes: the packages name
        one commit, and have the pages, the units and the program of that one.

        scripts/build-release tells a build its commit only if nothing was changed then.
        """
        told, name = run(self.executables / "mimeo", "--version").strip(), commit()
        wanted = f"{version()} (commit {name[:12]})" if name else version()
        if told != wanted:
            raise Refused(f"{self.executables / 'mimeo'} is {told or 'of no version'}, the checkout is {wanted}: run "
                          "scripts/build-release, with nothing changed that is not committed")
        changes = run("git", "-C", ROOT, "status", "--porcelain").splitlines() if name else []
        if changes:
            raise Refused(f"the checkout has changes that are not committed, such as {changes[0]}")

    @property
    def scratch(self):
        """The folder in which SwiftPM keeps what belongs to a build: above the executables, or .build."""
        places = [*self.executables.parents, *self.executables.resolve().parents, ROOT / ".build"]
        for place in places:
            if (place / "workspace-state.json").is_file() and (place / "checkouts").is_dir():
                return place
        raise Refused(f"no build folder with checkouts above {self.executables}, nor is there {ROOT / '.build'}")

    def packages(self):
        scratch = self.scratch
        state = json.loads((scratch / "workspace-state.json").read_text())
        found = []
        for entry in state["object"]["dependencies"]:
            held, reference = entry["state"]["checkoutState"], entry["packageRef"]
            found.append(SwiftPackage(
                reference["identity"], reference["location"].removesuffix(".git"), held["version"],
                held["revision"], scratch / "checkouts" / entry["subpath"]))
        return sorted(found, key=lambda package: package.name)


def vendored():
    """What Services/Console/VENDORED.md lists: name, version and licence of each library in the console."""
    text = (ROOT / "Services/Console/VENDORED.md").read_text()
    found = re.findall(r"\b(Preact|htm|CodeMirror) (\d+\.\d+\.\d+)[^|]*?\(([A-Za-z0-9.-]+)\)", text)
    if {name for name, _, _ in found} != {"Preact", "htm", "CodeMirror"}:
        raise Refused("Services/Console/VENDORED.md does not name the console's libraries as expected")
    return sorted(set(found))
