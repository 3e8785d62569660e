import Synchronization

/// Lets the owner of a thread interrupt the preparation of a long statement: parsing, binding, planning,
/// printing. A statement of a megabyte has some hundred thousand nodes, and takes a second.
///
/// The check goes along with the thread, and not through each function: these are recursive, and a parameter
/// would take stack in each of their frames, as an inlined check would. While nobody in the process prepares
/// a long statement, a node costs one load.
public enum Preparation {
    @TaskLocal private static var interruption: (@Sendable () -> Interruption?)?
    /// How many bodies of `interrupted` run.
    private static let running = Atomic<Int>(0)

    /// Runs a body that prepares a statement, or executes one whose plan is long.
    /// - Parameter interruption: asked at each node why to stop; nil means go on.
    public static func interrupted<Result>(
        by interruption: @escaping @Sendable () -> Interruption?, _ body: () throws -> Result
    ) rethrows -> Result {
        running.add(1, ordering: .relaxed)
        defer { running.subtract(1, ordering: .relaxed) }
        return try $interruption.withValue(interruption, operation: body)
    }

    /// Asks at a node of a tree.
    /// - Throws: `cancelled`, `timeout`.
    @inline(never)
    static func check() throws(DQLError) {
        if let reason = asked() { throw DQLError.interrupted(reason) }
    }

    /// Asks where nothing can be thrown: the thread may wait here for others, and the next `check` throws.
    @inline(never)
    static func pass() { _ = asked() }

    @inline(__always)
    private static func asked() -> Interruption? {
        running.load(ordering: .relaxed) == 0 ? nil : interruption?()
    }
}
