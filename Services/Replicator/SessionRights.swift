import CRDT
import Identity
import Sync
import Synchronization

/// Who is at the other end of a session and what that may do: changes while the session runs, with a newer
/// token or because a service says so.
///
/// Invariants: database and peer key stay the same for the session's life, since actors are bound to the
/// key. The session is told in the order of the changes. `state` guards the identity; it is never held
/// across a wait.
package final class SessionRights: Sendable {
    /// What an identity changes that takes the place of another: who it is now, and what may be read where
    /// the grant is another one.
    package typealias Change = @Sendable (Identity, ReadAccess?) -> Void

    private struct State {
        var identity: Identity
        /// Tokens that were issued before say nothing any more: seconds since 1970.
        var notBeforeSeconds: Int64
        var tell: Change?
    }

    private let state: Mutex<State>

    /// Rights that begin as those of `identity`.
    package init(_ identity: Identity) {
        state = Mutex(State(identity: identity, notBeforeSeconds: identity.issuedAtSeconds))
    }

    /// The identity now: what every append is judged by.
    package var identity: Identity { state.withLock { $0.identity } }

    /// Calls `tell` with each change from now on, before the next one can come; it must be quick.
    package func follow(_ tell: @escaping Change) { state.withLock { $0.tell = tell } }

    /// Tells nobody any more.
    func unfollow() { state.withLock { $0.tell = nil } }

    /// Goes on under a newer token of the same peer. One that was issued before the present one, or before a
    /// service's word, is not taken: it would undo that.
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

    /// A service's word: another grant from now on.
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

/// What a service has to say about the identity of a running session.
public enum RightsChange: Sendable {
    /// Nothing.
    case same
    /// It may do this from now on. A peer that applies the grant of its token goes on keeping back what that
    /// forbids, until it has a newer one.
    case grant(Grant)
    /// It may do nothing any more: its session ends with `SYNC-0504` and this message.
    case ended(String)
}
