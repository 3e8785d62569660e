import CRDT

/// The meaning of a scan, value by value: stores may run scans faster, and are tested against this.
extension KeyRange {
    /// Returns whether a value (nil is MISSING) lies in the range.
    public func contains(_ value: Value?) -> Bool {
        KeyPosition.compare(lower, .before(value)) <= 0 && KeyPosition.compare(.after(value), upper) <= 0
    }
}

extension IndexRange {
    /// Returns whether an entry with these keys lies in this part of an index.
    public func contains(_ values: [Value?]) -> Bool {
        for (place, value) in equal.enumerated() where !ValueOrder.areEqual(values[place], value) {
            return false
        }
        return next?.contains(values[equal.count]) ?? true
    }
}

extension IndexDescription {
    /// Negative, zero or positive if an entry with the left keys stands before, with or after one with the
    /// right keys.
    public func compare(_ left: [Value?], _ right: [Value?]) -> Int {
        for (place, key) in keys.enumerated() {
            let order = ValueOrder.collate(left[place], right[place])
            if order != 0 { return key.isDescending ? -order : order }
        }
        return 0
    }

    /// The keys of a document; nil if it is not in the index.
    public func values(of document: DocumentReader) throws -> [Value?]? {
        let fields = FieldResolver(isStrict: false, types: [.none])
        var values: [Value?] = []
        for key in keys {
            let access = FieldAccess(
                source: 0, path: key.path, kinds: Array(repeating: nil, count: key.path.count),
                declaration: nil)
            let value = try fields.read(access, in: document)
            if value == nil, !key.includesMissing { return nil }
            values.append(value)
        }
        return values
    }
}
