import CRDT
import Foundation

/// This peer and the peers it knows of, at one moment.
///
/// Encoded with `JSONEncoder` it has the keys that viewers of presence read, the older names and the newer
/// ones.
public struct DittoPresenceGraph: Equatable, Hashable, Codable, Sendable {
    /// This peer.
    public var localPeer: DittoPeer
    /// The small peers it knows of.
    public var remotePeers: [DittoPeer]

    /// Every connection between two peers, once.
    public var allConnectionsByID: [String: DittoConnection] {
        let all = (remotePeers + [localPeer]).flatMap(\.connections)
        return Dictionary(all.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
    }
}

/// A small peer.
public struct DittoPeer: Hashable, Codable, Sendable {
    /// Its public key, which names it; each store has another one.
    public var peerKey: String
    /// Its device name; not unique.
    public var deviceName: String
    /// Its connections with other small peers. `isConnectedToDittoServer` is the one with the server.
    public var connections: [DittoConnection]
    /// True if it is connected with the server now.
    public var isConnectedToDittoServer: Bool
    /// Its operating system; nil if unknown.
    public var os: DittoPeerOS?
    /// The version of its SDK.
    public var dittoSDKVersion: String?
    /// True if it can sync with this one; nil when that is unknown.
    public var isCompatible: Bool?
    /// Peers whose subscriptions overlap have nearer numbers.
    public var queryOverlapGroup: UInt8
    /// An address as in older versions; without content.
    public var address: DittoAddress
    var metadata: JSONObject
    var identityMetadata: JSONObject

    /// The name of `peerKey` up to 4.x.
    public var peerKeyString: String {
        get { peerKey }
        set { peerKey = newValue }
    }
    /// The name of `isConnectedToDittoServer` up to 4.x.
    public var isConnectedToDittoCloud: Bool {
        get { isConnectedToDittoServer }
        set { isConnectedToDittoServer = newValue }
    }
    /// The name of `os` in 4.x.
    public var osV2: DittoPeerOS? {
        get { os }
        set { os = newValue }
    }
    /// Its application's metadata.
    public var peerMetadata: [String: Any?] { metadata.object.plain }
    /// The metadata from the provider of its login.
    public var identityServiceMetadata: [String: Any?] { identityMetadata.object.plain }

    init(
        peerKey: String, deviceName: String, isConnectedToDittoServer: Bool, os: DittoPeerOS?,
        metadata: ObjectValue
    ) {
        self.peerKey = peerKey
        self.deviceName = deviceName
        self.isConnectedToDittoServer = isConnectedToDittoServer
        self.os = os
        self.metadata = JSONObject(metadata)
        identityMetadata = .empty
        connections = []
        dittoSDKVersion = Ditto.version
        isCompatible = true
        queryOverlapGroup = 0
        address = DittoAddress()
    }

    private enum CodingKeys: String, CodingKey {
        case peerKey, peerKeyString, deviceName, connections, isConnectedToDittoServer,
            isConnectedToDittoCloud, os, osV2, dittoSDKVersion = "dittoSdkVersion", isCompatible,
            queryOverlapGroup, address, peerMetadata, identityServiceMetadata
    }

    /// Decodes the result of `encode`, with the newer names or the older ones.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        let newerKey = try members.decodeIfPresent(String.self, forKey: .peerKey)
        peerKey = try newerKey ?? members.decode(String.self, forKey: .peerKeyString)
        deviceName = try members.decodeIfPresent(String.self, forKey: .deviceName) ?? ""
        connections = try members.decodeIfPresent([DittoConnection].self, forKey: .connections) ?? []
        let isConnected = try members.decodeIfPresent(Bool.self, forKey: .isConnectedToDittoServer)
        isConnectedToDittoServer =
            try isConnected ?? members.decodeIfPresent(Bool.self, forKey: .isConnectedToDittoCloud) ?? false
        let newerOS = try members.decodeIfPresent(DittoPeerOS.self, forKey: .os)
        os = try newerOS ?? members.decodeIfPresent(DittoPeerOS.self, forKey: .osV2)
        dittoSDKVersion = try members.decodeIfPresent(String.self, forKey: .dittoSDKVersion)
        isCompatible = try members.decodeIfPresent(Bool.self, forKey: .isCompatible)
        queryOverlapGroup = try members.decodeIfPresent(UInt8.self, forKey: .queryOverlapGroup) ?? 0
        address = DittoAddress()
        metadata = try members.decodeIfPresent(JSONObject.self, forKey: .peerMetadata) ?? .empty
        identityMetadata =
            try members.decodeIfPresent(JSONObject.self, forKey: .identityServiceMetadata) ?? .empty
    }

    /// Encodes both names where there are two.
    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        for key in [CodingKeys.peerKey, .peerKeyString] { try members.encode(peerKey, forKey: key) }
        try members.encode(deviceName, forKey: .deviceName)
        try members.encode(connections, forKey: .connections)
        for key in [CodingKeys.isConnectedToDittoServer, .isConnectedToDittoCloud] {
            try members.encode(isConnectedToDittoServer, forKey: key)
        }
        for key in [CodingKeys.os, .osV2] { try members.encodeIfPresent(os, forKey: key) }
        try members.encodeIfPresent(dittoSDKVersion, forKey: .dittoSDKVersion)
        try members.encodeIfPresent(isCompatible, forKey: .isCompatible)
        try members.encode(queryOverlapGroup, forKey: .queryOverlapGroup)
        try members.encode(address, forKey: .address)
        try members.encode(metadata, forKey: .peerMetadata)
        try members.encode(identityMetadata, forKey: .identityServiceMetadata)
    }
}

/// The operating system of a peer.
public enum DittoPeerOS: Hashable, Codable, Sendable, CustomStringConvertible {
    /// Android.
    case android
    /// iOS and iPadOS.
    case iOS
    /// Linux.
    case linux
    /// macOS.
    case macOS
    /// tvOS.
    case tvOS
    /// Windows.
    case windows
    /// Any other, with the name that the peer sent.
    case unknown(os: String)

    private static let known: [(os: DittoPeerOS, name: String)] = [
        (.android, "Android"), (.iOS, "iOS"), (.linux, "Linux"), (.macOS, "macOS"), (.tvOS, "tvOS"),
        (.windows, "Windows"),
    ]

    /// `Linux`, `iOS` and so on.
    public var stringValue: String {
        if case .unknown(let name) = self { return name }
        return Self.known.first { $0.os == self }?.name ?? ""
    }
    /// As `stringValue`.
    public var description: String { stringValue }

    init(name: String) { self = Self.known.first { $0.name == name }?.os ?? .unknown(os: name) }

    /// The operating system of this process.
    static var current: DittoPeerOS {
        #if os(Linux)
            .linux
        #elseif os(macOS)
            .macOS
        #elseif os(iOS)
            .iOS
        #elseif os(Windows)
            .windows
        #else
            .unknown(os: "Generic")
        #endif
    }

    /// Decodes the name.
    public init(from decoder: any Decoder) throws {
        self.init(name: try decoder.singleValueContainer().decode(String.self))
    }

    /// Encodes the name.
    public func encode(to encoder: any Encoder) throws {
        var one = encoder.singleValueContainer()
        try one.encode(stringValue)
    }
}

/// A connection between two small peers.
public struct DittoConnection: Identifiable, Hashable, Codable, Sendable {
    /// The same at both ends.
    public var id: String
    /// The kind of connection.
    public var type: DittoConnectionType
    /// One end's key.
    public var peer1: String
    /// The other end's key.
    public var peer2: String
    /// The distance between the peers; nil if unknown.
    public var approximateDistanceInMeters: Double?

    /// The name of `peer1` up to 4.x.
    public var peerKeyString1: String {
        get { peer1 }
        set { peer1 = newValue }
    }
    /// The name of `peer2` up to 4.x.
    public var peerKeyString2: String {
        get { peer2 }
        set { peer2 = newValue }
    }

    private enum CodingKeys: String, CodingKey {
        case id, type = "connectionType", peer1, peer2, peerKeyString1, peerKeyString2,
            approximateDistanceInMeters
    }

    /// Decodes the result of `encode`, with the newer names or the older ones.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        id = try members.decode(String.self, forKey: .id)
        type = try members.decode(DittoConnectionType.self, forKey: .type)
        let first = try members.decodeIfPresent(String.self, forKey: .peer1)
        peer1 = try first ?? members.decode(String.self, forKey: .peerKeyString1)
        let second = try members.decodeIfPresent(String.self, forKey: .peer2)
        peer2 = try second ?? members.decode(String.self, forKey: .peerKeyString2)
        approximateDistanceInMeters = try members.decodeIfPresent(
            Double.self, forKey: .approximateDistanceInMeters)
    }

    /// Encodes both names where there are two.
    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(id, forKey: .id)
        try members.encode(type, forKey: .type)
        for key in [CodingKeys.peer1, .peerKeyString1] { try members.encode(peer1, forKey: key) }
        for key in [CodingKeys.peer2, .peerKeyString2] { try members.encode(peer2, forKey: key) }
        try members.encodeIfPresent(approximateDistanceInMeters, forKey: .approximateDistanceInMeters)
    }
}

/// The kind of a connection between two peers.
public enum DittoConnectionType: String, CaseIterable, Codable, Sendable {
    /// Bluetooth Low Energy.
    case bluetooth = "Bluetooth"
    /// A network they share.
    case accessPoint = "AccessPoint"
    /// Wi-Fi without a network.
    case p2pWiFi = "P2PWiFi"
    /// A WebSocket.
    case webSocket = "WebSocket"
}

/// The address of a peer in older versions.
public struct DittoAddress: Hashable, Codable, Sendable {}
