/// Tells how far a backup, a check or a restore is, to whoever watches the task that runs it.
public enum BackupProgress {
    /// The step by its name, as `copying app`, and how much of it is done.
    public typealias Told = @Sendable (_ step: String, _ done: UInt64, _ all: UInt64) -> Void

    /// The watcher of this task; nil for none. Called every some hundred operations, for each shelf of blobs.
    @TaskLocal public static var told: Told?

    static func tell(_ step: @autoclosure () -> String, _ done: UInt64, of all: UInt64) {
        told?(step(), done, all)
    }
}
