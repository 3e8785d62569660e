import CRDT
import DQLCorpus
import Foundation
import Testing

@testable import DQL

@Suite("Function table")
struct FunctionTableTests {
    /// Noon of a leap day, and Berlin's clocks.
    static let context = FunctionContext(
        now: 1_709_208_000_000, timeZones: Berlin(), request: ["statement": "SELECT"])

    static func rows(_ expression: String) throws -> [Value] {
        try StatementCompiler.compile("SELECT RAW \(expression) FROM system:dual").rows(
            in: MemoryStore(), options: ExecutionOptions(context: context))
    }

    @Test("every example gives what it says", arguments: FunctionTable.all)
    func examples(_ function: FunctionDefinition) throws {
        let given = try Self.rows(function.example.call)
        #expect(try given == Self.rows(function.example.result), "\(function.signature)")
        #expect(given.count == 1)
        #expect(function.signature.hasPrefix(function.name + "("))
    }

    @Test("the reference page says what the table says")
    func reference() throws {
        try ReferencePage.writeIfAsked()
        let written = try String(contentsOf: ReferencePage.file, encoding: .utf8)
        #expect(
            written == FunctionReference.page,
            "write it again: MIMEO_WRITE_REFERENCE=1 swift test --filter FunctionTableTests")
    }

    @Test("no name stands for two functions, and every name is in lower case")
    func names() {
        let names = FunctionTable.all.flatMap { [$0.name] + $0.aliases }
        #expect(Set(names).count == names.count)
        #expect(names.allSatisfy { $0 == $0.lowercased() })
        #expect(names.allSatisfy { FunctionTable.lookup($0) != nil })
        #expect(names.count == FunctionTable.names.count)
    }

    @Test("an argument of a wanted type that is MISSING, of another type or NULL", arguments: Argument.all)
    func unsuitable(_ argument: Argument) {
        let evaluate = argument.function.evaluate
        #expect(evaluate(argument.samples(with: nil), Self.context) == nil)
        #expect(evaluate(argument.samples(with: argument.wrong), Self.context) == nil)
        #expect(evaluate(argument.samples(with: .null), Self.context) == .some(.null))
    }

    @Test(
        "a call prepared with what is known gives what an unprepared one gives", arguments: FunctionTable.all)
    func prepared(_ function: FunctionDefinition) throws {
        let samples = Argument.samples(function)
        let known = samples.enumerated().map { $0.offset == 0 ? KnownArgument.unknown : .known($0.element) }
        let prepared = Self.prepared(function, known)
        #expect(try prepared(samples) == function.evaluate(samples, Self.context))
        let unsuitable: [Value?] = [nil] + samples.dropFirst()
        #expect(try prepared(unsuitable) == function.evaluate(unsuitable, Self.context))
    }

    /// A call with what is known as the evaluator runs it.
    private static func prepared(
        _ function: FunctionDefinition, _ known: [KnownArgument]
    ) -> ([Value?]) throws -> Value? {
        guard let long = function.prepare(known) ?? function.evaluateLong else {
            return { function.evaluate($0, context) }
        }
        return { try long($0) {} }
    }

    @Test("a call of any number of arguments has its limit")
    func argumentLimit() throws {
        let most = Array(repeating: "1", count: DQLLimits.callArguments).joined(separator: ",")
        #expect(try Self.rows("coalesce(\(most))") == [1])
        #expect(failure(of: "SELECT RAW coalesce(\(most),1) FROM system:dual")?.code == .wrongArguments)
    }

    @Test("no function traps, whatever it is given", arguments: FunctionTable.all)
    func anything(_ function: FunctionDefinition) throws {
        var choices = Choices(seed: function.name.utf8.reduce(0) { $0 &* 31 &+ UInt64($1) })
        for _ in 0..<400 {
            let most = min(function.maximumArguments, function.parameters.count + 2)
            let count =
                function.minimumArguments + choices.below(most - function.minimumArguments + 1)
            let arguments = (0..<count).map { _ in choices.pick(Self.oddities) }
            let known = arguments.enumerated().map { place, value in
                place == 0 ? KnownArgument.unknown : .known(value)
            }
            let prepared = Self.prepared(function, known)
            let result = function.evaluate(arguments, Self.context)
            #expect(try prepared(arguments) == result, "\(arguments)")
            #expect(result.map { JSONText.print($0).utf8.count } ?? 0 <= 2 * DQLLimits.resultBytes)
            let problem = function.check(known)
            #expect(problem == nil || result == nil || result == .some(.null), "\(arguments)")
        }
    }

    private static let oddities: [Value?] = [
        nil, .null, true, false, 0, 1, -1, 3, .int(.max), .int(.min), 1_709_208_000_000, 0.5, -0.0,
        .double(.nan),
        .double(.infinity), 1e300, "", "a", "äß😀", "e\u{301}", "\0", " x ", "2024-02-29T12:00:00+01:00",
        "day", "month",
        "YYYY-MM-DD", "%Y %j", "%", "i", "(a*)*b", "[", "Europe/Berlin", "UTC", "1h30m", "integer", "[1, {",
        .binary([0xFF]),
        [], [1, .null, "a"], [["a"], []], [:], ["a": 1, "b": ["a": .null]],
        .string(String(repeating: "ab", count: 2_000)),
    ]

    @Test(
        "the clock and named zones come from the context",
        arguments: [
            ("clock()", "1709208000000"), ("clock('')", "'2024-02-29T12:00:00+00:00'"),
            ("clock('', 'Europe/Berlin')", "'2024-02-29T13:00:00+01:00'"),
            ("clock('hh TZN', 'Europe/Berlin')", "'13 Europe/Berlin'"), ("clock('%H', '+05:30')", "'17'"),
            ("date_format(1720000000000, 'hh:mm TZD', 'Europe/Berlin')", "'11:46 +02:00'"),
            (
                "date_add('2024-02-29T12:00:00Z', 'month', 6, '', 'Europe/Berlin')",
                "'2024-08-29T14:00:00+02:00'"
            ),
            ("date_range(0, 2, 'ms', 1, 'hh', 'Europe/Berlin')", "['01', '01']"),
            ("date_cast('2024-07-01 12:00 Europe/Berlin', '%F %R %Z')", "1719828000000"),
            ("tz_offset('2024-07-01 Europe/Berlin', 'YYYY-MM-DD TZN')", "120"),
            ("tz_offset('Europe/Berlin', 'TZN')", "60"), ("request_info().statement", "'SELECT'"),
            ("clock('', 'Europe/Atlantis')", "MISSING"), ("clock('%')", "MISSING"),
        ])
    func inContext(_ call: String, _ result: String) throws {
        #expect(try Self.rows(call) == Self.rows(result))
    }

    @Test("without a context the clock, zones and the request are MISSING")
    func withoutContext() throws {
        let store = MemoryStore()
        for call in ["clock()", "clock('')", "request_info()", "date_format(0, '', 'Europe/Berlin')"] {
            #expect(try store.rows("SELECT RAW \(call) FROM system:dual") == [])
        }
        #expect(try store.rows("SELECT RAW date_format(0, 'hh', 'UTC') FROM system:dual") == ["00"])
    }
}

/// One parameter of a function that requires a type.
struct Argument: Sendable, CustomStringConvertible {
    let function: FunctionDefinition
    let index: Int

    var description: String { "\(function.name) \(function.parameters[index].name)" }

    static let all = FunctionTable.all.flatMap { function in
        function.parameters.indices.filter { function.parameters[$0].type != .any }
            .map { Argument(function: function, index: $0) }
    }

    static func samples(_ function: FunctionDefinition) -> [Value?] {
        function.parameters.map { sample($0.type) }
    }

    func samples(with value: Value?) -> [Value?] {
        var samples = Self.samples(function)
        samples[index] = value
        return samples
    }

    /// A value that the parameter does not take.
    var wrong: Value { function.parameters[index].type == .array ? .object([:]) : .array([]) }

    private static func sample(_ type: FunctionDefinition.ArgumentType) -> Value {
        switch type {
        case .any, .string: "a"
        case .number, .integer: 1
        case .boolean: true
        case .array: [1]
        case .object: ["b": 1]
        case .date: "2024-02-29T12:00:00Z"
        }
    }
}

enum ReferencePage {
    static let file = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("Shared/DQL/Functions.md")

    /// The page of the system parameters.
    static let parameters = file.deletingLastPathComponent().appendingPathComponent("Parameters.md")

    static func writeIfAsked() throws {
        guard ProcessInfo.processInfo.environment["MIMEO_WRITE_REFERENCE"] != nil else { return }
        try ParameterReference.page.write(to: parameters, atomically: true, encoding: .utf8)
        try FunctionReference.page.write(to: file, atomically: true, encoding: .utf8)
    }
}

/// Europe/Berlin in 2024, standard time in every other year.
struct Berlin: TimeZoneRules {
    func offsetSeconds(of zone: String, at milliseconds: Int64) -> Int? {
        guard zone == "Europe/Berlin" else { return nil }
        return 1_711_846_800_000..<1_729_990_800_000 ~= milliseconds ? 7_200 : 3_600
    }
}
