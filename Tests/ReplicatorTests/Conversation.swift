import CRDT
import DQL
import Exchange
import Foundation
import Identity
import Machine
import OperationLog
import Replica
import Sync
import Synchronization
import Transport

@testable import Replicator

/// A peer's session and a server's, each with its real store, that exchange frames one after the other, and
/// a transcript of everything that they say.
///
/// Nothing runs by itself: `run` delivers the events that wait, in order, until there are none. Actors are
/// named by letters in the order in which they appear, positions by their offset.
final class Conversation {
    enum Side: String { case alice, server }

    private(set) var lines: [String] = []
    private var peer: Session
    private var server: Session
    private let peerStore: PeerStore
    private let serverStore: ServerStore
    private let log: any OperationLog
    private var waiting: [(side: Side, event: Event)] = []
    /// The offset after which the server waits for operations.
    private var awaited: Offset?
    private var letters: [ActorID: Character] = [:]
    private let transitions = Transitions()

    /// Changes of state that were told and are not written down yet.
    private final class Transitions: Sendable {
        private let told = Mutex<[Transition]>([])
        func add(_ transition: Transition) { told.withLock { $0.append(transition) } }
        func take() -> [Transition] {
            told.withLock { all in
                defer { all = [] }
                return all
            }
        }
    }

    init(peer: PeerStore, server: ServerStore, log: any OperationLog, database: DatabaseID) {
        peerStore = peer
        serverStore = server
        self.log = log
        var own = Session.Configuration(
            role: .peer, databaseID: database, peerKey: "", wallMilliseconds: 1_800_000_000_000,
            access: .everything)
        own.trace = { [transitions] in if $0.machine == .writer { transitions.add($0) } }
        self.peer = Session(own)
        var others = Session.Configuration(
            role: .server(origin: server.session), databaseID: database, peerKey: "",
            wallMilliseconds: 1_800_000_000_000, access: ReadAccess(server.rights.identity.rights))
        others.sharing = server.hub.sharing(for: server.session)
        self.server = Session(others)
    }

    /// Brings an event to the peer's session.
    func tell(_ event: Event) { waiting.append((.alice, event)) }

    /// Connects both sessions.
    func open() { waiting += [(.server, .opened), (.alice, .opened)] }

    /// Delivers what waits, until nothing does.
    /// - Returns: the transcript of that.
    func run() async throws -> String {
        lines = []
        while true {
            while !waiting.isEmpty {
                let (side, event) = waiting.removeFirst()
                try await deliver(event, to: side)
            }
            let head = try await log.head(of: serverStore.database).offset
            guard let offset = awaited, head > offset else { return lines.map { $0 + "\n" }.joined() }
            awaited = nil
            if let event = try await operations(after: offset, through: head) {
                waiting.append((.server, event))
            }
        }
    }

    /// The server's answer, once all of the log is in its stream: so it is the same each time. Sessions that
    /// an operation does not concern hear of it with the next news of progress.
    private func operations(after offset: Offset, through head: Offset) async throws -> Event? {
        let (store, hub) = (serverStore, serverStore.hub)
        while hub.tellProgress() < head { try await Task.sleep(for: .milliseconds(1)) }
        let progress = Task {
            while !Task.isCancelled {
                hub.tellProgress()
                try await Task.sleep(for: .milliseconds(1))
            }
        }
        defer { progress.cancel() }
        return try await store.perform(.awaitOperations(after: offset))
    }

    private func deliver(_ event: Event, to side: Side) async throws {
        if let text = describe(event) { lines.append("\(store(of: side)): \(text)") }
        let actions = side == .alice ? peer.receive(event) : server.receive(event)
        for change in transitions.take() {
            lines.append("alice's \(change.machine): \(change.from) -> \(change.to)")
        }
        for action in actions { try await perform(action, of: side) }
    }

    private func perform(_ action: Action, of side: Side) async throws {
        let other: Side = side == .alice ? .server : .alice
        switch action {
        case .send(let bytes):
            lines.append("\(side.rawValue) -> \(other.rawValue): \(describe(try Frame(decoding: bytes)))")
            waiting.append((other, .frame(bytes)))
        case .close(let error): lines.append("\(side.rawValue) closes: \(error.code)")
        case .awaitOperations(let offset): awaited = offset
        default:
            lines.append("\(side.rawValue) asks \(store(of: side)): \(describe(action))")
            let store: any SessionStore = side == .alice ? peerStore : serverStore
            if let answer = try await store.perform(action) { waiting.append((side, answer)) }
        }
    }

    private func store(of side: Side) -> String { side == .alice ? "store" : "log" }
}

// MARK: Words

extension Conversation {
    private func name(_ actor: ActorID) -> String {
        if let known = letters[actor] { return String(known) }
        let letter = Character(UnicodeScalar(UInt8(ascii: "A") + UInt8(letters.count)))
        letters[actor] = letter
        return String(letter)
    }

    private func name(_ key: DocumentKey) -> String { "\(key.collection) \(key.id)" }

    private func names(_ keys: [DocumentKey]) -> String { keys.map(name).sorted().joined(separator: ", ") }

    private func names(_ updates: [DocumentUpdate]) -> String {
        updates.map { update in
            switch update.content {
            case .state: "\(name(update.key)) as a state"
            case .delta: "\(name(update.key)) as a delta"
            case .gone: "\(name(update.key)) as purged"
            case .void: "\(name(update.key)) as void"
            }
        }.joined(separator: ", ")
    }

    private func names(_ heads: [ActorHead]) -> String {
        heads.isEmpty ? "no actors" : heads.map { "\(name($0.actor)) \($0.sequence)" }.joined(separator: ", ")
    }

    private func names(_ all: [Acknowledgement]) -> String {
        all.map { "\(name($0.actor)) \($0.sequence)" }.joined(separator: ", ")
    }

    private func name(_ all: [OwnAcknowledgement]) -> String {
        all.map { "\(name($0.actor)) \($0.through)" }.joined(separator: ", ")
    }

    private func names(_ states: [(key: DocumentKey, state: EncodedState?)]) -> String {
        states.map { "\(name($0.key))\($0.state == nil ? " (none)" : "")" }.sorted().joined(separator: ", ")
    }

    /// The actor and the sequences of encoded operations.
    private func names(_ operations: [[UInt8]]) -> String {
        let headers = operations.compactMap { try? OperationHeader.peek($0) }
        guard let first = headers.first, let last = headers.last else { return "nothing" }
        let through = last.sequence == first.sequence ? "" : "...\(last.sequence)"
        return "\(name(first.actor)) \(first.sequence)\(through)"
    }

    private func describe(_ frame: Frame) -> String {
        switch frame {
        case .hello(let hello):
            "hello, \(names(hello.actors))" + (hello.head.map { ", log at \($0.offset)" } ?? "")
        case .subscribe(let request):
            "subscribe \(request.id), \(request.statement), from "
                + (request.cursor.map { "\($0.offset)" } ?? "the beginning")
        case .catchUp(let page):
            "catchUp \(page.id), \(page.documents.isEmpty ? "nothing" : names(page.documents))"
                + (page.end.map { ", the end, at \($0.offset)" } ?? "")
        case .operations(let operations):
            "operations through \(operations.position.offset), \(names(operations.updates))"
        case .progress(let position, _): "progress through \(position.offset)"
        case .upload(let operations): "upload \(names(operations))"
        case .acknowledged(let all, let offset): "acknowledged \(names(all)), at \(offset)"
        case .want(let keys, _): "want \(names(keys))"
        case .states(let states, let position, _, _):
            "states \(names(states))" + (position.map { ", at \($0.offset)" } ?? "")
        case .credit: "credit"
        case .refused(let refusal):
            "refused \(name(refusal.actor)) \(refusal.sequence), \(refusal.error.code)"
        case .close(let error): "close, \(error.code)"
        default: Self.caseName(of: frame)
        }
    }

    private func describe(_ action: Action) -> String {
        switch action {
        case .compareHistory(let heads, _): "compareHistory, \(names(heads))"
        case .readOwnOperations(let actor, let sequence, _):
            "readOwnOperations of \(name(actor)) after \(sequence)"
        case .store(let reception):
            "store "
                + [
                    reception.updates.isEmpty ? nil : names(reception.updates),
                    reception.cursors.first.map { "cursor to \($0.position.offset)" },
                    reception.acknowledges.isEmpty ? nil : "acknowledged \(name(reception.acknowledges))",
                ].compactMap { $0 }.joined(separator: ", ")
        case .stage(let page): "stage \(names(page.updates))"
        case .acknowledge(let actor, let sequence, _): "acknowledge \(name(actor)) through \(sequence)"
        case .noteSeen(let position, _, _): "noteSeen \(position.offset)"
        case .readVectors(let keys): "readVectors of \(names(keys))"
        case .repair(let request):
            "repair, refused "
                + request.refused.map { "\(name($0.actor)) \($0.sequence)" }.joined(separator: ", ")
                + (request.following.map { ", with the stream to \($0.streamed ?? 0)" } ?? "")
        case .stageRepair(let states): "stageRepair \(names(states))"
        case .append(let operations, _, _): "append \(names(operations))"
        case .readStates(let keys, _): "readStates of \(names(keys))"
        case .report(let report): "report \(describe(report))"
        default: Self.caseName(of: action)
        }
    }

    private func describe(_ report: Report) -> String {
        switch report {
        case .connected: "connected"
        case .subscriptionIsLive: "subscriptionIsLive"
        case .writeRefused(let refusal):
            "writeRefused \(name(refusal.actor)) \(refusal.sequence), \(refusal.error.code)"
        default: Self.caseName(of: report)
        }
    }

    /// The text of a store's answer, or of what an application does; nil for a frame, which its sender shows.
    private func describe(_ event: Event) -> String? {
        switch event {
        case .frame, .opened, .disconnected: nil
        case .subscribe(let request): "subscribe \(request.statement)"
        case .ownActors(let history): "ownActors, \(names(history.heads))"
        case .frontier(let heads, let head, _, _): "frontier, \(names(heads)), head \(head.offset)"
        case .ownOperations(_, let operations): "ownOperations \(names(operations.map(\.bytes)))"
        case .ownOperationAdded(let actor): "ownOperationAdded of \(name(actor))"
        case .page(_, let page): "page, \(names(page.documents))"
        case .operations(let all, let position):
            "operations "
                + (all.map { "\($0.position.offset), " }.joined()) + "through \(position.offset)"
        case .appended(let all, let offset): "appended \(names(all)), at \(offset)"
        case .refused(let all, let refusals, _):
            "refused " + refusals.map { "\(name($0.actor)) \($0.sequence)" }.joined(separator: ", ")
                + (all.isEmpty ? "" : ", appended \(names(all))")
        case .repairNeeds(let keys): "repairNeeds \(names(keys))"
        case .repaired(let outcome):
            "repaired: refused \(outcome.refused.map { "\(name($0.actor)) \($0.sequence)" }.joined())"
                + ", left \(outcome.left.map(name).sorted().joined())"
                + ", to upload \(outcome.pending.map(name).joined())"
        case .states(let states, let position, _):
            "states \(names(states))" + (position.map { ", at \($0.offset)" } ?? "")
        default: Self.caseName(of: event)
        }
    }

    private static func caseName(of value: Any) -> String {
        Mirror(reflecting: value).children.first?.label ?? "\(value)"
    }
}
