import CRDT
import Exchange

/// Lists a peer's holdings for a server that has lost its log's end (rules 14, 18 and 20): a part of the
/// writer. The server asks for the states that it lacks (`StateAnswers`) and ends with `reconciled`.
///
/// Bounds: pages are data and consume credit.
struct HoldingsGiver: Sendable {
    private enum State: Sendable {
        /// The next page begins after this document, as soon as there is credit for it.
        case due(after: DocumentKey?)
        case reading(after: DocumentKey?)
        /// The last page has gone.
        case listed
    }

    /// True if only documents are listed that links have changed.
    let ofLinks: Bool
    private var state = State.due(after: nil)

    init(ofLinks: Bool = false) { self.ofLinks = ofLinks }

    var isReading: Bool { if case .reading = state { true } else { false } }
    var isListed: Bool { if case .listed = state { true } else { false } }

    /// Has the store read the next page, if there is credit for it.
    mutating func list(_ flow: inout FlowControl) {
        guard case .due(let last) = state, flow.canSendData else { return }
        state = .reading(after: last)
        flow.perform(.readHoldings(after: last, ofLinks: ofLinks))
    }

    /// The store has read a page.
    mutating func listed(_ versions: [DocumentVersion], isLast: Bool, _ flow: inout FlowControl) {
        guard case .reading(let last) = state else { preconditionFailure("no holdings were being read") }
        state = isLast ? .listed : .due(after: versions.last?.key ?? last)
        flow.send(.holdings(versions, isLast: isLast))
        list(&flow)
    }
}
