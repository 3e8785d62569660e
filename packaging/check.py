"""Tries the packages of a release on machines that have nothing else, as `make dist-check` does.

    python3 packaging/check.py [--dist .build/dist] [--before FOLDER] [--tests MODULE...]

Each machine is a folder that debootstrap or the image fills: one with a fresh Debian 12 and the tarball, one with the
Debian package and what it depends on, one that is the image. On each of them the program serves, takes a document and
a file, makes a backup, checks it, restores it into an empty folder, verifies that, and serves the restored documents.
First, the image runs in a Docker engine by the README's own line. With --before, the executables of an earlier
release, each machine takes over a folder that these have written too. Then the system tests of --tests run with the
program of the tarball.
Needs root and debootstrap.
"""

import argparse
import itertools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "Tests" / "Support"))

from mimeo_harness import Client, OneProcess, Shipped, Workspace, docker_engine, free_port, until  # noqa: E402  (its folder was named first)
from mimeo_harness.servers import announcement, await_health  # noqa: E402

TESTS = ("test_backup", "test_doctor", "test_kill", "test_upgrade")
MOST_BYTES = 120_000_000
"""Of the image, as it is stored and sent."""
PASSPHRASE = "a passphrase of some length"
FILE = b"a file of the first backup"


def run(*command, timeout=900, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, timeout=timeout, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def step(text):
    print(f"== {text}", flush=True)


class Machine:
    """A root folder that is entered by chroot, as `user`, with a /proc of its own and the network of this machine.

    Its root is read-only except for `writable`. The command replaces the shells before it, so a signal reaches it.
    """

    def __init__(self, workspace, name, root, program, user, writable):
        self.workspace, self.name, self.root, self.program, self.user = workspace, name, root, program, user
        self.writable = writable
        for folder in ("proc", "dev", "tmp", writable):
            (root / folder).mkdir(parents=True, exist_ok=True)
        os.chown(root / writable, user, user)
        os.chmod(root / "tmp", 0o1777)
        self.put("passphrase", PASSPHRASE.encode())
        self.served = 0

    def put(self, name, data):
        path = self.root / self.writable / name
        path.write_bytes(data)
        path.chmod(0o600)
        os.chown(path, self.user, self.user)

    def command(self, *arguments):
        root = self.root
        script = (f'mount --bind "{root}" "{root}" && mount -t proc proc "{root}/proc" && '
                  f'mount --bind /dev "{root}/dev" && mount -t tmpfs tmpfs "{root}/tmp" && '
                  f'mount --bind "{root}/{self.writable}" "{root}/{self.writable}" && '
                  f'mount -o remount,bind,ro "{root}" && cd / && exec "$@"')
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh",
                "env", "-i", "PATH=/usr/bin:/bin", f"HOME=/{self.writable}",
                "/usr/sbin/chroot", f"--userspec={self.user}:{self.user}", root, self.program, *arguments]

    def mimeo(self, *arguments):
        return run(*self.command(*arguments))

    def path(self, name):
        return f"/{self.writable}/{name}"

    def serve(self, data, *arguments):
        """Starts a server on a folder of the machine; the process and its client."""
        self.served += 1
        port = free_port()
        process = self.workspace.start(f"{self.name}-{self.served}", self.command(
            "serve", "--data", self.path(data), "--listen", f"127.0.0.1:{port}", "--show-token", *arguments))
        values = announcement(process)
        client = Client(f"http://127.0.0.1:{port}", values["database"], values["token"])
        await_health(process, client)
        return process, client


def expect(found, wanted, what):
    if found != wanted:
        sys.exit(f"{what}: {found!r} instead of {wanted!r}")


def cars(client):
    return sorted(row["_id"] for row in client.query("SELECT _id FROM cars"))


def everyday(machine, version):
    """Serves, writes, backs up beside the server, restores elsewhere and looks."""
    if not machine.mimeo("--version").startswith(version):
        sys.exit(f"{machine.name}: the program is not {version}")
    process, client = machine.serve("data")
    client.execute("INSERT INTO cars DOCUMENTS ({'_id': 'fiat', 'seats': 4})")
    blob = client.upload(FILE).json["id"]
    key = ("--passphrase-file", machine.path("passphrase"))
    machine.mimeo("backup", "create", "--data", machine.path("data"), "--to", machine.path("backups"),
                  "--attachments", machine.path("data/attachments"), *key)
    expect(process.stop(), 0, f"{machine.name}: the server's end")
    machine.mimeo("backup", "verify", machine.path("backups"))
    machine.mimeo("restore", machine.path("backups"), "--data", machine.path("restored"),
                  "--attachments", machine.path("restored/attachments"), *key)
    machine.mimeo("verify", "--data", machine.path("restored"), "--attachments", machine.path("restored/attachments"))
    process, client = machine.serve("restored")
    expect(cars(client), ["fiat"], f"{machine.name}: documents after the restore")
    expect(client.download(blob).body, FILE, f"{machine.name}: the file after the restore")
    expect(process.stop(), 0, f"{machine.name}: the restored server's end")
    print(f"{machine.name}: served, backed up, checked, restored, verified", flush=True)


def readme_line():
    """The words of the README's `docker run`."""
    found = re.search(r"^docker run (?:.*\\\n)*.*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    if found is None:
        sys.exit("README.md has no `docker run`")
    return shlex.split(found[0].replace("\\\n", " "))


def as_the_readme_says(workspace, shipped, folder):
    """Runs the README's `docker load` and `docker run` in an engine, on a terminal, and looks for what was promised.

    The container's name, its volume and the published port are replaced by free ones. What was written is there again
    after the container was removed and the same line ran once more.
    """
    words, port = readme_line(), free_port()
    expect(words[-1], f"mimeo:{shipped.version}", "the image that the README starts")
    mine = f"mimeo-readme-{port}"
    ours = {"mimeo": mine, "mimeo:/data": f"{mine}:/data", "127.0.0.1:4000:4000": f"127.0.0.1:{port}:4000"}
    expect(ours.keys() <= set(words), True, f"name, volume and port of {shlex.join(words)}")
    command = [ours.get(word, word) for word in words]
    with docker_engine(folder):
        run("docker", "load", "-i", shipped.image)
        try:
            for found in ([], ["fiat"]):
                # `script` is the terminal of -t.
                process = workspace.start(f"{mine}-{len(found)}", ["script", "-qefc", shlex.join(command), "/dev/null"])
                values = until(lambda: printed(process), 90, "the README says that a database and a token are printed")
                client = Client(f"http://127.0.0.1:{port}", values["database"], values["token"])
                await_health(process, client)
                expect(client.login().status, 200, "a login with what was printed")
                expect(cars(client), found, "documents of the volume")
                if not found:
                    client.execute("INSERT INTO cars DOCUMENTS ({'_id': 'fiat', 'seats': 4})")
                run("docker", "stop", mine)
                run("docker", "rm", mine)
        finally:
            subprocess.run(["docker", "rm", "-f", mine], capture_output=True, check=False)
            subprocess.run(["docker", "volume", "rm", "-f", mine], capture_output=True, check=False)
    print(f"docker: {shlex.join(words)}", flush=True)


def printed(process):
    """Database and token, once both stand between the lines of the log: a terminal shows both."""
    lines = itertools.takewhile(lambda line: line is not None, (process.line(index, 0.1) for index in itertools.count()))
    output = "\n".join(lines)
    values = dict(re.findall(r"^(database|token): (\S+)", output, re.MULTILINE))
    if process.is_at_end:
        sys.exit(f"the container ended: {output}")
    return values if len(values) == 2 else None


def upgrade(machine, before):
    """Takes over a folder that an earlier release has written."""
    old = OneProcess(machine.workspace, f"{machine.name}-before", program=before / "mimeo").start()
    old.execute("INSERT INTO cars DOCUMENTS ({'_id': 'citroen', 'seats': 4})")
    expect(old.stop(), 0, "the earlier server's end")
    folder = machine.root / machine.writable / "old"
    shutil.copytree(old.data, folder)
    run("chown", "-R", f"{machine.user}:{machine.user}", folder)
    told = machine.mimeo("upgrade", "--check", "--data", machine.path("old"))
    process, client = machine.serve("old")
    expect(cars(client), ["citroen"], f"{machine.name}: documents after the upgrade")
    client.execute("INSERT INTO cars DOCUMENTS ({'_id': 'fiat'})")
    expect(process.stop(), 0, f"{machine.name}: the upgraded server's end")
    print(f"{machine.name}: took over a folder of {run(before / 'mimeo', '--version').split()[0]}: "
          f"{told.splitlines()[-1]}", flush=True)


def debian(folder, packages=()):
    """A fresh Debian 12 in a folder."""
    step(f"debootstrap {' '.join(packages)}")
    included = [f"--include={','.join(packages)}"] if packages else []
    # It mounts /proc in the folder. In namespaces of its own nothing of that is left, however it ends.
    run("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
        "debootstrap", "--variant=minbase", *included, "bookworm", folder, timeout=1_500)
    # It becomes the root folder of a user who is not root.
    folder.chmod(0o755)
    return folder


def machines(workspace, shipped, folder):
    """The three machines, one after the other."""
    step("the image")
    if shipped.image.stat().st_size > MOST_BYTES:
        sys.exit(f"{shipped.image} has {shipped.image.stat().st_size} bytes, more than {MOST_BYTES}")
    image = folder / "image"
    shipped.unpack_image(image)
    user = int(shipped.image_parts()[0]["config"]["User"].split(":")[0])
    yield Machine(workspace, "image", image, "/opt/mimeo/bin/mimeo", user, "data")
    shutil.rmtree(image)

    root = debian(folder / "tarball")
    (unpacked,) = [shipped.unpack(root / "opt")]
    libraries = sorted(path.name for path in (unpacked / "lib" / "mimeo").iterdir())
    swift = [name for name in libraries if re.match(r"lib(swift|Foundation|_Foundation|dispatch|Blocks)", name)]
    expect(swift, [], "libraries of Swift beside the program, which a release has linked in")
    yield Machine(workspace, "tarball", root, f"/opt/{unpacked.name}/bin/mimeo", 65534, "srv/mimeo")
    shutil.rmtree(root)

    depends = re.search(r"Depends: (.*)", run("dpkg-deb", "--info", shipped.debian))[1]
    root = debian(folder / "debian", [part.split()[0] for part in depends.split(", ") if not part.startswith("libc6")])
    shutil.copy(shipped.debian, root / "mimeo.deb")
    run("chroot", root, "dpkg", "-i", "/mimeo.deb")
    user = int(re.search(r"^mimeo:x:(\d+):", (root / "etc/passwd").read_text(), re.MULTILINE)[1])
    expect((root / "etc/mimeo/backup-passphrase").stat().st_mode & 0o777, 0o640, "the mode of the passphrase")
    yield Machine(workspace, "debian", root, "/usr/bin/mimeo", user, "var/lib/mimeo")
    run("chroot", root, "dpkg", "-r", "mimeo")
    expect((root / "usr/bin/mimeo").exists(), False, "the program after its removal")
    expect((root / "var/lib/mimeo/data/log.sqlite").exists(), True, "the data after the removal")
    shutil.rmtree(root)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=pathlib.Path, default=ROOT / ".build" / "dist", help="what `make dist` made")
    parser.add_argument("--before", type=pathlib.Path, help="the executables of an earlier release")
    parser.add_argument("--tests", nargs="*", default=TESTS, help="system tests to run with the tarball's program")
    options = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        sys.exit("needs root and debootstrap: scripts/setup engine installs it")
    shipped = Shipped(options.dist.resolve())
    run("sha256sum", "--check", "SHA256SUMS", cwd=shipped.folder)
    with tempfile.TemporaryDirectory(prefix="mimeo-dist.") as name, Workspace() as workspace:
        folder = pathlib.Path(name)
        # Users of the machines pass through it.
        folder.chmod(0o755)
        as_the_readme_says(workspace, shipped, folder)
        for machine in machines(workspace, shipped, folder):
            everyday(machine, shipped.version)
            if options.before:
                upgrade(machine, options.before.resolve())
        if options.tests:
            step(f"system tests with the tarball's program: {' '.join(options.tests)}")
            subprocess.run(
                [sys.executable, ROOT / "Tests" / "SystemTests", *options.tests], check=True, timeout=3600,
                env={**os.environ, "MIMEO_BIN": str(shipped.unpack(folder / "unpacked") / "bin")})
    print("the packages work", flush=True)


if __name__ == "__main__":
    main()
