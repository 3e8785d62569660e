"""The Debian package: the program on Debian's own libraries, units, settings, pages and licences."""

import hashlib
import re
import time

import licences
import pages
import tarball
from archive import Tree, ar, zipped
from source import ROOT, SERVICES

DEBIAN = ROOT / "packaging" / "debian"
SCRIPTS = ("postinst", "prerm", "postrm")
DOC = "usr/share/doc/mimeo"


def changelog(version, epoch):
    """Debian's form of CHANGELOG.md: a line for each item of the version."""
    text = (ROOT / "CHANGELOG.md").read_text()
    section = re.search(rf"^## {re.escape(version)}.*?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    items = re.findall(r"^- (.+(?:\n  .+)*)", section[1] if section else "", re.MULTILINE)
    lines = "".join(f"  * {re.sub(chr(10) + '  ', chr(10) + '    ', item)}\n" for item in items)
    date = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(epoch))
    return f"mimeo ({version}) stable; urgency=medium\n\n{lines}\n -- The Mimeo authors <mimeo@localhost>  {date}\n"


def contents(version, epoch, program, closure, packages, bill):
    tree = Tree()
    tree.file("usr/lib/mimeo/mimeo", program.stripped, 0o755)
    tarball.swift_libraries(tree, "usr/lib/mimeo", closure)
    tree.link("usr/bin/mimeo", "../lib/mimeo/mimeo")
    # Names such as `replicator` are too common for /usr/bin; mimeo@.service finds them here.
    for service in SERVICES:
        tree.link(f"usr/lib/mimeo/{service}", "mimeo")
    tarball.units(tree, "usr/lib/systemd/system", "/usr/bin", "/usr/lib/mimeo", f"/{DOC}")
    tree.file("etc/mimeo/mimeo.json", (DEBIAN / "mimeo.json").read_bytes(), 0o640)
    for name in ("rules.yml", "dashboard.json", "prometheus.yml", "alertmanager.yml"):
        tree.copy(f"usr/share/mimeo/monitoring/{name}", ROOT / "monitoring" / name)
    tree.add(pages.tree(), DOC)
    tree.file(f"{DOC}/changelog.gz", zipped(changelog(version, epoch).encode()))
    tree.copy(f"{DOC}/copyright", DEBIAN / "copyright")
    tree.add(licences.of_swift(packages), f"{DOC}/licences")
    tree.file(f"{DOC}/mimeo.cdx.json", bill)
    return tree


def package(version, epoch, architecture, tree):
    """The bytes of the .deb."""
    control = (DEBIAN / "control").read_text()
    values = {"VERSION": version, "ARCHITECTURE": architecture, "SIZE": str(-(-tree.size() // 1024))}
    for name, value in values.items():
        control = control.replace(f"@{name}@", value)
    sums = "".join(f"{hashlib.md5(entry.data).hexdigest()}  {path}\n" for path, entry in sorted(tree.entries.items())
                   if entry.data is not None)
    about = Tree()
    about.file("control", control)
    about.copy("conffiles", DEBIAN / "conffiles")
    about.file("md5sums", sums)
    for name in SCRIPTS:
        about.copy(name, DEBIAN / name)
    return ar([
        ("debian-binary", b"2.0\n"), ("control.tar.gz", zipped(about.tar(epoch, "./"))),
        ("data.tar.gz", zipped(tree.tar(epoch, "./"))),
    ], epoch)
