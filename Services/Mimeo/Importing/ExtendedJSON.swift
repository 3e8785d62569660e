import CRDT

/// MongoDB's extended JSON, version 2 and its older forms: objects with a key such as `$oid` for values that
/// JSON lacks.
enum ExtendedJSON {
    /// An object that begins like a value of extended JSON and is none.
    struct Problem: Error { var message: String }

    /// The first key of extended JSON in a value; nil if there is none.
    static func firstKey(_ value: Value) -> String? {
        switch value {
        case .array(let elements): return elements.lazy.compactMap(firstKey).first
        case .object(let object):
            if let key = key(of: object) { return key }
            return object.entries.lazy.compactMap { firstKey($0.value) }.first
        default: return nil
        }
    }

    /// The value with plain values instead: texts, numbers, null. Everything else stays.
    static func plain(_ value: Value) throws(Problem) -> Value {
        switch value {
        case .array(let elements):
            var plains: [Value] = []
            for element in elements { plains.append(try plain(element)) }
            return .array(plains)
        case .object(let object):
            if let key = key(of: object) { return try wrapped(key, object) }
            var entries: [ObjectValue.Entry] = []
            for entry in object.entries { entries.append((key: entry.key, value: try plain(entry.value))) }
            return .object(ObjectValue(unique: entries))
        default: return value
        }
    }

    /// Each key, with the key that may stand beside it in older forms.
    private static let keys: [String: String?] = [
        "$oid": nil, "$date": nil, "$numberInt": nil, "$numberLong": nil, "$numberDouble": nil,
        "$numberDecimal": nil, "$binary": "$type", "$uuid": nil, "$timestamp": nil, "$regularExpression": nil,
        "$regex": "$options", "$symbol": nil, "$code": "$scope", "$undefined": nil, "$minKey": nil,
        "$maxKey": nil,
    ]

    /// The key that makes an object a value of extended JSON; nil for an object with other members too.
    private static func key(of object: ObjectValue) -> String? {
        guard object.count <= 2 else { return nil }
        for entry in object.entries {
            guard let companion = keys[entry.key] else { continue }
            let isWhole = object.entries.allSatisfy { $0.key == entry.key || $0.key == companion }
            return isWhole ? entry.key : nil
        }
        return nil
    }

    private static func wrapped(_ key: String, _ object: ObjectValue) throws(Problem) -> Value {
        let content = object[key] ?? .null
        let plain: Value? =
            switch key {
            case "$oid", "$uuid", "$symbol", "$code": content.stringValue.map(Value.string)
            case "$numberInt", "$numberLong": integer(content).map(Value.int)
            case "$numberDouble", "$numberDecimal": decimal(content)
            case "$date": date(content)
            case "$binary":
                (content["base64"] ?? content).stringValue.map(Value.string)
            case "$timestamp": content.objectValue.map(Value.object)
            case "$regularExpression": pattern(content["pattern"], content["options"])
            case "$regex": pattern(content, object["$options"])
            case "$undefined": .null
            default: .string(key)
            }
        guard let plain else {
            let text = ImportNotes.cut(JSONText.print(.object(object)))
            throw Problem(message: "\(text) begins like extended JSON and is none")
        }
        return plain
    }

    private static func integer(_ content: Value) -> Int64? {
        content.intValue ?? content.stringValue.flatMap { Int64($0) }
    }

    /// A number if its digits survive, otherwise its text: decimals may have 34 digits, doubles be infinite.
    private static func decimal(_ content: Value) -> Value? {
        switch content {
        case .int, .double: return content
        case .string(let text):
            guard let number = Double(text) else { return nil }
            switch NumberText(text) {
            case .decimal(let exact): return .double(exact)
            case .integer(let exact) where Int64(exactly: Double(exact)) == exact:
                return .double(Double(exact))
            default: return number.isFinite && number.description == text ? .double(number) : .string(text)
            }
        default: return nil
        }
    }

    /// A time as text: RFC 3339 in UTC, as the older forms have it already.
    private static func date(_ content: Value) -> Value? {
        if let text = content.stringValue { return .string(text) }
        guard let milliseconds = content.intValue ?? content["$numberLong"].flatMap(integer) else {
            return nil
        }
        let (days, rest) = milliseconds.quotientAndRemainder(dividingBy: 86_400_000)
        let (day, time) = rest < 0 ? (days - 1, rest + 86_400_000) : (days, rest)
        guard let (year, month, dayOfMonth) = civil(day) else { return .int(milliseconds) }
        func two(_ number: Int64) -> String { (number < 10 ? "0" : "") + String(number) }
        func padded(_ number: Int64, _ width: Int) -> String {
            String(repeating: "0", count: max(0, width - String(number).count)) + String(number)
        }
        let clock = [time / 3_600_000, time / 60_000 % 60, time / 1_000 % 60].map(two).joined(separator: ":")
        let fraction = time % 1_000 == 0 ? "" : ".\(padded(time % 1_000, 3))"
        return .string("\(padded(year, 4))-\(two(month))-\(two(dayOfMonth))T\(clock)\(fraction)Z")
    }

    /// Year, month and day of a day since 1970, in the Gregorian calendar; nil outside of years 0 to 9999.
    private static func civil(_ day: Int64) -> (Int64, Int64, Int64)? {
        guard (-719_528...2_932_896).contains(day) else { return nil }
        // Years begin on the first of March, so that leap days end them.
        let shifted = day + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }

    private static func pattern(_ pattern: Value?, _ options: Value?) -> Value? {
        guard let text = pattern?.stringValue else { return nil }
        return .string("/\(text)/\(options?.stringValue ?? "")")
    }
}
