import CRDT
import OperationLog

/// One database's part of a group when every operation is plain: without condition and lease, and each
/// actor's operations in one run. Most groups are, and the server takes such a one with a few statements for
/// all of it (`mimeo_log.append_plain`), where `mimeo_log.append` decides operation by operation.
struct PlainAppend {
    /// The operations of one actor in the group.
    private struct Run {
        let first: PreparedOperation
        var last: PreparedOperation
    }

    private let operations: [PreparedOperation]
    private var runs: [Run] = []
    /// What was touched, and by which of the operations last, from 1.
    private var touched: [Touch: Int64] = [:]

    /// Nil when `mimeo_log.append` has to decide.
    init?(_ operations: [PreparedOperation]) {
        self.operations = operations
        var places: [ActorID: Int] = [:]
        for (number, operation) in operations.enumerated() {
            guard operation.condition == nil, operation.lease == nil else { return nil }
            if let place = places[operation.record.actor] {
                let last = runs[place].last
                guard operation.record.sequence == last.record.sequence + 1,
                    utf8Equal(operation.authorKey, last.authorKey)
                else { return nil }
                runs[place].last = operation
            } else {
                places[operation.record.actor] = runs.count
                runs.append(Run(first: operation, last: operation))
            }
            for touch in operation.touches { touched[touch] = Int64(number + 1) }
        }
    }

    /// The statement; answers the head before, or NULL when `mimeo_log.append` has to decide after all.
    /// - Parameter checksHead: whether the last entry has to be the one that the head names.
    func step(_ database: String, checksHead: Bool) -> Connection.Step {
        Connection.Step(
            """
            SELECT mimeo_log.append_plain(
                $1, $2 <> 0, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
            """,
            [
                .text(database), .int8(checksHead ? 1 : 0),
                .int8Array(runs.map { Int64(bitPattern: $0.first.record.actor.rawValue) }),
                .textArray(runs.map(\.first.authorKey)),
                .int8Array(runs.map { Int64(bitPattern: $0.first.record.sequence) }),
                .int8Array(runs.map { Int64(bitPattern: $0.last.record.sequence) }),
                .int8Array(runs.map { Int64(bitPattern: $0.last.record.timestamp) }),
                .int8Array(runs.map { Int64(bitPattern: $0.last.contentHash) }),
                .int8Array(operations.map { Int64(bitPattern: $0.record.actor.rawValue) }),
                .int8Array(operations.map { Int64(bitPattern: $0.record.sequence) }),
                .int8Array(operations.map { Int64(bitPattern: $0.record.timestamp) }),
                .int8Array(folds), .bytesArray(operations.map(\.record.bytes)),
                .int8Array(touched.map { Int64(bitPattern: $0.key.rawValue) }),
                .int8Array(touched.map(\.value)),
            ])
    }

    /// What each operation and those before it add to the chain. A step of the chain rotates and XORs, so a
    /// hash is the one before the group, rotated once per operation, XOR this.
    private var folds: [Int64] {
        var fold: UInt64 = 0
        return operations.map { operation in
            fold = ChainHash.next(after: fold, digest: operation.digest)
            return Int64(bitPattern: fold)
        }
    }
}
