/// An instant, and the offset of the clocks that show it.
struct Moment: Equatable, Sendable {
    /// Since 1970-01-01T00:00Z.
    let milliseconds: Int64
    /// Seconds that the clocks are ahead of UTC.
    let offset: Int

    /// From the first instant of the year -9999 to the last of 9999, in UTC.
    static let range: ClosedRange<Int64> = -377_705_116_800_000...253_402_300_799_999

    /// Nil beyond the range.
    init?(_ milliseconds: Int64, offset: Int = 0) {
        guard Self.range.contains(milliseconds), Self.range.contains(milliseconds + Int64(offset) * 1_000)
        else { return nil }
        self.milliseconds = milliseconds
        self.offset = offset
    }

    /// The moment at which clocks show a time; nil if that time does not exist.
    init?(_ civil: CivilTime, offset: Int) {
        guard civil.isValid else { return nil }
        self.init(civil.milliseconds - Int64(offset) * 1_000, offset: offset)
    }

    /// The date and time that the clocks show.
    var civil: CivilTime { CivilTime(milliseconds + Int64(offset) * 1_000) }

    // MARK: Text

    /// ISO 8601 with a zone: `2024-02-29T12:30:00.250+01:00`, `2024-02-29 12:30Z`. Digits beyond milliseconds
    /// are dropped. Nil without a zone, and for times that do not exist.
    init?(iso text: String) {
        var reader = DateReader(text)
        guard let civil = reader.isoTime(), let offset = reader.offset(), reader.isAtEnd else { return nil }
        self.init(civil, offset: offset)
    }

    /// `2024-02-29T12:30:00.250+01:00`; without a fraction if it is zero.
    var iso: String { DateFormat.iso(self) }

    // MARK: Calculation

    /// Moves by whole parts; a day that the month does not have becomes its last. Nil beyond the range.
    func adding(_ count: Int64, _ part: DatePart) -> Moment? {
        if let months = part.months {
            let (total, overflow) = count.multipliedReportingOverflow(by: months)
            guard !overflow, let moved = civil.adding(months: total) else { return nil }
            return Moment(moved, offset: offset)
        }
        let (distance, overflow) = count.multipliedReportingOverflow(by: part.milliseconds)
        let (sum, overflowToo) = milliseconds.addingReportingOverflow(distance)
        return overflow || overflowToo ? nil : Moment(sum, offset: offset)
    }

    /// The number of whole parts between two moments, negative if `other` is later. Months and years are
    /// counted on this moment's clocks.
    func difference(from other: Moment, in part: DatePart) -> Int64 {
        guard let months = part.months else { return (milliseconds - other.milliseconds) / part.milliseconds }
        let here = civil
        let there = CivilTime(other.milliseconds + Int64(offset) * 1_000)
        var count = Int64((here.year - there.year) * 12 + here.month - there.month)
        // The last month counts only if it is complete.
        let reached = there.adding(months: count)?.milliseconds ?? there.milliseconds
        if count > 0, reached > here.milliseconds { count -= 1 }
        if count < 0, reached < here.milliseconds { count += 1 }
        return count / months
    }

    /// The beginning of the part that contains this moment.
    func truncated(to part: DatePart) -> Moment? {
        var civil = civil
        if part >= .second { civil.millisecond = 0 }
        if part >= .minute { civil.second = 0 }
        if part >= .hour { civil.minute = 0 }
        if part >= .day { civil.hour = 0 }
        if part >= .month { civil.day = 1 }
        if part >= .year { civil.month = 1 }
        return Moment(civil, offset: offset)
    }
}

/// The units in which dates are counted, ascending.
enum DatePart: Int, Comparable, Sendable {
    case millisecond, second, minute, hour, day, month, year

    /// Accepts any case. Week, quarter and day of the year are not supported.
    init?(_ name: String) {
        switch name.lowercased() {
        case "year": self = .year
        case "month", "mon": self = .month
        case "day": self = .day
        case "hour": self = .hour
        case "minute", "min": self = .minute
        case "second", "sec": self = .second
        case "millisecond", "millis", "ms": self = .millisecond
        default: return nil
        }
    }

    static func < (left: DatePart, right: DatePart) -> Bool { left.rawValue < right.rawValue }

    /// The length in months of parts without a fixed length.
    var months: Int64? {
        switch self {
        case .year: 12
        case .month: 1
        default: nil
        }
    }

    /// The length of the other parts.
    var milliseconds: Int64 {
        switch self {
        case .millisecond: 1
        case .second: 1_000
        case .minute: 60_000
        case .hour: 3_600_000
        default: CivilTime.millisecondsPerDay
        }
    }
}
