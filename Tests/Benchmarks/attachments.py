"""Attachments: uploads beside a write with fsync of the same bytes, downloads beside nginx, a large collection.

    MIMEO_BIN=.build/release python3 Tests/Benchmarks/attachments.py [--rounds N] [--mebibytes N] [--million]

Ours and the reference take turns within each round. `--million` makes a million attachments first, which takes
minutes and some 4 GB of disk.
"""

import argparse
import base64
import hashlib
import http.client
import json
import os
import pathlib
import shutil
import socket
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "Support"))
from mimeo_harness import OneProcess, Workspace, free_port, until  # noqa: E402

MIB = 1 << 20


def written(path, block, count):
    """Seconds for a write of all bytes, and an fsync."""
    start = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        for number in range(count):
            file.write(numbered(block, number))
        os.fsync(file.fileno())
    took = time.perf_counter() - start
    path.unlink()
    return took


def numbered(block, number):
    """A MiB that no other round has, so that nothing is stored already."""
    return number.to_bytes(8, "big") + block[8:]


def uploaded(server, block, count):
    """Seconds for an upload of the same bytes, and the attachment's id."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    start = time.perf_counter()
    connection.putrequest("POST", "/api/v5/attachments/upload")
    for name, value in server.authorization().items():
        connection.putheader(name, value)
    connection.putheader("Content-Type", "application/octet-stream")
    connection.putheader("Content-Length", str(len(block) * count))
    connection.endheaders()
    for number in range(count):
        connection.sock.sendall(numbered(block, number))
    answer = connection.getresponse()
    body = answer.read()
    took = time.perf_counter() - start
    if answer.status != 200:
        raise SystemExit(f"the upload failed: {answer.status} {body[:300]!r}")
    connection.close()
    return took, json.loads(body)["id"]


def downloaded(port, path, headers, size):
    """Seconds until all bytes of an answer are here, and are thrown away."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    buffer = bytearray(MIB)
    start = time.perf_counter()
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    got = 0
    while count := answer.readinto(buffer):
        got += count
    took = time.perf_counter() - start
    connection.close()
    if (answer.status, got) != (200, size):
        raise SystemExit(f"the download of {path} failed: {answer.status}, {got} of {size} bytes")
    return took


def nginx(workspace, folder):
    """nginx with a folder of files; its port."""
    port = free_port()
    configuration = workspace.directory / "files.conf"
    configuration.write_text(f"""
        daemon off; pid {workspace.directory}/files.pid; error_log stderr; worker_processes 1;
        events {{ worker_connections 256; }}
        http {{ access_log off; sendfile on; client_body_temp_path {workspace.directory}/n1;
                proxy_temp_path {workspace.directory}/n2; fastcgi_temp_path {workspace.directory}/n3;
                uwsgi_temp_path {workspace.directory}/n4; scgi_temp_path {workspace.directory}/n5;
                server {{ listen 127.0.0.1:{port}; root {folder}; }} }}
        """)
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    workspace.start("nginx", [program, "-c", configuration, "-e", "stderr"])

    def answers():
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return True
        except OSError:
            return False

    until(answers, 30, "nginx does not answer")
    return port


def transfers(workspace, server, rounds, count):
    block = os.urandom(MIB)
    size = MIB * count
    folder = workspace.directory / "files"
    folder.mkdir(mode=0o755)
    workspace.directory.chmod(0o755)
    port = nginx(workspace, folder)
    rows = {"upload": ([], []), "download": ([], [])}
    for number in range(rounds + 1):
        block = os.urandom(8) + number.to_bytes(8, "big") + block[16:]
        reference = written(workspace.directory / "reference", block, count)
        ours, attachment = uploaded(server, block, count)
        with open(folder / "file", "wb") as file:
            for part in range(count):
                file.write(numbered(block, part))
        path = f"/api/v5/attachments/{attachment}"
        # A first reading, so that both have the bytes in memory and have compared them.
        downloaded(server.port, path, server.authorization(), size)
        downloaded(port, "/file", {}, size)
        pair = (downloaded(port, "/file", {}, size), downloaded(server.port, path, server.authorization(), size))
        if number == 0:
            continue  # the first round warms everything up
        rows["upload"][0].append(reference)
        rows["upload"][1].append(ours)
        for times, took in zip(rows["download"], pair):
            times.append(took)
    print(f"\n{count} MiB, medians of {rounds} rounds\n")
    print("| | ours | reference | ratio |\n|---|--:|--:|--:|")
    for name, reference in (("upload", "write and fsync"), ("download", "nginx")):
        theirs, ours = (statistics.median(times) for times in rows[name])
        print(f"| {name} | {count / ours:,.0f} MiB/s | {reference}: {count / theirs:,.0f} MiB/s | {theirs / ours:.2f} |")


def peak(process):
    """The most memory that a process has had, in MiB."""
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0


def million(server, count):
    folder = server.data / "attachments" / server.database
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        content = number.to_bytes(8, "big")
        name = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        shelf = folder / name[:2]
        try:
            (shelf / name).write_bytes(content)
        except FileNotFoundError:
            shelf.mkdir()
            (shelf / name).write_bytes(content)
    before = peak(server.process)
    token = (server.data / "auth" / "admin.token").read_text().strip()
    path = f"/admin/attachment-store/databases/{server.database}/collections?graceHours=0"
    start = time.perf_counter()
    answer = server.request("POST", path, headers={"Authorization": f"Bearer {token}"}, seconds=1_800)
    took = time.perf_counter() - start
    if answer.status != 200:
        raise SystemExit(f"the collection failed: {answer.status} {answer.body[:300]!r}")
    print(f"\nOne pass over {count:,} attachments: {took:.1f} s (goal: 300 s), {answer.json['removed']:,} removed, "
          f"{peak(server.process) - before:.0f} MiB more memory than before")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mebibytes", type=int, default=256)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--attachments", type=int, default=1_000_000, help="how many --million makes")
    options = parser.parse_args()
    with Workspace() as workspace:
        server = OneProcess(workspace).start()
        transfers(workspace, server, options.rounds, options.mebibytes)
        if options.million:
            million(server, options.attachments)


main()
