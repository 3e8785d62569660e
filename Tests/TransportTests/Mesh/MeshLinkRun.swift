import CRDT
import DQL
import Exchange
import Sync
import Synchronization

@testable import Transport

/// A link of two peers in a test: two real sessions, whose events are handled one at a time as the test says.
final class MeshLinkRun {
    /// Events that wait for a session.
    final class Waiting: Sendable {
        private let events = Mutex<[Event]>([.opened])

        func put(_ event: Event) { events.withLock { $0.append(event) } }

        var next: Event? { events.withLock { $0.isEmpty ? nil : $0.removeFirst() } }
    }

    /// One end.
    final class End {
        let peer: MeshPeer
        let store: MeshStore
        var session: Session
        let events = Waiting()
        /// Frames on their way to this end.
        var arriving: [[UInt8]] = []
        var reason: SyncError?

        init?(_ peer: MeshPeer, isDialer: Bool, _ change: (inout MeshFeed.Link) -> Void = { _ in }) {
            var link = MeshFeed.Link(databaseID: "d", isDialer: isDialer, wallMilliseconds: 1_800_000_000_000)
            change(&link)
            guard let store = peer.feed.attach(link) else { return nil }
            self.peer = peer
            self.store = store
            session = peer.feed.session(of: link, MeshPeer.quiet)
            store.deliver = { [events] event in events.put(event) }
        }
    }

    let ends: [End]
    private(set) var frames = 0
    private(set) var bytes = 0

    init?(
        _ dialer: MeshPeer, _ listener: MeshPeer,
        _ change: (inout MeshFeed.Link) -> Void = { _ in }
    ) {
        guard let first = End(dialer, isDialer: true, change),
            let second = End(listener, isDialer: false, change)
        else { return nil }
        ends = [first, second]
    }

    var isOver: Bool { ends.contains { $0.reason != nil } }

    func cut() {
        for end in ends {
            _ = end.session.receive(.disconnected)
            end.peer.feed.detach(end.store)
            if end.reason == nil { end.reason = SyncError(.unavailable, "cut") }
        }
    }

    /// Does one thing at an end: an event, or else a frame that has arrived. False when there is nothing.
    func step(_ place: Int) async throws -> Bool {
        let end = ends[place]
        guard end.reason == nil else { return false }
        if let event = end.events.next {
            try await handle(event, at: place)
            return true
        }
        guard !end.arriving.isEmpty else { return false }
        try await handle(.frame(end.arriving.removeFirst()), at: place)
        return true
    }

    private func handle(_ event: Event, at place: Int) async throws {
        let end = ends[place]
        let actions = end.session.receive(event)
        end.session.checkInvariants()
        for action in actions {
            switch action {
            case .send(let frame):
                frames += 1
                bytes += frame.count
                ends[1 - place].arriving.append(frame)
            case .close(let reason):
                end.reason = reason
                end.peer.feed.detach(end.store)
            case .awaitOperations(let offset):
                _ = end.store.follow(after: offset) { [events = end.events] in events.put($0) }
            default:
                if let answer = try await end.store.perform(action) { end.events.put(answer) }
            }
        }
    }

    /// Runs both ends until nothing is left to do.
    func settle() async throws {
        var moves = true
        while moves {
            moves = false
            for place in [0, 1] {
                while try await step(place) { moves = true }
                while ends[place].peer.later.step() { moves = true }
            }
        }
    }
}
