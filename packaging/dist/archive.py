"""Trees of files and the archives made of them. The same tree gives the same bytes: entries are sorted, owned by
root unless told otherwise, and have one time."""

import gzip
import io
import tarfile
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A file (`data`), a link (`target`) or a folder (neither)."""

    mode: int
    data: bytes | None = None
    target: str | None = None
    owner: int = 0


class Tree:
    """Entries by path, without a leading slash. Folders above an entry are made."""

    def __init__(self):
        self.entries = {}

    def folder(self, path, mode=0o755, owner=0):
        self._above(path)
        self.entries[path] = Entry(mode, owner=owner)

    def file(self, path, data, mode=0o644):
        self._above(path)
        self.entries[path] = Entry(mode, data=data.encode() if isinstance(data, str) else data)

    def copy(self, path, source):
        """A file of the checkout, which stays executable if it is."""
        self.file(path, source.read_bytes(), 0o755 if source.stat().st_mode & 0o100 else 0o644)

    def link(self, path, target):
        self._above(path)
        self.entries[path] = Entry(0o777, target=target)

    def add(self, other, below):
        """Takes over the entries of another tree into a folder."""
        for path, entry in other.entries.items():
            self._above(f"{below}/{path}")
            self.entries[f"{below}/{path}"] = entry

    def _above(self, path):
        parts = path.split("/")[:-1]
        for count in range(1, len(parts) + 1):
            self.entries.setdefault("/".join(parts[:count]), Entry(0o755))

    def size(self):
        """Bytes of all files."""
        return sum(len(entry.data or b"") for entry in self.entries.values())

    def tar(self, epoch, beginning=""):
        """The tree as a tar archive; `beginning` stands before each path."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
            for path, entry in sorted(self.entries.items()):
                info = tarfile.TarInfo(beginning + path)
                info.mode, info.mtime, info.uid, info.gid = entry.mode, epoch, entry.owner, entry.owner
                if entry.data is not None:
                    info.size = len(entry.data)
                elif entry.target is not None:
                    info.type, info.linkname = tarfile.SYMTYPE, entry.target
                else:
                    info.type = tarfile.DIRTYPE
                archive.addfile(info, io.BytesIO(entry.data) if entry.data is not None else None)
        return out.getvalue()


def zipped(data):
    """gzip without a name and a time."""
    return gzip.compress(data, compresslevel=6, mtime=0)


def ar(members, epoch):
    """An archive of the kind that a Debian package is."""
    out = [b"!<arch>\n"]
    for name, data in members:
        out.append(f"{name:<16}{epoch:<12}{0:<6}{0:<6}{0o100644:<8o}{len(data):<10}`\n".encode())
        out += [data, b"\n" * (len(data) % 2)]
    return b"".join(out)
