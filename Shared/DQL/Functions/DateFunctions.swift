import CRDT

/// Spec 2.10: calculating with dates. A date is ISO 8601 text with a zone, or milliseconds since 1970; a
/// result is of the same kind as its argument.
enum DateFunctions {
    static let all: [FunctionDefinition] = [
        .contextual(
            "clock", [.init("format", .string), .init("zone", .string)], optional: 2,
            "The time at which the statement began: in milliseconds, or as text in a format (`''` for ISO"
                + " 8601), in UTC unless a zone is given. MISSING where no clock may be read, as in"
                + " subscriptions.",
            example: ("clock('YYYY')", "'2024'"), check: { formatProblem($0, 0) }
        ) { arguments, context in
            guard let moment = context.now.flatMap({ Moment($0) }) else { return nil }
            return DateOutput(arguments, formatAt: 0)?.value(of: moment, isText: false, context)
        },
        moving(
            "date_add", "The date moved forward by `count` parts.", sign: 1,
            example: ("date_add('2024-01-31T12:00:00+01:00', 'month', 1)", "'2024-02-29T12:00:00+01:00'")),
        moving(
            "date_sub", "The date moved back by `count` parts.", sign: -1,
            example: ("date_sub(86400000, 'day', 1)", "0")),
        .contextual(
            "date_diff", [.init("later", .date), .init("earlier", .date), .init("part", .string)],
            "The number of whole parts between the two dates: the first less the second.",
            example: ("date_diff('2024-03-01T00:00:00Z', '2024-02-01T00:00:00Z', 'day')", "29"),
            check: { partProblem($0, 2) }
        ) { arguments, _ in
            guard let later = DateInput(arguments[0]), let earlier = DateInput(arguments[1]),
                let part = DatePart(StringFunctions.text(arguments[2]))
            else { return nil }
            return .int(later.moment.difference(from: earlier.moment, in: part))
        },
        .contextual(
            "date_part", [.init("date", .date), .init("part", .string)],
            "A part of the date in its own zone: year, month, day, hour, minute, second, millisecond,"
                + " `weekday` (Monday is 1), `monthname`, `tz` or `timezone` (such as `+02:00`).",
            example: ("date_part('2024-02-29T12:00:00Z', 'weekday')", "4"),
            check: { partProblem($0, 1, others: ["weekday", "monthname", "tz", "timezone"]) }
        ) { arguments, _ in
            DateInput(arguments[0]).flatMap { field(StringFunctions.text(arguments[1]), of: $0.moment) }
        },
        .contextual(
            "date_trunc", [.init("date", .date), .init("part", .string)],
            "The date cut back to the beginning of the part, in its own zone.",
            example: ("date_trunc('2024-02-29T12:34:00+01:00', 'day')", "'2024-02-29T00:00:00+01:00'"),
            check: { partProblem($0, 1) }
        ) { arguments, context in
            guard let input = DateInput(arguments[0]),
                let part = DatePart(StringFunctions.text(arguments[1])),
                let moment = input.moment.truncated(to: part)
            else { return nil }
            return DateOutput.plain.value(of: moment, isText: input.isText, context)
        },
        .contextual(
            "date_range",
            [
                .init("start", .date), .init("end", .date), .init("part", .string), .init("step", .integer),
                .init("format", .string), .init("zone", .string),
            ], optional: 2,
            "The dates from the start up to but excluding the end, `step` parts apart (a negative step goes"
                + " back). MISSING for a step of 0, or when there are too many.",
            example: ("date_range(0, 3000, 'second', 1)", "[0, 1000, 2000]"),
            check: { partProblem($0, 2) ?? formatProblem($0, 4) }, evaluate: range),
    ]

    private static func moving(
        _ name: String, _ semantics: String, sign: Int64, example: (String, String)
    ) -> FunctionDefinition {
        .contextual(
            name,
            [
                .init("date", .date), .init("part", .string), .init("count", .integer),
                .init("format", .string), .init("zone", .string),
            ], optional: 2,
            semantics + " A day that the month does not have becomes its last. With a format the result is"
                + " text.",
            example: example, check: { partProblem($0, 1) ?? formatProblem($0, 3) }
        ) { arguments, context in
            guard let input = DateInput(arguments[0]),
                let part = DatePart(StringFunctions.text(arguments[1])),
                let count = arguments[2].intValue, count > .min,
                let moment = input.moment.adding(count * sign, part)
            else { return nil }
            return DateOutput(arguments, formatAt: 3)?.value(of: moment, isText: input.isText, context)
        }
    }

    private static func field(_ name: String, of moment: Moment) -> Value? {
        let civil = moment.civil
        let number: Int
        switch DatePart(name) {
        case .year?: number = civil.year
        case .month?: number = civil.month
        case .day?: number = civil.day
        case .hour?: number = civil.hour
        case .minute?: number = civil.minute
        case .second?: number = civil.second
        case .millisecond?: number = civil.millisecond
        case nil:
            switch name.lowercased() {
            case "weekday": number = civil.weekday
            case "monthname": return .string(DateFormat.months[civil.month - 1])
            case "tz", "timezone": return .string(DateFormat.offset(moment.offset, true))
            default: return nil
            }
        }
        return .int(Int64(number))
    }

    private static let range: @Sendable ([Value], FunctionContext) -> Value? = { arguments, context in
        guard let start = DateInput(arguments[0]), let end = DateInput(arguments[1]),
            let part = DatePart(StringFunctions.text(arguments[2])), let step = arguments[3].intValue,
            step != 0, let output = DateOutput(arguments, formatAt: 4)
        else { return nil }
        var dates: [Value] = []
        var bytes = 0
        // Each date is counted from the start: the 31st comes back after February.
        var next = Optional(start.moment)
        while let moment = next {
            let isBefore =
                step > 0
                ? moment.milliseconds < end.moment.milliseconds
                : moment.milliseconds > end.moment.milliseconds
            guard isBefore else { break }
            guard dates.count < DQLLimits.resultElements,
                let date = output.value(of: moment, isText: start.isText, context)
            else { return nil }
            dates.append(date)
            bytes += date.stringValue?.utf8.count ?? 0
            if bytes > DQLLimits.resultBytes { return nil }
            let (count, overflow) = step.multipliedReportingOverflow(by: Int64(dates.count))
            next = overflow ? nil : start.moment.adding(count, part)
        }
        return .array(dates)
    }

    // MARK: Checks before execution

    static func partProblem(
        _ arguments: [KnownArgument], _ index: Int, others: [String] = []
    ) -> ArgumentProblem? {
        guard arguments.count > index, let name = arguments[index].text, DatePart(name) == nil,
            !others.contains(name.lowercased())
        else { return nil }
        let isDate = Moment(iso: name) != nil || lacksZone(name)
        let order = isDate ? "; the date comes before the part" : ""
        return ArgumentProblem(
            index: index, message: "has no date part '\(name)'\(order): always MISSING", isError: false)
    }

    /// A problem with a date that is written out.
    static func dateProblem(
        _ arguments: [KnownArgument], of function: FunctionDefinition
    ) -> ArgumentProblem? {
        let place = arguments.indices.first { index in
            guard let text = arguments[index].text else { return false }
            let isDate =
                function.parameterType(at: index) == .date
                || (index == 0 && arguments.count == 1 && textDates.contains(function.name))
            return isDate && Moment(iso: text) == nil
        }
        guard let place, let text = arguments[place].text else { return nil }
        let problem =
            lacksZone(text) ? "takes a date with its zone, as '\(text)" : "cannot read '\(text)' as a date"
        let cure = lacksZone(text) ? (text.contains(":") ? "Z'" : "T00:00:00Z'") : ""
        return ArgumentProblem(index: place, message: problem + cure + ": always MISSING", isError: false)
    }

    /// The functions whose only argument may be the text of a date.
    private static let textDates: Set<String> = ["date_cast", "tz_offset"]

    /// Returns whether a text is a date but for its zone, or for its time of day.
    private static func lacksZone(_ text: String) -> Bool {
        Moment(iso: text + "Z") != nil || Moment(iso: text + "T00:00:00Z") != nil
    }

    static func formatProblem(_ arguments: [KnownArgument], _ index: Int) -> ArgumentProblem? {
        guard arguments.count > index, let text = arguments[index].text, DateFormat(text) == nil else {
            return nil
        }
        return ArgumentProblem(
            index: index, message: "has a '%' in its format that begins no directive: always MISSING",
            isError: false)
    }
}
