import CRDT
import Exchange

@testable import Replica

// Shorter words for what a session tells a store: tests have vectors decoded, the border has them encoded.

extension DocumentVersion {
    init(_ key: DocumentKey, _ vector: VersionVector) { self.init(key: key, vector: vector.encoded()) }

    var id: DocumentID { key.id }
    /// Its vector; nil for bytes that do not decode.
    var known: VersionVector? { try? VersionVector(decoding: vector) }
}

extension DocumentUpdate {
    var id: DocumentID { key.id }
}

extension PeerReplica {
    func stage(
        _ updates: [DocumentUpdate], for subscription: [UInt8], resume: [UInt8]? = nil,
        hiding hidden: [DocumentKey] = [], seen: LogPosition? = nil
    ) throws {
        try stage(
            StagedPage(
                subscription: subscription, updates: updates, hides: hidden, resume: resume, seen: seen))
    }

    /// The relation of an own actor's history to a server's that has this head of it.
    func relation(
        of actor: ActorID, sequence: SequenceNumber, hash: UInt64
    ) throws -> HistoryComparison.State? {
        try compareHistory([ActorHead(actor: actor, sequence: sequence, hash: hash)]).first?.state
    }

    func outdated(_ candidates: [(DocumentKey, VersionVector)], for key: [UInt8] = []) throws -> [DocumentKey]
    {
        try outdated(candidates.map { DocumentVersion($0.0, $0.1) }, for: key)
    }
}
