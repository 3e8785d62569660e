"""The tarball: the program with the libraries that it needs, pages, licences, and files to run it with."""

import licences
import pages
import program as programs
from archive import Tree
from source import PROGRAMS, ROOT

FOLDERS = ("monitoring", "compose", "deploy")
LEFT_OUT = {"check.py", "tour.py", "private", "__pycache__", ".env"}


def swift_libraries(tree, folder, closure):
    """Libraries of a Swift that was linked dynamically; a release has none."""
    for library in closure:
        if library.package is None:
            tree.file(f"{folder}/{library.name}", programs.stripped_library(library.path), 0o755)


def installation(program, closure):
    """`bin` and `lib` alone."""
    tree = Tree()
    tree.file("lib/mimeo/mimeo", program.stripped, 0o755)
    swift_libraries(tree, "lib/mimeo", closure)
    for library in closure:
        if library.package is not None and not library.is_of_system:
            tree.file(f"lib/mimeo/{library.name}", library.path.read_bytes(), 0o755)
    for name in PROGRAMS:
        tree.link(f"bin/{name}", "../lib/mimeo/mimeo")
    return tree


def units(tree, folder, programs_in, services_in, documents):
    """The units of systemd, for programs and pages in these folders."""
    for path in sorted((ROOT / "packaging/systemd").iterdir()):
        text = path.read_text()
        for name, value in (("BIN", programs_in), ("SERVICES", services_in), ("DOC", documents)):
            text = text.replace(f"@{name}@", value)
        tree.file(f"{folder}/{path.name}", text)


def release(installed, packages, debian, bill):
    """Everything, without the folder in which it stands in the archive."""
    tree = Tree()
    for path, entry in installed.entries.items():
        tree.entries[path] = entry
    for path, entry in pages.tree().entries.items():
        tree.entries.setdefault(path, entry)
    tree.copy("LICENSE", ROOT / "LICENSE")
    tree.add(licences.of_swift(packages), "licences")
    tree.add(licences.of_debian(debian), "licences")
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and not LEFT_OUT & set(path.relative_to(ROOT).parts):
                tree.copy(path.relative_to(ROOT).as_posix(), path)
    units(tree, "systemd", "/opt/mimeo/bin", "/opt/mimeo/bin", "/opt/mimeo")
    tree.copy("mimeo.json", ROOT / "packaging/debian/mimeo.json")
    tree.file("mimeo.cdx.json", bill)
    return tree
