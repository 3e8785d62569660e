import CRDT
import DQL
import Identity
import ServiceKit
import Synchronization

/// The live queries of this process: one for each distinct projection, statement, arguments and rights.
/// `open` guards the table.
final class Observations: Sendable {
    fileprivate struct Key: Hashable, Sendable {
        let projection: ObjectIdentifier
        let statement: [UInt8]
        let arguments: [UInt8]
        let rights: CompiledGrant
    }

    /// A query that somebody wants to follow. Making one takes as long as its statement and arguments are,
    /// whose memory it holds if they are long.
    struct Wanted: Sendable {
        fileprivate let key: Key
        fileprivate let query: Observation.Query
        fileprivate let projection: Projection

        /// - Parameter preparedBytes: the memory of the statement, if it is long.
        /// - Throws: `SRV-0430`, `SRV-0503`.
        init(
            _ statement: PreparedStatement, preparedBytes: Int, _ arguments: ObjectValue,
            _ identity: Identity, on projection: Projection
        ) throws(ServiceError) {
            let encoded = CBOR.encode(.object(arguments))
            let held = ClientHold(Account(identity))
            try held.grow(by: preparedBytes)
            if encoded.count > Limits.plainStatementBytes {
                try held.grow(by: Value.object(arguments).heldBytes)
            }
            key = Key(
                projection: ObjectIdentifier(projection), statement: Array(statement.text.utf8),
                arguments: encoded, rights: identity.rights)
            query = Observation.Query(
                statement: statement, arguments: arguments, rights: identity.rights,
                observed: ObservedQuery(
                    statement, arguments: arguments, options: projection.options(isStrict: false)),
                credential: identity.credential, held: held)
            self.projection = projection
        }
    }

    private struct Open {
        let observation: Observation
        var followers: Int
    }

    private let open = Mutex<[Key: Open]>([:])

    /// A follower's hold on a query, for as long as it lives.
    final class Membership: Sendable {
        let observation: Observation
        private let leave: @Sendable () -> Void
        fileprivate init(_ observation: Observation, _ leave: @escaping @Sendable () -> Void) {
            (self.observation, self.leave) = (observation, leave)
        }
        deinit { leave() }
    }

    /// Joins a query's followers, and begins to evaluate it for the first one.
    func join(_ wanted: Wanted) -> Membership {
        let key = wanted.key
        let observation = open.withLock { open in
            if let known = open[key] {
                open[key]?.followers += 1
                return known.observation
            }
            let made = Observation(wanted.query, on: wanted.projection)
            open[key] = Open(observation: made, followers: 1)
            return made
        }
        return Membership(observation) { [self] in leave(key, observation) }
    }

    private func leave(_ key: Key, _ observation: Observation) {
        let isLast = open.withLock { open in
            guard let known = open[key], known.observation === observation else { return false }
            guard known.followers > 1 else {
                open[key] = nil
                return true
            }
            open[key]?.followers -= 1
            return false
        }
        if isLast { observation.stop() }
    }

    /// Forgets a query that has ended, so that the next follower begins it again.
    func forget(_ observation: Observation) {
        open.withLock { open in
            if let key = open.first(where: { $0.value.observation === observation })?.key { open[key] = nil }
        }
        observation.stop()
    }

    /// Wakes every follower.
    func wake() {
        let all = open.withLock { $0.values.map(\.observation) }
        for observation in all { observation.wake() }
    }
}
