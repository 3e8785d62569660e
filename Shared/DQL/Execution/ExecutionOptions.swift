import CRDT

/// The inputs of an execution besides the statement, its arguments and the documents: settings, and things
/// that only its owner has (a clock, system collections).
public struct ExecutionOptions: Sendable {
    /// `dql_strict_mode`: nothing is written below a field that is not declared as a MAP.
    public var strictMode: Bool
    /// Undeclared reads see REGISTER values only: strict mode with `dql_select_strict_mode`.
    public var strictReads: Bool
    /// An undeclared object is written as one REGISTER, not as a MAP.
    public var objectsAreRegisters: Bool
    /// The surroundings that functions see: clock, time zones, request.
    public var context: FunctionContext
    /// The parameters that SHOW reports.
    public var parameters: SystemParameters
    /// The rows of `system:` collections; nil offers only those that every statement has.
    public var system: (any SystemCollections)?
    /// Asked every 256 steps why to stop; nil means go on. Without it nothing interrupts the execution.
    public var interruption: (@Sendable () -> Interruption?)?
    /// Nanoseconds since an arbitrary moment, for PROFILE; without it times are 0.
    public var nanoseconds: (@Sendable () -> UInt64)?
    /// Told at the end how many documents the execution has visited, also when it failed.
    public var documentsVisited: (@Sendable (Int) -> Void)?
    /// Told now and then how many bytes of rows the execution holds in memory, approximately. Whoever has no
    /// room for them interrupts it.
    public var rowsHeld: (@Sendable (Int) -> Void)?
    /// True if indexes are used. Answers are the same without them.
    public var usesIndexes: Bool
    /// How many rows a statement may hold in memory at a time.
    public var materializedRows: Int
    /// How many bytes of rows a statement may hold in memory at a time, approximately.
    public var materializedBytes: Int
    /// The work that the execution may do; nil for any. Only a statement that `readsFew` may be executed with
    /// a budget. It ends as `timeout` when the budget is spent, and where a part of its work could not be
    /// counted. It has done nothing then, and may be executed again without a budget.
    public var budget: ExecutionBudget?

    /// The settings of a store that is strict throughout or not at all.
    public init(strictMode: Bool = false, context: FunctionContext = FunctionContext()) {
        self.strictMode = strictMode
        strictReads = strictMode
        objectsAreRegisters = strictMode
        self.context = context
        parameters = SystemParameters()
        system = nil
        interruption = nil
        nanoseconds = nil
        documentsVisited = nil
        rowsHeld = nil
        usesIndexes = true
        materializedRows = DQLLimits.materializedRows
        materializedBytes = DQLLimits.materializedBytes
        budget = nil
    }

    /// The options that system parameters give.
    public init(_ parameters: SystemParameters) {
        self.init(strictMode: parameters.strictMode)
        strictReads = parameters.strictReads
        objectsAreRegisters = parameters.objectsAreRegisters
        self.parameters = parameters
    }
}

/// The work that one execution may do, in counts and not in time: it is the same on a busy machine.
public struct ExecutionBudget: Sendable {
    /// Rows, elements and comparisons.
    public var steps: Int
    /// Documents.
    public var documents: Int
    /// Bytes of documents.
    public var bytes: Int

    /// A budget of these counts.
    public init(steps: Int, documents: Int, bytes: Int) {
        (self.steps, self.documents, self.bytes) = (steps, documents, bytes)
    }
}

/// Why an execution ends early.
public enum Interruption: Sendable {
    /// Its caller no longer wants it.
    case cancelled
    /// It ran longer than `dql_request_timeout_seconds`.
    case timeout
    /// Its budget is spent.
    case budget
}
