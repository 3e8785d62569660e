import CRDT
import DQLCorpus
import TestSupport
import Testing

@testable import DQL

@Suite("Dates")
struct DateTests {
    @Test("the calendar counts day by day through an era, and back")
    func calendar() {
        var civil = CivilTime()
        (civil.year, civil.month, civil.day) = (1_800, 1, 1)
        let first = civil.days
        for days in first..<(first + 146_097) {
            #expect(civil.days == days)
            #expect(CivilTime(Int64(days) * CivilTime.millisecondsPerDay) == civil)
            civil = Self.following(civil)
        }
        #expect(civil.year == 2_200)
    }

    private static func following(_ civil: CivilTime) -> CivilTime {
        var next = civil
        let isLast = civil.day == CivilTime.days(in: civil.month, of: civil.year)
        next.day = isLast ? 1 : civil.day + 1
        next.month = isLast ? civil.month % 12 + 1 : civil.month
        next.year += isLast && civil.month == 12 ? 1 : 0
        return next
    }

    @Test(
        "milliseconds and clocks are one to one over the whole range",
        arguments: Depth.cases(fast: 200, deep: 2_000))
    func roundTrip(seed: Int) throws {
        var choices = Choices(seed: UInt64(seed) + 31)
        let span = Moment.range.upperBound - Moment.range.lowerBound
        let milliseconds = Moment.range.lowerBound + Int64(choices.below(Int(span)))
        let offset = (choices.below(57) - 28) * 1_800
        let moment = try #require(Moment(milliseconds, offset: offset) ?? Moment(milliseconds))
        #expect(moment.civil.isValid)
        #expect(Moment(moment.civil, offset: moment.offset) == moment)
        #expect(Moment(iso: moment.iso) == moment)
        let format = try #require(DateFormat("%A %B %d %Y %H:%M:%S.%L %:z"))
        #expect(format.parse(format.print(moment, zoneName: nil), nil) == moment)
    }

    @Test("the range ends with the years -9999 and 9999")
    func range() {
        #expect(Moment(Moment.range.lowerBound)?.iso == "-9999-01-01T00:00:00+00:00")
        #expect(Moment(Moment.range.upperBound)?.iso == "9999-12-31T23:59:59.999+00:00")
        #expect(Moment(Moment.range.lowerBound - 1) == nil)
        #expect(Moment(Moment.range.upperBound + 1) == nil)
        #expect(Moment(Moment.range.upperBound, offset: 3_600) == nil)
        #expect(Moment(.max) == nil)
    }

    @Test(
        "texts that are ISO 8601 with a zone",
        arguments: [
            ("1970-01-01T00:00:00Z", 0), ("1970-01-01t00:00z", 0), ("1970-01-01 01:00:00+01:00", 0),
            ("1970-01-01T00:00:00.5-0000", 500), ("1970-01-01T00:00:00,123456789Z", 123),
            ("1969-12-31T19:00:00-05", 0), ("2000-02-29T00:00:00Z", 951_782_400_000),
            ("+1970-01-01T00:00:00Z", 0), ("-0001-12-31T23:59:59.999Z", -62_167_219_200_001),
        ])
    func iso(_ text: String, _ milliseconds: Int) {
        #expect(Moment(iso: text)?.milliseconds == Int64(milliseconds))
    }

    @Test(
        "texts that are not, or that name no time",
        arguments: [
            "", "2024-01-01", "2024-01-01T00:00:00", "2024-01-01T00Z", "2024-1-1T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z", "2024-00-01T00:00:00Z", "2024-01-00T00:00:00Z", "2024-01-01T24:00:00Z",
            "2024-01-01T00:60:00Z", "2024-01-01T00:00:60Z", "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00+24:00",
            "2024-01-01T00:00:00+01:60", "2024-01-01T00:00:00+1", "2024-01-01T00:00:00+01:",
            "2024-01-01T00:00:00ZZ",
            " 2024-01-01T00:00:00Z", "2024-01-01T00:00:Z", "24-01-01T00:00:00Z", "2024/01/01T00:00:00Z",
        ])
    func noISO(_ text: String) {
        #expect(Moment(iso: text) == nil)
    }

    @Test(
        "a difference is the greatest count that does not go beyond",
        arguments: Depth.cases(fast: 300, deep: 3_000))
    func difference(seed: Int) throws {
        var choices = Choices(seed: UInt64(seed) + 63)
        func moment() throws -> Moment {
            try #require(Moment(Int64(choices.below(4_000_000_000_000)) - 2_000_000_000_000))
        }
        let one = try moment()
        let two = try moment()
        let early = one.milliseconds < two.milliseconds ? one : two
        let late = one.milliseconds < two.milliseconds ? two : one
        for part in [DatePart.millisecond, .second, .minute, .hour, .day, .month, .year] {
            let count = late.difference(from: early, in: part)
            #expect(count >= 0)
            #expect(try #require(early.adding(count, part)).milliseconds <= late.milliseconds)
            #expect(try #require(early.adding(count + 1, part)).milliseconds > late.milliseconds)
            #expect(early.difference(from: late, in: part) <= 0)
            #expect(try #require(late.truncated(to: part)).milliseconds <= late.milliseconds)
        }
    }

    @Test("what overflows is nil, not a trap")
    func overflow() throws {
        let moment = try #require(Moment(0))
        for part in [DatePart.millisecond, .second, .minute, .hour, .day, .month, .year] {
            #expect(moment.adding(.max, part) == nil)
            #expect(moment.adding(.min, part) == nil)
        }
    }

    /// An afternoon of 24 hours, and a leap day without its year.
    private static let unreadableAgain: Set = ["hh'mm pp", "%A, %d. %B"]

    @Test(
        "formats print and read back",
        arguments: [
            ("YYYY-MM-DD hh:mm:ss.sss TZD", "2024-02-29 13:05:09.250 +01:00"),
            ("DD/MM/YY HH:mm PP", "29/02/24 01:05 PM"),
            ("hh'mm pp", "13'05 pm"), ("ss,s", "09,2"), ("TZN", "Europe/Berlin"), ("Tss", "T09"),
            ("sss", "250"),
            ("%d.%m.%y %I:%M%P", "29.02.24 01:05pm"), ("%F %T.%3f%z", "2024-02-29 13:05:09.250+0100"),
            ("%T%.6f", "13:05:09.250000"), ("%a %b %e %Y", "Thu Feb 29 2024"),
            ("%A, %d. %B", "Thursday, 29. February"),
            ("%j %u %w %s", "060 4 4 1709208309"), ("%D %R", "02/29/24 13:05"), ("%Z", "Europe/Berlin"),
            ("%%%n%t", "%\n\t"),
            ("%+", "2024-02-29T13:05:09.250+01:00"), ("", "2024-02-29T13:05:09.250+01:00"),
            ("ä YYYY", "ä 2024"),
        ])
    func formats(_ format: String, _ text: String) throws {
        let moment = try #require(Moment(iso: "2024-02-29T13:05:09.250+01:00"))
        let prepared = try #require(DateFormat(format))
        #expect(prepared.print(moment, zoneName: "Europe/Berlin") == text)
        let again = prepared.parse(text, Berlin()).map { prepared.print($0, zoneName: "Europe/Berlin") }
        #expect(again == (Self.unreadableAgain.contains(format) ? nil : text))
    }

    @Test(
        "formats that begin a directive that there is not", arguments: ["%", "%Q", "%:Z", "%.f", "%3d", "%k"])
    func invalidFormats(_ format: String) {
        #expect(DateFormat(format) == nil)
    }

    @Test(
        "texts that a format does not read",
        arguments: [
            ("YYYY-MM-DD", "2024-02-30"), ("YYYY-MM-DD", "2024-02-01 "), ("YYYY-MM-DD", "2024-2-1"),
            ("%b", "Foo"),
            ("%I %p", "13 PM"), ("%I %p", "00 AM"), ("%p", "xm"), ("%Y %j", "2023 366"),
            ("%Y %j", "2023 000"),
            ("%z", "0100"), ("%Z", "Europe/Atlantis"), ("%Z", ""), ("%H", "24"), ("%s", "x"),
            ("%s", "999999999999"),
            ("%A", "Someday"), ("%w", "x"), ("%+", "2024"), ("ss.sss", "01."),
        ])
    func unreadable(_ format: String, _ text: String) throws {
        #expect(try #require(DateFormat(format)).parse(text, Berlin()) == nil)
    }

    @Test("clocks of a named zone are read with its rules, around the changes too")
    func zones() throws {
        let format = try #require(DateFormat("YYYY-MM-DD hh:mm TZN"))
        func instant(_ text: String) -> String? {
            format.parse("\(text) Europe/Berlin", Berlin()).flatMap { Moment($0.milliseconds)?.iso }
        }
        #expect(instant("2024-01-15 12:00") == "2024-01-15T11:00:00+00:00")
        #expect(instant("2024-07-15 12:00") == "2024-07-15T10:00:00+00:00")
        #expect(instant("2024-03-31 01:59") == "2024-03-31T00:59:00+00:00")
        #expect(instant("2024-03-31 03:00") == "2024-03-31T01:00:00+00:00")
        #expect(instant("2024-10-27 04:00") == "2024-10-27T03:00:00+00:00")
    }

    @Test(
        "durations print as they are read",
        arguments: [
            ("0s", 0), ("1h30m0s", 5_400_000_000_000), ("-1m0.5s", -60_500_000_000), ("100ms", 100_000_000),
            ("1.5µs", 1_500), ("7ns", 7), ("1.5s", 1_500_000_000), ("25h0m0s", 90_000_000_000_000),
            ("1.000001ms", 1_000_001), ("2562047h47m16.854775807s", Int.max),
        ])
    func durations(_ text: String, _ nanoseconds: Int) {
        #expect(DurationText.print(nanoseconds: Int64(nanoseconds)) == text)
        #expect(DurationText.parse(text) == Int64(nanoseconds))
    }

    @Test("a duration is read with a fraction, with a sign, and as a bare zero")
    func durationSpellings() {
        #expect(DurationText.parse("1.5h") == 5_400_000_000_000)
        #expect(DurationText.parse("+1d") == 86_400_000_000_000)
        #expect(DurationText.parse("0") == 0)
        #expect(DurationText.parse(".5s") == 500_000_000)
        #expect(DurationText.print(nanoseconds: .min) == "-2562047h47m16.854775808s")
    }

    @Test(
        "a text that is no duration is refused",
        arguments: [
            "", "-", "1", "h", "1x", "1h-1m", "1..5s", ".s", "300000000h", "1h 1m", "٣s",
            "9223372036.9s9223372036s",
        ])
    func noDuration(_ text: String) {
        #expect(DurationText.parse(text) == nil)
    }
}
