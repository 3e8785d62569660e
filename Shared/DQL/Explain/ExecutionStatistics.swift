import CRDT

/// A step of a plan that PROFILE counts and times.
struct PlanStep: Equatable {
    fileprivate let place: Int

    static let scan = PlanStep(place: 0)
    /// Documents are read, by whatever scan.
    static let read = PlanStep(place: 1)
    static let filter = PlanStep(place: 2)
    static let group = PlanStep(place: 3)
    static let having = PlanStep(place: 4)
    static let distinct = PlanStep(place: 5)
    static let sort = PlanStep(place: 6)
    static let projection = PlanStep(place: 7)
    static let output = PlanStep(place: 8)
    /// Documents are changed.
    static let change = PlanStep(place: 9)

    /// The join that adds a source.
    static func join(_ source: Int) -> PlanStep { PlanStep(place: 9 + source) }
}

/// The counts and times of PROFILE. Belongs to one execution on one thread.
///
/// One clock runs at a time, that of the step that works: a step that hands a row on stops its own until the
/// row has gone through. So the times of all steps add up to the whole.
final class ExecutionStatistics {
    private struct Account {
        /// Rows that came to the step; nil if none was counted.
        var rows: Int?
        var nanoseconds: UInt64 = 0
    }

    /// Documents read.
    var documents = 0
    /// Rows of DISTINCT, each once.
    var distinct = 0
    /// Rows of the result.
    var results = 0
    /// The time to parse the text, and the time to choose the plan.
    var parseNanoseconds: UInt64 = 0
    var planNanoseconds: UInt64 = 0
    /// The time of the execution.
    var nanoseconds: UInt64 = 0

    private let clock: (@Sendable () -> UInt64)?
    private var accounts: [Account] = []
    private var current: PlanStep
    private var since: UInt64 = 0

    /// - Parameter outermost: the step whose time it is while no other step works.
    init(_ clock: (@Sendable () -> UInt64)?, outermost: PlanStep) {
        self.clock = clock
        current = outermost
    }

    /// Starts the clock, when the plan has been chosen.
    func begin() { since = clock?() ?? 0 }

    /// Stops the clock.
    func end() { charge() }

    /// Goes on with another step, and returns the one that worked so far, for `leave`.
    func enter(_ step: PlanStep, counts: Bool = true) -> PlanStep {
        charge()
        if counts { account(step) { $0.rows = ($0.rows ?? 0) + 1 } }
        defer { current = step }
        return current
    }

    /// Goes back to the step that worked before.
    func leave(to before: PlanStep?) {
        guard let before else { return }
        charge()
        current = before
    }

    private func charge() {
        guard let clock else { return }
        let now = clock()
        // A clock may stand still or go back.
        let spent = now >= since ? now - since : 0
        account(current) { $0.nanoseconds += spent }
        since = now
    }

    private func account(_ step: PlanStep, _ body: (inout Account) -> Void) {
        while accounts.count <= step.place { accounts.append(Account()) }
        body(&accounts[step.place])
    }

    fileprivate func rows(of step: PlanStep) -> Int? {
        accounts.indices.contains(step.place) ? accounts[step.place].rows : nil
    }

    fileprivate func time(of step: PlanStep) -> UInt64? {
        guard clock != nil, accounts.indices.contains(step.place) else { return nil }
        return accounts[step.place].nanoseconds
    }
}

// MARK: Operators with their costs

extension ExecutionStatistics {
    /// The operators of a plan, each with `#stats`: rows that came and went, and the step's own time.
    /// - Parameter capacity: how many rows a sort keeps.
    func measured(_ operators: [Value], capacity: Int = .max) -> [Value] {
        var steps: [(step: PlanStep?, name: String)] = []
        var joins = 0
        for value in operators {
            let name = value["#operator"]?.stringValue ?? ""
            if name == "nlJoin" || value["joined"] != nil { joins += 1 }
            steps.append((step(name, joins: joins, isGrouped: steps.contains { $0.name == "group" }), name))
        }
        let readsByFetch = steps.contains { $0.name == "fetch" }
        var rows: [Int?] = steps.map { place in place.step.flatMap { self.rows(of: $0) } }
        for (index, place) in steps.enumerated() { rows[index] = arriving(place.name, rows[index], capacity) }
        return operators.enumerated().map { index, value in
            guard case .object(var members) = value else { return value }
            let (step, name) = steps[index]
            var cost = ObjectValue()
            if let before = rows[index] { cost["documentsIn"] = .int(Int64(before)) }
            let next = rows[(index + 1)...].lazy.compactMap { $0 }.first
            let isChange = step == .change
            if let after = leaving(name, next, isLast: isChange || index == operators.count - 1) {
                cost["documentsOut"] = .int(Int64(after))
            }
            // An index scan in a plan with a fetch has the time in which entries alone were read.
            let timed = step == .read && readsByFetch && name != "fetch" ? .scan : step
            if let nanoseconds = timed.flatMap({ time(of: $0) }) {
                cost["phaseTimes"] = ["total": .int(Int64(clamping: nanoseconds))]
            }
            if cost.count > 0 { members["#stats"] = .object(cost) }
            return .object(members)
        }
    }

    private func step(_ name: String, joins: Int, isGrouped: Bool) -> PlanStep? {
        switch name {
        case "scan", "idScan", "indexScan", "unionScan", "intersectScan", "countScan", "postgres", "fetch":
            .read
        case "nlJoin": .join(joins)
        case "filter": isGrouped ? .having : .filter
        case "group": .group
        case "distinct": .distinct
        case "sort": .sort
        case "projection": .projection
        case "finalProjection": .output
        case "insert", "update", "delete", "evict": .change
        default: nil
        }
    }

    /// The rows that came to an operator.
    private func arriving(_ name: String, _ counted: Int?, _ capacity: Int) -> Int? {
        switch name {
        case "fetch": documents
        // Rows are sorted once each is known to be new.
        case "sort" where distinct > 0: distinct
        case "limit" where distinct > 0: min(distinct, capacity)
        case "limit":
            rows(of: .sort).map { min($0, capacity) } ?? rows(of: .projection) ?? rows(of: .change) ?? 0
        case "filter", "group", "distinct", "sort", "nlJoin": counted ?? 0
        // A limit stands before it.
        case "projection", "finalProjection": results
        case "insert", "update", "delete", "evict": results
        default: counted
        }
    }

    private func leaving(_ name: String, _ next: Int?, isLast: Bool) -> Int? {
        isLast ? results : name == "distinct" ? distinct : next
    }
}
