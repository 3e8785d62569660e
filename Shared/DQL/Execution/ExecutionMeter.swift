import CRDT

/// Counts what one execution does: steps, so that it can be cancelled, and rows held, so that its memory is
/// bounded. Belongs to one execution on one thread.
final class ExecutionMeter {
    private let interruption: (@Sendable () -> Interruption?)?
    /// How many rows may be held at a time.
    let heldLimit: Int
    private let bytesLimit: Int
    private var stepsLeft: Int
    private var stepsUntilCheck = DQLLimits.stepsBetweenChecks
    /// True if no document, or no pair of a join, fulfilled the condition.
    var foundNothing = false
    /// How many values each sum or mean left out because they are no numbers, by the aggregate's slot.
    var leftOut: [Int: Int] = [:]

    init(_ options: ExecutionOptions) {
        interruption = options.interruption
        heldLimit = options.materializedRows
        bytesLimit = options.materializedBytes
        stepsLeft = .max
    }

    /// A meter that ends an execution after this many steps.
    init(steps: Int) {
        interruption = nil
        heldLimit = DQLLimits.materializedRows
        bytesLimit = DQLLimits.materializedBytes
        stepsLeft = steps
    }

    /// Counts one row, element or comparison. Throws `cancelled`, `timeout`, `tooManySteps`.
    func step() throws(DQLError) {
        stepsUntilCheck -= 1
        if stepsUntilCheck <= 0 { try check() }
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
        stepsLeft -= DQLLimits.stepsBetweenChecks - stepsUntilCheck
        stepsUntilCheck = DQLLimits.stepsBetweenChecks
        if stepsLeft < 0 {
            throw DQLError(
                .tooManySteps,
                "the subscription's condition goes through more than \(DQLLimits.subscriptionSteps) elements "
                    + "of one document")
        }
        if let reason = interruption?() { throw DQLError.interrupted(reason) }
    }

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
        guard bytes > bytesLimit else { return }
        throw DQLError(
            .tooManyRows,
            "more than \(bytesLimit) bytes of rows have to be held in memory for this statement; narrow the "
                + "condition or add a LIMIT")
    }
}

extension Value {
    /// The memory it takes, in bytes, approximately.
    var heldBytes: Int {
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
        }
    }
}
