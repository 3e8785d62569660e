@testable import CRDT

/// The expected content of a document, without merging anything: the oracle keeps every write that any
/// statement made, notes which operations removed it knowingly, and lets it survive under a vector exactly
/// when none of those is covered (rules 2 and 4). It reads the statements themselves; it shares no code with
/// editing, applying or merging.
///
/// Operations have numbers; a set of them is a bit mask.
struct Oracle {
    /// One thing that a statement wrote.
    struct Write {
        let path: Path
        let sort: Sort
        let stamp: Stamp
        /// The number of its operation.
        let operation: Int
        /// A value, a token or an amount; `null` for presence.
        var content: Value
        /// The operations that removed or replaced it, having seen it.
        var killers: UInt64 = 0

        func renamed(_ stamp: Stamp) -> Write {
            Write(
                path: path, sort: sort, stamp: stamp, operation: operation, content: content,
                killers: killers)
        }
    }

    /// The kind of a write. A counter has two: values it was restarted with, and amounts.
    enum Sort: UInt8 {
        case register, presence, restart, increment, attachment

        var kind: FieldKind {
            switch self {
            case .register: .register
            case .presence: .map
            case .restart, .increment: .counter
            case .attachment: .attachment
            }
        }
    }

    private(set) var writes: [Write] = []
    /// The stamps of operations, by number.
    private var stamps: [Stamp] = []
    /// The operations that each operation's author had seen, itself included, by number. Of an operation that
    /// moved to another actor only itself.
    private(set) var sights: [UInt64] = []
    /// The transaction being recorded: its number, and what its author has seen.
    private var number = 0
    private var seen: UInt64 = 0

    /// The operations that a vector covers.
    func mask(_ vector: VersionVector) -> UInt64 {
        stamps.indices.reduce(0) { mask, number in
            vector.covers(stamps[number]) ? mask | 1 << UInt64(number) : mask
        }
    }

    /// The writes that survive when exactly these operations are known.
    func surviving(_ known: UInt64) -> [Write] {
        writes.filter { known >> UInt64($0.operation) & 1 != 0 && $0.killers & known == 0 }
    }

    /// Gives an operation another stamp, with everything it did.
    mutating func rename(_ old: Stamp, to new: Stamp) {
        guard let number = stamps.firstIndex(of: old) else { return }
        stamps[number] = new
        sights[number] = 1 << UInt64(number)
        for index in writes.indices where writes[index].operation == number {
            writes[index] = writes[index].renamed(new)
        }
    }

    // A transaction, statement by statement.

    /// Begins the operation of a stamp, written by someone who had seen what the vector covers.
    mutating func begin(_ stamp: Stamp, seeing vector: VersionVector) {
        seen = mask(vector)
        number = stamps.count
        precondition(number < 63, "more operations than a mask holds")
        stamps.append(stamp)
        seen |= 1 << UInt64(number)
        sights.append(seen)
    }

    /// True if the operation under way has written or removed anything.
    var hasEffect: Bool {
        writes.contains { $0.operation == number || $0.killers >> UInt64(number) & 1 != 0 }
    }

    /// Takes a statement in, and what the editor says that it did with a seed.
    mutating func perform(_ edit: Edit, _ seeding: Edit.SeedOutcome) {
        switch edit {
        case .create: writePresence(.root)
        case .delete: kill { _ in true }
        case .set(let keys, let value, let declared, let isStrict):
            createMaps(above: keys)
            put(Path(keys), value, declared, isStrict)
        case .unset(let keys, let kind):
            let path = Path(keys)
            for each in kind.map({ [$0] }) ?? FieldKind.allCases { kill(each, at: path) }
        case .increment(let keys, let amount):
            createMaps(above: keys)
            increment(Path(keys), by: amount)
        case .restart(let keys, let value):
            createMaps(above: keys)
            restart(Path(keys), with: value)
        case .seed(let value, let declared):
            seed(value.objectValue ?? ObjectValue(), declared, seeding)
        }
    }

    private func isVisible(_ write: Write) -> Bool {
        seen >> UInt64(write.operation) & 1 != 0 && write.killers & seen == 0
    }

    private mutating func kill(where isHit: (Write) -> Bool) {
        for index in writes.indices.reversed() where isVisible(writes[index]) && isHit(writes[index]) {
            if writes[index].operation == number {
                writes.remove(at: index)
            } else {
                writes[index].killers |= 1 << UInt64(number)
            }
        }
    }

    private mutating func kill(_ kind: FieldKind, at path: Path) {
        kill { Oracle.belongs($0, to: kind, at: path) }
    }

    /// A MAP is its presence and everything beneath, whatever its kind.
    private static func belongs(_ write: Write, to kind: FieldKind, at path: Path) -> Bool {
        if write.path == path { return write.sort.kind == kind }
        return kind == .map && path.isPrefix(of: write.path)
    }

    private mutating func add(_ path: Path, _ sort: Sort, _ content: Value = .null) {
        settleTie(sort.kind, at: path)
        writes.append(
            Write(path: path, sort: sort, stamp: stamps[number], operation: number, content: content))
    }

    /// Two kinds under one key with one stamp: the later in `FieldKind`'s order would show. So a transaction
    /// that wrote that one before and now writes another removes it whole.
    private mutating func settleTie(_ kind: FieldKind, at path: Path) {
        for other in FieldKind.allCases where other.rawValue > kind.rawValue {
            let isOwn = writes.contains {
                $0.operation == number && Oracle.belongs($0, to: other, at: path) && isVisible($0)
            }
            if isOwn { kill(other, at: path) }
        }
    }

    private mutating func writePresence(_ path: Path) {
        kill { $0.sort == .presence && $0.path == path }
        add(path, .presence)
    }

    private func hasMap(_ path: Path) -> Bool {
        writes.contains { Oracle.belongs($0, to: .map, at: path) && isVisible($0) }
    }

    /// Maps on the way to a field are created where there are none; existing ones are left alone.
    private mutating func createMaps(above keys: [String]) {
        var path = Path.root
        for key in keys.dropLast() {
            path = path.appending(key)
            if hasMap(path) { settleTie(.map, at: path) } else { writePresence(path) }
        }
    }

    private mutating func put(_ path: Path, _ value: Value, _ declared: TypeDeclaration?, _ isStrict: Bool) {
        switch Oracle.kind(of: value, declared, isStrict) {
        case .register:
            kill(.register, at: path)
            add(path, .register, value)
        case .attachment:
            kill(.attachment, at: path)
            add(path, .attachment, Oracle.token(value))
        case .counter: restart(path, with: value)
        case .map:
            let members = value.objectValue ?? ObjectValue()
            if !hasMap(path) || members.isEmpty { writePresence(path) } else { settleTie(.map, at: path) }
            for member in members.entries {
                put(path.appending(member.key), member.value, declared?[member.key], isStrict)
            }
        }
    }

    private static func kind(of value: Value, _ declared: TypeDeclaration?, _ isStrict: Bool) -> FieldKind {
        if let declared { return declared.kind }
        guard !isStrict, case .object = value else { return .register }
        return value[AttachmentToken.marker] == nil ? .map : .attachment
    }

    /// A token as reads give it: without the marker, always with metadata.
    private static func token(_ value: Value) -> Value {
        var token = (value[AttachmentToken.marker] ?? value).objectValue ?? ObjectValue()
        token["metadata"] = token["metadata"] ?? [:]
        return .object(token)
    }

    private mutating func restart(_ path: Path, with value: Value) {
        kill(.counter, at: path)
        add(path, .restart, value)
    }

    private mutating func increment(_ path: Path, by amount: Value) {
        let earlier = writes.firstIndex {
            $0.operation == number && $0.sort == .increment && $0.path == path
        }
        guard let earlier else { return add(path, .increment, amount) }
        writes[earlier].content = Amount.sum(writes[earlier].content, amount)
        settleTie(.counter, at: path)
    }

    /// A seed is an operation of its own, at the beginning of time and on nothing; whoever writes it has
    /// seen it from then on.
    ///
    /// Within a transaction that has edited the document before, it is besides a regular insert that has
    /// seen the seed.
    private mutating func seed(
        _ value: ObjectValue, _ declared: TypeDeclaration?, _ seeding: Edit.SeedOutcome
    ) {
        switch seeding {
        case .nothing: break
        case .initial(let stamp): writeSeed(value, declared, stamp)
        case .regular(let stamp):
            if let stamp { writeSeed(value, declared, stamp) }
            kill { _ in true }
            insert(value, declared)
        }
    }

    private mutating func writeSeed(_ value: ObjectValue, _ declared: TypeDeclaration?, _ stamp: Stamp) {
        let known = stamps.firstIndex(of: stamp)
        if known == nil {
            let transaction = (number, seen)
            begin(stamp, seeing: VersionVector())
            insert(value, declared)
            (number, seen) = transaction
        }
        seen |= 1 << UInt64(known ?? stamps.count - 1)
    }

    private mutating func insert(_ value: ObjectValue, _ declared: TypeDeclaration?) {
        writePresence(.root)
        for member in value.entries {
            put(Path.root.appending(member.key), member.value, declared?[member.key], false)
        }
    }
}
