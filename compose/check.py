"""Runs compose for real, as `make compose-test` does: images, containers, the tour, a fail-over and an upgrade.

    python3 compose/check.py [--built .build/debug] [--before CHECKOUT]

Nothing comes from a registry: the base image is made by debootstrap, unless `debian:bookworm-slim` is there, and the
services are the executables that `swift build` left in --built. With --before, a checkout of an earlier version with
its debug build, the containers start as that has them, without a standby, get documents, and go on with --built and a
standby on the same volumes. Uses the Docker engine that
DOCKER_HOST names or the machine has; if none runs, root starts one with a folder of its own for the time of the check.
"""

import argparse
import contextlib
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

from mimeo_harness import free_port  # noqa: E402  (its folder had to be named first)

BASE = "debian:bookworm-slim"
FILES = ["-f", str(HERE / "compose.yaml"), "-f", str(HERE / "standby.yaml")]


def run(*command, seconds=900, **options):
    subprocess.run([str(part) for part in command], check=True, timeout=seconds, stdout=subprocess.DEVNULL, **options)


def step(text):
    print(f"== {text}", flush=True)


def engine_runs():
    return subprocess.run(["docker", "info"], capture_output=True, timeout=60, check=False).returncode == 0


@contextlib.contextmanager
def engine(folder):
    """A Docker engine to use: the machine's, or one of its own in the folder."""
    if engine_runs():
        yield
        return
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        sys.exit("no Docker engine runs; as root, and with Debian's docker.io, this starts one of its own")
    socket = f"unix://{folder}/docker.sock"
    os.environ["DOCKER_HOST"] = socket
    with open(folder / "dockerd.log", "w") as log:
        daemon = subprocess.Popen(
            ["dockerd", "--data-root", folder / "data", "--exec-root", folder / "exec", "-H", socket,
             "-p", folder / "pid"], stdout=log, stderr=log)
    try:
        until = time.monotonic() + 60
        while not engine_runs():
            if daemon.poll() is not None or time.monotonic() > until:
                sys.exit(f"dockerd does not start:\n{(folder / 'dockerd.log').read_text()[-2000:]}")
            time.sleep(0.5)
        yield
    finally:
        daemon.terminate()
        daemon.wait(60)


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


def version_images(root, built, tag, folder):
    """The images of a version, all by its own files: a health check asks as the version answers."""
    compose, stage, runtime = root / "compose", folder / f"stage-{tag}", f"mimeo-runtime:{tag}"
    for target, name in [("runtime", runtime), ("front", f"mimeo-front:{tag}")]:
        run("docker", "build", "-q", "-f", compose / "Dockerfile", "--target", target, "-t", name, root)
    run(compose / "stage", built, stage)
    run("docker", "build", "-q", "-f", compose / "prebuilt.Dockerfile", "--build-arg", f"BASE_IMAGE={runtime}",
        "-t", f"mimeo-services:{tag}", stage)
    shutil.rmtree(stage)


def images(built, before, folder):
    base_image(folder)
    step("images of the front, PostgreSQL and the services")
    run("docker", "build", "-q", "-f", HERE / "postgres.Dockerfile", "-t", "mimeo-postgres", HERE)
    version_images(ROOT, built, "check", folder)
    if before:
        version_images(before, before / ".build" / "debug", "before", folder)


def tour(project, built, *arguments):
    step(f"the tour {' '.join(arguments)}")
    subprocess.run(
        [sys.executable, str(HERE / "tour.py"), "--project", project, *arguments],
        check=True, timeout=900, env={**os.environ, "MIMEO_BIN": str(built)})


def check(built, before, folder):
    images(built, before, folder)
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
            tour(project, before / ".build" / "debug")
        step("up")
        began = time.monotonic()
        run(HERE / "secrets", "--standby", os.environ["MIMEO_SECRETS"])
        run(*compose, "up", "-d", "--no-build")
        tour(project, built, "--standby")
        print(f"up, tour and fail-over took {time.monotonic() - began:.0f} s", flush=True)
    except BaseException:
        subprocess.run([*compose, "ps"], check=False)
        subprocess.run([*compose, "logs", "--no-color", "--tail", "30"], check=False)
        raise
    finally:
        run(*compose, "down", "-v", "--timeout", "5")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--built", type=pathlib.Path, default=ROOT / ".build" / "debug")
    parser.add_argument("--before", type=pathlib.Path, help="a checkout of an earlier version: tries the upgrade")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mimeo-compose.") as name:
        folder = pathlib.Path(name)
        with engine(folder):
            check(options.built.resolve(), options.before and options.before.resolve(), folder)
    print("compose works", flush=True)


if __name__ == "__main__":
    main()
