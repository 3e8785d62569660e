import Foundation

/// Which ways to other peers an instance may take.
///
/// This version goes one way: to the server of its configuration. What else is asked for here is kept,
/// checked by nobody, and answered in `system:transports_info` with why it is not taken.
public struct DittoTransportConfig: Codable, Equatable, Sendable {
    /// Ways to small peers nearby.
    public var peerToPeer = DittoPeerToPeer()
    /// Peers to connect with by their addresses.
    public var connect = DittoConnect()
    /// Where others may connect with this peer.
    public var listen = DittoListen()
    /// What holds for all ways.
    public var global = DittoGlobalConfig()

    /// Everything off.
    public init() {}

    /// Turns on every way to small peers nearby.
    public mutating func enableAllPeerToPeer() { setAllPeerToPeer(enabled: true) }

    /// Turns every way to small peers nearby on or off.
    public mutating func setAllPeerToPeer(enabled: Bool) {
        peerToPeer.bluetoothLE.isEnabled = enabled
        peerToPeer.lan.isEnabled = enabled
        peerToPeer.awdl.isEnabled = enabled
        peerToPeer.wifiAware.isEnabled = enabled
    }
}

/// Ways to small peers nearby.
public struct DittoPeerToPeer: Codable, Equatable, Sendable {
    /// Bluetooth Low Energy; there is none on Linux.
    public var bluetoothLE = DittoBluetoothLEConfig()
    /// A network they share.
    public var lan = DittoLANConfig()
    /// Apple's Wi-Fi without a network.
    public var awdl = DittoAWDLConfig()
    /// Android's Wi-Fi without a network.
    public var wifiAware = DittoWifiAwareConfig()

    /// Everything off.
    public init() {}
}

/// Bluetooth Low Energy.
public struct DittoBluetoothLEConfig: Codable, Equatable, Sendable {
    /// Whether it may be used.
    public var isEnabled = false
    /// Off.
    public init() {}
    /// The older name of `isEnabled`.
    public var enabled: Bool {
        get { isEnabled }
        set { isEnabled = newValue }
    }
}

/// Apple's Wi-Fi without a network.
public struct DittoAWDLConfig: Codable, Equatable, Sendable {
    /// Whether it may be used.
    public var isEnabled = false
    /// Off.
    public init() {}
    /// The older name of `isEnabled`.
    public var enabled: Bool {
        get { isEnabled }
        set { isEnabled = newValue }
    }
}

/// Android's Wi-Fi without a network.
public struct DittoWifiAwareConfig: Codable, Equatable, Sendable {
    /// Whether it may be used.
    public var isEnabled = false
    /// Off.
    public init() {}
}

/// A network that peers share.
public struct DittoLANConfig: Codable, Equatable, Sendable {
    /// Whether it may be used.
    public var isEnabled = false
    /// Whether peers are looked for by multicast DNS.
    public var isMdnsEnabled = true
    /// Whether peers are looked for by multicast of our own.
    public var isMulticastEnabled = true
    /// Off.
    public init() {}
    /// The older name of `isEnabled`.
    public var enabled: Bool {
        get { isEnabled }
        set { isEnabled = newValue }
    }
}

/// Peers to connect with.
public struct DittoConnect: Codable, Equatable, Sendable {
    /// `host:port` of each.
    public var tcpServers: Set<String> = []
    /// `ws://` or `wss://` URL of each.
    public var webSocketURLs: Set<String> = []
    /// How long to wait before trying again, in seconds.
    public var retryInterval: TimeInterval = 5
    /// None.
    public init() {}
    /// The older name of `webSocketURLs`.
    public var websocketURLs: Set<String> {
        get { webSocketURLs }
        set { webSocketURLs = newValue }
    }
}

/// Where others may connect with this peer.
public struct DittoListen: Codable, Equatable, Sendable {
    /// Over TCP.
    public var tcp = DittoTCPListenConfig()
    /// Over HTTP.
    public var http = DittoHTTPListenConfig()
    /// Nowhere.
    public init() {}
}

/// Listening on TCP.
public struct DittoTCPListenConfig: Codable, Equatable, Sendable {
    /// Whether to listen.
    public var isEnabled = false
    /// The address to listen on.
    public var interfaceIP = "[::]"
    /// The port to listen on.
    public var port: UInt16 = 4040
    /// Off.
    public init() {}
}

/// Listening on HTTP.
public struct DittoHTTPListenConfig: Codable, Equatable, Sendable {
    /// Whether to listen.
    public var isEnabled = false
    /// The address to listen on.
    public var interfaceIP = "[::]"
    /// The port to listen on.
    public var port: UInt16 = 80
    /// A folder of files to serve, of 4.x.
    public var staticContentPath: String?
    /// Whether peers may sync over it.
    public var webSocketSync = true
    /// A PEM file with the key, for TLS.
    public var tlsKeyPath: String?
    /// A PEM file with the certificate, for TLS.
    public var tlsCertificatePath: String?
    /// Off.
    public init() {}
}

/// What holds for all ways.
public struct DittoGlobalConfig: Codable, Equatable, Sendable {
    /// Small peers connect inside their group only.
    public var syncGroup: UInt32 = 0
    /// A hint for the server's load balancer; 0 is none.
    public var routingHint: UInt32 = 0
    /// The group 0, no hint.
    public init() {}
}

// swift-format-ignore: AlwaysUseLowerCamelCase
/// How a way to other peers stands. Its names are those that applications know.
public enum DittoTransportCondition: UInt32, CustomStringConvertible, Sendable {
    /// Nobody has tried it.
    case Unknown = 0
    /// It works.
    case Ok
    /// It fails for another reason.
    case GenericFailure
    /// The application is in the background.
    case AppInBackground
    /// Multicast DNS fails.
    case MdnsFailure
    /// The port cannot be listened on.
    case TcpListenFailure
    /// Bluetooth is forbidden: looking for others.
    case NoBleCentralPermission
    /// Bluetooth is forbidden: being found.
    case NoBlePeripheralPermission
    /// Nobody answers.
    case CannotEstablishConnection
    /// Bluetooth is off.
    case BleDisabled
    /// There is no Bluetooth.
    case NoBleHardware
    /// Wi-Fi is off, or there is none.
    case WifiDisabled
    /// It does not work now.
    case TemporarilyUnavailable

    /// The case's name.
    public var description: String {
        switch self {
        case .Unknown: "Unknown"
        case .Ok: "Ok"
        case .GenericFailure: "GenericFailure"
        case .AppInBackground: "AppInBackground"
        case .MdnsFailure: "MdnsFailure"
        case .TcpListenFailure: "TcpListenFailure"
        case .NoBleCentralPermission: "NoBleCentralPermission"
        case .NoBlePeripheralPermission: "NoBlePeripheralPermission"
        case .CannotEstablishConnection: "CannotEstablishConnection"
        case .BleDisabled: "BleDisabled"
        case .NoBleHardware: "NoBleHardware"
        case .WifiDisabled: "WifiDisabled"
        case .TemporarilyUnavailable: "TemporarilyUnavailable"
        }
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase
/// Which way a condition is about. Its names are those that applications know.
public enum DittoConditionSource: UInt32, CustomStringConvertible, Sendable {
    /// Bluetooth Low Energy.
    case Bluetooth = 0
    /// TCP.
    case Tcp
    /// Apple's Wi-Fi without a network.
    case Awdl
    /// Multicast DNS.
    case Mdns

    /// The case's name.
    public var description: String {
        switch self {
        case .Bluetooth: "Bluetooth"
        case .Tcp: "Tcp"
        case .Awdl: "Awdl"
        case .Mdns: "Mdns"
        }
    }
}
