import CRDT

/// The identity and position types come from CRDT: cursors and checkpoints outside this module hold them too.
public typealias LogID = CRDT.LogID
/// A place in one database's log, with proof of the history before it.
public typealias LogPosition = CRDT.LogPosition

extension LogID {
    /// A fresh id.
    public static func random() -> LogID {
        var generator = SystemRandomNumberGenerator()
        let bytes = (0..<byteCount).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
        guard let id = LogID(bytes: bytes) else { preconditionFailure("sixteen bytes make an id") }
        return id
    }
}
