/// Settings of a store that change what a statement means.
public struct ExecutionOptions: Equatable, Sendable {
    /// `DQL_STRICT_MODE`: an undeclared object is written as a REGISTER, and MAP values are invisible to
    /// undeclared reads.
    public var strictMode: Bool

    /// The settings of a new store.
    public init(strictMode: Bool = false) {
        self.strictMode = strictMode
    }
}
