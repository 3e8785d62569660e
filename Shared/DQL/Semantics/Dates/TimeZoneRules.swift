/// The time zones of the world by their IANA names. Injected, because their rules change and belong to the
/// platform.
public protocol TimeZoneRules: Sendable {
    /// The seconds that the clocks of a zone (`Europe/Berlin`) are ahead of UTC at an instant, given in
    /// milliseconds since 1970; nil for an unknown zone.
    func offsetSeconds(of zone: String, at milliseconds: Int64) -> Int?
}

/// A time zone as a statement names it.
enum Zone: Equatable, Sendable {
    /// Seconds ahead of UTC.
    case fixed(Int)
    case named(String)

    /// `UTC`, `GMT`, `Z`, `+02:00`, `-0530`, or the name of a zone for the rules to look up.
    init(_ name: String) {
        var reader = DateReader(name)
        if let offset = reader.offset(), reader.isAtEnd {
            self = .fixed(offset)
        } else {
            switch name.uppercased() {
            case "UTC", "GMT", "ETC/UTC", "ETC/GMT": self = .fixed(0)
            default: self = .named(name)
            }
        }
    }

    func offset(at milliseconds: Int64, _ rules: (any TimeZoneRules)?) -> Int? {
        switch self {
        case .fixed(let seconds): seconds
        case .named(let name): rules?.offsetSeconds(of: name, at: milliseconds)
        }
    }

    /// The instant at which the clocks of the zone show a time, given in milliseconds as if it were UTC. For
    /// a time that occurs twice it is the earlier instant if the rules say so; a time that never occurs is
    /// moved by the length of the gap.
    func instant(of local: Int64, _ rules: (any TimeZoneRules)?) -> Int64? {
        guard let guess = offset(at: local, rules) else { return nil }
        guard let better = offset(at: local - Int64(guess) * 1_000, rules) else { return nil }
        return local - Int64(better) * 1_000
    }
}
