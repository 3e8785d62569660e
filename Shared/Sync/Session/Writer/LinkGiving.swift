import CRDT
import Exchange

/// Gives the server documents that links have changed and that the log may lack, list after list: a part of
/// the writer. Own operations may rest on them, so nothing is uploaded between the news of them and the end
/// of their list. But between two lists in a row the uploads that wait have their turn: links that bring news
/// all the time do not hold them up.
struct LinkGiving: Sendable {
    /// The place of the next list.
    enum Turn: Sendable {
        case beforeUploads
        /// One read of own operations may go first.
        case afterUploads
    }

    private enum State: Sendable {
        /// The server takes none, or nothing brings any.
        case off
        case idle
        /// Links have changed something since the last list began.
        case due(Turn)
        /// A list is under way; the next one is due if links have changed something since it began.
        case giving(HoldingsGiver, next: Turn?)
    }

    private var state = State.off

    /// True while nothing is uploaded.
    var isAhead: Bool {
        switch state {
        case .off, .idle, .due(.afterUploads): false
        case .due(.beforeUploads), .giving: true
        }
    }

    /// True if the server takes what links bring.
    var areTaken: Bool { if case .off = state { false } else { true } }

    var isGiving: Bool { if case .giving = state { true } else { false } }
    var isReading: Bool { if case .giving(let giver, _) = state { giver.isReading } else { false } }

    /// The server takes documents that links bring, also those brought before this session.
    mutating func agree() { state = .due(.beforeUploads) }

    /// Links have changed documents. `.beforeUploads` if an operation waits for them.
    mutating func brought(_ turn: Turn = .afterUploads) {
        switch (state, turn) {
        case (.off, _), (.due, .afterUploads), (.giving(_, next: .beforeUploads), _): break
        case (.idle, _), (.due, .beforeUploads): state = .due(.beforeUploads)
        case (.giving(let giver, _), _): state = .giving(giver, next: turn)
        }
    }

    /// Begins a list that is due, unless it lets uploads go first and some wait.
    mutating func begin(_ flow: inout FlowControl, uploadsWait: Bool) {
        guard case .due(let turn) = state, turn == .beforeUploads || !uploadsWait else { return }
        state = .giving(HoldingsGiver(ofLinks: true), next: nil)
        list(&flow)
    }

    /// Own operations are read for the upload: the next list goes after them.
    mutating func letUpload() { if case .due = state { state = .due(.beforeUploads) } }

    /// Has the store read the next page, if there is credit for it.
    mutating func list(_ flow: inout FlowControl) {
        guard case .giving(var giver, let next) = state else { return }
        giver.list(&flow)
        state = .giving(giver, next: next)
    }

    /// The store has read a page.
    mutating func listed(_ versions: [DocumentVersion], isLast: Bool, _ flow: inout FlowControl) {
        guard case .giving(var giver, let next) = state else {
            preconditionFailure("nothing that links brought was read")
        }
        giver.listed(versions, isLast: isLast, &flow)
        state = .giving(giver, next: next)
    }

    /// The server has all of the list that it may take.
    mutating func reconciled(_ flow: inout FlowControl) throws(SyncError) {
        guard case .giving(let giver, let next) = state, giver.isListed else {
            throw .unexpected("reconciled")
        }
        state = next.map { .due($0) } ?? .idle
        flow.perform(.settleLinks)
    }
}
