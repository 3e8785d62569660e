import CRDT

/// Where a document stands: its collection's number and its own.
struct DocumentPlace: Sendable, Equatable {
    let table: Int64
    let number: Int64
}

/// The operation that a transaction becomes. What it inserted is told by the documents' states, and its
/// deltas are made when somebody asks for them: a store keeps of many insertions where the documents stand
/// (`StoredOperation`).
struct WrittenOperation: Sendable {
    /// What was done to one document.
    typealias Change = (key: DocumentKey, written: PendingDocuments.Written)

    let actor: ActorID
    let sequence: SequenceNumber
    let timestamp: Timestamp
    /// In the order in which the transaction first touched the documents.
    let changes: [Change]

    /// The operation itself.
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
        // A change adds two lengths, and the first one of a run its collection's name and their number.
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
                "the transaction changes \(count) bytes, one may change \(CRDT.Limits.operationBytes)")
        }
    }

    static func delta(_ written: PendingDocuments.Written) -> EncodedDelta {
        switch written {
        case .delta(let bytes): bytes
        case .inserted(let document, _): document.delta
        case .edited: preconditionFailure("edits are encoded when their transaction ends")
        }
    }

    /// At least as many bytes as the delta has.
    private static func bytesAtMost(_ written: PendingDocuments.Written) -> Int {
        switch written {
        case .delta(let bytes): bytes.count
        case .inserted(let document, _): document.state.count
        case .edited: preconditionFailure("edits are encoded when their transaction ends")
        }
    }
}
