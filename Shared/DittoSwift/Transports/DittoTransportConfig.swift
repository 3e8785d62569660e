import Foundation

/// The transports that an instance may use.
///
/// Small peers find each other on a local network (`peerToPeer.lan`), and link over TCP and over WebSockets
/// at the addresses named here; a change acts at once while sync is started. Bluetooth, `awdl` and
/// `wifiAware` are kept and not used. `system:transports_info` tells the condition of each transport, and
/// which address cannot be used.
///
/// An instance comes with every transport to peers nearby that this system has: `peerToPeer.lan`. A
/// configuration that the application makes begins with everything off. So
/// `ditto.transportConfig = DittoTransportConfig()` turns everything off, and
/// `ditto.updateTransportConfig { $0.setAllPeerToPeer(enabled: false) }` the peers nearby.
public struct DittoTransportConfig: Codable, Equatable, Sendable {
    /// Transports to small peers nearby.
    public var peerToPeer = DittoPeerToPeer()
    /// Peers to connect with by their addresses.
    public var connect = DittoConnect()
    /// The addresses on which others may connect with this peer.
    public var listen = DittoListen()
    /// Settings for all transports.
    public var global = DittoGlobalConfig()

    /// Everything off.
    public init() {}

    /// The transports that an instance comes with, with a server or without.
    static var ofNewInstance: DittoTransportConfig {
        var config = DittoTransportConfig()
        config.peerToPeer.lan.isEnabled = true
        return config
    }

    /// Turns on every transport to small peers nearby.
    public mutating func enableAllPeerToPeer() { setAllPeerToPeer(enabled: true) }

    /// Turns every transport to small peers nearby on or off.
    public mutating func setAllPeerToPeer(enabled: Bool) {
        peerToPeer.bluetoothLE.isEnabled = enabled
        peerToPeer.lan.isEnabled = enabled
        peerToPeer.awdl.isEnabled = enabled
        peerToPeer.wifiAware.isEnabled = enabled
    }
}

/// Transports to small peers nearby.
public struct DittoPeerToPeer: Codable, Equatable, Sendable {
    /// Bluetooth Low Energy; there is none on Linux.
    public var bluetoothLE = DittoBluetoothLEConfig()
    /// A shared local network.
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
    /// True if it may be used.
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
    /// True if it may be used.
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
    /// True if it may be used.
    public var isEnabled = false
    /// Off.
    public init() {}
}

/// A local network that peers share.
///
/// A peer announces itself by multicast and DNS-SD, finds others of the same database and sync group, and
/// listens on a port of its own (`tcp_server_bind_mdns_server_port`) at every address of the device.
public struct DittoLANConfig: Codable, Equatable, Sendable {
    /// True if it may be used.
    public var isEnabled = false
    /// True if peers are discovered by multicast DNS (DNS-SD), where avahi runs.
    public var isMdnsEnabled = true
    /// True if peers are discovered by our own multicast.
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
    /// `ws://` or `wss://` URL of each. The own server's URL may be among them: taken out again it ends the
    /// session with the server, put back it begins one.
    public var webSocketURLs: Set<String> = []
    /// The pause before a retry, in seconds.
    public var retryInterval: TimeInterval = 5
    /// None.
    public init() {}
    /// The older name of `webSocketURLs`.
    public var websocketURLs: Set<String> {
        get { webSocketURLs }
        set { webSocketURLs = newValue }
    }
}

/// The addresses on which others may connect with this peer.
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
    /// True if it listens.
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
    /// True if it listens.
    public var isEnabled = false
    /// The address to listen on.
    public var interfaceIP = "[::]"
    /// The port to listen on.
    public var port: UInt16 = 80
    /// A folder of static files to serve, as in 4.x.
    public var staticContentPath: String?
    /// True if peers may sync over it.
    public var webSocketSync = true
    /// A PEM file with the key, for TLS.
    public var tlsKeyPath: String?
    /// A PEM file with the certificate, for TLS.
    public var tlsCertificatePath: String?
    /// Off.
    public init() {}
}

/// Settings for all transports.
public struct DittoGlobalConfig: Codable, Equatable, Sendable {
    /// Small peers connect only within their group.
    public var syncGroup: UInt32 = 0
    /// A hint for the server's load balancer; 0 is none.
    public var routingHint: UInt32 = 0
    /// Group 0, no hint.
    public init() {}
}

// swift-format-ignore: AlwaysUseLowerCamelCase
/// The condition of a transport. The case names are those that applications know.
public enum DittoTransportCondition: UInt32, CustomStringConvertible, Sendable {
    /// It was not tried yet.
    case Unknown = 0
    /// It works.
    case Ok
    /// It fails for another reason.
    case GenericFailure
    /// The application is in the background.
    case AppInBackground
    /// Multicast DNS fails.
    case MdnsFailure
    /// The port cannot be opened.
    case TcpListenFailure
    /// Scanning by Bluetooth is not permitted.
    case NoBleCentralPermission
    /// Advertising by Bluetooth is not permitted.
    case NoBlePeripheralPermission
    /// No peer answers.
    case CannotEstablishConnection
    /// Bluetooth is off.
    case BleDisabled
    /// The device has no Bluetooth.
    case NoBleHardware
    /// Wi-Fi is off, or there is none.
    case WifiDisabled
    /// It does not work at the moment.
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
/// The transport that a condition is about. The case names are those that applications know.
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
