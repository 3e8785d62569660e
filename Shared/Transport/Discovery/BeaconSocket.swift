import Foundation
import NIOCore
import NIOPosix

/// A network interface with an address of one family, at which beacons are sent and heard.
struct BeaconPlace: Hashable, Sendable {
    let name: String
    let isV6: Bool
    /// The interface's address: another one needs another socket.
    let address: String

    /// `eth0 (IPv4)`.
    var description: String { "\(name) (IPv\(isV6 ? 6 : 4))" }

    /// The places at which there are peers to expect: every interface that is up and can multicast; on a
    /// device without any the loopback interface, for peers on the same device.
    static func all() throws -> [BeaconPlace: NIONetworkDevice] {
        let flags = interfaceFlags()
        var found: [BeaconPlace: NIONetworkDevice] = [:]
        var loopback: [BeaconPlace: NIONetworkDevice] = [:]
        for device in try System.enumerateDevices() {
            let flag = flags[device.name] ?? 0
            guard let address = device.address, let text = address.ipAddress, flag & up != 0 else { continue }
            let isV6: Bool
            switch address {
            case .v4: isV6 = false
            case .v6: isV6 = true
            case .unixDomainSocket: continue
            }
            let place = BeaconPlace(name: device.name, isV6: isV6, address: text)
            if flag & isLoopback != 0 {
                if !isV6 { loopback[place] = device }
            } else if device.multicastSupported, !isV6 || text.lowercased().hasPrefix("fe80:") {
                found[place] = device
            }
        }
        return found.isEmpty ? loopback : oneEach(found)
    }

    /// One place for each interface and family: of several addresses the least, so that it stays the same.
    private static func oneEach(
        _ places: [BeaconPlace: NIONetworkDevice]
    ) -> [BeaconPlace: NIONetworkDevice] {
        var seen: Set<String> = []
        return places.filter { $0.key == first($0.key, places) && seen.insert($0.key.description).inserted }
    }

    private static func first(_ place: BeaconPlace, _ places: [BeaconPlace: NIONetworkDevice]) -> BeaconPlace?
    {
        places.keys.filter { $0.name == place.name && $0.isV6 == place.isV6 }.min { $0.address < $1.address }
    }

    /// IFF_UP and IFF_LOOPBACK: the same everywhere.
    private static let up: UInt32 = 0x1
    private static let isLoopback: UInt32 = 0x8

    private static func interfaceFlags() -> [String: UInt32] {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return [:] }
        defer { freeifaddrs(list) }
        var flags: [String: UInt32] = [:]
        var next = list
        while let entry = next {
            flags[String(cString: entry.pointee.ifa_name)] = UInt32(entry.pointee.ifa_flags)
            next = entry.pointee.ifa_next
        }
        return flags
    }

    /// The name of an interface by its number; nil if there is none.
    static func interfaceName(_ index: UInt32) -> String? {
        var name = [CChar](repeating: 0, count: Int(IF_NAMESIZE))
        guard if_indextoname(index, &name) != nil else { return nil }
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// True for the interface that leads to this device only.
    var isOnThisDevice: Bool { address.hasPrefix("127.") }
}

/// The socket of one interface: joined to the group of beacons, and sending out of this interface only.
enum BeaconSocket {
    private static let groupV4 = "239.255.77.69"
    private static let groupV6 = "ff02::4d69:6d65"

    /// The address that beacons are sent to.
    static func group(_ place: BeaconPlace, port: Int) throws -> SocketAddress {
        place.isV6
            ? try .makeAddressResolvingHost("\(groupV6)%\(place.name)", port: port)
            : try SocketAddress(ipAddress: groupV4, port: port)
    }

    /// Opens a socket on `loop`. `received` is called there for each datagram, with the address of the sender
    /// without a port.
    ///
    /// It is bound to the group and not to all addresses: so it hears nothing that was sent to this peer
    /// alone from beyond the network, and shares the port with other programs.
    static func open(
        _ place: BeaconPlace, _ device: NIONetworkDevice, port: Int, on loop: any EventLoop,
        received: @escaping @Sendable (_ bytes: [UInt8], _ host: String) -> Void
    ) -> EventLoopFuture<any Channel> {
        let group: SocketAddress
        do { group = try Self.group(place, port: port) } catch { return loop.makeFailedFuture(error) }
        return DatagramBootstrap(group: loop)
            .channelOption(.socketOption(.so_reuseaddr), value: 1)
            .channelOption(option(.socket, Int(SO_REUSEPORT)), value: 1)
            .channelOption(
                .recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: Limits.datagramBytes)
            )
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(BeaconReader(place, received))
                }
            }
            .bind(to: group)
            .flatMap { channel in
                prepare(channel, place, device, group).map { channel }.flatMapError { error in
                    channel.close(promise: nil)
                    return channel.eventLoop.makeFailedFuture(error)
                }
            }
    }

    private static func prepare(
        _ channel: any Channel, _ place: BeaconPlace, _ device: NIONetworkDevice, _ group: SocketAddress
    ) -> EventLoopFuture<Void> {
        guard let options = channel as? any SocketOptionProvider else {
            return channel.eventLoop.makeFailedFuture(ChannelError.operationUnsupported)
        }
        let joined = join(options, device, group)
        let ready: EventLoopFuture<Void>
        if case .v4(let own)? = device.address {
            ready = options.setIPMulticastIF(own.address.sin_addr)
                .flatMap { options.setIPMulticastTTL(1) }
                .flatMap { options.setIPMulticastLoop(1) }
        } else {
            ready = options.setIPv6MulticastIF(CUnsignedInt(device.interfaceIndex))
                .flatMap { options.setIPv6MulticastHops(1) }
                .flatMap { options.setIPv6MulticastLoop(1) }
        }
        #if os(Linux)
            // Otherwise a socket hears what any other socket of the device has joined, on all interfaces.
            let alone = channel.setOption(
                place.isV6 ? option(.ipv6, multicastAllV6) : option(.ip, multicastAllV4), value: 0)
        #else
            let alone = channel.eventLoop.makeSucceededVoidFuture()
        #endif
        return joined.flatMap { ready }.flatMap { alone }
    }

    /// Joins the group on one interface, by its number. NIO's `joinGroup` refuses the loopback interface of
    /// Linux, which has no flag for multicast and does it all the same. The kernel leaves with the socket.
    private static func join(
        _ options: any SocketOptionProvider, _ device: NIONetworkDevice, _ group: SocketAddress
    ) -> EventLoopFuture<Void> {
        switch group {
        case .v4(let address):
            let request = ip_mreqn(
                imr_multiaddr: address.address.sin_addr, imr_address: in_addr(),
                imr_ifindex: CInt(device.interfaceIndex))
            return options.unsafeSetSocketOption(
                level: .ip, name: NIOBSDSocket.Option(rawValue: CInt(IP_ADD_MEMBERSHIP)), value: request)
        case .v6(let address):
            let request = ipv6_mreq(
                ipv6mr_multiaddr: address.address.sin6_addr,
                ipv6mr_interface: numericCast(device.interfaceIndex))
            return options.unsafeSetSocketOption(
                level: .ipv6, name: NIOBSDSocket.Option(rawValue: CInt(IPV6_JOIN_GROUP)), value: request)
        case .unixDomainSocket:
            preconditionFailure("a group is an address of IPv4 or IPv6")
        }
    }

    /// IP_MULTICAST_ALL and IPV6_MULTICAST_ALL of Linux.
    private static let multicastAllV4 = 49
    private static let multicastAllV6 = 29

    private static func option(
        _ level: NIOBSDSocket.OptionLevel, _ name: Int
    ) -> ChannelOptions.Types.SocketOption {
        ChannelOptions.Types.SocketOption(level: level, name: NIOBSDSocket.Option(rawValue: CInt(name)))
    }
}

/// Hands over datagrams, on the event loop of the socket.
private final class BeaconReader: ChannelInboundHandler {
    typealias InboundIn = AddressedEnvelope<ByteBuffer>

    private let place: BeaconPlace
    private let received: @Sendable ([UInt8], String) -> Void

    init(_ place: BeaconPlace, _ received: @escaping @Sendable ([UInt8], String) -> Void) {
        self.place = place
        self.received = received
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let envelope = unwrapInboundIn(data)
        guard envelope.data.readableBytes <= Limits.beaconBytes,
            let host = envelope.remoteAddress.ipAddress
        else { return }
        received(Array(envelope.data.readableBytesView), host)
    }

    /// An error of reading concerns one datagram: the socket stays.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {}
}
