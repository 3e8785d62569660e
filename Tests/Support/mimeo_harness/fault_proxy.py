"""A TCP proxy on loopback with the faults of bad networks: delay, throttle, drop, reset, half-open, corrupt.

    proxy = FaultProxy(workspace, server.address)
    proxy.rate = 20_000                   # bytes a second, each way
    proxy.life = 10                       # seconds after which each connection is reset
    peer = Peer(workspace, "a", Through(server, proxy))

It runs in its own thread with its own event loop. Settings may change at any time and apply to open connections too.
"""

import asyncio
import random
import socket
import struct
import threading

CHUNK_BYTES = 16_384
BUFFER_BYTES = 16_384
"""Most bytes in flight here and in each socket: so small that bytes which a slow link has accepted soon arrive."""

UP, DOWN = "up", "down"
"""From the client to the server, and back."""


class FaultProxy:
    """Forwards each connection to `target`, a pair of host and port or the path of a Unix socket.

    `sent` counts the bytes delivered, by direction.
    """

    def __init__(self, workspace, target, seed=1, buffer_bytes=BUFFER_BYTES):
        self.target = target
        self.buffer_bytes = buffer_bytes
        """Most bytes in flight. The loopback's packets have 64 KiB: megabytes through less take a minute."""
        self.delay = 0.0
        """Seconds between the arrival of bytes and their delivery."""
        self.rate = None
        """Bytes a second for each connection and direction; None for no limit."""
        self.life = None
        """Seconds after which a connection is reset; None for never."""
        self.refusing = False
        """True if new connections are reset at once."""
        self.corrupt = {UP: 0.0, DOWN: 0.0}
        """The probability that a chunk of bytes gets one bit flipped."""
        self.spare_bytes = 0
        """Bytes at the start of each direction that are never corrupted, such as those of an upgrade."""
        self.sent = {UP: 0, DOWN: 0}
        self.accepted = 0
        self._dice = random.Random(seed)
        self._links = set()
        self._frozen = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait(60)
        workspace.on_close(self.close)

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self):
        """Number of open connections."""
        return len(self._links)

    def reset(self):
        """Ends every connection with a RST to both ends."""
        self._call(lambda: [link.reset() for link in list(self._links)])

    def drop(self):
        """Ends every connection with a FIN to both ends, in the middle of a transfer."""
        self._call(lambda: [link.close() for link in list(self._links)])

    def cut(self):
        """Ends every connection with a RST, and every later one at once, until `mend`."""
        self.refusing = True
        self.reset()

    def mend(self):
        """Takes connections again."""
        self.refusing = False

    def freeze(self, *directions):
        """Half-open: silently stops delivery in these directions (both by default).

        Later connections are frozen too.
        """
        self._call(lambda: self._frozen.update(directions or (UP, DOWN)))

    def thaw(self):
        """Delivers again, beginning with the bytes held back."""
        self._call(self._frozen.clear)

    def close(self):
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)

    def _call(self, work):
        done = threading.Event()

        def run():
            try:
                work()
            finally:
                done.set()

        self._loop.call_soon_threadsafe(run)
        done.wait(60)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._accept, "127.0.0.1", 0, limit=self.buffer_bytes))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        try:
            self._loop.run_forever()
        finally:
            server.close()
            for link in list(self._links):
                link.reset()
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()

    async def _accept(self, reader, writer):
        self.accepted += 1
        link = _Link(self, writer)
        if self.refusing:
            return link.reset()
        self._links.add(link)
        try:
            await link.run(reader)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            link.close()
            self._links.discard(link)
        return None


class _Link:
    """One client connection and its connection to the target."""

    def __init__(self, proxy, client):
        self._proxy = proxy
        self._writers = [client]
        self._small_buffers(client)

    def _small_buffers(self, writer):
        found = writer.get_extra_info("socket")
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            found.setsockopt(socket.SOL_SOCKET, option, self._proxy.buffer_bytes)
        if found.family != socket.AF_UNIX:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        writer.transport.set_write_buffer_limits(high=0)

    async def run(self, reader):
        target = self._proxy.target
        server_reader, server = await (
            asyncio.open_unix_connection(target, limit=self._proxy.buffer_bytes) if isinstance(target, str)
            else asyncio.open_connection(*target, limit=self._proxy.buffer_bytes))
        self._writers.append(server)
        self._small_buffers(server)
        ends = [asyncio.ensure_future(self._forward(reader, server, UP)),
                asyncio.ensure_future(self._forward(server_reader, self._writers[0], DOWN))]
        started = self._proxy._loop.time()
        while not all(end.done() for end in ends):
            await asyncio.wait(ends, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
            life = self._proxy.life
            if any(end.done() and end.exception() for end in ends) or (
                    life is not None and self._proxy._loop.time() - started > life):
                self.reset()
                break
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)

    async def _forward(self, reader, writer, direction):
        proxy, passed = self._proxy, 0
        while data := await reader.read(self._step()):
            if proxy.delay:
                await asyncio.sleep(proxy.delay)
            while direction in proxy._frozen:
                await asyncio.sleep(0.02)
            if passed >= proxy.spare_bytes and proxy._dice.random() < proxy.corrupt[direction]:
                place = proxy._dice.randrange(len(data))
                turned = data[place] ^ (1 << proxy._dice.randrange(8))
                data = data[:place] + bytes([turned]) + data[place + 1:]
            writer.write(data)
            await writer.drain()
            passed += len(data)
            proxy.sent[direction] += len(data)
            if proxy.rate:
                await asyncio.sleep(len(data) / proxy.rate)
        writer.write_eof()

    def _step(self):
        rate = self._proxy.rate
        return CHUNK_BYTES if not rate else max(256, min(CHUNK_BYTES, int(rate / 20)))

    def reset(self):
        for writer in self._writers:
            found = writer.get_extra_info("socket")
            try:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                # The socket is closed already, and asyncio has released it.
                continue
            writer.transport.abort()

    def close(self):
        for writer in self._writers:
            writer.close()


class Through:
    """A server with the address of a proxy in front of it."""

    def __init__(self, server, proxy):
        self._server = server
        self.origin = proxy.origin
        self.address = proxy.address

    def __getattr__(self, name):
        return getattr(self._server, name)
