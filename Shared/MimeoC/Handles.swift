import Synchronization

/// An object that a handle stands for.
protocol Held: AnyObject, Sendable {
    /// Its kind, for the message of an error.
    static var kind: String { get }
    /// Ends it. Called once, after its handle was taken out of the table.
    func end()
}

/// The objects of all handles of the process.
///
/// Invariant: a number is given once. So a handle that is released twice, or used after its release, is not
/// in the table; nothing is freed that somebody else still uses, because the callers hold the objects
/// themselves.
final class HandleTable: Sendable {
    private struct State {
        var last: UInt64 = 0
        var objects: [UInt64: any Held] = [:]
    }

    static let shared = HandleTable()
    private let state = Mutex(State())

    /// A number for an object that is made later, because it names its number itself.
    func reserve() -> UInt64 {
        state.withLock { state in
            state.last += 1
            return state.last
        }
    }

    func set(_ object: any Held, at handle: UInt64) { state.withLock { $0.objects[handle] = object } }

    /// Gives an object a handle.
    func add(_ object: any Held) -> UInt64 {
        state.withLock { state in
            state.last += 1
            state.objects[state.last] = object
            return state.last
        }
    }

    /// The object of a handle.
    /// - Throws: `NATIVE-0101` for one that was released or never given.
    func object(_ handle: UInt64) throws(BorderError) -> any Held {
        guard let object = state.withLock({ $0.objects[handle] }) else { throw BorderError(unknown: handle) }
        return object
    }

    /// The object of a handle, if it has the kind. Throws also `NATIVE-0102`.
    func object<Object: Held>(_ handle: UInt64, as type: Object.Type) throws(BorderError) -> Object {
        let found = try object(handle)
        guard let object = found as? Object else {
            throw BorderError(
                .handleOfOtherKind, "handle \(handle) is \(Swift.type(of: found).kind), not \(type.kind)")
        }
        return object
    }

    /// Takes a handle out of the table, for whoever ends its object. Throws as `object(_:)`.
    func remove(_ handle: UInt64) throws(BorderError) -> any Held {
        guard let object = state.withLock({ $0.objects.removeValue(forKey: handle) }) else {
            throw BorderError(unknown: handle)
        }
        return object
    }

    /// Returns whether a handle is in use.
    func has(_ handle: UInt64) -> Bool { state.withLock { $0.objects[handle] != nil } }
}
