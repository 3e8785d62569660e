"""The licences of everything that a package carries, as files."""

import re

from archive import Tree
from source import ROOT, Refused

TEXTS = ROOT / "packaging" / "licences"
"""Licences that neither the checkouts nor Debian's packages bring along."""

KNOWN = [
    ("Apache-2.0 WITH Swift-exception", "Runtime Library Exception"),
    ("Apache-2.0", "Apache License"),
    ("MIT", "Permission is hereby granted, free of charge"),
]


def spdx(texts):
    """The name of the licence at the top of a Swift package."""
    top = next((data for path, data in texts.items() if re.fullmatch(r"licen[cs]e.*", path, re.IGNORECASE)), b"")
    for name, phrase in KNOWN:
        if phrase in top.decode(errors="replace"):
            return name
    raise Refused(f"{', '.join(texts)}: none of the licences that are known here")


def of_swift(packages):
    """A folder for each Swift package, and Swift's own libraries with what is in them."""
    tree = Tree()
    for package in packages:
        for path, data in package.licences().items():
            tree.file(f"{package.name}/{path}", data)
    for path in sorted(TEXTS.iterdir()):
        tree.copy(path.name, path)
    tree.copy("console.md", ROOT / "Services/Console/VENDORED.md")
    return tree


def of_debian(packages):
    tree = Tree()
    for package in packages:
        tree.file(f"debian/{package.name}.txt", package.copyright())
    return tree
