/// Settings of a store that change what a statement means.
public struct ExecutionOptions: Sendable {
    /// `DQL_STRICT_MODE`: an undeclared object is written as a REGISTER, and MAP values are invisible to
    /// undeclared reads.
    public var strictMode: Bool
    /// What functions see of the world.
    public var context: FunctionContext

    /// The settings of a new store.
    public init(strictMode: Bool = false, context: FunctionContext = FunctionContext()) {
        self.strictMode = strictMode
        self.context = context
    }
}
