import CRDT
import DQL

/// Commands that a prompt has beside its own.
protocol PromptExtension: Sendable {
    /// The answer to a line; nil if it is none of these commands.
    func answer(toCommand line: String) async -> Value?
    /// Lines for `.help`.
    var helpText: String { get }
}

/// The prompt of `mimeo dql`, and of `mimeo peer` on a terminal: reads statements and commands from a person
/// and shows the answers. An error ends no prompt, not even that of a server that is away.
final class Prompt {
    private let runner: any StatementRunner
    private let arguments: ObjectValue
    private let lines: any LineSource
    private let output: LineWriter
    private let remarks: LineWriter
    /// Called after each statement: it may have changed what completion knows.
    private let changed: () -> Void
    private var format: OutputFormat
    private var isTimed = false
    private var typed = TypedText()
    private var hasProposedVertical = false
    /// The columns of the terminal; nil if they are unknown.
    var width: () -> Int? = { nil }
    /// The words before a line that begins a statement.
    var name: () -> String = { "mimeo" }
    /// Commands beside those of every prompt.
    var more: (any PromptExtension)?

    init(
        runner: any StatementRunner, arguments: ObjectValue, format: OutputFormat, lines: any LineSource,
        output: LineWriter, remarks: LineWriter, changed: @escaping () -> Void
    ) {
        self.runner = runner
        self.arguments = arguments
        self.format = format
        self.lines = lines
        self.output = output
        self.remarks = remarks
        self.changed = changed
    }

    /// Runs until `.quit` or the end of the input.
    func run() async {
        while true {
            let prompt = typed.isEmpty ? "\(name())> " : "  ...> "
            switch await lines.line(prompt: prompt, after: typed.text) {
            case .end: return
            case .interrupted: typed.clear()
            case .text(let line):
                do throws(MimeoError) {
                    guard try await take(line) else { return }
                } catch {
                    remarks.write(text: "\(error)")
                }
            }
        }
    }

    /// Handles a line; returns false if it was `.quit`.
    private func take(_ line: String) async throws(MimeoError) -> Bool {
        if typed.isEmpty {
            if let answer = await more?.answer(toCommand: line) {
                await lines.remember(line)
                show(answer)
                return true
            }
            let command: PromptCommand?
            do throws(MimeoError) {
                command = try PromptCommand(line)
            } catch {
                await lines.remember(line)
                throw error
            }
            if let command {
                await lines.remember(line)
                return try await run(command)
            }
        }
        let isMoreWaiting = await lines.isMoreWaiting
        let statements = try typed.add(line, isMoreWaiting: isMoreWaiting)
        for statement in statements {
            await lines.remember(statement)
            try await execute(statement)
        }
        return true
    }

    private func run(_ command: PromptCommand) async throws(MimeoError) -> Bool {
        switch command {
        case .quit: return false
        case .help:
            output.write(text: PromptCommand.helpText + (more.map { "\n" + $0.helpText } ?? ""))
        case .tables:
            try await list("SELECT name FROM system:collections ORDER BY name", none: "no collections") {
                $0["name"]?.stringValue ?? ""
            }
        case .indexes:
            try await list("SELECT * FROM system:indexes ORDER BY _id", none: "no indexes", Explained.index)
        case .explain(let statement): try await execute("EXPLAIN \(statement)")
        case .mode(let format):
            if let format { self.format = format }
            output.write(text: "mode: \(self.format.rawValue)")
        case .timing(let isOn):
            isTimed = isOn ?? !isTimed
            output.write(text: "timing: \(isTimed ? "on" : "off")")
        }
        return true
    }

    private func execute(_ statement: String) async throws(MimeoError) {
        let start = ContinuousClock.now
        let answer = try await self.answer(statement, arguments)
        let elapsed = ContinuousClock.now - start
        changed()
        let formatted = FormattedAnswer(answer, of: statement, as: format)
        if let text = formatted.output {
            output.write(text: text)
            proposeVertical(text)
        }
        if let text = formatted.remark { remarks.write(text: text) }
        if isTimed { output.write(text: "time: \(Milliseconds.text(elapsed))") }
    }

    /// Shows the answer of a further command: a line per member, an error as that of a statement.
    private func show(_ answer: Value) {
        if let error = answer["error"], let message = error["message"]?.stringValue {
            remarks.write(text: "\(error["code"]?.stringValue ?? ""): \(PlainLine.of(message))")
        } else {
            output.write(text: format == .json ? JSONText.print(answer) : CommandReport(answer).text)
        }
    }

    /// Says once how to read rows that are wider than the terminal.
    private func proposeVertical(_ text: String) {
        guard format == .table, !hasProposedVertical, let width = width() else { return }
        guard text.split(separator: "\n").contains(where: { $0.count > width }) else { return }
        hasProposedVertical = true
        remarks.write(text: "the rows are wider than the terminal: .mode vertical prints a line per field")
    }

    /// Shows rows as lines.
    private func list(
        _ statement: String, none: String, _ line: (Value) -> String
    ) async throws(MimeoError) {
        switch try await answer(statement, ObjectValue()) {
        case .failure(let problem): remarks.write(text: problem.text)
        case .result(let result):
            let lines = result.items.map { PlainLine.of(line($0)) }
            output.write(text: lines.isEmpty ? none : lines.joined(separator: "\n"))
        }
    }

    private func answer(_ statement: String, _ arguments: ObjectValue) async throws(MimeoError) -> Answer {
        do {
            return try await runner.run(statement, arguments: arguments)
        } catch let error as MimeoError {
            throw error
        } catch {
            throw MimeoError(.serverUnreachable, "\(error)")
        }
    }
}

extension Milliseconds {
    /// As `text(nanoseconds:)`.
    static func text(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        return text(nanoseconds: seconds * 1_000_000_000 + attoseconds / 1_000_000_000)
    }
}
