/// A date and time as a calendar and clock show it: the proleptic Gregorian calendar, no leap seconds.
struct CivilTime: Equatable, Sendable {
    /// -9999 to 9999; 0 is the year before 1.
    var year = 1970
    /// From 1.
    var month = 1
    /// From 1.
    var day = 1
    var hour = 0
    var minute = 0
    var second = 0
    var millisecond = 0

    static let years = -9_999...9_999
    static let millisecondsPerDay: Int64 = 86_400_000

    init() {}

    /// From milliseconds since 1970-01-01T00:00.
    init(_ milliseconds: Int64) {
        let days = milliseconds.flooringDivided(by: Self.millisecondsPerDay)
        var rest = Int(milliseconds - days * Self.millisecondsPerDay)
        (year, month, day) = Self.date(days: Int(days))
        millisecond = rest % 1_000
        rest /= 1_000
        second = rest % 60
        rest /= 60
        minute = rest % 60
        hour = rest / 60
    }

    /// True if the calendar has this date and time.
    var isValid: Bool {
        Self.years.contains(year) && 1...12 ~= month && 1...Self.days(in: month, of: year) ~= day
            && 0...23 ~= hour && 0...59 ~= minute && 0...59 ~= second && 0...999 ~= millisecond
    }

    /// Milliseconds since 1970-01-01T00:00; the time has to be valid.
    var milliseconds: Int64 {
        let seconds = (hour * 60 + minute) * 60 + second
        return Int64(days) * Self.millisecondsPerDay + Int64(seconds * 1_000 + millisecond)
    }

    // MARK: Calendar

    static func isLeap(_ year: Int) -> Bool { year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) }

    static func days(in month: Int, of year: Int) -> Int {
        switch month {
        case 2: isLeap(year) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    /// Days since 1970-01-01. Years are counted from March, so that the leap day is the last of a year; 400
    /// years are an era of 146,097 days (Howard Hinnant, "chrono-compatible low-level date algorithms").
    var days: Int {
        let year = month <= 2 ? year - 1 : year
        let era = year.flooringDivided(by: 400)
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    private static func date(days: Int) -> (year: Int, month: Int, day: Int) {
        let days = days + 719_468
        let era = days.flooringDivided(by: 146_097)
        let dayOfEra = days - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let month = (5 * dayOfYear + 2) / 153
        let year = yearOfEra + era * 400 + (month >= 10 ? 1 : 0)
        return (year, month < 10 ? month + 3 : month - 9, dayOfYear - (153 * month + 2) / 5 + 1)
    }

    /// Monday is 1, Sunday 7. 1970-01-01 was a Thursday.
    var weekday: Int { (days + 3).flooringRemainder(by: 7) + 1 }

    /// From 1.
    var dayOfYear: Int {
        var first = CivilTime()
        first.year = year
        return days - first.days + 1
    }

    /// Moves the date by whole months; a day that the month does not have becomes its last. Nil beyond the
    /// range of years.
    func adding(months: Int64) -> CivilTime? {
        let count = Int64(year) * 12 + Int64(month - 1)
        let (sum, overflow) = count.addingReportingOverflow(months)
        guard !overflow, let year = Int(exactly: sum.flooringDivided(by: 12)), Self.years.contains(year)
        else {
            return nil
        }
        var result = self
        result.year = year
        result.month = Int(sum.flooringRemainder(by: 12)) + 1
        result.day = min(day, Self.days(in: result.month, of: year))
        return result
    }
}

extension SignedInteger where Self: FixedWidthInteger {
    /// Rounds towards negative infinity; the divisor is positive.
    func flooringDivided(by divisor: Self) -> Self {
        let quotient = self / divisor
        return self % divisor < 0 ? quotient - 1 : quotient
    }

    /// 0 up to the divisor, which is positive.
    func flooringRemainder(by divisor: Self) -> Self {
        let rest = self % divisor
        return rest < 0 ? rest + divisor : rest
    }
}
