import Exchange

extension LinkTable {
    /// The dialed addresses, as the chooser of links sees them.
    var attempts: [MeshAddress: LinkChooser.Links.Dial] {
        dials.mapValues { dial in
            var attempt = LinkChooser.Links.Dial()
            if let link = dial.link.flatMap({ links[$0] }) {
                guard link.isOpen, let remote = link.remote else { return attempt }
                attempt.peer = PeerMark(peerKey: remote.peerKey)
                attempt.state = .open
            } else if dial.coveredBy != nil || dial.doubleOf != nil {
                attempt.state = .double
            } else if dial.denials > 0 {
                attempt.state = .denied
            } else if dial.failures > 0 {
                attempt.state = .failed(isFinal: dial.lastError?.isFinal ?? false)
            }
            attempt.reason = dial.lastError?.description
            return attempt
        }
    }
}

extension SyncError {
    /// Reasons that lie in who the other side is. An own certificate that is missing or has ended is none.
    private static let final: Set<String> = [
        SyncErrorCode.versionMismatch.rawValue, SyncErrorCode.wrongDatabase.rawValue,
        SyncErrorCode.otherGroup.rawValue, SyncErrorCode.securityMismatch.rawValue,
        SyncErrorCode.sameStore.rawValue, SyncErrorCode.keyNotProven.rawValue, "AUTH-0306",
    ]

    /// True if another try will end in the same way.
    fileprivate var isFinal: Bool { Self.final.contains(code) }
}
