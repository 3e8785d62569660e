import CRDT

/// One function of the language: its name, parameters and implementation, and their documentation.
///
/// A function never fails. Unless its semantics say otherwise, a MISSING argument or one of a wrong type
/// gives MISSING, and a NULL argument gives NULL.
public struct FunctionDefinition: Sendable {
    /// The name in lower case.
    public let name: String
    /// Other spellings.
    public let aliases: [String]
    /// The parameters, in order.
    public let parameters: [Parameter]
    /// How many parameters at the end may be left out.
    public let optionalCount: Int
    /// True if the last parameter may be repeated.
    public let isVariadic: Bool
    /// The meaning of the result, null and missing included.
    public let semantics: String
    /// A call with its result.
    public let example: (call: String, result: String)
    /// Computes a call's result from a value for each argument (nil for MISSING) and the context.
    typealias Evaluation = @Sendable ([Value?], FunctionContext) -> Value?
    /// The same for work that may take long: it calls `goOn` now and then, which throws when the statement
    /// has to end.
    typealias LongEvaluation = @Sendable ([Value?], _ goOn: () throws -> Void) throws -> Value?

    let evaluate: Evaluation
    /// Prepares a call when some arguments are known before it runs: the evaluation it returns has a part of
    /// the work done. Nil when there is nothing to gain.
    let prepare: @Sendable ([KnownArgument]) -> LongEvaluation?
    /// Used in place of `evaluate` by a function that may take long.
    let evaluateLong: LongEvaluation?
    /// Finds an error that a call has whatever the documents hold, as far as its known arguments tell.
    let check: @Sendable ([KnownArgument]) -> ArgumentProblem?

    /// One parameter of a function.
    public struct Parameter: Sendable {
        /// Its name in the documentation.
        public let name: String
        /// The type that an argument needs; any other gives MISSING.
        public let type: ArgumentType

        init(_ name: String, _ type: ArgumentType = .any) {
            self.name = name
            self.type = type
        }
    }

    /// The types that a parameter can require.
    public enum ArgumentType: String, Sendable {
        /// Anything.
        case any
        /// A string.
        case string
        /// An integer or a float.
        case number
        /// An integer.
        case integer
        /// True or false.
        case boolean
        /// An array.
        case array
        /// An object.
        case object
        /// ISO 8601 text with a zone, or milliseconds since 1970.
        case date

        func accepts(_ value: Value) -> Bool {
            switch (self, value) {
            case (.any, _), (_, .null), (.string, .string), (.number, .int), (.number, .double),
                (.integer, .int),
                (.boolean, .bool), (.array, .array), (.object, .object), (.date, .string), (.date, .int),
                (.date, .double):
                true
            default: false
            }
        }
    }

    init(
        _ name: String, aliases: [String] = [], _ parameters: [Parameter], optional: Int = 0,
        variadic: Bool = false, _ semantics: String, example: (String, String),
        prepare: @escaping @Sendable ([KnownArgument]) -> LongEvaluation? = { _ in nil },
        long evaluateLong: LongEvaluation? = nil,
        check: @escaping @Sendable ([KnownArgument]) -> ArgumentProblem? = { _ in nil },
        inContext evaluate: @escaping Evaluation
    ) {
        self.name = name
        self.aliases = aliases
        self.parameters = parameters
        optionalCount = optional
        isVariadic = variadic
        self.semantics = semantics
        self.example = (call: example.0, result: example.1)
        self.prepare = prepare
        self.evaluateLong = evaluateLong
        self.check = check
        self.evaluate = evaluate
    }

    /// A function of its arguments alone.
    init(
        _ name: String, aliases: [String] = [], _ parameters: [Parameter], optional: Int = 0,
        variadic: Bool = false, _ semantics: String, example: (String, String),
        evaluate: @escaping @Sendable ([Value?]) -> Value?
    ) {
        self.init(
            name, aliases: aliases, parameters, optional: optional, variadic: variadic, semantics,
            example: example, inContext: { arguments, _ in evaluate(arguments) })
    }

    /// A function of its arguments alone that may take long.
    init(
        _ name: String, _ parameters: [Parameter], optional: Int = 0, variadic: Bool = false,
        _ semantics: String, example: (String, String),
        prepare: @escaping @Sendable ([KnownArgument]) -> LongEvaluation? = { _ in nil },
        check: @escaping @Sendable ([KnownArgument]) -> ArgumentProblem? = { _ in nil },
        long: @escaping LongEvaluation
    ) {
        self.init(
            name, parameters, optional: optional, variadic: variadic, semantics, example: example,
            prepare: prepare, long: long, check: check,
            // Only an error of `goOn` ends it, and this one throws none.
            inContext: { arguments, _ in try? long(arguments) {} })
    }

    /// The fewest arguments a call has.
    public var minimumArguments: Int { parameters.count - optionalCount }
    /// The most arguments a call has.
    public var maximumArguments: Int { isVariadic ? DQLLimits.callArguments : parameters.count }

    /// `substr(text, start[, length])`.
    public var signature: String {
        var text = ""
        for (index, parameter) in parameters.enumerated() {
            let separator = index == 0 ? "" : ", "
            text += index >= minimumArguments ? "[\(separator)\(parameter.name)]" : separator + parameter.name
        }
        return "\(name)(\(text)\(isVariadic ? ", …" : ""))"
    }

    func parameterType(at index: Int) -> ArgumentType { parameters[min(index, parameters.count - 1)].type }

    // MARK: Shapes

    /// A function whose arguments all have the required types; null and missing are handled before it is
    /// called.
    static func strict(
        _ name: String, aliases: [String] = [], _ parameters: [Parameter], optional: Int = 0,
        variadic: Bool = false, _ semantics: String, example: (String, String),
        evaluate: @escaping @Sendable ([Value]) -> Value?
    ) -> FunctionDefinition {
        .contextual(
            name, aliases: aliases, parameters, optional: optional, variadic: variadic, semantics,
            example: example
        ) { values, _ in evaluate(values) }
    }

    /// The same as `strict`, for a function that reads the context.
    static func contextual(
        _ name: String, aliases: [String] = [], _ parameters: [Parameter], optional: Int = 0,
        variadic: Bool = false, _ semantics: String, example: (String, String),
        check: @escaping @Sendable ([KnownArgument]) -> ArgumentProblem? = { _ in nil },
        evaluate: @escaping @Sendable ([Value], FunctionContext) -> Value?
    ) -> FunctionDefinition {
        FunctionDefinition(
            name, aliases: aliases, parameters, optional: optional, variadic: variadic, semantics,
            example: example, check: check
        ) { arguments, context in
            evaluateStrictly(arguments, parameters) { evaluate($0, context) }
        }
    }

    /// MISSING when an argument is missing or of a wrong type, else NULL when one is null, else the result
    /// of `body`.
    static func evaluateStrictly(
        _ arguments: [Value?], _ parameters: [Parameter], _ body: ([Value]) throws -> Value?
    ) rethrows -> Value? {
        var values: [Value] = []
        values.reserveCapacity(arguments.count)
        var sawNull = false
        for (index, argument) in arguments.enumerated() {
            guard let argument, parameters[min(index, parameters.count - 1)].type.accepts(argument) else {
                return nil
            }
            if case .null = argument { sawNull = true }
            values.append(argument)
        }
        return sawNull ? .null : try body(values)
    }
}

/// An argument's value as far as it is known before a statement runs.
enum KnownArgument: Equatable, Sendable {
    /// Always this; nil is MISSING.
    case known(Value?)
    /// Different for each row.
    case unknown

    /// The text of a known string.
    var text: String? { if case .known(.string(let text)?) = self { text } else { nil } }
}

/// An error in a call, found before it runs.
struct ArgumentProblem: Equatable, Sendable {
    /// The argument's position, from 0.
    let index: Int
    /// The message for a person, without the function's name.
    let message: String
    /// True if the statement is refused; otherwise it gets a warning and the call is always MISSING.
    let isError: Bool
}
