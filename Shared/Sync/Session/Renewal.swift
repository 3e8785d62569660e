import CRDT
import Exchange

/// A newer access token in the midst of a session: the peer sends it ahead of the end of the one before, the
/// server goes on under what it says, and nothing is sent again that the rights do not concern. What the peer
/// uploads behind the token is judged when that has been checked.
///
/// Bounds: of each side one token waits, the latest; one is checked at a time, so a peer that sends many has
/// no more of a server than one that connects many times.
struct Renewal: Sendable {
    /// A peer's, until the session is open; a server's, while the one before is checked.
    var waiting: String?
    var isChecking = false
}

extension Session {
    /// The peer's half. A server that does not know the frame lets the session end with the earlier token.
    mutating func renew(_ token: String) {
        guard configuration.role == .peer else { return }
        guard phase == .open else {
            renewal.waiting = token
            return
        }
        if version >= 3 { send(.renewal(token: token)) }
    }

    /// The session is open: what came before is sent.
    mutating func sendRenewal() {
        guard let token = renewal.waiting else { return }
        renewal.waiting = nil
        renew(token)
    }

    /// The server's half.
    mutating func check(_ token: String) throws(SyncError) {
        guard token.utf8.count <= Limits.accessTokenBytes else {
            throw SyncError(.tokenRefused, "a token of \(token.utf8.count) bytes is not read")
        }
        renewal.waiting = token
        checkNext()
    }

    private mutating func checkNext() {
        guard !renewal.isChecking, let token = renewal.waiting else { return }
        renewal.waiting = nil
        renewal.isChecking = true
        actions.append(.checkToken(token))
    }

    mutating func renewed() throws(SyncError) {
        guard renewal.isChecking else { return }
        renewal.isChecking = false
        checkNext()
        try appendNext()
    }
}
