"""What people get: `scripts/dist` packs the executable that MIMEO_BIN names, and every package has what it promises.

`make dist-check` installs the packages on machines that have nothing else, and `make compose-test` runs the image.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

from mimeo_harness import ROOT, OneProcess, binary, pack
from system_test import SystemTest, report

PROGRAMS = ("attachment-store", "auth-gateway", "mimeo", "query-service", "replicator")
SYSTEM = re.compile(r"(ld-linux.*|linux-vdso|lib(c|m|dl|rt|resolv|util|pthread))\.so\.\d+")
MEGABYTE = 1_000_000


def told(*command, **options):
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=True, timeout=120, **options).stdout


def shipped_version():
    return re.search(r'number = "(.*)"', (ROOT / "Shared/ServiceKit/Host/BuildVersion.swift").read_text())[1]


def dependencies():
    """The packages that Package.swift names, with the least version of each."""
    return dict(re.findall(r'\.package\(url: "https://([^"]+?)(?:\.git)?", from: "([^"]+)"',
                           (ROOT / "Package.swift").read_text()))


def numbers(version):
    return tuple(map(int, version.split(".")))


class Dist(SystemTest):
    seconds = 600

    @classmethod
    def setUpClass(cls):
        if shutil.which("dpkg-query") is None or shutil.which("objcopy") is None:
            raise unittest.SkipTest("packages are made on Debian: scripts/setup pack installs what that needs")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="mimeo-dist."))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.built = pathlib.Path(binary("mimeo")).parent
        cls.shipped = pack(cls.built, cls.folder / "dist")
        cls.unpacked = cls.shipped.unpack(cls.folder / "tarball")

    # The folder

    def test_the_sums_are_of_every_file_and_each_is_there(self):
        told("sha256sum", "--check", "SHA256SUMS", cwd=self.shipped.folder)
        sums = (self.shipped.folder / "SHA256SUMS").read_text().splitlines()
        self.assertEqual([line.split("  ")[1] for line in sums], [path.name for path in self.shipped.files])
        version = shipped_version()
        patterns = (rf"mimeo-{version}-image-\w+\.tar", rf"mimeo-{version}-linux-\w+-debug\.tar\.gz",
                    rf"mimeo-{version}-linux-\w+\.tar\.gz", rf"mimeo-{version}\.cdx\.json", rf"mimeo_{version}_\w+\.deb")
        for path, pattern in zip(self.shipped.files, patterns, strict=True):
            self.assertRegex(path.name, f"^{pattern}$")
            report(f"{path.stat().st_size / MEGABYTE:.1f} MB {path.name}")

    def test_two_packings_of_a_build_are_equal_byte_for_byte(self):
        other = self.folder / "again"
        done = subprocess.run(
            ["sh", "-c", 'umask 077; exec "$0" "$1" --any-commit', ROOT / "scripts" / "dist", other], cwd="/", check=False,
            capture_output=True, text=True, timeout=500,
            env={**os.environ, "MIMEO_BIN": str(self.built), "TZ": "Asia/Kathmandu", "LC_ALL": "C", "USER": "other"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((other / "SHA256SUMS").read_text(), (self.shipped.folder / "SHA256SUMS").read_text())
        for path in self.shipped.files:
            self.assertEqual(hashlib.sha256((other / path.name).read_bytes()).digest(),
                             hashlib.sha256(path.read_bytes()).digest(), path.name)

    def test_the_time_of_every_file_is_the_given_one(self):
        epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or told("git", "-C", ROOT, "log", "-1", "--format=%ct"))
        with tarfile.open(self.shipped.tarball) as archive:
            members = archive.getmembers()
        self.assertEqual({member.mtime for member in members}, {epoch})
        self.assertEqual({(member.uid, member.gid, member.uname, member.gname) for member in members}, {(0, 0, "", "")})
        self.assertEqual([member.name for member in members], sorted(member.name for member in members))
        self.assertEqual([member.name for member in members if member.mode & 0o022 and not member.issym()], [])

    def test_nothing_is_packed_of_an_incomplete_folder_or_a_wrong_time(self):
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        for environment, words in (
                ({"MIMEO_BIN": str(empty)}, "mimeo is missing"), ({"SOURCE_DATE_EPOCH": "today"}, "SOURCE_DATE_EPOCH"),
                ({"MIMEO_BIN": str(self.other_program())}, "is not that service")):
            done = subprocess.run(
                [ROOT / "scripts" / "dist", self.folder / "none", "--any-commit"], capture_output=True, text=True, check=False,
                timeout=60, env={**os.environ, "MIMEO_BIN": str(self.built), **environment})
            self.assertEqual(done.returncode, 1, words)
            self.assertIn(words, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def other_program(self):
        """A folder whose `mimeo` is another executable: called by a service's name it stays what it is."""
        folder = self.folder / "other"
        folder.mkdir(exist_ok=True)
        shutil.copy("/bin/true", folder / "mimeo")
        return folder

    def test_an_executable_of_another_commit_and_a_changed_checkout_are_refused(self):
        checkout = self.folder / "checkout"
        (checkout / "Shared/ServiceKit/Host").mkdir(parents=True)
        (checkout / "Shared/ServiceKit/Host/BuildVersion.swift").write_text('static let number = "1.2.3"\n')
        (checkout / ".gitignore").write_text("built/\n")
        git = ("git", "-C", checkout, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        told(*git, "init", "-q")
        told(*git, "add", ".")
        told(*git, "commit", "-q", "-m", "one")
        commit = told(*git, "rev-parse", "HEAD").strip()
        program = checkout / "built/mimeo"
        program.parent.mkdir()
        for text, words in ((f"1.2.3 (commit {commit[:12]})", None), ("1.2.3", "is 1.2.3, the checkout is 1.2.3 (commit "),
                            ("1.2.3 (commit 0123456789ab)", "(commit 0123456789ab), the checkout is"),
                            (f"1.2.4 (commit {commit[:12]})", "is 1.2.4 ")):
            program.write_text(f"#!/bin/sh\necho '{text}'\n")
            program.chmod(0o755)
            with self.subTest(text):
                self.assert_packed(checkout, words)
        program.write_text(f"#!/bin/sh\necho '1.2.3 (commit {commit[:12]})'\n")
        (checkout / "Shared/new.swift").write_text("")
        self.assert_packed(checkout, "changes that are not committed, such as ?? Shared/new.swift")

    def assert_packed(self, checkout, refusal):
        """Whether what is built in a checkout would be packed."""
        script = ("import pathlib, sys; sys.path.insert(0, sys.argv[1]); import source; source.ROOT = pathlib.Path(sys.argv[2])\n"
                  "try: source.Build('built').check_commit()\nexcept source.Refused as refusal: print(refusal)")
        said = told(sys.executable, "-B", "-c", script, ROOT / "packaging/dist", checkout)
        self.assertEqual(said, "") if refusal is None else self.assertIn(refusal, said)

    # The tarball

    def test_every_program_of_the_tarball_answers_by_its_own_name_and_with_libraries_beside_it(self):
        for name in PROGRAMS:
            self.assertRegex(told(self.unpacked / "bin" / name, "--help"), rf"(?m)^USAGE: {name} ")
        self.assertTrue(told(self.unpacked / "bin" / "mimeo", "--version").startswith(shipped_version()))
        program = self.unpacked / "lib" / "mimeo" / "mimeo"
        for line in told("ldd", program).splitlines():
            name = line.split()[0].split("/")[-1]
            inside = f"=> {self.unpacked / 'lib' / 'mimeo'}/" in line
            self.assertNotEqual(inside, bool(SYSTEM.fullmatch(name)), line)
        self.assertIn("(RPATH)", told("readelf", "-d", program))
        self.assertIn("[$ORIGIN]", told("readelf", "-d", program))
        self.assertNotIn(".debug_info", told("readelf", "-S", "--wide", program))

    def test_nothing_in_the_tarball_needs_a_newer_glibc_than_debian_12_has(self):
        for path in (self.unpacked / "lib" / "mimeo").iterdir():
            for version in re.findall(r"\bGLIBC_(\d+\.\d+)", told("readelf", "-V", "--wide", path)):
                self.assertLessEqual(numbers(version), (2, 36), path.name)

    def test_the_debug_information_is_of_the_program(self):
        (debug,) = self.shipped.folder.glob("*-debug.tar.gz")
        subprocess.run(["tar", "-C", self.folder, "-xzf", debug], check=True)
        (found,) = self.folder.glob("*/lib/mimeo/mimeo.debug")
        notes = [re.search(r"Build ID: (\w+)", told("readelf", "-n", path)) for path in (
            found, self.unpacked / "lib" / "mimeo" / "mimeo")]
        self.assertEqual(notes[0] and notes[0][1], notes[1] and notes[1][1])

    def test_the_tarball_serves(self):
        server = OneProcess(self.workspace, program=self.unpacked / "bin" / "mimeo").start()
        server.execute("INSERT INTO c DOCUMENTS ({'_id': '1', 'made': 'here'})")
        self.assertEqual(server.query("SELECT * FROM c"), [{"_id": "1", "made": "here"}])

    def test_the_tarball_has_what_an_operator_needs(self):
        for path in ("README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "Docs/support.md", "mimeo.json",
                     "monitoring/rules.yml", "monitoring/dashboard.json", "systemd/mimeo.service",
                     "systemd/mimeo-backup.timer", "compose/compose.yaml", "compose/restore",
                     "deploy/kubernetes/replicator.yaml", "mimeo.cdx.json"):
            self.assertTrue((self.unpacked / path).is_file(), path)
        for path in (self.unpacked / "systemd").iterdir():
            self.assertNotRegex(path.read_text(), r"@[A-Z]+@", path.name)
        self.assertIn("ExecStart=/opt/mimeo/bin/mimeo serve", (self.unpacked / "systemd/mimeo.service").read_text())
        self.assertFalse((self.unpacked / "compose" / "private").exists())

    # Licences and the bill of materials

    def test_every_package_and_library_comes_with_its_licence(self):
        licences = self.unpacked / "licences"
        for place in dependencies():
            folder = licences / place.split("/")[-1].lower()
            self.assertTrue([path for path in folder.glob("*") if path.name.lower().startswith("licen")], place)
        self.assertTrue((licences / "swift-nio" / "Sources" / "CNIOLLHTTP" / "LICENSE").is_file())
        for name in ("swift.txt", "icu.txt", "boringssl.txt", "console.md"):
            self.assertGreater((licences / name).stat().st_size, 1_000, name)
        self.assertIn("cjdict.txt", (licences / "icu.txt").read_text())
        for name in ("libpq5", "libsqlite3-0", "zlib1g", "libedit2", "libssl3"):
            self.assertIn("opyright", (licences / "debian" / f"{name}.txt").read_text(), name)

    def test_the_bill_has_every_package_of_the_manifest_and_every_library(self):
        bill = self.shipped.bill
        self.assertEqual((bill["bomFormat"], bill["specVersion"]), ("CycloneDX", "1.5"))
        self.assertEqual(bill["metadata"]["component"]["version"], shipped_version())
        components = {component["name"]: component for component in bill["components"]}
        for place, least in dependencies().items():
            component = components[place.split("/")[-1].lower()]
            self.assertGreaterEqual(numbers(component["version"]), numbers(least), place)
            self.assertEqual(component["purl"], f"pkg:swift/{place}@{component['version']}")
            self.assertIn("licenses", component, place)
        for name in ("preact", "htm", "codemirror"):
            self.assertIn(components[name]["version"], (ROOT / "Services/Console/VENDORED.md").read_text())
        for path in (self.unpacked / "licences" / "debian").iterdir():
            installed = told("dpkg-query", "--show", "--showformat", "${Version}", path.stem)
            self.assertEqual(components[path.stem]["version"], installed, path.stem)
        self.assertEqual(components["libsqlite3-0"]["licenses"], [{"license": {"id": "blessing"}}])
        references = [component["bom-ref"] for component in bill["components"]]
        self.assertEqual(len(references), len(set(references)))
        self.assertEqual(bill["dependencies"][0]["dependsOn"], references)
        self.assertEqual(json.loads((self.unpacked / "mimeo.cdx.json").read_text()), bill)

    def test_the_bill_has_the_libraries_within_packages_in_the_versions_that_their_sources_tell(self):
        within = {}
        for component in self.shipped.bill["components"]:
            for fact in component.get("properties", []):
                if fact["name"] == "mimeo:within":
                    within[component["name"], fact["value"]] = component
        self.assertEqual(set(within), {
            ("boringssl", "swift-nio-ssl"), ("boringssl", "swift-crypto"), ("xkcp", "swift-crypto"), ("llhttp", "swift-nio"),
            ("sha1", "swift-nio"), ("zlib", "swift-nio-extras"), ("icu", "swift")})
        for component in within.values():
            self.assertRegex(component["version"], r"^(\d+\.\d+(\.\d+)*(-\w+)?|[0-9a-f]{7,40})$", component["name"])
            self.assertTrue(component["licenses"], component["name"])
            self.assertIn(component["version"].replace(".", "-" if component["name"] == "icu" else "."), component["purl"])
        # The program tells its zlib itself.
        program = (self.unpacked / "lib/mimeo/mimeo").read_bytes()
        told_by_zlib = re.search(rb"deflate (\d+\.[\d.]+\d) Copyright", program)[1].decode()
        self.assertTrue(within["zlib", "swift-nio-extras"]["version"].startswith(told_by_zlib))

    def test_the_bill_has_the_versions_that_were_resolved(self):
        resolved = ROOT / "Package.resolved"
        if not resolved.exists():
            self.skipTest("Package.resolved is not beside the manifest: another checkout was built")
        components = {component["name"]: component for component in self.shipped.bill["components"]}
        for pin in json.loads(resolved.read_text())["pins"]:
            component = components[pin["identity"]]
            self.assertEqual(component["version"], pin["state"]["version"])
            self.assertEqual(component["externalReferences"][0]["comment"], pin["state"]["revision"])

    # The Debian package

    def test_the_package_names_every_library_that_it_does_not_bring(self):
        about = told("dpkg-deb", "--info", self.shipped.debian)
        self.assertIn(f"Version: {shipped_version()}\n", about)
        self.assertNotIn("@", re.sub(r"<.*?>|mimeo@\S*", "", about))
        depends = re.split(r"[ ,]+", re.search(r"Depends: (.*)", about)[1])
        root = self.extracted()
        libraries = {path.name for path in (root / "usr/lib/mimeo").iterdir()}
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", told("readelf", "-d", root / "usr/lib/mimeo/mimeo")):
            if name in libraries or SYSTEM.fullmatch(name):
                continue
            path = re.search(rf"{re.escape(name)} => (\S+)", told("ldd", self.built / "mimeo"))[1]
            self.assertIn(self.package_of(pathlib.Path(path).resolve()), depends, name)

    def package_of(self, path):
        for known in (str(path), str(path).removeprefix("/usr")):
            done = subprocess.run(["dpkg-query", "-S", known], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return done.stdout.split(":")[0]
        raise AssertionError(f"{path} is of no package")

    def extracted(self):
        root = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        told("dpkg-deb", "-x", self.shipped.debian, root)
        return root

    def test_the_package_has_four_services_units_rules_and_all_pages_to_which_its_pages_lead(self):
        root = self.extracted()
        self.assertTrue(told(root / "usr/bin/mimeo", "--version").startswith(shipped_version()))
        for name in PROGRAMS:
            self.assertRegex(told(root / "usr/lib/mimeo" / name, "--help"), rf"(?m)^USAGE: {name} ")
        for path in ("usr/lib/systemd/system/mimeo.service", "usr/lib/systemd/system/mimeo@.service",
                     "usr/lib/systemd/system/mimeo-backup.timer", "usr/share/mimeo/monitoring/rules.yml",
                     "usr/share/mimeo/monitoring/dashboard.json", "etc/mimeo/mimeo.json"):
            self.assertTrue((root / path).is_file(), path)
        self.assertIn("./etc/mimeo/mimeo.json", told("dpkg-deb", "--contents", self.shipped.debian))
        documents = root / "usr/share/doc/mimeo"
        for name in ("copyright", "changelog.gz", "licences/swift-nio/LICENSE.txt", "licences/icu.txt", "mimeo.cdx.json"):
            self.assertTrue((documents / name).is_file(), name)
        self.assertIn(f"mimeo ({shipped_version()}) ", told("zcat", documents / "changelog.gz"))
        pages = [page for page in documents.rglob("*.md") if "licences" not in page.parts]
        self.assertGreater(len(pages), 30)
        for page in pages:
            for link in re.findall(r"\]\(([^)\s#]+\.md)(?:#[^)]*)?\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.S)):
                if "://" not in link:
                    self.assertTrue((page.parent / link).resolve().is_file(), f"{page.relative_to(root)}: {link}")

    def test_the_sums_in_the_package_are_right(self):
        root = self.extracted()
        told("dpkg-deb", "--control", self.shipped.debian, root / "DEBIAN")
        told("md5sum", "--check", "--quiet", "DEBIAN/md5sums", cwd=root)
        listed = {line.split("  ")[1] for line in (root / "DEBIAN/md5sums").read_text().splitlines()}
        files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file() and not path.is_symlink()}
        self.assertEqual(listed, {path for path in files if not path.startswith("DEBIAN/")})

    # The image

    def test_the_image_runs_the_server_as_nobody_in_particular(self):
        configuration, layers = self.shipped.image_parts()
        config = configuration["config"]
        self.assertEqual(config["User"], "10001:10001")
        self.assertEqual([*config["Entrypoint"], *config["Cmd"]],
                         ["mimeo", "serve", "--data", "/data", "--listen", "0.0.0.0:4000"])
        self.assertEqual(config["ExposedPorts"], {"4000/tcp": {}})
        self.assertEqual(config["Volumes"], {"/data": {}})
        self.assertEqual(config["StopSignal"], "SIGTERM")
        # The engine starts it again as soon as it is gone; a backtrace would keep it.
        self.assertIn("SWIFT_BACKTRACE=enable=no", config["Env"])
        self.assertEqual(config["Labels"]["org.opencontainers.image.version"], shipped_version())
        members = {member.name: member for layer in layers for member in layer.getmembers()}
        for name in ("data", "backups"):
            self.assertEqual((members[name].uid, members[name].mode & 0o777), (10001, 0o700), name)
        writable = [name for name, member in members.items()
                    if member.mode & 0o022 and not member.issym() and name != "tmp"]
        self.assertEqual(writable, [])
        for name in ("etc/ssl/certs/ca-certificates.crt", "usr/share/zoneinfo/Europe/Berlin", "etc/passwd",
                     "usr/bin/healthy", "opt/mimeo/bin/replicator", "var/lib/dpkg/status.d/libpq5"):
            self.assertIn(name, members)

    def test_the_image_is_an_oci_layout_too(self):
        with tarfile.open(self.shipped.image) as archive:
            (manifest,) = json.loads(archive.extractfile("index.json").read())["manifests"]
            for _ in range(2):
                digest = manifest["digest"].removeprefix("sha256:")
                data = archive.extractfile(f"blobs/sha256/{digest}").read()
                self.assertEqual((hashlib.sha256(data).hexdigest(), len(data)), (digest, manifest["size"]))
                manifest = json.loads(data).get("config", manifest)
            diffs = json.loads(data)["rootfs"]["diff_ids"]
        layers = [hashlib.sha256(layer.fileobj.read()).hexdigest() for layer in self.raw_layers()]
        self.assertEqual(diffs, [f"sha256:{digest}" for digest in layers])

    def raw_layers(self):
        for layer in self.shipped.image_parts()[1]:
            layer.fileobj.seek(0)
            yield layer

    @unittest.skipIf(pathlib.Path(os.environ.get("MIMEO_BIN", "")).name == "debug",
                     "a program without optimizations is as large as it is")
    def test_the_image_is_smaller_than_120_megabytes(self):
        self.assertLess(self.shipped.image.stat().st_size, 120 * MEGABYTE)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to enter the image's folder")
    def test_the_image_has_all_that_its_programs_need(self):
        root = self.folder / "image"
        self.shipped.unpack_image(root)
        self.addCleanup(subprocess.run, ["umount", root / "proc"], check=False, capture_output=True)
        (root / "proc").mkdir()
        # The loader finds the libraries beside the program by /proc.
        told("mount", "-t", "proc", "proc", root / "proc")
        environment = {"PATH": "/opt/mimeo/bin:/usr/bin"}
        inside = ("chroot", "--userspec=10001:10001", root)
        version = told("/usr/sbin/" + inside[0], *inside[1:], "/opt/mimeo/bin/mimeo", "--version", env=environment)
        self.assertTrue(version.startswith(shipped_version()))
        shell = told("/usr/sbin/" + inside[0], *inside[1:], "/usr/bin/bash", "-c", "replicator --help", env=environment)
        self.assertIn("USAGE: replicator ", shell)

    # Versions

    def test_every_place_names_the_same_version(self):
        version = shipped_version()
        places = {
            "Shared/DittoSwift/Ditto.swift": f'"{version}"', "README.md": f"mimeo:{version}\n",
            "Shared/ServiceKit/Client/package.json": f'"version": "{version}"',
            "compose/compose.yaml": f"MIMEO_IMAGE:-mimeo:{version}}}",
            "compose/.env.example": f"MIMEO_IMAGE=mimeo:{version}\n", "Shared/DittoSwift/README.md": f'from: "{version}"',
            "Shared/DittoSwift/DittoSwift.docc/AddingThePackage.md": f'from: "{version}"',
            "SECURITY.md": f"\n| {version.rsplit('.', 1)[0]} | yes |", "Docs/support.md": f"\n| {version.rsplit('.', 1)[0]} |",
        }
        for path, text in places.items():
            self.assertIn(text, (ROOT / path).read_text(), path)
        self.assertRegex((ROOT / "CHANGELOG.md").read_text(), rf"(?s)\A# Changes\n(?:(?!\n## ).)*\n## {re.escape(version)}\n")
        for path in (ROOT / "deploy").rglob("*.yaml"):
            for image in re.findall(r"image: (\S+)", path.read_text()):
                self.assertEqual(image, f"mimeo:{version}", path.name)
        for path in (ROOT / "README.md", *(page for folder in ("Docs", "packaging", "compose", "deploy")
                                           for page in (ROOT / folder).rglob("*.md"))):
            for named in re.findall(r"\bmimeo[-_:](\d+\.\d+\.\d+)", path.read_text()):
                self.assertEqual(named, version, path)
