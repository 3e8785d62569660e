import Hummingbird

/// The query of a request, read strictly: a parameter that stands twice although it may not, or a number that
/// is none, is an error that names it.
public struct QueryValues: Sendable {
    private let pairs: [(name: String, value: String)]

    /// - Throws: `SRV-0400` for a query that is not percent-encoded UTF-8.
    public init(_ request: Request) throws(ServiceError) {
        var pairs: [(name: String, value: String)] = []
        for item in (request.uri.query ?? "").split(separator: "&") {
            let parts = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            // Forms and URLSearchParams write a space as a plus sign.
            let value = parts.count > 1 ? String(parts[1].map { $0 == "+" ? " " : $0 }) : ""
            guard let name = PathText.decoded(parts[0]), let text = PathText.decoded(value) else {
                throw ServiceError(.badRequest, "the query of the path is not percent-encoded UTF-8")
            }
            pairs.append((name, text))
        }
        self.pairs = pairs
    }

    /// All values of a parameter.
    public func all(_ name: String) -> [String] { pairs.filter { $0.name == name }.map(\.value) }

    /// The value of a parameter; nil without it.
    public func text(_ name: String) throws(ServiceError) -> String? {
        let values = all(name)
        guard values.count < 2 else {
            throw ServiceError(.badRequest, "the query parameter \"\(name)\" stands \(values.count) times")
        }
        return values.first
    }

    /// A whole number within a range; nil without the parameter.
    public func whole(_ name: String, in range: ClosedRange<UInt64>) throws(ServiceError) -> UInt64? {
        guard let text = try text(name) else { return nil }
        guard let number = UInt64(text), range.contains(number) else {
            let bound = range.upperBound == .max ? "" : " to \(range.upperBound)"
            throw ServiceError(
                .badRequest,
                "the query parameter \"\(name)\" must be a whole number from \(range.lowerBound)\(bound)")
        }
        return number
    }

    /// One word out of a few; nil without the parameter.
    public func choice(_ name: String, of words: [String]) throws(ServiceError) -> String? {
        guard let text = try text(name) else { return nil }
        guard words.contains(text) else {
            let list = words.map { "\"\($0)\"" }.joined(separator: ", ")
            throw ServiceError(.badRequest, "the query parameter \"\(name)\" must be one of \(list)")
        }
        return text
    }
}
