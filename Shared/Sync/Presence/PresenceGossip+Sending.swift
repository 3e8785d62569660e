extension PresenceGossip {
    // MARK: Sending

    /// The link may send: writes what is to be said as of now.
    mutating func ready(_ id: UInt64, _ now: Duration, _ actions: inout [Action]) {
        guard var link = links[id] else { return }
        var news = PresenceNews()
        if link.takeDigests(), settings.usesMultihop || own != nil { news.digests = digests }
        var bytes = 0
        while bytes < Limits.presenceFrameBytes, let (key, isReturn) = link.next() {
            guard let held = key == ownKey ? own : toldRecord(key, isReturn: isReturn) else { continue }
            guard settings.usesMultihop || key == ownKey || isReturn else { continue }
            let age = now - held.bornAt
            guard age < settings.life || isReturn else { continue }
            news.records.append(
                PresenceNews.Carried(record: held.signed, ageMilliseconds: age.wholeMilliseconds))
            bytes += held.signed.content.count
        }
        link.takeRest(&news, certificates, &bytes)
        link.sent(at: now)
        links[id] = link
        if !news.isEmpty { actions.append(.send(id, news)) }
    }

    private func toldRecord(_ key: String, isReturn: Bool) -> Held? {
        if let held = records[key] { return held }
        guard let held = remembered[key]?.held, isReturn || held.record.isLeaving else { return nil }
        return held
    }

    private var digests: [PresenceNews.Digest] {
        let mine = own.map { [PresenceNews.Digest(peer: ownName, rank: $0.record.rank)] } ?? []
        guard settings.usesMultihop else { return mine }
        let others = records.values.map {
            PresenceNews.Digest(peer: trust.name($0.record.peerKey), rank: $0.record.rank)
        }
        return mine + others.sorted { $0.peer < $1.peer }
    }

    // MARK: The graph

    /// The peers that are there, and their connections.
    public var graph: PresenceGraph {
        PresenceGraph(
            from: ownKey, links: ownLinks, atMost: Limits.presencePeers,
            hops: settings.usesMultihop ? .max : 1,
            identityMetadata: { certificates.metadata(of: records[$0]?.record.facts.certificateHash) },
            record: { records[$0]?.record })
    }
}
