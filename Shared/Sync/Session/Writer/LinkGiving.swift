import CRDT
import Exchange

/// Gives the server documents that links have changed and that the log may lack, list after list: a part of
/// the writer. Own operations may rest on them, so nothing is uploaded between the news of them and the end
/// of their list.
struct LinkGiving: Sendable {
    private enum State: Sendable {
        /// The server takes none, or nothing brings any.
        case off
        case idle
        /// Links have changed something since the last list began.
        case due
        /// A list is under way; `again` if links have changed something since it began.
        case giving(HoldingsGiver, again: Bool)
    }

    private var state = State.off

    /// True while nothing is uploaded.
    var isAhead: Bool {
        switch state {
        case .off, .idle: false
        case .due, .giving: true
        }
    }

    /// True if the server takes what links bring.
    var areTaken: Bool { if case .off = state { false } else { true } }

    var isGiving: Bool { if case .giving = state { true } else { false } }
    var isReading: Bool { if case .giving(let giver, _) = state { giver.isReading } else { false } }

    /// The server takes what links bring: also what they brought before this session.
    mutating func agree() { state = .due }

    /// Links have changed documents.
    mutating func brought() {
        switch state {
        case .off, .due: break
        case .idle: state = .due
        case .giving(let giver, _): state = .giving(giver, again: true)
        }
    }

    /// Begins a list that is due.
    mutating func begin(_ flow: inout FlowControl) {
        guard case .due = state else { return }
        state = .giving(HoldingsGiver(ofLinks: true), again: false)
        list(&flow)
    }

    /// Has the store read the next page, if there is credit for it.
    mutating func list(_ flow: inout FlowControl) {
        guard case .giving(var giver, let again) = state else { return }
        giver.list(&flow)
        state = .giving(giver, again: again)
    }

    /// The store has read a page.
    mutating func listed(_ versions: [DocumentVersion], isLast: Bool, _ flow: inout FlowControl) {
        guard case .giving(var giver, let again) = state else {
            preconditionFailure("nothing that links brought was read")
        }
        giver.listed(versions, isLast: isLast, &flow)
        state = .giving(giver, again: again)
    }

    /// The server has all of the list that it may take.
    mutating func reconciled(_ flow: inout FlowControl) throws(SyncError) {
        guard case .giving(let giver, let again) = state, giver.isListed else {
            throw .unexpected("reconciled")
        }
        state = again ? .due : .idle
        flow.perform(.settleLinks)
    }
}
