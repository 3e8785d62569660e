import CRDT
import Foundation

/// An answer of the server for people and for programs. JSON is the server's own; in the other formats the
/// rows are those of the answer's one list, or the answer itself.
struct AdminTable {
    private let body: Value

    init(_ body: Value) { self.body = body }

    /// The rows: of an object with one list of objects those, of any other the object.
    var rows: [Value] {
        guard let members = body.objectValue else { return [body] }
        let lists = members.entries.filter { $0.value.arrayValue != nil }
        guard lists.count == 1, let list = lists.first?.value.arrayValue, isAList(members, lists[0].key)
        else {
            return [body]
        }
        return list.map { $0.objectValue == nil ? ["value": $0] : $0 }
    }

    /// A list with facts about itself, and not an object that also has a list.
    private func isAList(_ members: ObjectValue, _ name: String) -> Bool {
        let about: Set<String> = ["more", "before", "instance", "draining", "transactionId", "version"]
        return members.entries.allSatisfy { utf8Equal($0.key, name) || about.contains($0.key) }
    }

    /// The value with times that a person can read, in place of seconds or milliseconds since 1970 in members
    /// whose names end like `createdAt`.
    private static func withTimes(_ value: Value) -> Value {
        guard let object = value.objectValue else { return value }
        return .object(
            ObjectValue(
                unique: object.entries.map { entry in
                    guard entry.key.hasSuffix("At"), let number = entry.value.intValue,
                        let seconds = [number, number / 1_000].first(where: { readable.contains($0) })
                    else { return (key: entry.key, value: withTimes(entry.value)) }
                    let text = Date(timeIntervalSince1970: Double(seconds)).ISO8601Format()
                    return (key: entry.key, value: .string(text))
                }))
    }

    /// Seconds since 1970 that are a time between 2001 and 2096.
    private static let readable: ClosedRange<Int64> = 1_000_000_000...4_000_000_000

    /// The text in a format.
    func text(_ format: OutputFormat) -> String {
        guard format != .json else { return JSONText.print(body) }
        let items = format == .csv ? rows : rows.map(Self.withTimes)
        let result = Answer.Result(items: items, mutatedDocumentIDs: [], commitID: 0, warnings: [])
        let formatted = FormattedAnswer(.result(result), of: "SELECT", as: format)
        return formatted.output ?? formatted.remark ?? ""
    }
}
