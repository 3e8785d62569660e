@testable import CRDT

// What the surviving writes show, worked out from nothing but them.

/// One actor's part of a counter, as a document keeps it.
struct CounterPart: Equatable {
    let actor: ActorID
    /// The timestamp of its last known amount.
    let time: Timestamp
    /// All its known amounts, added in the order of their writing.
    let total: Value
    /// The greatest time that a known removal or restart has seen, and the total then.
    let baseline: Baseline?
    /// True if the total counts from the baseline on.
    let isNewSum: Bool

    /// Its share of the counter's value; nil if removals have seen all of it.
    var growth: Value? {
        if baseline?.time == time { return nil }
        return isNewSum ? total : Amount.difference(total, baseline?.total ?? 0)
    }

    struct Baseline: Equatable {
        let time: Timestamp
        let total: Value
    }
}

/// The surviving writes under a vector, for questions about them.
struct OracleView {
    let surviving: [Oracle.Write]
    private let all: [Oracle.Write]
    private let sights: [UInt64]
    private let known: UInt64

    init(_ oracle: Oracle, _ vector: VersionVector) {
        sights = oracle.sights
        known = oracle.mask(vector)
        surviving = oracle.surviving(known)
        all = oracle.writes
    }

    /// The value that a reader without declared types sees.
    var value: ObjectValue { object(surviving, below: .root) }

    private func object(_ writes: [Oracle.Write], below path: Path) -> ObjectValue {
        var groups = Array(repeating: [Oracle.Write](), count: Path.keys.count)
        for write in writes where write.path.depth > path.depth {
            groups[write.path.number(at: path.depth)].append(write)
        }
        var entries: [ObjectValue.Entry] = []
        for (number, group) in groups.enumerated() where !group.isEmpty {
            let value = value(group, at: path.appending(number: number))
            entries.append((key: Path.keys[number], value: value))
        }
        return ObjectValue(unique: entries)
    }

    private func value(_ writes: [Oracle.Write], at path: Path) -> Value {
        switch newest(writes, at: path) {
        case .register: leaves(writes, .register, at: path)[0].content
        case .attachment: leaves(writes, .attachment, at: path)[0].content
        case .map: .object(object(writes, below: path))
        case .counter: counter(writes, at: path)
        case nil: preconditionFailure("a field without writes")
        }
    }

    /// The kind written last; of one transaction's kinds the last in `FieldKind`'s order.
    func newestKind(at path: Path) -> FieldKind? {
        newest(surviving.filter { path.isPrefix(of: $0.path) }, at: path)
    }

    private func newest(_ writes: [Oracle.Write], at path: Path) -> FieldKind? {
        var greatest: (stamp: Stamp, kind: FieldKind)?
        for write in writes {
            let kind = write.path == path ? write.sort.kind : .map
            if let found = greatest,
                (found.stamp, found.kind.rawValue) >= (write.stamp, kind.rawValue)
            {
                continue
            }
            greatest = (write.stamp, kind)
        }
        return greatest?.kind
    }

    /// The concurrent writes of a sort at a path, greatest first.
    func leaves(_ sort: Oracle.Sort, at path: Path) -> [Oracle.Write] { leaves(surviving, sort, at: path) }

    private func leaves(_ writes: [Oracle.Write], _ sort: Oracle.Sort, at path: Path) -> [Oracle.Write] {
        writes.filter { $0.sort == sort && $0.path == path }.sorted { $1.stamp < $0.stamp }
    }

    /// Returns whether the attachment at a path was written after the register there.
    func showsAttachment(at path: Path) -> Bool {
        guard let token = leaves(.attachment, at: path).first else { return false }
        return leaves(.register, at: path).allSatisfy { $0.stamp <= token.stamp }
    }

    /// The greatest surviving restart, and what survives of every actor.
    private func counter(_ writes: [Oracle.Write], at path: Path) -> Value {
        let start = leaves(writes, .restart, at: path).first?.content ?? .int(0)
        let amounts = [start] + parts(at: path).compactMap(\.growth)
        let whole = amounts.reduce(Int128(0)) { $0 + Int128($1.intValue ?? 0) }
        let fractions = amounts.filter { $0.intValue == nil }
        if fractions.isEmpty { return Int64(exactly: whole).map { .int($0) } ?? .double(Double(whole)) }
        return Amount.sum(.double(Double(whole)), fractions.dropFirst().reduce(fractions[0], Amount.sum))
    }

    /// The remaining part of each actor's amounts at a path, seen or not, ascending by actor.
    func parts(at path: Path) -> [CounterPart] {
        let known = all.filter {
            $0.sort == .increment && $0.path == path && self.known >> UInt64($0.operation) & 1 != 0
        }
        return Set(known.map(\.stamp.actor)).sorted().map { actor in
            let own = known.filter { $0.stamp.actor == actor }.sorted { $0.stamp < $1.stamp }
            var total = Value.int(0)
            var baseline: CounterPart.Baseline?
            var last: Oracle.Write?
            var begin: Timestamp?
            for write in own {
                if let last, begins(write, total, after: last) {
                    begin = last.stamp.time
                    total = Amount.sum(.int(0), write.content)
                } else {
                    total = Amount.sum(total, write.content)
                }
                last = write
                guard write.killers & self.known != 0 else { continue }
                baseline = .init(time: write.stamp.time, total: total)
            }
            return CounterPart(
                actor: actor, time: own[own.count - 1].stamp.time, total: total, baseline: baseline,
                isNewSum: begin != nil && begin == baseline?.time)
        }
    }

    /// Returns whether an actor's amount begins a new sum: its author knew that all amounts up to the one
    /// before were removed, and one of the two numbers is a double.
    private func begins(_ write: Oracle.Write, _ total: Value, after last: Oracle.Write) -> Bool {
        guard last.killers & sights[write.operation] != 0 else { return false }
        if case .int = total, case .int = write.content { return false }
        return true
    }

    /// The paths at which any amount is known.
    var counterPaths: Set<Path> {
        Set(
            all.filter { $0.sort == .increment && known >> UInt64($0.operation) & 1 != 0 }.map(\.path))
    }
}
