import CRDT
import Identity
import Sync
import Synchronization

/// Who is at the other end of a session and what that may do: changes while the session runs, with a newer
/// token or because a service says so.
///
/// Invariants: database and peer key stay the same for the session's life, since actors are bound to the key.
/// The session is told in the order of the changes. `state` guards the identity; it is never held across a
/// wait.
package final class SessionRights: Sendable {
    /// What an identity changes that takes the place of another: who it is now, and what may be read where
    /// the grant is another one.
    package typealias Change = @Sendable (Identity, ReadAccess?) -> Void

    private let state: Mutex<(identity: Identity, tell: Change?)>

    /// Rights that begin as those of `identity`.
    package init(_ identity: Identity) { state = Mutex((identity, nil)) }

    /// The identity now: what every append is judged by.
    package var identity: Identity { state.withLock { $0.identity } }

    /// Calls `tell` with each change from now on, before the next one can come; it must be quick.
    package func follow(_ tell: @escaping Change) { state.withLock { $0.tell = tell } }

    /// Goes on as another identity of the same peer.
    package func replace(with newer: Identity) throws(SyncError) {
        let isTaken = state.withLock { state in
            guard utf8Equal(newer.databaseID, state.identity.databaseID),
                utf8Equal(newer.peerKey ?? "", state.identity.peerKey ?? "")
            else { return false }
            let isOther = newer.grant != state.identity.grant
            state.identity = newer
            state.tell?(newer, isOther ? ReadAccess(newer.grant) : nil)
            return true
        }
        guard isTaken else { throw SyncError(.tokenRefused, "the token is another peer's") }
    }
}

/// What a service has to say about the identity of a running session.
public enum RightsChange: Sendable {
    /// Nothing.
    case same
    /// It may do this from now on.
    case grant(Grant)
    /// It may do nothing any more: its session ends with `SYNC-0504` and this message.
    case ended(String)
}
