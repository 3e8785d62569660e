import CRDT

/// A change of a parameter that outlives the store's closing: the owner stores it.
public struct PersistentChange: Equatable, Sendable {
    /// The parameter; nil means all of them.
    public let name: String?
    /// The value; nil if the stored one is to be removed.
    public let value: Value?
}

/// The result of ALTER SYSTEM or SHOW.
public struct SystemResult: Sendable {
    /// One row: parameters with their current values.
    public let row: ObjectValue
    /// The change that the owner has to store, before it reports success to the caller.
    public let persistentChange: PersistentChange?
    /// Parts of the statement that are probably not meant.
    public let warnings: [DQLWarning]
}

extension PreparedStatement {
    /// True for ALTER SYSTEM and SHOW: the owner runs them on the store's parameters, not on documents.
    public var isSystem: Bool { kind == .alterSystem || kind == .show }

    /// Runs ALTER SYSTEM or SHOW. Throws `unknownParameter`, `invalidArgument`, `missingArgument`; `isSystem`
    /// is a precondition.
    public func execute(
        on parameters: inout SystemParameters, arguments: ObjectValue = ObjectValue()
    ) throws -> SystemResult {
        let values = try bind(arguments)
        let row: ObjectValue
        var change: PersistentChange?
        switch plan {
        case .alterSystem(.set(let name, let written, let persists)):
            let value = try value(written, values)
            let entry = try located(name.span) { () throws(DQLError) in
                try parameters.set(name.text, to: value)
            }
            row = ObjectValue([entry])
            if persists {
                change = PersistentChange(name: entry.key, value: value == nil ? nil : entry.value)
            }
        case .alterSystem(.reset(let name)):
            let entry = try located(name.span) { () throws(DQLError) in
                try parameters.set(name.text, to: nil)
            }
            row = ObjectValue([entry])
            change = PersistentChange(name: entry.key, value: nil)
        case .alterSystem(.resetAll):
            parameters.resetAll()
            row = parameters.all(like: nil)
            change = PersistentChange(name: nil, value: nil)
        case .show(let shown): row = try self.row(shown, parameters, values)
        default: preconditionFailure("only ALTER SYSTEM and SHOW run on parameters")
        }
        return SystemResult(
            row: row, persistentChange: change, warnings: warnings + argumentWarnings(arguments, values))
    }

    /// The value of a SET; nil is DEFAULT.
    private func value(_ written: AlterSystemValue, _ arguments: [Value]) throws -> Value? {
        guard case .value(let expression, let span) = written else { return nil }
        let value = try Evaluator(ExecutionOptions(), types: []).evaluate(
            expression.specialized(arguments), Row(documents: []))
        guard let value else {
            throw source.error(.invalidArgument, "a parameter cannot be MISSING", at: span)
        }
        return value
    }

    /// The single row of a SHOW.
    func row(
        _ shown: ShowPlan, _ parameters: SystemParameters, _ values: [Value]
    ) throws(DQLError) -> ObjectValue {
        switch shown {
        case .parameter(let name):
            let parameter = try located(name.span) { () throws(DQLError) in
                try SystemParameters.parameter(name.text)
            }
            return ObjectValue([(key: parameter.name, value: parameters[parameter.name] ?? .null)])
        case .all(nil, _, _): return parameters.all(like: nil)
        case .all(let pattern?, let ignoresCase, let span):
            guard case .constant(.string(let text)?) = pattern.specialized(values) else {
                throw source.error(.invalidArgument, "SHOW ALL LIKE takes a string", at: span)
            }
            return parameters.all(like: LikePattern(text, ignoresCase: ignoresCase))
        }
    }

    /// Adds a place in the statement to an error of the parameters.
    private func located<Result>(
        _ span: SourceSpan, _ body: () throws(DQLError) -> Result
    ) throws(DQLError) -> Result {
        do {
            return try body()
        } catch {
            throw source.error(error.code, error.message, at: span, suggestion: error.suggestion)
        }
    }
}
