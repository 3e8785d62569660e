/// The service of DNS-SD by which a peer announces itself on its network: a hint without proof, like a
/// beacon. Type `_mimeo._tcp`, instance `mimeo-<peer>`, text `v=1`, `t=<tag>`, `p=<peer>` and `b=<boot>`,
/// each of 16 hexadecimal digits.
struct PeerService: Sendable, Hashable {
    /// Tells peers of one database and one sync group from all others.
    var tag: UInt64
    var peer: PeerMark
    /// 8 random bytes of this start of the peer.
    var boot: UInt64
    /// The TCP port at which it takes links.
    var port: Int

    static let type = "_mimeo._tcp"
    private static let prefix = "mimeo-"

    /// The name of the instance. The second one is for when another service has the first one already.
    func instance(isFirst: Bool) -> String {
        Self.prefix + peer.description + (isFirst ? "" : "-" + hexText(boot))
    }

    /// The strings of the text record.
    var text: [String] { ["v=1", "t=\(hexText(tag))", "p=\(peer)", "b=\(hexText(boot))"] }

    /// Returns whether a service of this name may be a peer.
    static func isInstance(_ name: String) -> Bool { name.hasPrefix(prefix) && name.utf8.count <= 63 }
}

extension PeerService {
    /// Reads a text record of untrusted bytes; nil if it is none of ours. Unknown keys are passed over.
    init?(text: [[UInt8]], port: Int) {
        var values: [String: String] = [:]
        for entry in text.prefix(Limits.serviceTexts) {
            let parts = String(decoding: entry.prefix(Limits.serviceTextBytes), as: UTF8.self)
                .split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            // As RFC 6763 has it, the first of equal keys counts.
            guard parts.count == 2, values[String(parts[0])] == nil else { continue }
            values[String(parts[0])] = String(parts[1])
        }
        guard values["v"] == "1", (1...65_535).contains(port), let tag = Self.number(values["t"]),
            let peer = Self.number(values["p"]), let boot = Self.number(values["b"])
        else { return nil }
        self.init(tag: tag, peer: PeerMark(peer), boot: boot, port: port)
    }

    private static func number(_ text: String?) -> UInt64? {
        guard let text, text.utf8.count == 16 else { return nil }
        return UInt64(text, radix: 16).flatMap { hexText($0) == text ? $0 : nil }
    }
}
