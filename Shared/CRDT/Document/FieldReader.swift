/// Everything under one key, read in place.
public struct FieldReader {
    /// The kind written most recently.
    public let newestKind: FieldKind?

    private let head: UInt8
    private let bytes: UnsafeRawBufferPointer
    /// The place of each variant, after its length; 0 when it does not exist.
    private let registerPlace: Int
    private let mapPlace: Int
    private let counterPlace: Int
    private let attachmentPlace: Int
    /// True if the ATTACHMENT under this key was written after the REGISTER.
    private let attachmentIsNewer: Bool

    /// `inherited` is the greatest stamp of the map around the field, as an index plus one.
    init(_ start: ByteReader, inherited: Int) throws(CRDTError) {
        var reader = start
        let head = try reader.byte()
        var places = (register: 0, map: 0, counter: 0, attachment: 0)
        var stamps = (register: 0, attachment: 0)
        var newest: (kind: FieldKind, stamp: Int)?
        func note(_ kind: FieldKind, _ stamp: Int) {
            // Kinds are read in ascending order, and the later kind wins a tie.
            if stamp > 0, newest.map({ $0.stamp <= stamp }) ?? true { newest = (kind, stamp) }
        }
        if head & SlotBits.register != 0 {
            places.register = reader.place
            if head & SlotBits.kinds == SlotBits.register {
                newest = (.register, 1)
            } else {
                stamps.register = try reader.skipLeaves(head & SlotBits.ofRegister, inherited)
                note(.register, stamps.register)
            }
        }
        if head & SlotBits.map != 0 {
            let length = try reader.count()
            places.map = reader.place
            var inside = reader
            note(.map, try inside.greatestOfMap())
            _ = try reader.run(length)
        }
        if head & SlotBits.counter != 0 {
            let length = try reader.count()
            places.counter = reader.place
            var inside = reader
            note(.counter, try inside.stampIndex())
            _ = try reader.run(length)
        }
        if head & SlotBits.attachment != 0 {
            places.attachment = reader.place
            stamps.attachment = try reader.skipLeaves(head & SlotBits.ofAttachment, inherited)
            note(.attachment, stamps.attachment)
        }
        self.head = head
        bytes = reader.bytes
        registerPlace = places.register
        mapPlace = places.map
        counterPlace = places.counter
        attachmentPlace = places.attachment
        newestKind = newest?.kind
        attachmentIsNewer = places.attachment > 0 && stamps.attachment >= stamps.register
    }

    /// The MAP variant; nil when there is none or it is invisible.
    public func map() throws(CRDTError) -> MapReader? {
        guard mapPlace > 0 else { return nil }
        let map = try MapReader(ByteReader(bytes, at: mapPlace))
        return map.isVisible ? map : nil
    }

    /// The REGISTER variant's value with the greatest stamp; nil when there is none.
    public func register() throws(CRDTError) -> Value? {
        try newestLeaf(registerPlace, SlotBits.ofRegister)
    }

    /// The UTF-8 bytes of `register`'s value if it is a text, in place; else nil. For comparisons that need
    /// no string.
    public func registerText() throws(CRDTError) -> UnsafeRawBufferPointer? {
        guard registerPlace > 0 else { return nil }
        var reader = try newestLeafReader(registerPlace, SlotBits.ofRegister)
        return try reader.textInPlace()
    }

    /// The ATTACHMENT variant's token with the greatest stamp; nil when there is none.
    public func attachment() throws(CRDTError) -> Value? {
        try newestLeaf(attachmentPlace, SlotBits.ofAttachment)
    }

    /// The COUNTER variant's value; nil when there is none or it is invisible.
    public func counter() throws(CRDTError) -> Value? {
        guard counterPlace > 0 else { return nil }
        var reader = ByteReader(bytes, at: counterPlace)
        guard try reader.stampIndex() > 0 else { return nil }
        var restart: Value?
        for _ in 0..<(try reader.count(unit: 2)) {
            _ = try reader.varint()
            restart = try reader.number()
        }
        var sum = CounterSum(start: restart)
        for _ in 0..<(try reader.count(unit: 2)) {
            let form = try reader.varint() & 3
            let total = try reader.number()
            switch form {
            case EntryForm.seenBefore, EntryForm.newSum:
                _ = try reader.varint()
                let before = try reader.number()
                sum.add(form == EntryForm.newSum ? total : CounterSum.difference(total, before))
            case EntryForm.seen: break
            default: sum.add(total)
            }
        }
        return sum.value
    }

    /// The concurrent values of the REGISTER or of the ATTACHMENT, whichever was written last, greatest stamp
    /// first (see `Document.conflicts(at:)`).
    public func conflicts() throws(CRDTError) -> [Value] {
        attachmentIsNewer
            ? try leaves(attachmentPlace, SlotBits.ofAttachment)
            : try leaves(registerPlace, SlotBits.ofRegister)
    }

    /// The values of the ATTACHMENT that no later write has observed, greatest stamp first.
    func attachments() throws(CRDTError) -> [Value] { try leaves(attachmentPlace, SlotBits.ofAttachment) }

    /// The value of one kind, or of the newest kind when nil. Nil when that variant does not exist.
    public func value(_ kind: FieldKind? = nil) throws(CRDTError) -> Value? { try value(kind, depth: 0) }

    func value(_ kind: FieldKind?, depth: Int) throws(CRDTError) -> Value? {
        switch kind ?? newestKind {
        case .register?: try register()
        case .map?: try map().map { (map) throws(CRDTError) in .object(try map.value(depth: depth + 1)) }
        case .counter?: try counter()
        case .attachment?: try attachment()
        case nil: nil
        }
    }
}

extension FieldReader {
    private func newestLeaf(_ place: Int, _ flags: UInt8) throws(CRDTError) -> Value? {
        guard place > 0 else { return nil }
        var reader = try newestLeafReader(place, flags)
        return try reader.value(depth: 0)
    }

    /// A reader at the value with the greatest stamp.
    private func newestLeafReader(_ place: Int, _ flags: UInt8) throws(CRDTError) -> ByteReader {
        var reader = ByteReader(bytes, at: place)
        let number = head & flags & SlotBits.several != 0 ? try reader.count(unit: 2) : 1
        let inherits = head & flags & SlotBits.inherits != 0
        for index in 0..<number {
            if !inherits { _ = try reader.varint() }
            if index + 1 < number { try reader.skipValue() }
        }
        return reader
    }

    private func leaves(_ place: Int, _ flags: UInt8) throws(CRDTError) -> [Value] {
        guard place > 0 else { return [] }
        var reader = ByteReader(bytes, at: place)
        let number = head & flags & SlotBits.several != 0 ? try reader.count(unit: 2) : 1
        let inherits = head & flags & SlotBits.inherits != 0
        var values: [Value] = []
        for _ in 0..<number {
            if !inherits { _ = try reader.varint() }
            values.append(try reader.value(depth: 0))
        }
        return values.reversed()
    }
}

extension ByteReader {
    /// Steps over the values of a field with the flags of its kind; returns the greatest stamp as an index
    /// plus one.
    fileprivate mutating func skipLeaves(_ flags: UInt8, _ inherited: Int) throws(CRDTError) -> Int {
        let number = flags & SlotBits.several != 0 ? try count(unit: 2) : 1
        var greatest = inherited
        for _ in 0..<number {
            if flags & SlotBits.inherits == 0 { greatest = try stampIndex() + 1 }
            try skipValue()
        }
        return greatest
    }

    /// An index into a stamp table that is not at hand. Any number is accepted that can be compared and
    /// raised by one.
    mutating func stampIndex() throws(CRDTError) -> Int {
        guard let index = Int(exactly: try varint()), index < Int.max else {
            throw .malformed("an index is out of range", at: place)
        }
        return index
    }
}
