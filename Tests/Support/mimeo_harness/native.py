"""The library for other languages, and the Python package over it."""

import os
import pathlib
import subprocess

from .markdown import blocks

ROOT = pathlib.Path(__file__).resolve().parents[3]
PYTHON = ROOT / "python"
HEADER = ROOT / "Shared" / "MimeoC" / "include"
FIVE_MINUTES = ("a 4\n", "Result([{'seats': 5}])\nResult([{'seats': 2}])", "[{'_id': 'b', 'seats': 4}]", "True\nconnected []")
"""Parts of the output of the program of Docs/python-peer.md."""


def shown_program(page):
    """The Python program that a page shows, block by block. It needs MIMEO_URL, MIMEO_DATABASE and MIMEO_TOKEN."""
    return "".join(block.text for block in blocks(page, page.read_text()) if block.language == "python")


def library():
    """libmimeo: that of MIMEO_LIBRARY, or of the tests' build, which is linked here if it was not yet."""
    given = os.environ.get("MIMEO_LIBRARY")
    if given:
        return pathlib.Path(given).resolve()
    path = ROOT / ".build" / "native" / "libmimeo.so"
    if not path.exists():
        subprocess.run([ROOT / "scripts" / "native"], check=True)
    return path


def environment(**more):
    """The environment of a Python program that imports the package."""
    path = os.pathsep.join([str(PYTHON), str(ROOT / "Docs" / "examples"), *more.pop("path", [])])
    return {**os.environ, "MIMEO_LIBRARY": str(library()), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}


def compiled(source, folder, *flags):
    """The program of a C file, linked with the library."""
    program = pathlib.Path(folder) / pathlib.Path(source).stem
    subprocess.run(
        ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", *flags, ROOT / source, f"-I{HEADER}", library(),
         "-lpthread", f"-Wl,-rpath,{library().parent}", "-o", program], check=True)
    return program
