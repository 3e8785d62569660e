import CRDT
import OperationLog

/// One database's part of a group when every operation is plain: without condition and lease, and each
/// actor's operations in one run. Most groups are, and the server takes such a one with a few statements for
/// all of it (`mimeo_log.append_plain`), where `mimeo_log.append` decides operation by operation.
struct PlainAppend {
    /// The operations of one actor in the group: the places of the first and the last.
    private struct Run {
        let first: Int
        var last: Int
    }

    private let operations: [PreparedOperation]
    /// Those of actors that the writer does not know come first.
    private var runs: [Run] = []
    /// How many of the runs are of actors that the writer does not know.
    private var strangers = 0
    /// What was touched, and by which of the operations last, from 1.
    private var touched: [Touch: Int64] = [:]
    /// The head as the writer knows it, -1 where it knows none, and where the group's row is to wait.
    private var head: Int64 = -1
    private var slot: Int64 = 0

    /// How many operations.
    var count: Int { operations.count }
    /// The last operation of each actor.
    var lasts: some Sequence<PreparedOperation> { runs.lazy.map { operations[$0.last] } }

    /// Nil when `mimeo_log.append` has to decide.
    init?(_ operations: [PreparedOperation], knowing known: WriterKnowledge?) {
        self.operations = operations
        var places: [ActorID: Int] = [:]
        places.reserveCapacity(operations.count)
        for (number, operation) in operations.enumerated() {
            guard operation.condition == nil, operation.lease == nil else { return nil }
            if let place = places[operation.record.actor] {
                let last = operations[runs[place].last]
                guard operation.record.sequence == last.record.sequence + 1,
                    utf8Equal(operation.authorKey, last.authorKey)
                else { return nil }
                runs[place].last = number
            } else {
                places[operation.record.actor] = runs.count
                runs.append(Run(first: number, last: number))
            }
            for touch in operation.touches { touched[touch] = Int64(number + 1) }
        }
        strangers = runs.count
        guard let known else { return }
        var unknown: [Run] = []
        var familiar: [Run] = []
        for run in runs {
            switch known.fits(operations[run.first]) {
            case .some(true): familiar.append(run)
            case .some(false): return nil
            case nil: unknown.append(run)
            }
        }
        runs = unknown + familiar
        strangers = unknown.count
        head = Int64(bitPattern: known.head)
        slot = Int64(known.slot)
    }

    /// The statement; answers the head before, or NULL when `mimeo_log.append` has to decide after all.
    func step(_ database: String) -> Connection.Step {
        guard operations.count > 1 || strangers > 0 || slot == 0 else { return single(database) }
        return Connection.Step(
            """
            SELECT mimeo_log.append_plain(
                $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
            """,
            [
                .text(database), .int8(head), .int8(slot), .int8(Int64(strangers)),
                .int8Array(runs.map { Int64(bitPattern: operations[$0.first].record.actor.rawValue) }),
                .textArray(runs.map { operations[$0.first].authorKey }),
                .int8Array(runs.map { Int64(bitPattern: operations[$0.first].record.sequence) }),
                .int8Array(lasts.map { Int64(bitPattern: $0.record.sequence) }),
                .int8Array(lasts.map { Int64(bitPattern: $0.record.timestamp) }),
                .int8Array(lasts.map { Int64(bitPattern: $0.contentHash) }),
                .int8Array(operations.map { Int64(bitPattern: $0.record.actor.rawValue) }),
                .int8Array(operations.map { Int64(bitPattern: $0.record.sequence) }),
                .int8Array(operations.map { Int64(bitPattern: $0.record.timestamp) }),
                .int8Array(folds), .bytesArray(operations.map(\.record.bytes)),
                .int8Array(touched.map { Int64(bitPattern: $0.key.rawValue) }),
                .int8Array(touched.map(\.value)),
            ])
    }

    /// The same for one operation of an actor that the writer knows.
    private func single(_ database: String) -> Connection.Step {
        let operation = operations[0]
        return Connection.Step(
            "SELECT mimeo_log.append_next($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            [
                .text(database), .int8(head), .int8(slot),
                .int8(Int64(bitPattern: operation.record.actor.rawValue)), .text(operation.authorKey),
                .int8(Int64(bitPattern: operation.record.sequence)),
                .int8(Int64(bitPattern: operation.record.timestamp)),
                .int8(Int64(bitPattern: operation.contentHash)), .int8(Int64(bitPattern: operation.digest)),
                .bytes(operation.record.bytes),
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
