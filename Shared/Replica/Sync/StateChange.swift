import CRDT

/// A change of the log that holds a document's full state instead of a delta (decision 0006).
///
/// Written by a server only, when it has found that its log is behind what a peer holds: folding merges the
/// state, and the operation's own stamp enters no vector. The first byte tells it from a delta, whose first
/// byte is its version; so no peer can upload one, since admission takes nothing but deltas.
public enum StateChange {
    /// "S" in ASCII; no version of a delta's encoding will have this number.
    static let marker: UInt8 = 0x53

    /// The change that merges an encoded document.
    public static func encode(_ state: [UInt8]) -> [UInt8] { [marker] + state }

    /// The encoded document, nil when the change is a delta.
    public static func state(in change: [UInt8]) -> [UInt8]? {
        change.first == marker ? Array(change.dropFirst()) : nil
    }
}
