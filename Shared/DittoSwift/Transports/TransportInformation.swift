import CRDT
import Foundation

/// The rows of `system:transports_info`: the condition of each transport, and why a requested one is not
/// used.
struct TransportInformation: Sendable {
    /// The application's configuration.
    let config: DittoTransportConfig
    /// The status of the connection with the server; nil without a server.
    let server: SyncStatus?
    /// The links with small peers; nil if there can be none.
    let links: PeerLinks?

    var rows: [ObjectValue] {
        let nearby = config.peerToPeer
        var rows = [
            Self.row("bluetooth_le", nearby.bluetoothLE.isEnabled, .NoBleHardware),
            Self.row("awdl", nearby.awdl.isEnabled, .WifiDisabled),
            Self.row("wifi_aware", nearby.wifiAware.isEnabled, .WifiDisabled),
        ]
        let found = nearby.lan.isEnabled ? links?.discovery : nil
        rows.append(
            Self.row("lan", nearby.lan.isEnabled, found?.condition ?? .Unknown, found?.reason))
        let isTCP =
            config.listen.tcp.isEnabled || !config.connect.tcpServers.isEmpty || nearby.lan.isEnabled
        let tcp = links?.condition(of: .tcp)
        rows.append(Self.row("tcp", isTCP, tcp?.condition ?? .Unknown, isTCP ? tcp?.reason : nil))
        let isWebSocket = config.listen.http.isEnabled || !config.connect.webSocketURLs.isEmpty
        let web = links?.condition(of: .webSocket)
        rows.append(
            Self.row(
                "http", config.listen.http.isEnabled, web?.condition ?? .Unknown,
                config.listen.http.isEnabled ? web?.reason : nil))
        let condition: DittoTransportCondition =
            switch (server?.text, server?.lastError) {
            case ("connected"?, _): .Ok
            case ("connecting"?, .some): .CannotEstablishConnection
            default: server == nil ? web?.condition ?? .Unknown : .Unknown
            }
        let isUsed = server != nil || isWebSocket
        rows.append(
            Self.row("websocket", isUsed, condition, server?.lastError ?? (isUsed ? web?.reason : nil)))
        return rows
    }

    private static func row(
        _ name: String, _ isEnabled: Bool, _ condition: DittoTransportCondition, _ reason: String? = nil
    ) -> ObjectValue {
        var row = ObjectValue([
            (key: "_id", value: .string(name)), (key: "is_enabled", value: .bool(isEnabled)),
            (key: "condition", value: .string(condition.description)),
        ])
        if let reason { row["last_error"] = .string(reason) }
        return row
    }
}
