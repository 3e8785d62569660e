import Exchange

extension Session {
    /// Returns whether a driver may deliver the event now: an answer must have been asked for. Tests that
    /// draw events from chance ask this first.
    public func mayReceive(_ event: Event) -> Bool {
        guard !isClosed else { return true }
        switch event {
        case .opened: return phase == .created
        case .renew: return writer != nil
        case .returning: if writer == nil { return false }
        case .repairNeeds(let keys), .wanting(let keys): if keys.isEmpty { return false }
        default: break
        }
        guard let answer = event.answer else { return !event.isApplications || isPeer }
        return expects(answer)
    }

    /// Traps if the session's state contradicts itself: between any two events all of this holds. Tests, the
    /// fuzz target and the simulator call it after each event; a driver has no need to.
    public func checkInvariants() {
        checkMachines()
    }
}

extension Event {
    /// True for an event of a peer's application or store.
    fileprivate var isApplications: Bool {
        switch self {
        case .subscribe, .unsubscribe, .ownOperationAdded, .linksBrought, .wanted, .renew: true
        default: false
        }
    }
}

extension SyncError {
    /// A message that is not allowed from the other side now.
    static func unexpected(_ what: String, while phase: String = "open") -> SyncError {
        SyncError(
            .unexpectedMessage, "\(what) is not allowed from this side while the session is \(phase)")
    }
}

// MARK: For drivers and tests

extension Session {
    /// The session's state that its driver needs after each event.
    public struct Standing: Sendable {
        /// Bytes of frames that wait for the other side's credit.
        public let waitingBytes: Int
        /// The number of the other side's subscriptions that are still catching up.
        public let catchingUp: Int
        /// See `isClosed`.
        public let isClosed: Bool
    }

    /// True for a session that reads, and so has an application.
    var isPeer: Bool { reader != nil }

    /// Returns whether somebody waits for the answer.
    func expects(_ answer: Answer) -> Bool {
        switch answer {
        case .ownActors: phase == .readingActors
        case .meeting: phase == .meeting
        case .frontier: expectsFrontier
        default:
            reader?.expects(answer) ?? false || writer?.expects(answer) ?? false
                || publisher?.expects(answer) ?? false || admitter?.expects(answer) ?? false
        }
    }

    /// See `checkInvariants`.
    func checkMachines() {
        flow.checkInvariants()
        guard !isClosed else { return }
        reader?.checkInvariants()
        writer?.checkInvariants()
        publisher?.checkInvariants()
        admitter?.checkInvariants()
    }
}
