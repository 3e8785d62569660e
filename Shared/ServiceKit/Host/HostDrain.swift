import NIOCore
import Synchronization

/// Lets the proxies in front notice that a host is about to stop, so that none of their requests meets a
/// closed connection.
///
/// A proxy keeps connections to a service and sends the next request on one of them. If the service closes it
/// at that moment, the request is lost, and a POST may not be sent again. So after the signal to stop, for
/// `pause`:
///
/// 1. Health fails, for those who look. Requests are answered as before, on new connections too.
/// 2. Each answer says `Connection: close`, so no connection is kept from now on. Idle ones are closed by the
///    proxy, which keeps them for less than `pause` (`keepalive_timeout` in `compose/nginx.conf`).
/// 3. At the end no new connection begins (`refuseConnections`), and those that have begun are still
///    served. Then the listener is closed: from now on a connection is refused, and the proxy goes on to
///    another instance, with a POST too, since nothing was sent.
///
/// Without a proxy `pause` is zero and none of this happens.
final class HostDrain: Sendable {
    let pause: Duration
    private let draining = Atomic(false)
    private let listener = Mutex<(any Channel)?>(nil)

    init(pause: Duration) { self.pause = pause }

    /// True from the signal to stop, if there is a pause.
    var isDraining: Bool { draining.load(ordering: .relaxed) }

    func listens(_ channel: any Channel) { listener.withLock { $0 = channel } }

    /// Steps 1 and 2 begin.
    func begin() { if pause > .zero { draining.store(true, ordering: .relaxed) } }

    /// Step 3: makes the kernel drop what would begin a connection, and waits for those that have begun.
    ///
    /// Closing the listener alone would reset connections that the kernel has accepted and this process has
    /// not: the client believes them open and may have sent its request. A dropped client asks again after a
    /// second, and is refused then. Where the kernel knows no such filter, that small window stays.
    func refuseConnections() async {
        guard isDraining, let channel = listener.withLock({ $0 }) as? any SocketOptionProvider else { return }
        let filter = SynFilter()
        try? await channel.unsafeSetSocketOption(
            level: .socket, name: SynFilter.attach, value: filter.program
        ).get()
        withExtendedLifetime(filter) {}
        // Cancelled if the grace is over: then there is nothing to wait for.
        try? await Task.sleep(for: Limits.lastConnections)
    }
}

/// A packet filter (Linux's classic BPF) that drops segments with SYN and without ACK, the first of a
/// connection.
///
/// Safe although unchecked: the memory is written once, before anybody else sees it.
private final class SynFilter: @unchecked Sendable {
    /// SO_ATTACH_FILTER of Linux.
    static let attach = NIOBSDSocket.Option(rawValue: 26)

    /// `struct sock_filter`.
    private struct Instruction {
        var code: UInt16
        var ifTrue: UInt8 = 0
        var ifFalse: UInt8 = 0
        var operand: UInt32
    }

    /// `struct sock_fprog`.
    struct Program: @unchecked Sendable {
        var count: UInt16
        var instructions: UnsafeMutableRawPointer
    }

    private static let instructions = [
        // The flags of TCP are the header's byte 13.
        Instruction(code: 0x30, operand: 13),
        // SYN and ACK of them.
        Instruction(code: 0x54, operand: 0x12),
        // SYN alone goes to the next instruction, all else to the last.
        Instruction(code: 0x15, ifTrue: 0, ifFalse: 1, operand: 0x02),
        Instruction(code: 0x06, operand: 0),
        Instruction(code: 0x06, operand: .max),
    ]

    private let memory: UnsafeMutablePointer<Instruction>

    init() {
        memory = .allocate(capacity: Self.instructions.count)
        memory.initialize(from: Self.instructions, count: Self.instructions.count)
    }

    deinit { memory.deallocate() }

    var program: Program {
        Program(count: UInt16(Self.instructions.count), instructions: UnsafeMutableRawPointer(memory))
    }
}
