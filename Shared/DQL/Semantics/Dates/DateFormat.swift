/// A prepared format of dates. Two spellings: `YYYY-MM-DD hh:mm:ss.sss TZD`, and `%Y-%m-%d` wherever a `%`
/// occurs. The empty format is ISO 8601.
struct DateFormat: Equatable, Sendable {
    enum Item: Equatable, Sendable {
        case literal(UInt8)
        case year
        /// The last two digits; 69 to 99 belong to the last century.
        case shortYear
        case month
        case day
        /// A blank replaces a leading zero.
        case paddedDay
        case hour
        /// 1 to 12.
        case hourOfHalf
        case minute
        case second
        /// This many digits of a second's fraction, 1 to 9.
        case fraction(Int)
        case half(isUpper: Bool)
        /// `+02:00`, or `+0200` without the colon.
        case offset(hasColon: Bool)
        case zoneName
        case monthName(isShort: Bool)
        case weekdayName(isShort: Bool)
        /// Three digits, from 1.
        case dayOfYear
        /// Monday 1 to Sunday 7, or Sunday 0 to Saturday 6.
        case weekday(fromSunday: Bool)
        /// Seconds since 1970.
        case seconds
        /// The complete time in ISO 8601.
        case iso
    }

    let items: [Item]

    /// Nil for a `%` that begins no known directive.
    init?(_ text: String) {
        if text.isEmpty {
            items = [.iso]
        } else if text.utf8.contains(UInt8(ascii: "%")) {
            var parser = PercentFormatParser(scalars: Array(text.unicodeScalars))
            guard let items = parser.items() else { return nil }
            self.items = items
        } else {
            items = LetterFormatParser.items(Array(text.utf8))
        }
    }

    static let months = [
        "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
        "November", "December",
    ]
    static let weekdays = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

    // MARK: Printing

    /// - Parameter zoneName: the name of the clocks' zone, if it is known.
    func print(_ moment: Moment, zoneName: String?) -> String {
        let civil = moment.civil
        var text: [UInt8] = []
        for item in items {
            if case .literal(let byte) = item {
                text.append(byte)
            } else {
                text.append(contentsOf: Self.print(item, civil, moment, zoneName).utf8)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    private static func print(
        _ item: Item, _ civil: CivilTime, _ moment: Moment, _ zoneName: String?
    ) -> String {
        switch item {
        case .literal: ""
        case .year: year(civil.year)
        case .shortYear: padded(civil.year.flooringRemainder(by: 100), 2)
        case .month: padded(civil.month, 2)
        case .day: padded(civil.day, 2)
        case .paddedDay: civil.day < 10 ? " \(civil.day)" : "\(civil.day)"
        case .hour: padded(civil.hour, 2)
        case .hourOfHalf: padded((civil.hour + 11) % 12 + 1, 2)
        case .minute: padded(civil.minute, 2)
        case .second: padded(civil.second, 2)
        case .fraction(let digits): String((padded(civil.millisecond, 3) + "000000").prefix(digits))
        case .half(let isUpper): civil.hour < 12 ? (isUpper ? "AM" : "am") : isUpper ? "PM" : "pm"
        case .offset(let hasColon): offset(moment.offset, hasColon)
        case .zoneName: zoneName ?? (moment.offset == 0 ? "UTC" : offset(moment.offset, true))
        case .monthName(let isShort): name(months[civil.month - 1], isShort)
        case .weekdayName(let isShort): name(weekdays[civil.weekday - 1], isShort)
        case .dayOfYear: padded(civil.dayOfYear, 3)
        case .weekday(let fromSunday): String(fromSunday ? civil.weekday % 7 : civil.weekday)
        case .seconds: String(moment.milliseconds.flooringDivided(by: 1_000))
        case .iso: iso(moment)
        }
    }

    static func iso(_ moment: Moment) -> String {
        let civil = moment.civil
        let date = "\(year(civil.year))-\(padded(civil.month, 2))-\(padded(civil.day, 2))"
        let time = "\(padded(civil.hour, 2)):\(padded(civil.minute, 2)):\(padded(civil.second, 2))"
        let fraction = civil.millisecond == 0 ? "" : "." + padded(civil.millisecond, 3)
        return "\(date)T\(time)\(fraction)\(offset(moment.offset, true))"
    }

    private static func name(_ name: String, _ isShort: Bool) -> String {
        isShort ? String(name.prefix(3)) : name
    }

    private static func year(_ year: Int) -> String { (year < 0 ? "-" : "") + padded(abs(year), 4) }

    private static func padded(_ number: Int, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }

    /// `+02:00`.
    static func offset(_ seconds: Int, _ hasColon: Bool) -> String {
        let minutes = abs(seconds) / 60
        let sign = seconds < 0 ? "-" : "+"
        return sign + padded(minutes / 60, 2) + (hasColon ? ":" : "") + padded(minutes % 60, 2)
    }
}
