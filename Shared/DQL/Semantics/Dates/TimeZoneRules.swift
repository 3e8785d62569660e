/// What knows the time zones of the world by their IANA names. Injected, for their rules change and are the
/// platform's.
public protocol TimeZoneRules: Sendable {
    /// How many seconds the clocks of a zone (`Europe/Berlin`) are ahead of UTC at an instant, given in
    /// milliseconds since 1970; nil for a zone that is not known.
    func offsetSeconds(of zone: String, at milliseconds: Int64) -> Int?
}

/// A time zone as a statement names it.
enum Zone: Equatable, Sendable {
    /// Seconds ahead of UTC.
    case fixed(Int)
    case named(String)

    /// `UTC`, `GMT`, `Z`, `+02:00`, `-0530`, or the name of a zone that the rules are asked for.
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

    /// The instant at which the clocks of the zone show a time, given in milliseconds as if it were UTC. A
    /// time that comes twice is the earlier one where the rules say so; one that never comes is moved by what
    /// is left out.
    func instant(of local: Int64, _ rules: (any TimeZoneRules)?) -> Int64? {
        guard let guess = offset(at: local, rules) else { return nil }
        guard let better = offset(at: local - Int64(guess) * 1_000, rules) else { return nil }
        return local - Int64(better) * 1_000
    }
}
