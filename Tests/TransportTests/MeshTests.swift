import CRDT
import Exchange
import Foundation
import Identity
import Machine
import NIOCore
import NIOPosix
import Sync
import Synchronization
import TestSupport
import Testing

@testable import Transport

@Suite("Links over sockets")
struct MeshTests {
    private let key = PeerKey()
    private var shared: MeshAuthority { .shared(key) }

    private func dialError(_ peer: EchoPeer) -> String? {
        peer.mesh.seen.dials.values.compactMap { $0 }.first
    }

    @Test(
        "two peers link over TCP and over WebSockets, with a shared key and in the clear",
        arguments: [LinkKind.tcp, .webSocket], [true, false])
    func link(kind: LinkKind, isSecure: Bool) async throws {
        let authority = isSecure ? shared : .none
        let (here, there) = (EchoPeer("here", authority), EchoPeer("there", authority))
        let port = try await there.start(listen: kind)
        _ = try await here.start(dial: [kind == .tcp ? tcp(port) : webSocket(port)])
        try await until { here.heardTexts == ["there"] && there.heardTexts == ["here"] }
        #expect(here.linked == [there.key.publicKeyString])
        #expect(there.linked == [here.key.publicKeyString])
        #expect(here.mesh.seen.peers.first?.kind == kind)
        let proven = there.mesh.seen.peers.first?.identity
        #expect(proven?.peerKey == (isSecure ? here.key.publicKeyString : nil))
        #expect(here.mesh.seen.isReaching == true)
        await here.mesh.stop()
        try await until { there.linked.isEmpty }
        await there.mesh.stop()
        #expect(there.mesh.seen.ports.isEmpty)
    }

    @Test("a peer with TLS and one without part with SYNC-0604, whoever dials", arguments: [true, false])
    func clearAgainstTLS(dialsWithTLS: Bool) async throws {
        let here = EchoPeer("here", dialsWithTLS ? shared : .none)
        let there = EchoPeer("there", dialsWithTLS ? .none : shared)
        let port = try await there.start(listen: .tcp)
        _ = try await here.start(dial: [tcp(port)], retry: .seconds(60))
        try await until { dialError(here)?.hasPrefix("SYNC-0604") == true }
        // As the dialer sees it, whoever has found out.
        let speaker = dialsWithTLS ? "this peer speaks TLS" : "the other side speaks TLS"
        #expect(dialError(here)?.hasPrefix("SYNC-0604: \(speaker), and") == true, "\(dialError(here) ?? "")")
        #expect(here.linked.isEmpty && there.linked.isEmpty)
        await here.mesh.stop()
        await there.mesh.stop()
    }

    @Test("another authority, another database and an expired certificate are told by their codes")
    func refused() async throws {
        let late: @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970) + 8 * 86_400 }
        let past = EchoPeer.Options(nowSeconds: { 0 }, issuedSeconds: { 0 })
        let cases: [(dialer: EchoPeer, listener: EchoPeer, code: String)] = [
            (EchoPeer("a", .shared(PeerKey())), EchoPeer("b", shared), "AUTH-0306"),
            (
                EchoPeer("a", shared), EchoPeer("b", shared, EchoPeer.Options(databaseID: "cars")),
                "SYNC-0202"
            ),
            // The dialer's own certificate has ended by its clock; nothing is dialed.
            (EchoPeer("a", shared, EchoPeer.Options(nowSeconds: late)), EchoPeer("b", shared), "AUTH-0105"),
            // A device that woke up in 1970, and issued its certificate then: to it the other's is not valid
            // yet, to the other its own has expired.
            (EchoPeer("a", shared, past), EchoPeer("b", shared), "AUTH-0106"),
            (EchoPeer("a", shared), EchoPeer("b", shared, past), "AUTH-0105"),
        ]
        for (dialer, listener, code) in cases {
            let port = try await listener.start(listen: .tcp)
            _ = try await dialer.start(dial: [tcp(port)], retry: .seconds(60))
            try await until { dialError(dialer) != nil }
            #expect(dialError(dialer)?.hasPrefix(code) == true, "\(dialError(dialer) ?? "")")
            #expect(listener.linked.isEmpty && listener.heardTexts.isEmpty)
            await dialer.mesh.stop()
            await listener.mesh.stop()
        }
    }

    /// Two peers whose certificates end soon; how far back they are issued is changed by the test. A busy
    /// machine may need seconds for the link.
    private func shortLived(
        for seconds: Int64, _ authority: (@Sendable () -> MeshAuthority)? = nil
    ) async throws -> (here: EchoPeer, there: EchoPeer, back: SharedNumber) {
        let life = PeerCertificate.life.components.seconds
        let back = SharedNumber(life - seconds)
        var options = EchoPeer.Options(
            issuedSeconds: { SystemClock.seconds() - back.value.withLock { $0 } })
        options.authority = authority
        var other = options
        other.key = PeerKey()
        let (here, there) = (EchoPeer("here", shared, options), EchoPeer("there", shared, other))
        let port = try await there.start(listen: .tcp)
        _ = try await here.start(dial: [tcp(port)], retry: .seconds(60))
        try await until { here.linked.count == 1 && there.linked.count == 1 }
        return (here, there, back)
    }

    @Test("a link lives on with newer certificates of both sides, and ends with SYNC-0502 without")
    func renewed() async throws {
        let (here, there, back) = try await shortLived(for: 8)
        let link = here.mesh.seen.peers.first?.link
        let ends = try #require(here.mesh.seen.peers.first?.identity?.expiresAtSeconds)
        back.value.withLock { $0 = 0 }
        for peer in [here, there] { peer.mesh.renewCertificates() }
        try await until { (here.mesh.seen.peers.first?.identity?.expiresAtSeconds ?? 0) > ends }
        try await until { (there.mesh.seen.peers.first?.identity?.expiresAtSeconds ?? 0) > ends }
        try await until({ SystemClock.seconds() > ends + 1 }, within: .seconds(60))
        #expect(here.mesh.seen.peers.first?.link == link && there.linked.count == 1)
        for peer in [here, there] { await peer.mesh.stop() }
        // Without them the same link ends.
        let (first, second, _) = try await shortLived(for: 8)
        try await until(
            { first.linked.isEmpty && second.linked.isEmpty }, within: .seconds(60))
        try await until { dialError(first)?.hasPrefix("SYNC-0502") == true }
        for peer in [first, second] { await peer.mesh.stop() }
    }

    @Test("a newer certificate is verified by the authority of that moment, which may have another key")
    func rotated() async throws {
        let keys = Mutex([PeerKey()])
        let current: @Sendable () -> MeshAuthority = { .shared(keys.withLock { $0[$0.count - 1] }) }
        let (here, there, back) = try await shortLived(for: 600, current)
        let link = here.mesh.seen.peers.first?.link
        let ends = try #require(here.mesh.seen.peers.first?.identity?.expiresAtSeconds)
        keys.withLock { $0.append(PeerKey()) }
        back.value.withLock { $0 = 0 }
        for peer in [here, there] { peer.mesh.renewCertificates() }
        try await until { (here.mesh.seen.peers.first?.identity?.expiresAtSeconds ?? 0) > ends }
        try await until { (there.mesh.seen.peers.first?.identity?.expiresAtSeconds ?? 0) > ends }
        #expect(here.mesh.seen.peers.first?.link == link)
        for peer in [here, there] { await peer.mesh.stop() }
    }

    @Test("a greeting that names another key than the certificate gets no link")
    func otherKey() async throws {
        let there = EchoPeer("there", shared)
        let here = EchoPeer("here", shared, EchoPeer.Options(named: PeerKey().publicKeyString))
        let port = try await there.start(listen: .tcp)
        _ = try await here.start(dial: [tcp(port)], retry: .seconds(60))
        try await until { dialError(here)?.hasPrefix("SYNC-0505") == true }
        #expect(there.linked.isEmpty && there.heardTexts.isEmpty)
        await here.mesh.stop()
        await there.mesh.stop()
    }

    @Test("either side's application may deny a link; allowed again, it comes", arguments: [true, false])
    func denied(byDialer: Bool) async throws {
        let (here, there) = (EchoPeer("here", shared), EchoPeer("there", shared))
        if byDialer { here.deny(there) } else { there.deny(here) }
        let port = try await there.start(listen: .tcp)
        _ = try await here.start(dial: [tcp(port)])
        try await until { dialError(here)?.hasPrefix("SYNC-0601") == true }
        // The dialer decides last: the other side has opened its end by then, and was asked for nothing.
        try await until { here.linked.isEmpty && there.linked.isEmpty }
        #expect(there.heardTexts.isEmpty && (byDialer || here.heardTexts.isEmpty))
        here.allowAll()
        there.allowAll()
        // Dialed anew: an address that is configured again has no history.
        _ = try await here.start()
        _ = try await here.start(dial: [tcp(port)])
        try await until { here.linked == [there.key.publicKeyString] }
        await here.mesh.stop()
        await there.mesh.stop()
    }

    @Test("two addresses of a peer, and its own dial, are one link; a copied store gets none")
    func oneLink() async throws {
        let (here, there) = (EchoPeer("here", shared), EchoPeer("there", shared))
        let (port, other) = (try await there.start(listen: .tcp), try await here.start(listen: .tcp))
        _ = try await there.start(dial: [tcp(other)], listen: .tcp, port: port)
        _ = try await here.start(
            dial: [tcp(port), MeshAddress(tcp: "localhost:\(port)") ?? tcp(port)], listen: .tcp, port: other)
        try await until { here.linked.count == 1 && there.linked.count == 1 }
        let copy = EchoPeer(
            "copy", shared,
            EchoPeer.Options(key: here.key, boot: LinkTable.Boot(count: 1, nonce: 2)))
        _ = try await copy.start(dial: [tcp(port)], retry: .seconds(60))
        try await until { dialError(copy)?.hasPrefix("SYNC-0606") == true }
        try await until {
            here.linked == [there.key.publicKeyString] && there.linked == [here.key.publicKeyString]
        }
        for peer in [here, there, copy] { await peer.mesh.stop() }
    }

    @Test("a peer that says nothing any more is lost after the patience of the link")
    func lost() async throws {
        let times = LinkConnection.Times(pingInterval: .milliseconds(40), patience: .milliseconds(400))
        let there = EchoPeer("there", .none, EchoPeer.Options(times: times))
        let port = try await there.start(listen: .tcp)
        let socket = try await RawSocket(port: port)
        let name = PeerKey().publicKeyString
        socket.send([0, 0, 0, UInt8(name.utf8.count + 4)] + Array("\(name) 1 1".utf8))
        try await until { there.linked == [name] }
        try await until { there.linked.isEmpty }
        // One that is idle and says so stays.
        let here = EchoPeer("here", .none, EchoPeer.Options(times: times))
        _ = try await here.start(dial: [tcp(port)])
        try await until { here.linked.count == 1 }
        let link = there.mesh.seen.peers.first?.link
        try await Task.sleep(for: .milliseconds(900))
        #expect(there.mesh.seen.peers.first?.link == link)
        await here.mesh.stop()
        await there.mesh.stop()
    }

    @Test("settings act at once: a link that is not configured any more ends, a port closes and opens")
    func configured() async throws {
        let (here, there) = (EchoPeer("here", shared), EchoPeer("there", shared))
        let port = try await there.start(listen: .webSocket)
        _ = try await here.start(dial: [webSocket(port)])
        try await until { here.linked.count == 1 }
        _ = try await here.start()
        try await until { here.linked.isEmpty && there.linked.isEmpty }
        _ = try await there.start()
        try await until { there.mesh.seen.ports.isEmpty }
        _ = try await there.start(listen: .tcp, port: port)
        _ = try await here.start(dial: [tcp(port)])
        try await until { here.linked.count == 1 }
        let third = EchoPeer("third", shared)
        let listener = MeshListener(tcp: "127.0.0.1", port: port)
        var settings = Mesh.Settings()
        settings.listeners = Set([listener].compactMap { $0 })
        third.mesh.configure(settings)
        third.mesh.start()
        try await until { !third.mesh.seen.listenFailures.isEmpty }
        #expect(
            third.mesh.seen.listenFailures.values.first == "SYNC-0501: another program listens at this port")
        for peer in [here, there, third] { await peer.mesh.stop() }
    }

    @Test("random bytes and half-open connections end, and the links of others stay")
    func hostile() async throws {
        let (here, there) = (EchoPeer("here", shared), EchoPeer("there", shared))
        let port = try await there.start(listen: .tcp)
        _ = try await here.start(dial: [tcp(port)])
        try await until { here.linked.count == 1 }
        let link = there.mesh.seen.peers.first?.link
        var generator = SplitMix64(seed: 11)
        for first: UInt8 in [0x00, 0x16, 0x15, 0x7F, 0xFF] {
            let socket = try await RawSocket(port: port)
            socket.send([first] + (0..<80_000).map { _ in UInt8.random(in: 0...255, using: &generator) })
            try await until { socket.isClosed }
        }
        var open: [RawSocket] = []
        for _ in 0..<Depth.pick(fast: 120, deep: 10_000) { open.append(try await RawSocket(port: port)) }
        let bound = Limits.openingLinks
        try await until { open.count(where: { !$0.isClosed }) <= bound }
        let newcomer = EchoPeer("newcomer", shared)
        _ = try await newcomer.start(dial: [tcp(port)])
        try await until { newcomer.linked.count == 1 }
        #expect(there.mesh.seen.peers.first?.link == link)
        for socket in open { socket.close() }
        for peer in [here, newcomer, there] { await peer.mesh.stop() }
    }

    @Test("a frame above the limit ends the link, in the clear too")
    func largeFrame() async throws {
        let there = EchoPeer("there", .none)
        let port = try await there.start(listen: .tcp)
        let socket = try await RawSocket(port: port)
        let name = PeerKey().publicKeyString
        socket.send([0, 0, 0, UInt8(name.utf8.count + 4)] + Array("\(name) 1 1".utf8))
        try await until { there.linked == [name] }
        socket.send([0x00, 0x10, 0x00, 0x01])
        try await until { socket.isClosed && there.linked.isEmpty }
        await there.mesh.stop()
    }

    @Test("frames come whole, however their bytes are cut; one without an end is none")
    func cutFrames() throws {
        let frames: [[UInt8]] = [[1], Array(repeating: 2, count: 300), [], [3, 4]]
        let bytes = frames.flatMap { frame in
            Array(FrameReader.bytes(of: frame, ByteBufferAllocator()).readableBytesView)
        }
        for cut in 0...bytes.count {
            var reader = FrameReader()
            var complete: [[UInt8]] = []
            try reader.take(ByteBuffer(bytes: bytes[..<cut])) { complete.append($0) }
            #expect(complete.count == [5, 309, 319].count { $0 <= cut })
            try reader.take(ByteBuffer(bytes: bytes[cut...])) { complete.append($0) }
            #expect(complete == [[1], frames[1], [3, 4]])
        }
    }

    @Test("addresses are host:port, and ws URLs whose path / is the mesh's; anything else is none")
    func addresses() {
        #expect(MeshAddress(tcp: "[::1]:4040")?.kind == .tcp(host: "::1", port: 4040))
        #expect(MeshAddress(webSocket: "ws://h:80")?.kind == .webSocket("ws://h:80/_ditto/mesh"))
        #expect(MeshAddress(webSocket: "wss://h/x?y=1")?.kind == .webSocket("wss://h/x?y=1"))
        for text in ["", ":1", "h", "h:", "h:0", "h:65536", "h:x", "a:b:1", "[]:1"] {
            #expect(MeshAddress(tcp: text) == nil, "\(text)")
        }
        for text in ["", "http://h", "ws://", "h:1"] {
            #expect(MeshAddress(webSocket: text) == nil, "\(text)")
        }
        #expect(MeshListener(tcp: "[::]", port: 0)?.host == "::")
        #expect(MeshListener(tcp: "[::]", port: 0)?.description == "tcp [::]:0")
        #expect(MeshListener(tcp: "", port: 1) == nil)
        #expect(MeshListener(tcp: "h", port: 70_000) == nil)
    }
}

/// A number that closures share.
private final class SharedNumber: Sendable {
    let value: Mutex<Int64>
    init(_ number: Int64) { value = Mutex(number) }
}

/// A bare TCP connection.
private final class RawSocket: Sendable {
    private let channel: any Channel

    init(port: Int) async throws {
        channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .connect(host: "127.0.0.1", port: port).get()
    }

    var isClosed: Bool { !channel.isActive }

    func send(_ bytes: [UInt8]) { channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil) }

    func close() { channel.close(promise: nil) }
}
