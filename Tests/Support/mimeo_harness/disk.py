"""A disk that becomes read-only or slow beneath running processes, and well again (`disk_fault.c`)."""

from .preload import preload


class FaultyFolder:
    """A folder whose disk a test changes, for the processes that are started while it is installed."""

    def __init__(self, workspace, folder):
        self.folder = folder
        self._file = workspace.directory / "disk"
        self._file.write_bytes(b"0" * 20)
        preload(workspace, "disk_fault", {"MIMEO_TEST_DISK": self._file, "MIMEO_TEST_DISK_FOLDER": folder})

    def _write(self, text):
        with open(self._file, "r+b") as file:
            file.write(text)

    def be_read_only(self):
        self._write(b"r" + b"0" * 19)

    def be_slow(self, milliseconds):
        """Each sync takes this long."""
        self._write(b"%020d" % milliseconds)

    def be_well(self):
        self.be_slow(0)
