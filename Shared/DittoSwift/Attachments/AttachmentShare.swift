import Attachments
import CRDT
import Foundation
import Identity
import Synchronization
import Transport

/// Answers linked peers that ask for attachments.
///
/// A peer gets an attachment if it may read a document here that refers to it, and that is not withheld from
/// peers; for every other one it is not there. One that is not here is fetched, since a document mentions it:
/// so attachments get over peers that have no link with each other.
///
/// `state` guards the transfers, and the answers of the last seconds: a download asks for many pieces.
final class AttachmentShare: BlobShare {
    private struct Question: Hashable {
        var peerKey: String
        var id: BlobID
    }

    private struct Known {
        var token: AttachmentToken?
        var until: ContinuousClock.Instant
    }

    private struct State {
        weak var transfers: AttachmentTransfers?
        var known: [Question: Known] = [:]
    }

    private let engine: Engine
    private let state = Mutex(State())

    init(_ engine: Engine) { self.engine = engine }

    /// Fetches what is asked for and not here.
    func connect(_ transfers: AttachmentTransfers) { state.withLock { $0.transfers = transfers } }

    func answer(_ ask: BlobAsk, to peerKey: String, rights: CompiledRules) async -> BlobAnswer {
        let id = BlobID(digest: ask.digest)
        guard let token = await token(of: id, Question(peerKey: peerKey, id: id), rights) else {
            return .none(.missing)
        }
        let engine = engine
        do {
            return try await AttachmentFolder.disk.run {
                let store = try engine.attachments.store()
                switch ask.subject {
                case .chunks:
                    let list = try store.chunks(id)
                    return .chunks(length: UInt64(list.length), digests: list.digests.flatMap { $0 })
                case .bytes(let offset, let count):
                    guard let place = Int64(exactly: offset) else { return .none(.missing) }
                    return .bytes(try store.reader(id).read(at: place, count: count))
                }
            }
        } catch let error as AttachmentError {
            switch error.code {
            case .notFound, .corrupt:
                state.withLock { $0.transfers }?.want([token])
                return .none(.missing)
            case .rangeInvalid: return .none(.missing)
            default: return .none(.unusable)
            }
        } catch {
            return .none(.unusable)
        }
    }

    /// The token of an attachment in a document that the peer may read.
    private func token(
        of id: BlobID, _ question: Question, _ rights: CompiledRules
    ) async -> AttachmentToken? {
        let now = ContinuousClock.now
        if let known = state.withLock({ $0.known[question] }), known.until > now { return known.token }
        let (engine, withheld) = (engine, Set(engine.settings.parameters.withheldFromPeers))
        let token: AttachmentToken?
        do {
            token = try await engine.readers.run { try Self.find(id, engine, rights, withheld) }
        } catch {
            return nil
        }
        let memory = token == nil ? Limits.refusalMemory : Limits.shareMemory
        state.withLock { state in
            if state.known.count >= Limits.knownShares { state.known = [:] }
            state.known[question] = Known(token: token, until: .now + memory)
        }
        return token
    }

    private static func find(
        _ id: BlobID, _ engine: Engine, _ rights: CompiledRules, _ withheld: Set<CollectionName>
    ) throws -> AttachmentToken? {
        var token: AttachmentToken?
        try engine.replica().read { transaction in
            for collection in try transaction.collectionNames()
            where token == nil && !withheld.contains(collection) && rights.allowsAny(of: collection) {
                try transaction.scan(collection) { record in
                    var mayBe = false
                    BlobMentions.forEach(in: record.document.bytes) { if $0 == id.prefix { mayBe = true } }
                    guard mayBe, rights.allows(collection, record.id) else { return true }
                    try record.document.root.forEachAttachment { if $0.id == id.text { token = $0 } }
                    return token == nil
                }
            }
        }
        return token
    }
}
