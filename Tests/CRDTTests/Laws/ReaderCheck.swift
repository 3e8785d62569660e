@testable import CRDT

/// Holds what is read in place against the decoded tree: every visible field, as every kind.
enum ReaderCheck {
    static func check(_ bytes: [UInt8], _ document: Document) throws {
        try bytes.withUnsafeBytes { raw in
            let reader = try DocumentReader(raw)
            try require(reader.isLive == document.isLive, "live in place is another")
            try require(try reader.vector() == document.vector, "the vector in place is another")
            try compare(reader.root, document.root)
        }
    }

    private static func compare(_ reader: MapReader, _ node: MapNode) throws {
        var visible = node.fields.filter { $0.slot.isVisible }[...]
        var fields: [(String, FieldReader)] = []
        try reader.forEach { key, field in fields.append((key, field)) }
        for (key, field) in fields {
            guard let expected = visible.popFirst(), utf8Equal(expected.key, key) else {
                throw Broken("the field \(key) is read in place alone")
            }
            let slot = expected.slot
            try require(field.newestKind == slot.newestKind, "another newest kind of \(key) in place")
            try require(try field.register() == slot.register.last?.value, "another register \(key) in place")
            try require(
                try field.attachment() == slot.attachment.last?.value, "another attachment \(key) in place")
            try require(
                try field.counter() == slot.value(of: .counter), "another counter \(key) in place")
            try require(try field.conflicts() == slot.conflicts, "other conflicts at \(key) in place")
            let map = try field.map()
            try require((map != nil) == slot.holds(.map), "another map \(key) in place")
            if let map, let below = slot.map { try compare(map, below) }
            try require(
                try reader.field(key)?.newestKind == slot.newestKind,
                "\(key) is not found in place")
        }
        try require(visible.isEmpty, "\(visible.count) fields are missing in place")
    }
}
