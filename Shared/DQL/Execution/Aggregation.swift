import CRDT

/// The groups of a GROUP BY, in the order of their first row, or of their first document (`ranks`).
///
/// Keys are recognized by their encodings: a document's group is found by hashing bytes in place. Encodings
/// of equal values may differ (`1` and `1.0`), so each new encoding is looked up once by its value.
struct GroupTable {
    private let grouping: Grouping
    private let meter: ExecutionMeter
    private var places: [ValueKey: Int] = [:]
    private var keys: [[Value?]] = []
    /// The accumulators of all groups, one group after the other.
    private var accumulators: [Accumulator] = []
    /// How many values the aggregates hold.
    private var held = 0
    /// Bytes of keys and of what the aggregates hold.
    private var heldBytes = 0
    /// The number of each group's first document, where the documents come in another order than a scan's.
    private var ranks: [Int64] = []
    private let inPlace: KeysInPlace?
    private var known = EncodedKeys()
    /// The cursors that find the arguments of aggregates in place, by the aggregates' places.
    private let cursors: [FieldCursor?]
    /// The work for each aggregate per document. The cursors are those of `cursors`, without a reference
    /// count per use: counting costs as much as an addition.
    private let steps: [Step]

    private struct Step {
        let hasArgument: Bool
        let cursor: Unmanaged<FieldCursor>?
    }

    /// - Parameter readsInPlace: true if rows are documents of source 0, read as undeclared ones.
    init(_ grouping: Grouping, _ meter: ExecutionMeter, readsInPlace: Bool = false) {
        self.grouping = grouping
        self.meter = meter
        inPlace = readsInPlace ? KeysInPlace(grouping.keys) : nil
        cursors = grouping.aggregates.map { aggregate in
            readsInPlace ? aggregate.argument.flatMap { DocumentTest.cursor($0, 0) } : nil
        }
        steps = zip(grouping.aggregates, cursors).map { aggregate, cursor in
            Step(hasArgument: aggregate.argument != nil, cursor: cursor.map(Unmanaged.passUnretained))
        }
        // Without keys there is one group, even if there are no rows.
        if grouping.keys.isEmpty { _ = newGroup([]) }
    }

    /// Adds a row of any kind. `rank` is the number of its document, if the groups have to be put in order.
    mutating func add(_ row: borrowing Row, _ evaluator: Evaluator, rank: Int64? = nil) throws {
        let row = copy row
        let place = grouping.keys.isEmpty ? 0 : try placeByValue { try evaluator.evaluate($0, row) }
        let first = place * grouping.aggregates.count
        if let rank {
            if place == ranks.count { ranks.append(rank) } else { ranks[place] = min(ranks[place], rank) }
        }
        for index in grouping.aggregates.indices {
            if steps[index].hasArgument {
                try addValue(of: index, to: first + index) { try evaluator.evaluate($0, row) }
            } else {
                accumulators[first + index].addRow()
            }
        }
        try meter.hold(held + (grouping.keys.isEmpty ? 0 : keys.count))
    }

    /// Adds a row that stands for several with the same values: of counts and extremes.
    mutating func add(_ row: borrowing Row, _ evaluator: Evaluator, times: Int64) throws {
        let row = copy row
        let keys = try grouping.keys.map { try evaluator.evaluate($0, row) }
        let arguments = grouping.aggregates.map(\.argument)
        try addPart(keys) { index, accumulator in
            guard let argument = arguments[index] else {
                return accumulator.add(rows: times)
            }
            accumulator.add(try evaluator.evaluate(argument, row), times: times)
        }
    }

    /// Adds a document of source 0; `evaluate` computes the values that cannot be read in place.
    mutating func add(
        _ record: DocumentRecord, _ evaluate: (BoundExpression) throws -> Value?
    ) throws {
        var place = 0
        if !grouping.keys.isEmpty {
            if let bytes = inPlace?.find(in: record.document) {
                let hash = hash64(bytes)
                if let found = known.lookup(bytes, hash) {
                    place = found
                } else {
                    place = try placeByValue(evaluate)
                    known.insert(bytes, hash, place)
                }
            } else {
                place = try placeByValue(evaluate)
            }
        }
        let first = place * steps.count
        for index in steps.indices {
            guard steps[index].hasArgument else {
                accumulators[first + index].addRow()
                continue
            }
            if let cursor = steps[index].cursor {
                switch cursor._withUnsafeGuaranteedRef({ $0.find(in: record.document) }) {
                case .missing: continue
                case .value(let value):
                    if accumulators[first + index].add(inPlace: value.content) { continue }
                case .other: break
                }
            }
            try addValue(of: index, to: first + index, evaluate)
        }
        if held > 0 || !grouping.keys.isEmpty {
            try meter.hold(held + (grouping.keys.isEmpty ? 0 : keys.count))
        }
    }

    private mutating func addValue(
        of index: Int, to place: Int, _ evaluate: (BoundExpression) throws -> Value?
    ) throws {
        guard let argument = grouping.aggregates[index].argument else { return }
        let value = try evaluate(argument)
        switch value {
        case .array?, .object?: try meter.work(value)
        default: break
        }
        let before = (accumulators[place].held, accumulators[place].heldBytes)
        accumulators[place].add(value)
        held += accumulators[place].held - before.0
        let bytes = accumulators[place].heldBytes - before.1
        guard bytes != 0 else { return }
        heldBytes += bytes
        try meter.hold(bytes: heldBytes)
    }

    /// Adds a part of a group that SQL made; `add` adds its part to each aggregate.
    mutating func addPart(
        _ keys: [Value?], _ add: (_ index: Int, _ accumulator: inout Accumulator) throws -> Void
    ) throws {
        var values = keys.makeIterator()
        let first =
            grouping.keys.isEmpty ? 0 : try placeByValue { _ in values.next() ?? nil } * steps.count
        for index in steps.indices {
            let before = (accumulators[first + index].held, accumulators[first + index].heldBytes)
            try add(index, &accumulators[first + index])
            held += accumulators[first + index].held - before.0
            heldBytes += accumulators[first + index].heldBytes - before.1
        }
        try meter.hold(bytes: heldBytes)
        try meter.hold(held + (grouping.keys.isEmpty ? 0 : self.keys.count))
    }

    private mutating func newGroup(_ values: [Value?]) -> Int {
        keys.append(values)
        for aggregate in grouping.aggregates { accumulators.append(Accumulator(aggregate)) }
        return keys.count - 1
    }

    private mutating func placeByValue(_ evaluate: (BoundExpression) throws -> Value?) throws -> Int {
        var values: [Value?] = []
        var bytes = ValueKey()
        for key in grouping.keys {
            let value = try evaluate(key)
            values.append(value)
            bytes.append(value)
        }
        try meter.work(bytes: bytes.bytes.count)
        if let known = places[bytes] { return known }
        places[bytes] = keys.count
        heldBytes += 2 * bytes.bytes.count + grouping.aggregates.count * MemoryLayout<Accumulator>.stride
        try meter.hold(bytes: heldBytes)
        return newGroup(values)
    }

    /// Visits one row per group, with keys and then aggregates in its slots. Returns false when a visit
    /// ended it.
    func forEachRow(_ visit: (borrowing Row) throws -> Bool) throws -> Bool {
        let width = grouping.aggregates.count
        let order = ranks.isEmpty ? nil : keys.indices.sorted { ranks[$0] < ranks[$1] }
        for number in keys.indices {
            let place = order?[number] ?? number
            try meter.step()
            let group = accumulators[(place * width)..<((place + 1) * width)]
            for (index, one) in group.enumerated() where one.leftOut > 0 {
                meter.leftOut[grouping.keys.count + index, default: 0] += one.leftOut
            }
            let results = group.map(\.result)
            let row = Row(documents: [nil], slots: keys[place] + results, meter: meter)
            guard try visit(row) else { return false }
        }
        return true
    }
}

extension Grouping {
    /// True if keys and arguments of aggregates are fields of one source, and nothing else.
    var readsFieldsOnly: Bool {
        keys.allSatisfy { Confinement.field($0, 0) != nil }
            && aggregates.allSatisfy { $0.argument.map { Confinement.field($0, 0) != nil } ?? true }
    }
}

/// The encodings of a group's keys in a document.
private final class KeysInPlace {
    private let cursors: [FieldCursor]
    private var joined: [UInt8] = []

    /// Stands for MISSING; no value's encoding begins with it.
    private static let missing: UInt8 = 0x3F
    private static let missingAlone: StaticString = "?"

    /// nil unless every key is a field.
    init?(_ keys: [BoundExpression]) {
        cursors = keys.compactMap { DocumentTest.cursor($0, 0) }
        guard cursors.count == keys.count, !keys.isEmpty else { return nil }
    }

    /// The keys of a document, valid until the next call; nil when they have to be evaluated.
    func find(in document: DocumentReader) -> UnsafeRawBufferPointer? {
        if cursors.count == 1 {
            switch cursors[0].find(in: document) {
            case .missing: return UnsafeRawBufferPointer(start: Self.missingAlone.utf8Start, count: 1)
            case .value(let value): return value.bytes
            case .other: return nil
            }
        }
        joined.removeAll(keepingCapacity: true)
        for cursor in cursors {
            switch cursor.find(in: document) {
            case .missing: joined.append(Self.missing)
            case .value(let value): joined.append(contentsOf: value.bytes)
            case .other: return nil
            }
        }
        copy.take(joined)
        return copy.bytes
    }

    private let copy = Scratch()
}

/// Bytes at a stable address while they are looked at.
private final class Scratch {
    private var place = UnsafeMutableRawBufferPointer.allocate(byteCount: 256, alignment: 1)
    private var count = 0

    deinit { place.deallocate() }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: place[0..<count]) }

    func take(_ bytes: [UInt8]) {
        if bytes.count > place.count {
            place.deallocate()
            place = .allocate(byteCount: bytes.count * 2, alignment: 1)
        }
        place.copyBytes(from: bytes)
        count = bytes.count
    }
}

/// Groups by the encodings of their keys: an open-addressing table over one run of bytes.
struct EncodedKeys {
    private struct Entry {
        var hash: UInt64 = 0
        /// Where the entry's bytes begin; -1 marks an empty place.
        var start = -1
        var count = 0
        var place = 0
    }

    private var entries = [Entry](repeating: Entry(), count: 64)
    private var used = 0
    private var bytes: [UInt8] = []

    func lookup(_ key: UnsafeRawBufferPointer, _ hash: UInt64) -> Int? {
        let mask = entries.count - 1
        var at = Int(truncatingIfNeeded: hash) & mask
        while entries[at].start >= 0 {
            let entry = entries[at]
            if entry.hash == hash, entry.count == key.count, isEqual(entry, key) { return entry.place }
            at = (at + 1) & mask
        }
        return nil
    }

    private func isEqual(_ entry: Entry, _ key: UnsafeRawBufferPointer) -> Bool {
        bytes.withUnsafeBytes { all in
            compareBytes(UnsafeRawBufferPointer(rebasing: all[entry.start..<entry.start + entry.count]), key)
                == 0
        }
    }

    /// Adds a key that is not in the table. Beyond `DQLLimits.groupKeyBytes` it is not kept, and its group
    /// is found by its value.
    mutating func insert(_ key: UnsafeRawBufferPointer, _ hash: UInt64, _ place: Int) {
        guard bytes.count + key.count <= DQLLimits.groupKeyBytes else { return }
        if (used + 1) * 2 > entries.count { grow() }
        put(Entry(hash: hash, start: bytes.count, count: key.count, place: place))
        bytes.append(contentsOf: key)
    }

    private mutating func put(_ entry: Entry) {
        let mask = entries.count - 1
        var at = Int(truncatingIfNeeded: entry.hash) & mask
        while entries[at].start >= 0 { at = (at + 1) & mask }
        entries[at] = entry
        used += 1
    }

    private mutating func grow() {
        let old = entries
        entries = [Entry](repeating: Entry(), count: old.count * 2)
        used = 0
        for entry in old where entry.start >= 0 { put(entry) }
    }
}
