"""The container image: the tarball on glibc, certificates and time zones, as an archive that `docker load`, podman and
skopeo take. It is written here, so that making it needs no Docker engine and no registry."""

import hashlib
import json
import pathlib
import time

from archive import Tree, zipped
from libraries import installed, package_of
from source import ROOT, Refused

USER = 10001
"""Of the services, as in earlier images: volumes keep their owner."""

BASE = ("base-files", "bash", "ca-certificates", "libc6", "libtinfo6", "netbase", "tzdata")
"""Debian packages of the lower layer. bash is for the health check alone."""

LIBC = ("ld-linux", "ld-linux-x86-64", "ld-linux-aarch64", "libc", "libdl", "libm", "libpthread", "libresolv",
        "librt", "libutil", "libnss_dns", "libnss_files")
HOME = "opt/mimeo"


def _system_files():
    """The files of the lower layer, by path in the image."""
    folders = [folder for folder in pathlib.Path("/lib").iterdir() if folder.name.endswith("-linux-gnu")]
    for folder in folders:
        for path in sorted(folder.iterdir()):
            is_wanted = path.name.split(".so")[0] in LIBC or path.name == "libtinfo.so.6"
            if ".so" in path.name and is_wanted and package_of(path).name in BASE:
                yield f"usr/lib/{folder.name}/{path.name}", path.read_bytes(), 0o755
    for loader in pathlib.Path("/lib64").glob("ld-linux-*"):
        yield f"usr/lib64/{loader.name}", loader.read_bytes(), 0o755
    yield "usr/bin/bash", pathlib.Path("/bin/bash").read_bytes(), 0o755
    zones = pathlib.Path("/usr/share/zoneinfo")
    for path in sorted(zones.rglob("*")):
        if path.is_file() and path.relative_to(zones).parts[0] not in ("posix", "right"):
            yield path.as_posix()[1:], path.read_bytes(), 0o644
    yield "etc/protocols", pathlib.Path("/etc/protocols").read_bytes(), 0o644
    yield "etc/services", pathlib.Path("/etc/services").read_bytes(), 0o644


def certificates():
    """Mozilla's authorities, without those that this machine may have added."""
    files = sorted(pathlib.Path("/usr/share/ca-certificates/mozilla").glob("*.crt"))
    if not files:
        raise Refused("the certificates of ca-certificates are missing: apt-get install ca-certificates")
    return b"".join(path.read_bytes().rstrip() + b"\n" for path in files)


def base_packages():
    return [installed(name) for name in BASE]


def base():
    tree = Tree()
    for folder in ("bin", "lib", "lib64", "sbin"):
        tree.folder(f"usr/{folder}")
        tree.link(folder, f"usr/{folder}")
    for path, data, mode in _system_files():
        tree.file(path, data, mode)
    tree.link("usr/bin/sh", "bash")
    tree.file("etc/passwd", f"root:x:0:0:root:/:/usr/bin/bash\nmimeo:x:{USER}:{USER}::/data:/usr/bin/bash\n")
    tree.file("etc/group", f"root:x:0:\nmimeo:x:{USER}:\n")
    tree.file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    tree.copy("etc/os-release", pathlib.Path("/usr/lib/os-release"))
    tree.file("etc/ssl/certs/ca-certificates.crt", certificates())
    for package in base_packages():
        tree.file(f"usr/share/doc/{package.name}/copyright", package.copyright())
    tree.folder("tmp", 0o1777)
    for folder in ("data", "backups"):
        tree.folder(folder, 0o700, owner=USER)
    return tree


def application(release, packages):
    """The upper layer: the tarball as it is, the health check, and what scanners read about Debian's packages."""
    tree = Tree()
    tree.add(release, HOME)
    tree.copy("usr/bin/healthy", ROOT / "compose/container/healthy")
    for package in packages:
        tree.file(f"var/lib/dpkg/status.d/{package.name}", package.status())
    return tree


def configuration(version, commit, epoch, architecture, layers):
    """The image's settings: `mimeo serve` on port 4000, as nobody in particular."""
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))
    return {
        "architecture": architecture, "os": "linux", "created": created,
        "config": {
            "User": f"{USER}:{USER}", "WorkingDir": "/data", "StopSignal": "SIGTERM",
            # A crash ends the server at once, and the engine starts it again: clients would wait for a backtrace.
            "Env": [f"PATH=/{HOME}/bin:/usr/bin", "SWIFT_BACKTRACE=enable=no"],
            "Entrypoint": ["mimeo"], "Cmd": ["serve", "--data", "/data", "--listen", "0.0.0.0:4000"],
            "ExposedPorts": {"4000/tcp": {}}, "Volumes": {"/data": {}},
            "Healthcheck": {"Test": ["CMD", "healthy", "4000"], "Interval": 10_000_000_000, "Timeout": 6_000_000_000,
                            "StartPeriod": 30_000_000_000, "Retries": 3},
            "Labels": {
                "org.opencontainers.image.title": "mimeo", "org.opencontainers.image.version": version,
                "org.opencontainers.image.revision": commit, "org.opencontainers.image.licenses": "Apache-2.0",
                "org.opencontainers.image.description": "An open, self-hosted edge-sync database",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]},
        "history": [{"created": created, "created_by": f"scripts/dist: {name}"} for name in ("system", "mimeo")],
    }


def archive(version, commit, epoch, architecture, trees):
    """The bytes of the archive: an OCI layout, with the list beside it that `docker load` reads."""
    layers = [tree.tar(epoch) for tree in trees]
    out = Tree()

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        out.file(f"blobs/sha256/{digest}", data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    def text(value):
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    config = blob(text(configuration(version, commit, epoch, architecture, layers)), "config.v1+json")
    parts = [blob(zipped(layer), "layer.v1.tar+gzip") for layer in layers]
    manifest = blob(text({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
        "layers": parts}), "manifest.v1+json")
    manifest["annotations"] = {
        "org.opencontainers.image.ref.name": version, "io.containerd.image.name": f"docker.io/library/mimeo:{version}"}
    manifest["platform"] = {"architecture": architecture, "os": "linux"}
    out.file("oci-layout", text({"imageLayoutVersion": "1.0.0"}))
    out.file("index.json", text({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest]}))

    def place(part):
        return f"blobs/sha256/{part['digest'].removeprefix('sha256:')}"

    out.file("manifest.json", text([{
        "Config": place(config), "RepoTags": [f"mimeo:{version}"], "Layers": [place(part) for part in parts]}]))
    return out.tar(epoch)
