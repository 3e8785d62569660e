"""Libraries in C that others have copied into their sources: into Swift packages, and ICU into Foundation.

Each version is read where the copy says it. A copy that is no longer there, or says it in another way, is refused: the
bill of materials would tell an old version, or none, of what scanners look for first.
"""

import pathlib
import re
import shutil
from dataclasses import dataclass

from source import Refused


@dataclass(frozen=True)
class Copy:
    """`holder` is the Swift package that has the copy, or `swift` for one in Swift's own libraries."""

    name: str
    version: str
    purl: str
    licence: str
    holder: str


BORING = r"\bat revision ([0-9a-f]{40})"
LLHTTP = r"LLHTTP_VERSION_MAJOR (\d+)\s[\s\S]*VERSION_MINOR (\d+)\s[\s\S]*VERSION_PATCH (\d+)\s"

PLACES = (
    ("boringssl", "swift-nio-ssl", "Sources/CNIOBoringSSL/hash.txt", BORING,
     "pkg:generic/boringssl@{version}?vcs_url=git%2Bhttps://boringssl.googlesource.com/boringssl%40{version}",
     "Apache-2.0 AND ISC AND MIT"),
    ("boringssl", "swift-crypto", "Sources/CCryptoBoringSSL/hash.txt", BORING,
     "pkg:generic/boringssl@{version}?vcs_url=git%2Bhttps://boringssl.googlesource.com/boringssl%40{version}",
     "Apache-2.0 AND ISC AND MIT"),
    ("xkcp", "swift-crypto", "Sources/CXKCP/vendored-sources.txt", r"XKCP#\S+ \(\S*-g([0-9a-f]{7,40})\)",
     "pkg:github/XKCP/XKCP@{version}", "CC0-1.0"),
    ("llhttp", "swift-nio", "Sources/CNIOLLHTTP/include/c_nio_llhttp.h", LLHTTP, "pkg:github/nodejs/llhttp@v{version}", "MIT"),
    ("sha1", "swift-nio", "Sources/CNIOSHA1/c_nio_sha1.c", r"\$KAME: sha1\.c,v ([\d.]+) ", "pkg:generic/kame-sha1@{version}",
     "BSD-3-Clause"),
    ("zlib", "swift-nio-extras", "Sources/CNIOExtrasZlib/vendored-zlib.version", r"\A([\w.-]+)\s*\Z",
     "pkg:github/madler/zlib@{version}", "Zlib"),
)


def _read(path, pattern, holder):
    found = re.search(pattern, path.read_text(errors="replace")) if path.is_file() else None
    if found is None:
        raise Refused(f"{path} does not tell the version of what {holder} has copied: mend packaging/dist/within.py")
    return ".".join(found.groups())


def _unicode():
    """ICU in Foundation, of which the compiler's folder has the headers."""
    compiler = pathlib.Path(shutil.which("swift") or "/usr/bin/swift").resolve()
    headers = [compiler.parents[1] / "lib" / folder / "_foundation_unicode/uvernum.h" for folder in ("swift_static", "swift")]
    path = next((header for header in headers if header.is_file()), headers[0])
    version = _read(path, r'define U_ICU_VERSION "([\d.]+)"', "swift-foundation-icu")
    tag = f"release-{version.replace('.', '-')}"
    return Copy("icu", version, f"pkg:github/unicode-org/icu@{tag}", "Unicode-3.0", "swift")


def copies(packages):
    """Every copy in these Swift packages, and ICU."""
    folders = {package.name: package.folder for package in packages}
    found = []
    for name, holder, path, pattern, purl, licence in PLACES:
        if holder not in folders:
            raise Refused(f"the build has no package {holder}: mend packaging/dist/within.py")
        version = _read(folders[holder] / path, pattern, holder)
        found.append(Copy(name, version, purl.format(version=version), licence, holder))
    return [*found, _unicode()]
