import Sync
import Testing

/// How the work is bounded that a frame of a peer can cause.
private enum Meter {
    /// Its bytes, which credit bounds, and as much work as they have.
    case credit
    /// Conditions, pages, signatures of presence and messages in chunks, in turns of the evaluation pool as
    /// the session's credential.
    case turns
    /// Admission to the log, in the order of the session and under the upload's credit.
    case admission
    /// A signature or a certificate, one at a time in a session.
    case identity
    /// Only a server sends it; from a peer it ends the session.
    case refused
}

@Suite("The register of what each frame may cost")
struct FrameRegisterTests {
    /// A frame without an entry here does not compile.
    private func meter(of frame: Frame) -> Meter {
        switch frame {
        case .hello, .renewal, .certificate: .identity
        case .subscribe, .list, .holdings, .presence, .chunk: .turns
        case .want: .turns
        case .upload: .admission
        case .unsubscribe, .acknowledged, .credit, .close, .progress, .states, .operations: .credit
        case .subscriptionRefused, .catchUp, .refused, .reconciled, .held, .granted, .deferred, .taken:
            .refused
        }
    }

    @Test("a frame that asks for documents is evaluated in turns, and one that brings some is admitted")
    func frames() {
        #expect(meter(of: .want([])) == .turns)
        #expect(meter(of: .list(id: 1)) == .turns)
        #expect(meter(of: .upload([])) == .admission)
        #expect(meter(of: .granted) == .refused)
    }
}
