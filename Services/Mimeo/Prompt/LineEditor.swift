import CLibEdit
import Foundation
import Machine

/// The lines that a person types.
protocol LineSource: Sendable {
    /// Asks for the next line. `before` are the earlier lines of the statement, for completion.
    func line(prompt: String, after before: String) async -> TypedLine
    /// True if further lines are there already, as they are when a text of several lines is pasted.
    var isMoreWaiting: Bool { get async }
    /// Adds a statement to the lines that the arrow keys bring back.
    func remember(_ text: String) async
}

/// The outcome of asking for a line.
enum TypedLine: Equatable, Sendable {
    /// A line, without its line feed.
    case text(String)
    /// Control-C: what was typed so far is abandoned.
    case interrupted
    /// Control-D on an empty line, or the terminal is gone.
    case end
}

/// Edits lines on the terminal with libedit: cursor keys, history, search with Control-R, completion with
/// Tab. The user's `.editrc` is read.
///
/// Invariant: everything is used on `queue` only, because libedit is not made for several threads. Reading
/// blocks the queue's thread and no other.
final class LineEditor: LineSource, @unchecked Sendable {
    // `@unchecked`: the mutable members are confined to `queue`.
    private let queue = DispatchQueue(label: "mimeo.line-editor")
    private let editor: OpaquePointer
    private let entries: OpaquePointer
    private let history: HistoryFile?
    private let complete: @Sendable (_ before: String, _ line: String, _ cursor: Int) -> Completion?
    private var prompt: UnsafeMutablePointer<CChar>
    private var before = ""
    private var wasInterrupted = false

    /// Nil if the terminal cannot be used.
    /// - Parameters:
    ///   - history: brings lines of earlier runs.
    ///   - complete: what may stand at the cursor, an offset in the line's UTF-8 bytes; called while the
    ///     person waits.
    init?(
        history: HistoryFile?,
        complete: @escaping @Sendable (_ before: String, _ line: String, _ cursor: Int) -> Completion?
    ) {
        guard let editor = mimeo_editor(), let entries = history_init() else { return nil }
        self.editor = editor
        self.entries = entries
        self.history = history
        self.complete = complete
        prompt = strdup("")
        mimeo_history_size(entries, Int32(Limits.historyStatements))
        for entry in history?.load() ?? [] { mimeo_history_add(entries, entry) }
        mimeo_set_data(editor, Unmanaged.passUnretained(self).toOpaque())
        mimeo_set_prompt(editor) { editor in LineEditor.of(editor)?.prompt }
        mimeo_set_keys(editor, "emacs")
        mimeo_set_history(editor, entries)
        mimeo_handle_signals(editor)
        mimeo_take_signal_keys(editor)
        mimeo_add_function(editor, "mimeo-complete", "Complete the word") { editor, _ in
            LineEditor.of(editor)?.tab() ?? UInt8(CC_ERROR)
        }
        mimeo_add_function(editor, "mimeo-interrupt", "Abandon the statement") { editor, _ in
            LineEditor.of(editor)?.interrupt() ?? UInt8(CC_ERROR)
        }
        mimeo_add_function(editor, "mimeo-suspend", "Suspend the process") { _, _ in
            // libedit's handler restores the terminal first, and repaints the line afterwards.
            raise(SIGTSTP)
            return UInt8(CC_NORM)
        }
        mimeo_bind(editor, "^Z", "mimeo-suspend")
        mimeo_bind(editor, "^I", "mimeo-complete")
        mimeo_bind(editor, "^C", "mimeo-interrupt")
        mimeo_bind(editor, "^R", "em-inc-search-prev")
        el_source(editor, nil)
    }

    deinit {
        el_end(editor)
        history_end(entries)
        free(prompt)
    }

    func line(prompt: String, after before: String) async -> TypedLine {
        await onQueue { self.read(prompt, before) }
    }

    var isMoreWaiting: Bool {
        get async {
            await onQueue {
                var input = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
                return poll(&input, 1, Limits.pasteMilliseconds) == 1 && input.revents & Int16(POLLIN) != 0
            }
        }
    }

    func remember(_ text: String) async {
        await onQueue {
            guard let entry = self.history?.append(text) ?? HistoryFile.entry(text) else { return }
            mimeo_history_add(self.entries, entry)
        }
    }

    private func onQueue<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
        await PendingAnswer.of(queue, body)
    }

    /// The columns of the terminal on standard output; nil if it tells none.
    static var width: Int? {
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    private func read(_ prompt: String, _ before: String) -> TypedLine {
        free(self.prompt)
        self.prompt = strdup(prompt)
        self.before = before
        wasInterrupted = false
        var count: Int32 = 0
        mimeo_prepare(editor)
        let line = el_gets(editor, &count)
        if wasInterrupted { return .interrupted }
        guard let line, count > 0 else {
            say("\n")
            return .end
        }
        var text = String(cString: line)
        if text.hasSuffix("\n") { text.removeLast() }
        return .text(text)
    }

    // MARK: Keys

    private static func of(_ editor: OpaquePointer?) -> LineEditor? {
        guard let data = mimeo_get_data(editor) else { return nil }
        return Unmanaged<LineEditor>.fromOpaque(data).takeUnretainedValue()
    }

    private func interrupt() -> UInt8 {
        wasInterrupted = true
        say("^C\n")
        return UInt8(CC_NEWLINE)
    }

    private func tab() -> UInt8 {
        guard let info = el_line(editor)?.pointee, let start = info.buffer else { return UInt8(CC_ERROR) }
        let bytes = UnsafeBufferPointer(start: start, count: info.lastchar - start)
        let line = String(decoding: bytes.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        guard let found = complete(before, line, info.cursor - start), !found.choices.isEmpty else {
            return UInt8(CC_REFRESH_BEEP)
        }
        let replacement = found.replacement
        if replacement != found.word {
            el_deletestr(editor, Int32(found.word.unicodeScalars.count))
            return el_insertstr(editor, replacement) == 0 ? UInt8(CC_REFRESH) : UInt8(CC_ERROR)
        }
        say("\n" + found.list() + "\n")
        return UInt8(CC_REDISPLAY)
    }

    /// A terminal that is gone is no error: the next line is the end.
    private func say(_ text: String) {
        try? FileHandle.standardOutput.write(contentsOf: Data(text.utf8))
    }
}
