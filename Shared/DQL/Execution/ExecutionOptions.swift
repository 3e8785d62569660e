import CRDT

/// What an execution needs to know beside the statement, its arguments and the documents: settings, and what
/// only its owner has (a clock, system collections).
public struct ExecutionOptions: Sendable {
    /// `dql_strict_mode`: nothing is written below a field that is not declared as a MAP.
    public var strictMode: Bool
    /// Undeclared reads see REGISTER values only. Strict mode with `dql_select_strict_mode`.
    public var strictReads: Bool
    /// An undeclared object is written as one REGISTER, not as a MAP.
    public var objectsAreRegisters: Bool
    /// What functions see of the world: clock, time zones, request.
    public var context: FunctionContext
    /// What SHOW shows.
    public var parameters: SystemParameters
    /// The rows of `system:` collections; nil offers none but those every statement has.
    public var system: (any SystemCollections)?
    /// Asked every so many steps whether to go on; nil is never.
    public var interruption: (@Sendable () -> Interruption?)?
    /// Nanoseconds since some moment, for PROFILE; without it times are 0.
    public var nanoseconds: (@Sendable () -> UInt64)?
    /// Whether indexes are used. Without them every answer is the same.
    public var usesIndexes: Bool
    /// How many rows a statement may hold in memory at a time.
    public var materializedRows: Int
    /// How many bytes of them, about.
    public var materializedBytes: Int

    /// Settings of a store, strict throughout or not at all.
    public init(strictMode: Bool = false, context: FunctionContext = FunctionContext()) {
        self.strictMode = strictMode
        strictReads = strictMode
        objectsAreRegisters = strictMode
        self.context = context
        parameters = SystemParameters()
        system = nil
        interruption = nil
        nanoseconds = nil
        usesIndexes = true
        materializedRows = DQLLimits.materializedRows
        materializedBytes = DQLLimits.materializedBytes
    }

    /// What system parameters say.
    public init(_ parameters: SystemParameters) {
        self.init(strictMode: parameters.strictMode)
        strictReads = parameters.strictReads
        objectsAreRegisters = parameters.objectsAreRegisters
        self.parameters = parameters
    }
}

/// Why an execution ends early.
public enum Interruption: Sendable {
    /// Its caller no longer wants it.
    case cancelled
    /// It ran longer than `dql_request_timeout_seconds`.
    case timeout
}
