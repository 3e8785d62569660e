import CRDT

/// The place of a document: its collection's number and its own.
struct DocumentPlace: Sendable, Equatable {
    let table: Int64
    let number: Int64
}

/// The operation of a transaction. Inserted documents are described by their states, and their deltas are
/// made on demand: for many insertions a store keeps only the documents' places (`StoredOperation`).
struct WrittenOperation: Sendable {
    /// The change to one document.
    typealias Change = (key: DocumentKey, written: PendingDocuments.Written)

    let actor: ActorID
    let sequence: SequenceNumber
    let timestamp: Timestamp
    /// The changes in the order of first touch.
    let changes: [Change]

    /// The operation as a value.
    var operation: Operation {
        Operation(
            actor: actor, sequence: sequence, timestamp: timestamp,
            changes: changes.map { change in
                Operation.Change(
                    collection: change.key.collection, id: change.key.id,
                    delta: Self.delta(change.written))
            })
    }

    /// Throws `transactionTooLarge`.
    func checkSize() throws {
        // Each change adds two lengths, and the first of a run also its collection's name and the run's
        // length.
        let most = changes.reduce(64) { sum, change in
            sum + Self.bytesAtMost(change.written) + change.key.id.bytes.count
                + change.key.collection.text.utf8.count
                + 32
        }
        guard most > CRDT.Limits.operationBytes else { return }
        let count = operation.encoded().count
        guard count <= CRDT.Limits.operationBytes else {
            throw ReplicaError(
                .transactionTooLarge,
                "the transaction has \(count) bytes; the limit is \(CRDT.Limits.operationBytes)")
        }
    }

    static func delta(_ written: PendingDocuments.Written) -> EncodedDelta {
        switch written {
        case .delta(let bytes): bytes
        case .inserted(let document, _): document.delta
        case .edited: preconditionFailure("edits are encoded when their transaction ends")
        }
    }

    /// An upper bound of the delta's bytes.
    private static func bytesAtMost(_ written: PendingDocuments.Written) -> Int {
        switch written {
        case .delta(let bytes): bytes.count
        case .inserted(let document, _): document.state.count
        case .edited: preconditionFailure("edits are encoded when their transaction ends")
        }
    }
}
