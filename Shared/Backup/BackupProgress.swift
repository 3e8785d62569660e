/// The watcher of a backup, a check or a restore: it is told how far the work is.
///
/// A value that each step gets from its caller. It was a task-local closure until release builds ended in
/// that: the optimizer specialized the generic `withValue` around an optional closure, and the process got a
/// SIGSEGV.
public struct BackupProgress: Sendable {
    /// The step by its name, as `copying app`, and how much of it is done.
    public typealias Told = @Sendable (_ step: String, _ done: UInt64, _ all: UInt64) -> Void

    private let told: Told?

    /// Nobody watches.
    public static let unwatched = BackupProgress(told: nil)

    private init(told: Told?) { self.told = told }

    /// - Parameter told: called every some hundred operations, and for each shelf of blobs.
    public init(_ told: @escaping Told) { self.init(told: told) }

    func tell(_ step: @autoclosure () -> String, _ done: UInt64, of all: UInt64) {
        told?(step(), done, all)
    }
}
