/// The media types that a client takes: the field `Accept` (RFC 9110 section 12.5.1).
public struct MediaTypes: Sendable {
    private let ranges: [(type: String, weight: Double)]

    /// Reads the field; a part of it that cannot be read counts for nothing.
    public init(_ field: String) {
        ranges = field.split(separator: ",").compactMap { item in
            let parts = item.split(separator: ";").map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }
            guard let type = parts.first, type.contains("/") else { return nil }
            let weight = parts.dropFirst().first { $0.hasPrefix("q=") }.map { Double($0.dropFirst(2)) ?? 0 }
            return (type, weight ?? 1)
        }
    }

    /// The type with the greatest weight, the first of several; nil if the client takes none of them.
    public func best(of types: [String]) -> String? {
        var best: (type: String, weight: Double)?
        for type in types {
            let weight = weight(of: type)
            if weight > 0, weight > best?.weight ?? 0 { best = (type, weight) }
        }
        return best?.type
    }

    /// The weight of the most exact range that has the type.
    private func weight(of type: String) -> Double {
        let family = type.prefix { $0 != "/" } + "/*"
        for range in [type, String(family), "*/*"] {
            if let found = ranges.first(where: { $0.type == range }) { return found.weight }
        }
        return 0
    }
}
