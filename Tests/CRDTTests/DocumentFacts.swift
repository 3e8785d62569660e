@testable import CRDT

/// One surviving write in a document's tree, for tests that ask what a change took away or added.
struct Fact: Hashable {
    /// The path's keys as UTF-8 bytes, compared bytewise.
    let path: [[UInt8]]
    let kind: FieldKind
    let stamp: Stamp
    /// CBOR of the value, nil for the presence of a MAP.
    let content: [UInt8]?
}

extension Document {
    /// Everything that survives here, but for the increments of counters, whose entries change in place.
    var facts: Set<Fact> {
        var result = Set<Fact>()
        func add(_ path: [[UInt8]], _ kind: FieldKind, _ leaves: Leaves) {
            for leaf in leaves {
                result.insert(
                    Fact(path: path, kind: kind, stamp: leaf.stamp, content: CBOR.encode(leaf.value)))
            }
        }
        func visit(_ node: MapNode, _ path: [[UInt8]]) {
            for stamp in node.presence {
                result.insert(Fact(path: path, kind: .map, stamp: stamp, content: nil))
            }
            for field in node.fields {
                let below = path + [Array(field.key.utf8)]
                add(below, .register, field.slot.register)
                add(below, .attachment, field.slot.attachment)
                if let counter = field.slot.counter { add(below, .counter, counter.restarts) }
                if let map = field.slot.map { visit(map, below) }
            }
        }
        visit(root, [])
        return result
    }
}
