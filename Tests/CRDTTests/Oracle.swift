@testable import CRDT

/// What a document should hold, worked out without merging anything: the oracle keeps every operation,
/// flattened into primitive writes and removals, and lets a write survive under a vector exactly when no
/// covered removal has observed it (rules 2 and 4). It shares no code with `MapNode` or `Merge`.
struct Oracle {
    /// A path as UTF-8 bytes, compared bytewise.
    typealias Path = [[UInt8]]

    /// One surviving write: presence of a MAP (no content) or a value of a REGISTER.
    struct Fact: Hashable {
        let path: Path
        let stamp: Stamp
        /// CBOR of a register's value, nil for presence.
        let content: [UInt8]?
    }

    private struct Write {
        let fact: Fact
        let value: Value?
        /// The stamps of the removals that observed it.
        var killers: [Stamp] = []
    }

    private enum Removal {
        case register(Path)
        case presence(Path)
        case tree(Path)

        func hits(_ fact: Fact) -> Bool {
            switch self {
            case .register(let path): fact.content != nil && fact.path == path
            case .presence(let path): fact.content == nil && fact.path == path
            case .tree(let path):
                fact.path.starts(with: path) && (fact.content == nil || fact.path.count > path.count)
            }
        }
    }

    private var writes: [Write] = []

    /// Takes an operation in. Operations arrive in an order in which no one precedes what it observed.
    mutating func record(_ delta: Delta) {
        var removals: [Removal] = []
        var added: [Write] = []
        Self.flatten(delta.root, at: [], delta.stamp, &removals, &added)
        for index in writes.indices where delta.base.covers(writes[index].fact.stamp) {
            let isHit = removals.contains { $0.hits(writes[index].fact) }
            if isHit { writes[index].killers.append(delta.stamp) }
        }
        writes += added
    }

    /// What survives under a vector.
    func facts(under vector: VersionVector) -> Set<Fact> { Set(surviving(under: vector).map(\.fact)) }

    /// What a reader without declared types sees under a vector.
    func value(under vector: VersionVector) -> Value {
        .object(Self.object(surviving(under: vector), below: []))
    }

    private func surviving(under vector: VersionVector) -> [Write] {
        writes.filter { write in
            vector.covers(write.fact.stamp) && !write.killers.contains { vector.covers($0) }
        }
    }

    private static func flatten(
        _ edit: MapEdit, at path: Path, _ stamp: Stamp, _ removals: inout [Removal], _ writes: inout [Write]
    ) {
        if edit.clears { removals.append(.tree(path)) }
        if edit.writesPresence {
            removals.append(.presence(path))
            writes.append(Write(fact: Fact(path: path, stamp: stamp, content: nil), value: nil))
        }
        for field in edit.fields {
            let below = path + [Array(field.key.utf8)]
            if field.slot.clearsRegister || field.slot.register != nil { removals.append(.register(below)) }
            if let value = field.slot.register {
                let fact = Fact(path: below, stamp: stamp, content: CBOR.encode(value))
                writes.append(Write(fact: fact, value: value))
            }
            if let map = field.slot.map { flatten(map, at: below, stamp, &removals, &writes) }
        }
    }

    private static func object(_ writes: [Write], below path: Path) -> ObjectValue {
        let inside = writes.filter { $0.fact.path.count > path.count }
        let groups = Dictionary(grouping: inside) { $0.fact.path[path.count] }
        return ObjectValue(
            groups.map { key, group in
                (key: String(decoding: key, as: UTF8.self), value: value(group, at: path + [key]))
            })
    }

    private static func value(_ writes: [Write], at path: Path) -> Value {
        let register = writes.filter { $0.fact.content != nil && $0.fact.path == path }
            .max { $0.fact.stamp < $1.fact.stamp }
        let map = writes.filter { $0.fact.content == nil || $0.fact.path != path }
        let newestBelow = map.map(\.fact.stamp).max()
        if let register, let value = register.value, newestBelow.map({ $0 < register.fact.stamp }) ?? true {
            return value
        }
        return .object(object(map, below: path))
    }
}

extension Document {
    /// The same facts, read out of the tree.
    var facts: Set<Oracle.Fact> {
        var result = Set<Oracle.Fact>()
        func visit(_ node: MapNode, _ path: Oracle.Path) {
            for stamp in node.presence { result.insert(.init(path: path, stamp: stamp, content: nil)) }
            for field in node.fields {
                let below = path + [Array(field.key.utf8)]
                for leaf in field.slot.register {
                    result.insert(.init(path: below, stamp: leaf.stamp, content: CBOR.encode(leaf.value)))
                }
                if let map = field.slot.map { visit(map, below) }
            }
        }
        visit(root, [])
        return result
    }
}
