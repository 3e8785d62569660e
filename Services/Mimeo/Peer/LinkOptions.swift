import ArgumentParser
import DittoSwift
import Foundation
import ServiceKit

/// The options by which `mimeo peer` links with other peers.
struct LinkOptions: ParsableArguments {
    @Option(help: ArgumentHelp("Let peers link here; port 0 is any free one.", valueName: "host:port"))
    var listenTcp: String?
    @Option(help: ArgumentHelp("A peer to link with; may be repeated.", valueName: "host:port"))
    var connect: [String] = []
    @Option(
        help: ArgumentHelp("Let peers link here over WebSockets at /_ditto/mesh.", valueName: "host:port"))
    var listenWs: String?
    @Option(
        help: ArgumentHelp("A peer to link with over a WebSocket; may be repeated.", valueName: "ws-url"))
    var connectWs: [String] = []
    @Flag(help: "Find peers of the same database on the local network, and let them find this one.")
    var lan = false
    @Option(
        help: ArgumentHelp(
            "A P-256 private key as openssl writes it, which all peers share.", valueName: "file"),
        transform: GivenText.of("--shared-key"))
    var sharedKey: String?
    @Option(
        help: ArgumentHelp("Only peers of the same group link with each other.", valueName: "number"))
    var syncGroup: UInt32 = 0
    @Option(
        help: ArgumentHelp(
            "The pause before a failed link is tried again; it doubles up to a minute.", valueName: "seconds")
    )
    var retry: Double = 5

    /// True if the peer is to link with others.
    var hasAny: Bool {
        lan || listenTcp != nil || listenWs != nil || !connect.isEmpty || !connectWs.isEmpty
    }

    /// The configuration of these options.
    /// - Throws: `CLI-0101`.
    func transportConfig() throws(MimeoError) -> DittoTransportConfig {
        var config = DittoTransportConfig()
        config.connect.tcpServers = Set(connect)
        config.connect.webSocketURLs = Set(connectWs)
        guard (0.1...3_600).contains(retry) else {
            throw MimeoError(.usage, "--retry is between 0.1 and 3600 seconds")
        }
        for text in connect { _ = try place(text, "--connect", least: 1) }
        for text in connectWs where !(text.hasPrefix("ws://") || text.hasPrefix("wss://")) {
            throw MimeoError(.usage, "--connect-ws takes a ws:// or wss:// URL, not '\(text)'")
        }
        config.connect.retryInterval = retry
        if let listenTcp {
            let (host, port) = try place(listenTcp, "--listen-tcp", least: 0)
            config.listen.tcp.isEnabled = true
            config.listen.tcp.interfaceIP = host
            config.listen.tcp.port = port
        }
        if let listenWs {
            let (host, port) = try place(listenWs, "--listen-ws", least: 0)
            config.listen.http.isEnabled = true
            config.listen.http.interfaceIP = host
            config.listen.http.port = port
        }
        config.peerToPeer.lan.isEnabled = lan
        config.global.syncGroup = syncGroup
        return config
    }

    private func place(
        _ text: String, _ option: String, least: UInt16
    ) throws(MimeoError) -> (host: String, port: UInt16) {
        guard let colon = text.lastIndex(of: ":"), colon != text.startIndex,
            let port = UInt16(text[text.index(after: colon)...]), port >= least
        else { throw MimeoError(.usage, "\(option) takes host:port, not '\(text)'") }
        let host = String(text[..<colon])
        // A resolver would make loopback of it.
        return (host == "*" && least == 0 ? "0.0.0.0" : host, port)
    }

    /// The shared key's text; nil for none.
    /// - Throws: `CLI-0101`.
    func key() throws(MimeoError) -> String? {
        guard let sharedKey else { return nil }
        guard let data = FileManager.default.contents(atPath: sharedKey) else {
            throw MimeoError(.usage, "--shared-key: '\(sharedKey)' cannot be read")
        }
        return String(decoding: data, as: UTF8.self)
    }
}
