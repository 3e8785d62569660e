import Backup
import Foundation
import Synchronization

/// A progress bar on a terminal: one line on stderr, drawn over itself; nothing where stderr is no terminal.
final class Progress {
    private static let barCharacters = 24

    private let isShown: Bool
    private let clock = ContinuousClock()
    /// The step that is shown, and since when.
    private var drawn: (label: String, at: ContinuousClock.Instant)?

    /// - Parameter isShown: whether there is a person to see it.
    init(isShown: Bool = isatty(STDERR_FILENO) == 1) { self.isShown = isShown }

    /// Shows that `position` of `size` bytes are read: the first time of each step, then after pauses.
    /// - Parameter label: the step, such as `reading`.
    func show(_ label: String, _ position: Int, of size: Int) {
        guard isShown else { return }
        let now = clock.now
        if let drawn, drawn.label == label, now - drawn.at < Limits.progressPause { return }
        drawn = (label, now)
        draw("\r\u{1B}[K" + Self.line(label, position, of: size))
    }

    /// Removes the bar, so that other lines can follow.
    func clear() {
        guard isShown, drawn != nil else { return }
        drawn = nil
        draw("\r\u{1B}[K")
    }

    /// The text of the bar.
    static func line(_ label: String, _ position: Int, of size: Int) -> String {
        let share = size > 0 ? min(1, Double(position) / Double(size)) : 1
        let full = Int(share * Double(barCharacters))
        let bar = String(repeating: "#", count: full) + String(repeating: "-", count: barCharacters - full)
        return "[\(bar)] \(Int(share * 100)) % \(label)"
    }

    /// Shows the steps of a backup, a check or a restore while a body runs.
    static func showing<Result>(
        _ body: (_ progress: BackupProgress) async throws -> Result
    ) async throws -> Result {
        let progress = Mutex(Progress())
        defer { progress.withLock { $0.clear() } }
        return try await body(
            BackupProgress { step, done, all in
                progress.withLock { $0.show(step, Int(clamping: done), of: Int(clamping: all)) }
            })
    }

    private func draw(_ text: String) { FileHandle.standardError.write(Data(text.utf8)) }
}
