/// Reads `YYYY-MM-DD hh:mm:ss.sss TZD`: known runs of letters; everything else is literal.
enum LetterFormatParser {
    private static let words: [(letters: [UInt8], item: DateFormat.Item)] = [
        (Array("YYYY".utf8), .year), (Array("YY".utf8), .shortYear), (Array("MM".utf8), .month),
        (Array("DD".utf8), .day), (Array("hh".utf8), .hour), (Array("HH".utf8), .hourOfHalf),
        (Array("mm".utf8), .minute), (Array("PP".utf8), .half(isUpper: true)),
        (Array("pp".utf8), .half(isUpper: false)), (Array("TZD".utf8), .offset(hasColon: true)),
        (Array("TZN".utf8), .zoneName),
    ]

    static func items(_ text: [UInt8]) -> [DateFormat.Item] {
        var items: [DateFormat.Item] = []
        var place = 0
        while place < text.count {
            let rest = text[place...]
            let word = words.first { $0.letters[0] == text[place] && rest.starts(with: $0.letters) }
            if let word {
                items.append(word.item)
                place += word.letters.count
                continue
            }
            let run = rest.prefix { $0 == UInt8(ascii: "s") }.count
            let isAfterPoint = items.last == .literal(0x2E) || items.last == .literal(0x2C)
            let isFraction = run > 2 || run > 0 && isAfterPoint && items.dropLast().last == .second
            if isFraction {
                items.append(.fraction(min(run, 9)))
                place += run
            } else if run == 2 {
                items.append(.second)
                place += run
            } else {
                items.append(.literal(text[place]))
                place += 1
            }
        }
        return items
    }
}

/// Reads `%Y-%m-%d %H:%M:%S`: the common part of `strftime` and its relatives.
struct PercentFormatParser {
    let scalars: [Unicode.Scalar]
    private var place = 0

    init(scalars: [Unicode.Scalar]) { self.scalars = scalars }

    private static let items: [Unicode.Scalar: [DateFormat.Item]] = [
        "Y": [.year], "y": [.shortYear], "m": [.month], "d": [.day], "e": [.paddedDay], "H": [.hour],
        "I": [.hourOfHalf], "M": [.minute], "S": [.second], "L": [.fraction(3)], "f": [.fraction(9)],
        "p": [.half(isUpper: true)], "P": [.half(isUpper: false)], "z": [.offset(hasColon: false)],
        "Z": [.zoneName], "B": [.monthName(isShort: false)], "b": [.monthName(isShort: true)],
        "h": [.monthName(isShort: true)], "A": [.weekdayName(isShort: false)],
        "a": [.weekdayName(isShort: true)], "j": [.dayOfYear], "u": [.weekday(fromSunday: false)],
        "w": [.weekday(fromSunday: true)], "s": [.seconds], "+": [.iso], "%": [.literal(0x25)],
        "n": [.literal(0x0A)], "t": [.literal(0x09)],
        "F": [.year, .literal(0x2D), .month, .literal(0x2D), .day],
        "D": [.month, .literal(0x2F), .day, .literal(0x2F), .shortYear],
        "T": [.hour, .literal(0x3A), .minute, .literal(0x3A), .second],
        "R": [.hour, .literal(0x3A), .minute],
    ]

    /// Nil for a `%` that begins no known directive.
    mutating func items() -> [DateFormat.Item]? {
        var items: [DateFormat.Item] = []
        while let scalar = next() {
            guard scalar == "%" else {
                items += String(scalar).utf8.map { .literal($0) }
                continue
            }
            guard let item = directive() else { return nil }
            items += item
        }
        return items
    }

    private mutating func next() -> Unicode.Scalar? {
        guard place < scalars.count else { return nil }
        place += 1
        return scalars[place - 1]
    }

    private mutating func directive() -> [DateFormat.Item]? {
        switch next() {
        case ":": return next() == "z" ? [.offset(hasColon: true)] : nil
        case ".":
            guard let items = digits(next()) else { return nil }
            return [.literal(0x2E)] + items
        case let scalar?: return digits(scalar) ?? Self.items[scalar]
        case nil: return nil
        }
    }

    /// `3f`: this many digits of the fraction.
    private mutating func digits(_ scalar: Unicode.Scalar?) -> [DateFormat.Item]? {
        guard let scalar, 0x31...0x39 ~= scalar.value, next() == "f" else { return nil }
        return [.fraction(Int(scalar.value - 0x30))]
    }
}

/// Reading dates by a format.
extension DateFormat {
    /// The moment that a text gives: nil if it is written differently, or the time does not exist. Parts
    /// missing from the format come from 1970-01-01T00:00Z.
    func parse(_ text: String, _ rules: (any TimeZoneRules)?) -> Moment? {
        if items == [.iso] { return Moment(iso: text) }
        var parser = FormattedDateParser(reader: DateReader(text))
        for item in items {
            guard parser.read(item) else { return nil }
        }
        return parser.reader.isAtEnd ? parser.moment(rules) : nil
    }
}

private struct FormattedDateParser {
    var reader: DateReader
    private var civil = CivilTime()
    private var isAfternoon: Bool?
    private var dayOfYear: Int?
    private var seconds: Int64?
    private var zone = Zone.fixed(0)

    init(reader: DateReader) { self.reader = reader }

    func moment(_ rules: (any TimeZoneRules)?) -> Moment? {
        var civil = civil
        if let isAfternoon {
            guard 1...12 ~= civil.hour else { return nil }
            civil.hour = civil.hour % 12 + (isAfternoon ? 12 : 0)
        }
        if let seconds { civil = CivilTime(seconds * 1_000) }
        guard civil.isValid else { return nil }
        var local = civil.milliseconds
        if let dayOfYear, seconds == nil {
            guard 1...(CivilTime.isLeap(civil.year) ? 366 : 365) ~= dayOfYear else { return nil }
            local += Int64(dayOfYear - 1) * CivilTime.millisecondsPerDay
        }
        guard let instant = zone.instant(of: local, rules) else { return nil }
        return Moment(instant, offset: Int((local - instant) / 1_000))
    }

    mutating func read(_ item: DateFormat.Item) -> Bool {
        switch item {
        case .literal(let byte): return reader.take(byte)
        case .year: return set(\.year, reader.year())
        case .shortYear: return set(\.year, reader.number(2...2).map { $0 + ($0 < 69 ? 2_000 : 1_900) })
        case .month: return set(\.month, reader.number(2...2))
        case .day: return set(\.day, reader.number(2...2))
        case .paddedDay:
            _ = reader.take(" ")
            return set(\.day, reader.number(1...2))
        case .hour, .hourOfHalf: return set(\.hour, reader.number(2...2))
        case .minute: return set(\.minute, reader.number(2...2))
        case .second: return set(\.second, reader.number(2...2))
        case .fraction: return set(\.millisecond, reader.fraction())
        case .monthName(let isShort): return set(\.month, word(DateFormat.months, isShort).map { $0 + 1 })
        case .weekdayName(let isShort): return word(DateFormat.weekdays, isShort) != nil
        default: return readOther(item)
        }
    }

    private mutating func readOther(_ item: DateFormat.Item) -> Bool {
        switch item {
        case .half:
            guard let half = reader.word(["AM", "PM"]) else { return false }
            isAfternoon = half == 1
        case .offset:
            guard let offset = reader.offset() else { return false }
            zone = .fixed(offset)
        case .zoneName:
            guard let name = reader.zoneName() else { return false }
            zone = Zone(name)
        case .dayOfYear:
            dayOfYear = reader.number(3...3)
            return dayOfYear != nil
        case .weekday: return reader.number(1...1) != nil
        case .seconds:
            let isNegative = reader.take("-")
            seconds = reader.number(1...12).map { Int64(isNegative ? -$0 : $0) }
            return seconds != nil
        case .iso:
            guard let written = reader.isoTime(), let offset = reader.offset() else { return false }
            civil = written
            zone = .fixed(offset)
        default: preconditionFailure("every item is read")
        }
        return true
    }

    private mutating func set(_ field: WritableKeyPath<CivilTime, Int>, _ value: Int?) -> Bool {
        guard let value else { return false }
        civil[keyPath: field] = value
        return true
    }

    private mutating func word(_ names: [String], _ isShort: Bool) -> Int? {
        reader.word(isShort ? names.map { String($0.prefix(3)) } : names)
    }
}
