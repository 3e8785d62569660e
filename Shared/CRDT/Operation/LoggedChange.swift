// The changes of log entries. Operations of writers hold deltas. Two more forms are written by servers only.
// Their first byte tells them from a delta, whose first byte is its version. Admission takes deltas only, so
// no peer can upload the other forms.

/// A change of the log, decoded.
public enum LoggedChange: Sendable, Equatable {
    /// One transaction's effect on one document.
    case delta(Delta)
    /// A delta that inserts a plain document. It is decoded only when it has to be merged with another
    /// state.
    case insertion(Insertion)
    /// A full state to merge (decision 0006). The stamp of the operation itself enters no vector.
    case state(Document)
    /// The tombstone with this vector has outlived its time (rule 15, decision 0010).
    case reaping(at: VersionVector)

    /// Decodes a change of an operation with this stamp. Throws the errors of the three decoders.
    public init(decoding change: EncodedDelta, stamp: Stamp) throws(CRDTError) {
        switch change.bytes.first {
        case StateChange.marker:
            self = .state(try Document(decoding: EncodedState(Array(change.bytes.dropFirst()))))
        case ReapingChange.marker:
            let vector = try VersionVector(decoding: Array(change.bytes.dropFirst()))
            guard !vector.isEmpty else { throw .malformed("a reaping of a document nobody wrote", at: 1) }
            self = .reaping(at: vector)
        default:
            if let insertion = Insertion(delta: change, stamp: stamp) {
                self = .insertion(insertion)
            } else {
                self = .delta(try Delta(decoding: change, stamp: stamp))
            }
        }
    }

    /// The greatest timestamp in it besides that of its operation; clocks take note of it.
    public var latestTime: Timestamp? {
        if case .state(let document) = self { document.vector.greatestTime } else { nil }
    }
}

/// A change of the log that holds a document's full state instead of a delta (decision 0006).
///
/// Only a server writes it, when it finds that a peer has writes that the log lacks.
public enum StateChange {
    /// "S" in ASCII. No version of a delta's encoding will have this number.
    static let marker: UInt8 = 0x53

    /// The change that merges an encoded document.
    public static func encode(_ state: EncodedState) -> EncodedDelta { EncodedDelta([marker] + state.bytes) }
}

/// A change of the log that reaps a tombstone (rule 15). Every fold of the log drops the document if it is
/// still the tombstone with this vector, and otherwise does nothing.
public enum ReapingChange {
    /// "R" in ASCII. No version of a delta's encoding will have this number.
    static let marker: UInt8 = 0x52

    /// The change that reaps the tombstone with this vector.
    public static func encode(at vector: VersionVector) -> EncodedDelta {
        EncodedDelta([marker] + vector.encoded())
    }
}
