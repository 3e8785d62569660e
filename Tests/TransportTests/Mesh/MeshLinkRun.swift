import CRDT
import DQL
import Exchange
import NIOCore
import Sync
import Synchronization
import TestSupport

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
        /// Bytes on their way to this end, frame by frame; the first one may have come in part.
        var arriving: [ByteBuffer] = []
        var reader = FrameReader()
        var reason: SyncError?

        init?(_ peer: MeshPeer, isDialer: Bool, _ change: (inout MeshFeed.Parties) -> Void = { _ in }) {
            var link = MeshFeed.Parties(
                databaseID: "d", isDialer: isDialer, wallMilliseconds: 1_800_000_000_000)
            change(&link)
            guard let store = peer.feed.attach(link) else { return nil }
            self.peer = peer
            self.store = store
            session = peer.feed.session(of: link, MeshPeer.quiet)
            store.deliver = { [events] event in events.put(event) }
        }
    }

    /// The reason of an end whose link is cut.
    static let plainCut = SyncError(.unavailable, "cut")

    let ends: [End]
    private(set) var frames = 0
    private(set) var bytes = 0

    init?(
        _ dialer: MeshPeer, _ listener: MeshPeer,
        _ change: (inout MeshFeed.Parties) -> Void = { _ in }
    ) {
        guard let first = End(dialer, isDialer: true, change),
            let second = End(listener, isDialer: false, change)
        else { return nil }
        ends = [first, second]
    }

    var isOver: Bool { ends.contains { $0.reason != nil } }

    /// The link is cut: a part of the bytes that were under way has come at each end, which may end within a
    /// frame.
    func cut(within random: inout SplitMix64) async throws {
        for (place, end) in ends.enumerated() where end.reason == nil {
            // A connection is open before bytes come.
            if let event = end.events.next { try await handle(event, at: place) }
            var left = random.below(end.arriving.reduce(0) { $0 + $1.readableBytes } + 1)
            while left > 0, !end.arriving.isEmpty {
                let count = min(left, end.arriving[0].readableBytes)
                left -= count
                try await take(count, at: place)
            }
        }
        cut()
    }

    /// The next bytes of the frame that comes first have come.
    private func take(_ count: Int, at place: Int) async throws {
        let end = ends[place]
        guard let part = end.arriving[0].readSlice(length: count) else { return }
        if end.arriving[0].readableBytes == 0 { end.arriving.removeFirst() }
        var complete: [[UInt8]] = []
        try end.reader.take(part) { complete.append($0) }
        for frame in complete where end.reason == nil { try await handle(.frame(frame), at: place) }
    }

    /// The link is cut between two frames.
    func cut() {
        for end in ends {
            _ = end.session.receive(.disconnected)
            end.peer.feed.detach(end.store)
            if end.reason == nil { end.reason = Self.plainCut }
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
        try await take(end.arriving[0].readableBytes, at: place)
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
                ends[1 - place].arriving.append(FrameReader.bytes(of: frame, ByteBufferAllocator()))
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
