"""Libraries in C that come between a test's processes and the system (LD_PRELOAD)."""

import os
import pathlib
import shutil
import subprocess
import unittest


def preload(workspace, name, environment):
    """Compiles `name`.c beside this file. Processes that are started from now on load it, with the environment, until
    the workspace closes."""
    compiler = next((path for path in map(shutil.which, ("cc", "gcc", "clang")) if path), None)
    if compiler is None:
        raise unittest.SkipTest(f"there is no C compiler for {name}.c")
    library = workspace.directory / f"{name}.so"
    source = pathlib.Path(__file__).with_name(f"{name}.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True, timeout=60)
    values = {"LD_PRELOAD": str(library), **{key: str(value) for key, value in environment.items()}}
    before = {key: os.environ.get(key) for key in values}
    os.environ.update(values)
    workspace.on_close(lambda: _restore(before))


def _restore(before):
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
