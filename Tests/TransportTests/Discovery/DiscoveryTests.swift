import Foundation
import Logging
import Machine
import NIOCore
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import Transport

@Suite("Finding peers over sockets", .timeLimit(.minutes(2)))
struct DiscoveryTests {
    /// A peer that finds others, without links: it says that it listens at a port.
    private final class Finder: Sendable {
        private let chosen = Mutex<Set<MeshAddress>>([])
        private let made = Mutex<Discovery?>(nil)
        let key: String

        init(_ key: String, nonce: UInt64 = 9, bus: String? = nil) {
            self.key = key
            let own = LinkTable.Remote(peerKey: key, boot: LinkTable.Boot(count: 1, nonce: nonce))
            made.withLock { made in
                made = Discovery(
                    Discovery.Parts(
                        databaseID: "boats", own: own, loop: MultiThreadedEventLoopGroup.singleton.next(),
                        environment: .system, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                        bus: bus,
                        choose: { [weak self] addresses in self?.chosen.withLock { $0 = addresses } },
                        changed: {}))
            }
        }

        var discovery: Discovery {
            guard let made = made.withLock({ $0 }) else { preconditionFailure("it is made at once") }
            return made
        }
        var addresses: Set<MeshAddress> { chosen.withLock { $0 } }

        func start(_ settings: Discovery.Settings, port: Int) {
            var settings = settings
            settings.listener = MeshListener(tcp: "[::]", port: 0)
            var seen = Mesh.Seen()
            if let listener = settings.listener { seen.ports[listener] = port }
            discovery.linksChanged(seen)
            discovery.configure(settings, syncGroup: 0)
        }
    }

    @Test("two peers of one device hear each other by multicast, and forget each other when it is turned off")
    func multicast() async throws {
        var settings = Discovery.Settings()
        settings.usesMulticast = true
        settings.interval = .milliseconds(100)
        settings.multicastPort = Int.random(in: 20_000...60_000)
        let (here, there) = (Finder("pkHere"), Finder("pkThere"))
        here.start(settings, port: 4_001)
        there.start(settings, port: 4_002)
        try await until {
            here.addresses.contains { $0.description.hasSuffix(":4002") }
                && there.addresses.contains { $0.description.hasSuffix(":4001") }
        }
        #expect(here.discovery.seen.hasHeard && here.discovery.seen.isWorking == true)
        // One is dialed, at whichever of its addresses.
        #expect(here.addresses.count == 1)
        here.discovery.configure(Discovery.Settings(), syncGroup: 0)
        try await until { here.addresses.isEmpty && here.discovery.seen == Discovery.Seen() }
        await there.discovery.stop()
        await here.discovery.stop()
    }

    @Test("a copy of a store, which has its key, is heard as somebody else; a peer does not hear itself")
    func copies() async throws {
        var settings = Discovery.Settings()
        settings.usesMulticast = true
        settings.interval = .milliseconds(100)
        settings.multicastPort = Int.random(in: 20_000...60_000)
        let (here, copy) = (Finder("pkHere"), Finder("pkHere", nonce: 10))
        here.start(settings, port: 4_001)
        copy.start(settings, port: 4_002)
        try await until { !here.addresses.isEmpty && !copy.addresses.isEmpty }
        #expect(here.discovery.seen.addresses.allSatisfy { $0.description.hasSuffix(":4002") })
        #expect(copy.discovery.seen.addresses.allSatisfy { $0.description.hasSuffix(":4001") })
        await copy.discovery.stop()
        await here.discovery.stop()
    }

    @Test("beacons pass over the loopback interface, though Linux does not say that it can multicast")
    func loopback() async throws {
        let devices = try System.enumerateDevices()
        let device = try #require(devices.first { $0.address?.ipAddress == "127.0.0.1" })
        let place = BeaconPlace(name: device.name, isV6: false, address: "127.0.0.1")
        let port = Int.random(in: 20_000...60_000)
        let heard = Mutex<[String]>([])
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let socket = try await BeaconSocket.open(place, device, port: port, on: loop) { bytes, host in
            heard.withLock { $0.append("\(bytes) of \(host)") }
        }.get()
        let group = try BeaconSocket.group(place, port: port)
        let beacon = ByteBuffer(bytes: [1, 2, 3])
        try await socket.writeAndFlush(AddressedEnvelope(remoteAddress: group, data: beacon))
        try await until { heard.withLock { $0 } == ["[1, 2, 3] of 127.0.0.1"] }
        try await socket.close()
    }

    @Test("another sync group is not heard, and is once both have the same")
    func groups() async throws {
        var settings = Discovery.Settings()
        settings.usesMulticast = true
        settings.interval = .milliseconds(50)
        settings.multicastPort = Int.random(in: 20_000...60_000)
        let (here, there) = (Finder("pkHere"), Finder("pkThere"))
        here.start(settings, port: 4_001)
        there.discovery.configure(settings, syncGroup: 3)
        try await until { here.discovery.seen.isWorking == true && there.discovery.seen.isWorking == true }
        try await Task.sleep(for: .milliseconds(300))
        #expect(there.addresses.isEmpty && !there.discovery.seen.hasHeard)
        there.discovery.configure(settings, syncGroup: 0)
        try await until { !there.addresses.isEmpty }
        await there.discovery.stop()
        await here.discovery.stop()
    }

    @Test("a way that is not there says why, and does not keep the other from working")
    func withoutBus() async throws {
        var settings = Discovery.Settings()
        settings.looksForServices = true
        settings.multicastPort = Int.random(in: 20_000...60_000)
        let finder = Finder("pkHere", bus: "/nowhere/bus")
        finder.start(settings, port: 4_001)
        let reason = "DNS-SD: the bus of the system, /nowhere/bus, cannot be reached"
        try await until { finder.discovery.seen.failures == [reason] }
        #expect(finder.discovery.seen.isWorking == false)
        settings.usesMulticast = true
        finder.start(settings, port: 4_001)
        try await until { finder.discovery.seen.isWorking == true }
        #expect(finder.discovery.seen.failures.contains(reason))
        await finder.discovery.stop()
    }

    @Test("before anybody has looked at the interfaces nothing is said to fail")
    func firstLook() async throws {
        let seen = Mutex<[Discovery.Seen]>([])
        let made = Mutex<Discovery?>(nil)
        let discovery = Discovery(
            Discovery.Parts(
                databaseID: "boats",
                own: LinkTable.Remote(peerKey: "pkHere", boot: LinkTable.Boot(count: 1, nonce: 9)),
                loop: MultiThreadedEventLoopGroup.singleton.next(), environment: .system,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, choose: { _ in },
                changed: { if let now = made.withLock({ $0?.seen }) { seen.withLock { $0.append(now) } } }))
        made.withLock { $0 = discovery }
        var settings = Discovery.Settings()
        settings.usesMulticast = true
        settings.multicastPort = Int.random(in: 20_000...60_000)
        discovery.configure(settings, syncGroup: 0)
        try await until { discovery.seen.isWorking != nil }
        #expect(seen.withLock { $0.first }?.failures == [])
        await discovery.stop()
        made.withLock { $0 = nil }
    }
}
