import CRDT

/// Counts what one execution does: steps, so that it can be cancelled, and rows held, so that its memory is
/// bounded. Belongs to one execution on one thread.
final class ExecutionMeter {
    private let interruption: (@Sendable () -> Interruption?)?
    /// How many rows may be held at a time.
    let heldLimit: Int
    private let bytesLimit: Int
    private let rowsHeld: (@Sendable (Int) -> Void)?
    /// The bytes of rows that were told last.
    private var toldBytes = 0
    private var stepsLeft: Int
    /// The rest of the budget; nil without one.
    private var budget: ExecutionBudget?
    /// Fewer for a longer text: each step may evaluate all of it.
    private let stepsBetweenChecks: Int
    private var stepsUntilCheck: Int
    /// The documents that were visited so far.
    private(set) var documents = 0
    /// Bytes of large values that expressions hold while they make others.
    private var retainedBytes = 0
    /// True if no document, or no pair of a join, fulfilled the condition.
    var foundNothing = false
    /// True if there were groups, and none fulfilled HAVING.
    var groupsFoundNothing = false
    /// The look at the first row; nil if nothing is expected of it.
    var watch: RowWatch?
    /// True if the types that fields have may be worth a warning: a condition was never fulfilled, or the
    /// first row does not fit.
    var hasTypesToTell: Bool { foundNothing || groupsFoundNothing || watch?.hasRow == true }
    /// The warnings about the subqueries, which ran before the statement itself.
    var subqueryWarnings: [DQLWarning] = []
    /// How many values each sum or mean left out because they are no numbers, by the aggregate's slot.
    var leftOut: [Int: Int] = [:]

    /// - Parameter textBytes: the length of the statement's text.
    init(_ options: ExecutionOptions, textBytes: Int) {
        interruption = options.interruption
        heldLimit = options.materializedRows
        bytesLimit = options.materializedBytes
        rowsHeld = options.rowsHeld
        budget = options.budget
        stepsLeft = .max
        stepsBetweenChecks = Self.steps(textBytes)
        stepsUntilCheck = stepsBetweenChecks
    }

    /// A meter that ends an execution after this many steps, which bound its memory too.
    init(
        steps: Int, textBytes: Int = 0, interruption: (@Sendable () -> Interruption?)? = nil
    ) {
        self.interruption = interruption
        heldLimit = DQLLimits.materializedRows
        bytesLimit = .max
        rowsHeld = nil
        stepsLeft = steps
        stepsBetweenChecks = Self.steps(textBytes)
        stepsUntilCheck = stepsBetweenChecks
    }

    /// Begins a subquery or, after all of them, the statement itself.
    func begin(_ watch: RowWatch?) {
        foundNothing = false
        groupsFoundNothing = false
        self.watch = watch
        leftOut = [:]
    }

    private static func steps(_ textBytes: Int) -> Int {
        max(1, DQLLimits.stepsBetweenChecks / (1 + textBytes / DQLLimits.textBytesPerStep))
    }

    /// Counts one row, element or comparison. Throws `cancelled`, `timeout`, `tooManySteps`.
    func step() throws(DQLError) {
        stepsUntilCheck -= 1
        if stepsUntilCheck <= 0 { try check() }
    }

    /// Counts one document. Throws as `step`.
    @inline(__always)
    func visit() throws(DQLError) {
        documents += 1
        try step()
    }

    /// Counts the bytes of a document that was found by its id or in one index. Throws `timeout` when a
    /// budget is spent.
    @inline(__always)
    func pass(_ record: DocumentRecord) throws(DQLError) {
        if budget != nil { try spend(record.document.bytes.count) }
    }

    @inline(never)
    private func spend(_ bytes: Int) throws(DQLError) {
        budget?.bytes -= bytes
        if let budget, budget.bytes < 0 || documents > budget.documents {
            throw DQLError.interrupted(.budget)
        }
    }

    /// Ends an execution that has a budget before work that cannot be counted. Throws `timeout`.
    func requireNoBudget() throws(DQLError) {
        if budget != nil { throw DQLError.interrupted(.budget) }
    }

    /// Counts the work of a value: long texts and collections take as long as many rows. Throws as `step`.
    func work(_ value: Value?) throws(DQLError) {
        let bytes: Int
        switch value {
        case .string(let text)?: bytes = text.utf8.count
        case .binary(let run)?: bytes = run.count
        case .array(let elements)?: bytes = elements.count * DQLLimits.elementBytes
        case .object(let object)?: bytes = object.count * DQLLimits.elementBytes
        default: return
        }
        try work(bytes: bytes)
    }

    /// Counts the work of this many bytes. Throws as `step`.
    func work(bytes: Int) throws(DQLError) {
        guard bytes >= DQLLimits.stepBytes else { return }
        stepsUntilCheck -= bytes / DQLLimits.stepBytes
        if stepsUntilCheck <= 0 { try check() }
    }

    /// Checks whether to go on. Throws as `step`.
    func check() throws(DQLError) {
        let taken = stepsBetweenChecks - stepsUntilCheck
        stepsLeft -= taken
        stepsUntilCheck = stepsBetweenChecks
        // A check out of turn stands for work that is not counted in steps.
        budget?.steps -= max(taken, DQLLimits.stepsBetweenChecks)
        if let budget, budget.steps < 0 { throw DQLError.interrupted(.budget) }
        if stepsLeft < 0 {
            throw DQLError(
                .tooManySteps,
                "the subscription's condition goes through more than \(DQLLimits.subscriptionSteps) elements "
                    + "of one document")
        }
        if let reason = interruption?() { throw DQLError.interrupted(reason) }
    }

    /// Counts a large value that an expression holds while it makes others; the caller adds what it holds to
    /// `held`, and hands that to `release` at its end. Throws `tooManyRows`.
    func retain(_ value: Value, _ held: inout Int) throws(DQLError) {
        let bytes = value.largeBytes
        guard bytes > 0 else { return }
        held += bytes
        retainedBytes += bytes
        try hold(bytes: retainedBytes)
    }

    /// Ends what `retain` counted.
    func release(_ held: Int) { retainedBytes -= held }

    /// Checks how many rows are held at a time. Throws `tooManyRows`.
    func hold(_ rows: Int) throws(DQLError) {
        guard rows > heldLimit else { return }
        throw DQLError(
            .tooManyRows,
            "more than \(heldLimit) rows have to be held in memory for this statement; narrow the condition "
                + "or add a LIMIT")
    }

    /// Checks how many bytes of rows are held at a time. Throws `tooManyRows`.
    func hold(bytes: Int) throws(DQLError) {
        if let rowsHeld, bytes >= toldBytes + DQLLimits.toldRowBytes {
            toldBytes = bytes
            rowsHeld(bytes)
        }
        guard bytes > bytesLimit else { return }
        throw DQLError(
            .tooManyRows,
            "more than \(bytesLimit) bytes of rows have to be held in memory for this statement; narrow the "
                + "condition or add a LIMIT")
    }
}

extension Value {
    /// The memory of a long text or a collection; 0 for any other value, which is not worth counting.
    var largeBytes: Int {
        switch self {
        case .string(let text): text.utf8.count < DQLLimits.stepBytes ? 0 : heldBytes
        case .binary(let run): run.count < DQLLimits.stepBytes ? 0 : heldBytes
        case .array, .object: heldBytes
        default: 0
        }
    }

    /// The memory it takes, in bytes, approximately.
    package var heldBytes: Int {
        switch self {
        case .string(let text): DQLLimits.elementBytes + text.utf8.count
        case .binary(let run): DQLLimits.elementBytes + run.count
        case .array(let elements): elements.reduce(DQLLimits.elementBytes) { $0 + $1.heldBytes }
        case .object(let object):
            object.entries.reduce(DQLLimits.elementBytes) {
                $0 + $1.key.utf8.count + DQLLimits.elementBytes + $1.value.heldBytes
            }
        default: DQLLimits.elementBytes
        }
    }
}

extension DQLError {
    /// The error of a statement that was interrupted.
    public static func interrupted(_ reason: Interruption) -> DQLError {
        switch reason {
        case .cancelled: DQLError(.cancelled, "Query failed: the request was cancelled")
        case .timeout:
            DQLError(.timeout, "Query failed: the request exceeded DQL_REQUEST_TIMEOUT_SECONDS")
        case .budget: DQLError(.timeout, "Query failed: the statement exceeded its budget")
        }
    }
}
