"""One run of the command line `mimeo`."""

import subprocess

from .processes import ROOT, binary


def mimeo(*arguments, given="", seconds=120, cwd=ROOT):
    """Runs `mimeo ARGUMENT...` with `given` as input; returns a CompletedProcess with text output."""
    command = [binary("mimeo"), *(str(argument) for argument in arguments)]
    return subprocess.run(
        command, input=given, capture_output=True, text=True, encoding="utf-8", timeout=seconds, cwd=cwd, check=False)
