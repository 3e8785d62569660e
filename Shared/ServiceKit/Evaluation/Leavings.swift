import Synchronization

/// Large things that were made for a client, and are let go where nobody waits: `EvaluationPool.discard`.
///
/// The things belong to this object alone: once others have let go of them, `drop` frees them. The lock
/// guards them.
public final class Leavings: Sendable {
    private let things = Mutex<[any Sendable]>([])
    /// Their memory, which is held for as long as they are there.
    private let held: ClientHold?

    /// Nothing yet, of memory that is held.
    public init(_ held: ClientHold? = nil) { self.held = held }

    /// Keeps a thing.
    public func add(_ thing: some Sendable) { things.withLock { $0.append(thing) } }

    /// Lets go of everything, on this thread.
    func drop() {
        // Outside of the lock, at the end of this function.
        let all = things.withLock { things in
            defer { things = [] }
            return things
        }
        withExtendedLifetime(all) {}
    }
}
