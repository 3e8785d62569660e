/// An instant, and the clocks it is read on.
struct Moment: Equatable, Sendable {
    /// Since 1970-01-01T00:00Z.
    let milliseconds: Int64
    /// Seconds that the clocks are ahead of UTC.
    let offset: Int

    /// Of the first instant of the year -9999 and the last of 9999, in UTC.
    static let range: ClosedRange<Int64> = -377_705_116_800_000...253_402_300_799_999

    /// Nil beyond the range.
    init?(_ milliseconds: Int64, offset: Int = 0) {
        guard Self.range.contains(milliseconds), Self.range.contains(milliseconds + Int64(offset) * 1_000)
        else { return nil }
        self.milliseconds = milliseconds
        self.offset = offset
    }

    /// From what clocks show; nil when there is no such time.
    init?(_ civil: CivilTime, offset: Int) {
        guard civil.isValid else { return nil }
        self.init(civil.milliseconds - Int64(offset) * 1_000, offset: offset)
    }

    /// What the clocks show.
    var civil: CivilTime { CivilTime(milliseconds + Int64(offset) * 1_000) }

    // MARK: Text

    /// ISO 8601 with a zone: `2024-02-29T12:30:00.250+01:00`, `2024-02-29 12:30Z`. Digits beyond milliseconds
    /// are dropped. Nil without a zone, and for times that do not exist.
    init?(iso text: String) {
        var reader = DateReader(text)
        guard let civil = reader.isoTime(), let offset = reader.offset(), reader.isAtEnd else { return nil }
        self.init(civil, offset: offset)
    }

    /// `2024-02-29T12:30:00.250+01:00`; without a fraction where there is none.
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

    /// How many whole parts lie between, negative when `other` is later. Months and years are counted on this
    /// moment's clocks.
    func difference(from other: Moment, in part: DatePart) -> Int64 {
        guard let months = part.months else { return (milliseconds - other.milliseconds) / part.milliseconds }
        let here = civil
        let there = CivilTime(other.milliseconds + Int64(offset) * 1_000)
        var count = Int64((here.year - there.year) * 12 + here.month - there.month)
        // The last month counts only when it is complete.
        let reached = there.adding(months: count)?.milliseconds ?? there.milliseconds
        if count > 0, reached > here.milliseconds { count -= 1 }
        if count < 0, reached < here.milliseconds { count += 1 }
        return count / months
    }

    /// The beginning of the part that this moment lies in.
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

/// What dates are counted in, ascending.
enum DatePart: Int, Comparable, Sendable {
    case millisecond, second, minute, hour, day, month, year

    /// In any case. Week, quarter and day of the year are no parts.
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

    /// Of parts that have no fixed length.
    var months: Int64? {
        switch self {
        case .year: 12
        case .month: 1
        default: nil
        }
    }

    /// The length of the others.
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
