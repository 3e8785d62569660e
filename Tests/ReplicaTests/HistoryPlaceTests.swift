import CRDT
import Exchange
import Testing

@testable import Replica

@Suite("Where the histories of one actor part")
struct HistoryPlaceTests {
    private static let actor = ActorID(5)

    /// Operations 1 and on; `branch` tells histories apart.
    private static func operation(_ sequence: SequenceNumber, _ branch: UInt64) -> [UInt8] {
        Operation(actor: actor, sequence: sequence, timestamp: sequence.rawValue * 10 + branch, changes: [])
            .encoded()
    }

    /// Compares a store that knows 2 acknowledged operations and has written 3 to 6, the first `common` of
    /// all as the server has them, with a server that has `head`.
    private static func compare(
        common: SequenceNumber, head: SequenceNumber, told: ClosedRange<SequenceNumber>?,
        isCurrent: Bool = true
    ) -> HistoryComparison {
        let place = HistoryPlace(
            actor: actor, sequence: 2, timestamp: 20, hash: hash64(operation(2, 0)))
        func server(_ sequence: SequenceNumber) -> UInt64 {
            hash64(operation(sequence, sequence <= common ? 0 : 1))
        }
        return place.compare(
            sequence: head, hash: server(head), last: 6, isCurrent: isCurrent,
            server: told.map {
                OperationHashes(actor: actor, first: $0.lowerBound, hashes: $0.map(server))
            }
        ) { $0 <= 6 ? operation($0, 0) : nil }
    }

    private static func found(
        _ state: HistoryComparison.State, _ admitted: SequenceNumber, isExact: Bool
    ) -> HistoryComparison {
        HistoryComparison(actor: actor, admitted: admitted, state: state, isExact: isExact)
    }

    @Test("the last operation that both have is found, and it is certain", arguments: SequenceNumber(2)...5)
    func fork(_ common: SequenceNumber) {
        let found = Self.compare(common: common, head: 9, told: 3...6)
        #expect(found == Self.found(.forked, common, isExact: true))
    }

    @Test("a store that the server has all of writes as another actor, and has nothing to move")
    func prefix() {
        let found = Self.compare(common: 9, head: 9, told: 3...6)
        #expect(found == Self.found(.forked, 6, isExact: true))
        let earlier = Self.compare(common: 9, head: 9, told: 3...6, isCurrent: false)
        #expect(earlier == Self.found(.open, 6, isExact: true))
    }

    @Test("what the server does not remember leaves a doubt, what it remembers of later ones does not")
    func partial() {
        #expect(
            Self.compare(common: 3, head: 9, told: 6...6)
                == Self.found(.forked, 2, isExact: false))
        #expect(
            Self.compare(common: 5, head: 9, told: 5...6)
                == Self.found(.forked, 5, isExact: true))
        #expect(
            Self.compare(common: 2, head: 9, told: nil)
                == Self.found(.forked, 2, isExact: false))
        #expect(
            Self.compare(common: 2, head: 3, told: nil)
                == Self.found(.forked, 2, isExact: true))
    }

    @Test("a server with less or the same needs no more than its last operation")
    func plain() {
        #expect(
            Self.compare(common: 9, head: 4, told: nil)
                == Self.found(.open, 4, isExact: true))
        #expect(
            Self.compare(common: 9, head: 1, told: nil)
                == Self.found(.closed, 2, isExact: true))
    }
}
