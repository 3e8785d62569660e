import DQL
import Foundation
import Testing

@testable import DittoSwift

@Suite("Dates as RFC 3339 text")
struct RFC3339Tests {
    @Test(
        "a date is the text that another program makes of it",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (-0.001, "1969-12-31T23:59:59.999Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"), (4_107_542_399.999, "2100-02-28T23:59:59.999Z"),
            (1_700_000_000.1234, "2023-11-14T22:13:20.123Z"),
            (1_700_000_000.9996, "2023-11-14T22:13:21.000Z"),
            (-62_167_219_200, "0000-01-01T00:00:00.000Z"), (253_402_300_799.999, "9999-12-31T23:59:59.999Z"),
        ])
    func text(seconds: Double, text: String) {
        #expect(RFC3339.text(Date(timeIntervalSince1970: seconds)) == text)
        let back = RFC3339.date(text)?.timeIntervalSince1970
        #expect(back.map { abs($0 - seconds) < 0.001 } ?? false)
    }

    @Test("every day of 800 years has the date of Foundation's calendar")
    func days() throws {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = try #require(TimeZone(secondsFromGMT: 0))
        for day in stride(from: -135_140, to: 157_054, by: 97) {
            let date = Date(timeIntervalSince1970: Double(day) * 86_400)
            let parts = calendar.dateComponents([.year, .month, .day], from: date)
            let text = String(
                format: "%04d-%02d-%02dT00:00:00.000Z", parts.year ?? 0, parts.month ?? 0, parts.day ?? 0)
            #expect(RFC3339.text(date) == text)
            #expect(RFC3339.date(text) == date)
        }
    }

    @Test("any zone and any number of decimals is read")
    func zones() {
        let date = Date(timeIntervalSince1970: 1_700_000_000)
        #expect(RFC3339.date("2023-11-14T23:43:20+01:30") == date)
        #expect(RFC3339.date("2023-11-14t17:13:20-05:00") == date)
        #expect(RFC3339.date("2023-11-14 22:13:20z") == date)
        #expect(RFC3339.date("2023-11-14T22:13:20.500000Z") == date + 0.5)
        #expect(RFC3339.date("2023-11-14T22:13:20.5Z") == date + 0.5)
        let fine = RFC3339.date("2023-11-14T22:13:20.123456Z")?.timeIntervalSince1970 ?? 0
        #expect(abs(fine - 1_700_000_000.123456) < 0.000_001)
        #expect(RFC3339.date("2016-12-31T23:59:60Z") == RFC3339.date("2017-01-01T00:00:00Z"))
        #expect(RFC3339.text(clamping: .max) == "9999-12-31T23:59:59.999Z")
    }

    @Test(
        "another text is no date",
        arguments: [
            "", "2023-11-14", "2023-11-14T22:13:20", "2023-13-01T00:00:00Z", "2023-02-29T00:00:00Z",
            "2023-11-14T24:00:00Z", "2023-11-14T22:60:00Z", "2023-11-14T22:13:20.Z", "2023-11-14T22:13:20Z ",
            "2023-11-14T22:13:20+1:00", "2023-11-14T22:13:20+0100", "2023-11-14T22:13Z",
            "+2023-11-14T22:13:20Z", "2023-11-14T22:13:61Z", "2023-11-14T22:13:20,5Z", "23-11-14T22:13:20Z",
            "yesterday",
        ])
    func noDate(text: String) {
        #expect(RFC3339.date(text) == nil)
    }

    @Test("a date outside the years of the text has none")
    func outside() {
        #expect(RFC3339.text(Date(timeIntervalSince1970: 253_402_300_800)) == nil)
        #expect(RFC3339.text(Date(timeIntervalSince1970: -62_167_219_201)) == nil)
        #expect(RFC3339.text(Date(timeIntervalSince1970: .nan)) == nil)
        #expect(RFC3339.text(Date(timeIntervalSince1970: .infinity)) == nil)
    }
}
