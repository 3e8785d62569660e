"""Sends forged beacons of ever other peers: `beacon_flood.py ADDRESS TAG SECONDS EACH_SECOND`. Prints how many it sent."""

import os
import socket
import sys
import time

GROUP = ("239.255.77.69", 5000)


def beacon(tag, peer, port):
    """`[1, tag, peer, boot, port, free]` in deterministic CBOR; ports of two bytes, so that it is the one encoding."""
    return (b"\x86\x01\x48" + tag + b"\x48" + peer + b"\x48" + os.urandom(8) + b"\x19" + port.to_bytes(2, "big")
            + b"\x05")


def main(address, tag, seconds, each_second):
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
    sent = 0
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        if sent >= passed * each_second:
            time.sleep(0.0005)
            continue
        sender.sendto(beacon(tag, os.urandom(8), 1024 + sent % 60_000), GROUP)
        sent += 1
    print(sent, flush=True)


main(sys.argv[1], bytes.fromhex(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
