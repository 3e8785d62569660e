import CRDT
import Exchange
import Identity
import Sync
import Synchronization

/// The identity at the other end of a session and its rights: they change while the session runs, by a
/// newer token or by a service's decision.
///
/// Invariants: database and peer key stay the same for the session's life, because actors are bound to the
/// key. The session is told of changes in their order. `state` guards the identity; it is never held across
/// a wait.
package final class SessionRights: Sendable {
    /// A change of identity: the new one, and the new read rights if the grant differs.
    package typealias Change = @Sendable (Identity, ReadAccess?) -> Void

    private struct State {
        var identity: Identity
        /// Tokens that were issued before say nothing any more: seconds since 1970.
        var notBeforeSeconds: Int64
        var tell: Change?
        /// True if the peer has links, which bring it writes of others.
        var hasLinks = false
    }

    private let state: Mutex<State>

    /// Rights of `identity` to begin with.
    package init(_ identity: Identity) {
        state = Mutex(State(identity: identity, notBeforeSeconds: identity.issuedAtSeconds))
    }

    /// The present identity: every append is checked by it.
    package var identity: Identity { state.withLock { $0.identity } }

    /// True once the peer has said that it has links.
    var hasLinks: Bool { state.withLock { $0.hasLinks } }

    /// The peer has said that it has links.
    func noteLinks() { state.withLock { $0.hasLinks = true } }

    /// Calls `tell` with each change from now on, before the next one can come; it must be quick.
    package func follow(_ tell: @escaping Change) { state.withLock { $0.tell = tell } }

    /// Tells nobody any more.
    func unfollow() { state.withLock { $0.tell = nil } }

    /// Continues under a newer token of the same peer. A token issued before the present one, or before a
    /// service's decision, is refused, because it would undo that.
    package func replace(with newer: Identity) throws(SyncError) {
        let refusal = state.withLock { state -> String? in
            guard newer.databaseID == state.identity.databaseID,
                utf8Equal(newer.author, state.identity.author)
            else { return "the token is another peer's" }
            guard newer.issuedAtSeconds >= state.notBeforeSeconds else {
                return "the token was issued before what holds now"
            }
            state.notBeforeSeconds = newer.issuedAtSeconds
            Self.move(to: newer, &state)
            return nil
        }
        if let refusal { throw SyncError(.tokenRefused, refusal) }
    }

    /// Applies a service's decision: another grant from now on.
    package func change(to grant: Grant, atSeconds now: Int64) {
        state.withLock { state in
            state.notBeforeSeconds = max(state.notBeforeSeconds, now)
            Self.move(to: state.identity.with(grant), &state)
        }
    }

    private static func move(to newer: Identity, _ state: inout State) {
        let isOther = newer.grant != state.identity.grant
        state.identity = newer
        state.tell?(newer, isOther ? ReadAccess(newer.rights) : nil)
    }
}

/// A service's decision about the identity of a running session.
public enum RightsChange: Sendable {
    /// No change.
    case same
    /// The identity has this grant from now on. A peer that applies its token's grant keeps withholding
    /// writes which that grant forbids, until it has a newer token.
    case grant(Grant)
    /// The identity has lost all rights: its session ends with `SYNC-0504` and this message.
    case ended(String)
}
