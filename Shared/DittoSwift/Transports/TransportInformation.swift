import CRDT
import Foundation

/// The rows of `system:transports_info`: the condition of each transport, and why a requested one is not
/// used.
struct TransportInformation: Sendable {
    /// The application's configuration.
    let config: DittoTransportConfig
    /// The status of the connection with the server; nil without a server.
    let server: SyncStatus?

    var rows: [ObjectValue] {
        let nearby = config.peerToPeer
        var rows = [
            Self.row("bluetooth_le", nearby.bluetoothLE.isEnabled, .NoBleHardware),
            Self.row("awdl", nearby.awdl.isEnabled, .WifiDisabled),
            Self.row("wifi_aware", nearby.wifiAware.isEnabled, .WifiDisabled),
            // This version neither listens nor discovers peers.
            Self.row("lan", nearby.lan.isEnabled, .Unknown),
            Self.row("tcp", config.listen.tcp.isEnabled || !config.connect.tcpServers.isEmpty, .Unknown),
            Self.row("http", config.listen.http.isEnabled, .Unknown),
        ]
        let condition: DittoTransportCondition =
            switch (server?.text, server?.lastError) {
            case ("connected"?, _): .Ok
            case ("connecting"?, .some): .CannotEstablishConnection
            default: .Unknown
            }
        rows.append(Self.row("websocket", server != nil, condition, server?.lastError))
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
