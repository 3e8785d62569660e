import CRDT
import DQL
import Exchange

@testable import Sync

/// A peer and a server whose connection breaks each time it has carried so many bytes one way; each has 2 MB
/// for the other: a hundred small documents or operations, a large one among them.
struct BreakingLink {
    private let budget: Int
    private let keeps: Bool
    private let documents: [DocumentUpdate]
    private let operations: [[UInt8]]
    private var peerKept: PartialMessage?
    private var serverKept: PartialMessage?
    // What is durable at the peer.
    private var resume: [UInt8]?
    private var staged: Set<DocumentKey> = []
    private var isLive = false
    private var acknowledged: SequenceNumber = 0
    // And at the server.
    private var admitted = 0
    /// Bytes of chunks that arrived at a place where they had arrived before.
    private(set) var carriedTwice = 0
    private var reached: [UInt64: UInt64] = [:]
    /// Why sessions ended, but for the breaks.
    private(set) var codes: [String] = []

    init(budget: Int, keeps: Bool) {
        self.budget = budget
        self.keeps = keeps
        let sizes = (0..<100).map { $0 == 40 ? 1_200_000 : 8_000 }
        documents = sizes.enumerated().map { number, size in
            DocumentUpdate(
                key: Exemplars.key(Int64(number)),
                content: .state(EncodedState([UInt8](repeating: 7, count: size))))
        }
        operations = sizes.map { Exemplars.operation + [UInt8](repeating: 9, count: $0) }
    }

    /// Whether everything is where it belongs.
    var isDone: Bool { isLive && staged.count == documents.count && admitted == operations.count }

    private func position(_ offset: Int) -> LogPosition {
        LogPosition(logID: Exemplars.logID, offset: Offset(UInt64(offset)), hash: UInt64(offset))
    }

    /// One connection, until it breaks or nothing more is to be sent.
    mutating func connect() {
        func session(_ role: Session.Role, _ kept: PartialMessage?) -> Session {
            Session(
                Session.Configuration(
                    role: role, databaseID: "d", peerKey: "k", wallMilliseconds: 5,
                    access: .everything, kept: keeps ? kept : nil))
        }
        var peer = session(.peer, peerKept)
        var server = session(.server(origin: 1), serverKept)
        var toPeer = Queue<[UInt8]>()
        var toServer = Queue<[UInt8]>()
        var (down, up) = (0, 0)
        var atPeer = peer.receive(.opened)
        var atServer = server.receive(.opened)
        atPeer += peer.receive(
            .subscribe(
                SubscriptionRequest(
                    key: [1], statement: "SELECT * FROM cars", arguments: .object(ObjectValue()), cursor: nil,
                    resume: resume)))
        if acknowledged.rawValue < operations.count {
            atPeer += peer.receive(.ownOperationAdded(Exemplars.actor))
        }
        while true {
            if !atPeer.isEmpty {
                let action = atPeer.removeFirst()
                if case .send(let frame) = action { toServer.append(frame) }
                if let event = answerAtPeer(action) { atPeer += peer.receive(event) }
            } else if !atServer.isEmpty {
                let action = atServer.removeFirst()
                if case .send(let frame) = action { toPeer.append(frame) }
                if let event = answerAtServer(action) { atServer += server.receive(event) }
            } else if let frame = toPeer.first, down + frame.count <= budget, down <= up || toServer.isEmpty {
                toPeer.removeFirst()
                down += frame.count
                note(frame)
                atPeer += peer.receive(.frame(frame))
            } else if let frame = toServer.first, up + frame.count <= budget {
                toServer.removeFirst()
                up += frame.count
                note(frame)
                atServer += server.receive(.frame(frame))
            } else if let frame = toPeer.first, down + frame.count <= budget {
                toPeer.removeFirst()
                down += frame.count
                note(frame)
                atPeer += peer.receive(.frame(frame))
            } else {
                break
            }
        }
        (peerKept, serverKept) = (peer.partial, server.partial)
    }

    private mutating func note(_ bytes: [UInt8]) {
        guard case .chunk(let isLast, let piece, let hash, let place)? = try? Frame(decoding: bytes) else {
            return
        }
        if place < reached[hash] ?? 0 { carriedTwice += piece.count }
        // The same message may come again when all of it was there, and was not stored or acknowledged.
        reached[hash] = isLast ? 0 : place + UInt64(piece.count)
    }

    private mutating func answerAtPeer(_ action: Action) -> Event? {
        switch action {
        case .close(let error):
            codes.append(error.code)
            return nil
        case .readOwnActors:
            let head = ActorHead(
                actor: Exemplars.actor, sequence: SequenceNumber(UInt64(operations.count)), hash: 1)
            return .ownActors(OwnHistory(heads: [head]))
        case .compareHistory(let heads, _):
            acknowledged = heads.first?.sequence ?? 0
            return .historyCompared([
                HistoryComparison(
                    actor: Exemplars.actor, admitted: acknowledged, state: .open, isExact: true)
            ])
        case .noteSeen: return .seenNoted
        case .readOwnOperations(let actor, let sequence, let maxBytes):
            var found: [(sequence: SequenceNumber, bytes: [UInt8])] = []
            var size = 0
            for (number, bytes) in operations.enumerated().dropFirst(Int(sequence.rawValue))
            where size < maxBytes {
                found.append((SequenceNumber(UInt64(number + 1)), bytes))
                size += bytes.count
            }
            return .ownOperations(actor: actor, found)
        case .stage(let page):
            staged.formUnion(page.updates.map(\.key))
            resume = page.resume ?? resume
            return .stored
        case .store(let batch):
            staged.formUnion(batch.updates.map(\.key))
            acknowledged = batch.acknowledges.last?.through ?? acknowledged
            if batch.publishes != nil { isLive = true }
            return .stored
        case .unstage, .startOver: return .stored
        case .acknowledge(_, let sequence, _):
            acknowledged = sequence
            return nil
        default: return nil
        }
    }

    private mutating func answerAtServer(_ action: Action) -> Event? {
        switch action {
        case .close(let error):
            codes.append(error.code)
            return nil
        case .readFrontier:
            let head = ActorHead(
                actor: Exemplars.actor, sequence: SequenceNumber(UInt64(admitted)), hash: 1)
            return .frontier([head], head: position(documents.count), isBehind: false)
        case .readPage(let id, _, _, let start, let maxBytes):
            let after: UInt64
            switch start {
            case .cursor(let place), .resumed(let place, _): after = place.offset.rawValue
            case .offset(let offset, _): after = offset.rawValue
            }
            var page: [DocumentUpdate] = []
            var size = 0
            for document in documents.dropFirst(Int(after)) where size < min(maxBytes, 262_144) {
                page.append(document)
                size += document.size
            }
            let end = Int(after) + page.count
            return .page(
                subscription: id,
                CatchUpPage(
                    documents: page, candidates: [], offset: Offset(UInt64(end)),
                    head: end == documents.count ? position(end) : nil, reached: position(end),
                    // Another place each time: pages are not the same twice.
                    asOf: position(documents.count + reached.count)))
        case .append(let uploads, _, _):
            admitted += uploads.count
            return .appended(
                [Acknowledgement(actor: Exemplars.actor, sequence: SequenceNumber(UInt64(admitted)))],
                offset: 1)
        default: return nil
        }
    }
}
