import DQL

/// The way in which a statement treats fields without a declared type.
enum Dialect: Sendable {
    /// As the system parameters say.
    case configured
    /// As the 4.x API does, whatever the parameters say: objects are MAPs, and every type is read.
    case legacy

    /// The options of an execution.
    func options(_ parameters: SystemParameters) -> ExecutionOptions {
        var options = ExecutionOptions(parameters)
        guard self == .legacy else { return options }
        options.strictMode = false
        options.strictReads = false
        options.objectsAreRegisters = false
        return options
    }
}
