/// The watcher of a backup, a check or a restore: it is told how far the work is.
///
/// A value that each step gets from its caller. A task-local closure did the same until a release build was seen
/// to end in it: the optimizer specialized the generic `withValue` around an optional closure, and the process
/// ended with SIGSEGV.
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
