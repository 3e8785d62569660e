import CRDT

/// An append request with its hashes: everything that can be computed before any lock is taken.
package struct PreparedOperation: Sendable {
    package let record: OperationRecord
    package let authorKey: String
    package let touches: [Touch]
    package let condition: AppendCondition?
    package let lease: ActorLease?
    package let contentHash: UInt64
    package let digest: UInt64

    /// Checks the limits and computes the hashes.
    init(_ request: AppendRequest, database: DatabaseID) throws(OperationLogError) {
        let record = request.record
        func refuse(_ reason: String) -> OperationLogError {
            let name = "operation \(record.sequence) of actor \(record.actor)"
            return OperationLogError(.invalidRequest, "\(name) \(reason)", database: database)
        }
        guard record.sequence > 0, record.sequence.rawValue <= UInt64(Int64.max) else {
            throw refuse("has no valid sequence; sequences run from 1 to 2^63 - 1")
        }
        guard !record.bytes.isEmpty else { throw refuse("has no bytes") }
        guard record.bytes.count <= LogLimits.operationBytes else {
            throw refuse("has \(record.bytes.count) bytes, more than \(LogLimits.operationBytes)")
        }
        guard request.authorKey.utf8.count <= LogLimits.authorKeyBytes else {
            throw refuse("names an author key longer than \(LogLimits.authorKeyBytes) bytes")
        }
        guard max(request.touches.count, request.condition?.reads.count ?? 0) <= LogLimits.touches else {
            throw refuse("touches or reads more than \(LogLimits.touches) documents")
        }
        self.record = record
        authorKey = request.authorKey
        touches = request.touches
        condition = request.condition
        lease = request.lease
        contentHash = ChainHash.content(record.bytes)
        digest = ChainHash.digest(
            actor: record.actor, sequence: record.sequence, timestamp: record.timestamp,
            contentHash: contentHash)
    }
}

/// One call of `append`, ready to become part of a group.
package struct AppendCall: Sendable {
    package let database: DatabaseID
    package let operations: [PreparedOperation]
    package let cost: AdmissionGate.Cost
    /// The term that the call depends on: the earliest of its requests' terms.
    package let term: UInt64?
    /// The driver may commit it along with the call.
    package let rider: (any AppendRider)?

    package init(
        _ requests: [AppendRequest], database: DatabaseID, rider: (any AppendRider)? = nil
    ) throws(OperationLogError) {
        self.rider = rider
        self.database = database
        var operations: [PreparedOperation] = []
        operations.reserveCapacity(requests.count)
        for request in requests { operations.append(try PreparedOperation(request, database: database)) }
        self.operations = operations
        term = requests.lazy.compactMap(\.term).min()
        cost = AdmissionGate.Cost(
            operations: operations.count, bytes: operations.reduce(0) { $0 + $1.record.bytes.count })
    }
}

/// The outcome of one group.
package enum GroupOutcome: Sendable {
    /// The commit is durable: one result per call. A failed one says why its call was left out.
    case committed([Result<[AppendOutcome], OperationLogError>])
    /// Rolled back, nothing is stored; a later group may succeed.
    case refused(OperationLogError)
    /// It is unknown whether the group is durable; there must be no next group.
    case poisoned(OperationLogError)
}

/// The rule for database ids, see the contract.
extension DatabaseID {
    /// Returns whether a database can have this id.
    package var isValidInLog: Bool {
        let bytes = text.utf8
        guard let first = bytes.first, bytes.count <= LogLimits.databaseIDCharacters else { return false }
        return Self.isAlphanumeric(first)
            && bytes.allSatisfy { Self.isAlphanumeric($0) || "._-".utf8.contains($0) }
    }

    private static func isAlphanumeric(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"):
            true
        default: false
        }
    }
}
