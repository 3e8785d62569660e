"""Runs compose for real, as `make compose-test` does: the image of a release, the tour, a fail-over, a restore, an
upgrade.

    python3 compose/check.py [--dist .build/dist] [--before CHECKOUT]

Nothing comes from a registry: the base image of nginx and PostgreSQL is made by debootstrap, unless
`debian:bookworm-slim` is there, and the services' image and the peers' program are those that `make dist` left in
--dist. With --before, a checkout of an earlier version with its `make dist` (or, before 0.2.0, its debug build), the
containers start as that has them, with one PostgreSQL, get documents, and go on with --dist and two on the same
volumes. Uses the Docker engine that DOCKER_HOST names or the machine has; if none runs, root starts one with a folder
of its own for the time of the check.
"""

import argparse
import os
import pathlib
import secrets
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "Tests" / "Support"))

from mimeo_harness import Shipped, docker_engine, free_port  # noqa: E402  (its folder had to be named first)

BASE = "debian:bookworm-slim"
FILES = ["-f", str(HERE / "compose.yaml"), "-f", str(HERE / "cluster.yaml")]


def run(*command, seconds=900, **options):
    subprocess.run([str(part) for part in command], check=True, timeout=seconds, stdout=subprocess.DEVNULL, **options)


def step(text):
    print(f"== {text}", flush=True)


def has_image(name):
    return subprocess.run(["docker", "image", "inspect", name], capture_output=True, check=False).returncode == 0


def base_image(folder):
    if has_image(BASE):
        return
    step(f"{BASE} from debootstrap")
    root = folder / "rootfs"
    run("debootstrap", "--variant=minbase", "bookworm", root)
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as tar:
        run("docker", "import", "-", BASE, stdin=tar.stdout)
    shutil.rmtree(root)


def image_of_release(folder, tag):
    """Loads the services' image, under a name that no other check has."""
    shipped = Shipped(folder)
    run("docker", "load", "-q", "-i", shipped.image)
    run("docker", "tag", f"mimeo:{shipped.version}", f"mimeo-services:{tag}")


def image_of_debug_build(root, folder):
    """The services' image of a version before 0.2.0, by that version's own files."""
    compose, stage = root / "compose", folder / "stage"
    run("docker", "build", "-q", "-f", compose / "Dockerfile", "--target", "runtime", "-t", "mimeo-runtime:before", root)
    run(compose / "stage", root / ".build" / "debug", stage)
    run("docker", "build", "-q", "-f", compose / "prebuilt.Dockerfile", "--build-arg",
        "BASE_IMAGE=mimeo-runtime:before", "-t", "mimeo-services:before", stage)
    shutil.rmtree(stage)


def images(dist, before, folder):
    """All images of both versions: a health check asks as the version answers."""
    base_image(folder)
    step("images of the front, PostgreSQL and the services")
    run("docker", "build", "-q", "-f", HERE / "postgres.Dockerfile", "-t", "mimeo-postgres", HERE)
    run("docker", "build", "-q", "-f", HERE / "patroni.Dockerfile", "--build-arg", "POSTGRES_IMAGE=mimeo-postgres",
        "-t", "mimeo-patroni", HERE)
    run("docker", "build", "-q", "-t", "mimeo-front:check", HERE)
    image_of_release(dist, "check")
    if before and (before / ".build" / "dist").is_dir():
        image_of_release(before / ".build" / "dist", "before")
        run("docker", "build", "-q", "-t", "mimeo-front:before", before / "compose")
    elif before:
        image_of_debug_build(before, folder)
        run("docker", "build", "-q", "-f", before / "compose" / "Dockerfile", "--target", "front",
            "-t", "mimeo-front:before", before)


def tour(compose, project, built, *arguments):
    """The tour of a version, which knows that version's services."""
    step(f"the tour {' '.join(arguments)}")
    subprocess.run(
        [sys.executable, str(compose / "tour.py"), "--project", project, *arguments],
        check=True, timeout=900, env={**os.environ, "MIMEO_BIN": str(built)})


def program_of(before):
    """The folder of an earlier version's `mimeo`."""
    release = before / ".build" / "release"
    return release if (release / "mimeo").exists() else before / ".build" / "debug"


def check(dist, before, folder):
    images(dist, before, folder)
    built = Shipped(dist).unpack(folder / "unpacked") / "bin"
    project = f"mimeo-check-{secrets.token_hex(4)}"
    os.environ.update(
        MIMEO_SECRETS=str(folder / "secrets"), MIMEO_LISTEN=f"127.0.0.1:{free_port()}",
        FRONT_IMAGE="mimeo-front:check", POSTGRES_IMAGE="mimeo-postgres", MIMEO_IMAGE="mimeo-services:check")
    compose = ["docker-compose", "-p", project, *FILES]
    try:
        if before:
            step("up, as the version before has it")
            old = before / "compose"
            run(old / "secrets", os.environ["MIMEO_SECRETS"])
            run("docker-compose", "-p", project, "-f", old / "compose.yaml", "up", "-d", "--no-build",
                env={**os.environ, "MIMEO_IMAGE": "mimeo-services:before", "FRONT_IMAGE": "mimeo-front:before"})
            tour(old, project, program_of(before))
        step("up")
        began = time.monotonic()
        run(HERE / "secrets", "--cluster", os.environ["MIMEO_SECRETS"])
        run(*compose, "up", "-d", "--no-build")
        print(f"up took {time.monotonic() - began:.0f} s", flush=True)
        tour(HERE, project, built, "--cluster", "--restore")
        print(f"up, tour, fail-over and restore took {time.monotonic() - began:.0f} s", flush=True)
    except BaseException:
        subprocess.run([*compose, "ps"], check=False)
        subprocess.run([*compose, "logs", "--no-color", "--tail", "30"], check=False)
        raise
    finally:
        run(*compose, "down", "-v", "--timeout", "5")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=pathlib.Path, default=ROOT / ".build" / "dist", help="what `make dist` made")
    parser.add_argument("--before", type=pathlib.Path, help="a checkout of an earlier version: tries the upgrade")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mimeo-compose.") as name:
        folder = pathlib.Path(name)
        with docker_engine(folder):
            check(options.dist.resolve(), options.before and options.before.resolve(), folder)
    print("compose works", flush=True)


if __name__ == "__main__":
    main()
