/// A MAP: the stamps that created it and the fields below.
///
/// Invariants: `presence` ascends; fields ascend by key bytes; no field is empty. `maxStamp` is derived
/// when encoding.
struct MapNode: Sendable, Equatable {
    var presence: [Stamp] = []
    var fields: [Field] = []

    /// One key and what stands under it.
    struct Field: Sendable, Equatable {
        let key: String
        var slot: Slot

        static func == (left: Field, right: Field) -> Bool {
            utf8Equal(left.key, right.key) && left.slot == right.slot
        }
    }

    /// A map is there while a write that created it survives, or anything below it does.
    var isVisible: Bool { !presence.isEmpty || !fields.isEmpty }

    subscript(key: String) -> Slot? {
        let place = position(of: key)
        return place.found ? fields[place.index].slot : nil
    }

    /// The greatest stamp in this map, its own presence included.
    var maxStamp: Stamp? {
        fields.reduce(presence.last) { greatest, field in greater(greatest, field.slot.maxStamp) }
    }

    var value: ObjectValue {
        ObjectValue(
            unique: fields.compactMap { field in field.slot.value.map { (key: field.key, value: $0) } })
    }

    /// Changes the slot under a key and drops it when nothing is left in it.
    mutating func withSlot<Result>(_ key: String, _ body: (inout Slot) -> Result) -> Result {
        let place = position(of: key)
        if !place.found { fields.insert(Field(key: key, slot: Slot()), at: place.index) }
        defer { if fields[place.index].slot.isEmpty { fields.remove(at: place.index) } }
        return body(&fields[place.index].slot)
    }

    func position(of key: String) -> (index: Int, found: Bool) {
        var low = 0
        var high = fields.count
        while low < high {
            let middle = (low + high) / 2
            let order = compareUTF8(fields[middle].key, key)
            if order == 0 { return (middle, true) }
            if order < 0 { low = middle + 1 } else { high = middle }
        }
        return (low, false)
    }
}

private func greater(_ left: Stamp?, _ right: Stamp?) -> Stamp? {
    guard let left, let right else { return left ?? right }
    return max(left, right)
}

/// Everything under one key: up to one variant of each kind (COUNTER and ATTACHMENT join in a later
/// encoding version).
struct Slot: Sendable, Equatable {
    /// A register's surviving writes, ascending by stamp; the last one shows, the others are its concurrent
    /// losers.
    var register: [Leaf] = []
    var map: MapNode?

    struct Leaf: Sendable, Equatable {
        let stamp: Stamp
        let value: Value
    }

    var isEmpty: Bool { register.isEmpty && map == nil }

    var maxStamp: Stamp? { greater(register.last?.stamp, map?.maxStamp) }

    /// The kind written most recently; a tie within one transaction goes to the later kind of `FieldKind`.
    var newestKind: FieldKind? {
        switch (register.last?.stamp, map?.maxStamp) {
        case (nil, nil): nil
        case (_?, nil): .register
        case (nil, _?): .map
        case (let leaf?, let below?): leaf > below ? .register : .map
        }
    }

    var value: Value? {
        switch newestKind {
        case .register?: register.last?.value
        case .map?: map.map { .object($0.value) }
        default: nil
        }
    }
}

/// The kinds a field can have. One key holds up to one variant of each.
public enum FieldKind: UInt8, Sendable, CaseIterable {
    /// Any value as one unit; the greatest stamp shows, concurrent losers are kept until the next write.
    case register = 0
    /// Children that are written one by one; true add-wins.
    case map = 1
    /// A sum of increments (declared in the language; written by a later version).
    case counter = 2
    /// A token that names a blob (declared in the language; written by a later version).
    case attachment = 3
}

/// Types that a statement declares for a document's fields: `features MAP(trim REGISTER)`.
public struct TypeDeclaration: Sendable, Equatable {
    /// The kind of this field.
    public let kind: FieldKind
    /// Declared children; only of a MAP.
    public let children: [(key: String, type: TypeDeclaration)]

    /// A declaration of this kind.
    public init(kind: FieldKind, children: [(key: String, type: TypeDeclaration)] = []) {
        self.kind = kind
        self.children = children
    }

    /// The declared type of a child, if any.
    public subscript(key: String) -> TypeDeclaration? { children.first { utf8Equal($0.key, key) }?.type }

    /// Same kind, same children in the same order.
    public static func == (left: TypeDeclaration, right: TypeDeclaration) -> Bool {
        left.kind == right.kind && left.children.count == right.children.count
            && zip(left.children, right.children).allSatisfy {
                utf8Equal($0.key, $1.key) && $0.type == $1.type
            }
    }
}
