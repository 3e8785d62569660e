import CRDT
import DQL
import Logging

/// One line of the log, in both forms.
///
/// JSON has `time` (RFC 3339, UTC, milliseconds), `level`, `service` and `message`, then the fields of the
/// line: `request`, `session`, `database`, `code`, `duration_ms` and so on. A field that has the name of one
/// of the four gets `_` behind it.
struct LogLine: Sendable {
    /// Milliseconds since 1970.
    var milliseconds: Int64
    var level: Logger.Level
    var service: String
    var message: String
    var source: String
    var fields: Logger.Metadata

    private var time: String { RFC3339.text(milliseconds: milliseconds) ?? "\(milliseconds)" }

    /// For people: `TIME LEVEL SERVICE: field=value [source] message`.
    var text: String {
        var text = "\(time) \(level.rawValue) \(service):"
        for (name, value) in fields.sorted(by: { $0.key < $1.key }) { text += " \(name)=\(value)" }
        // A message of several lines could forge others.
        let plain = (text + " [\(source)] \(message)")
        return plain.contains("\n") ? plain.split(separator: "\n").joined(separator: "\\n") : plain
    }

    /// For programs: one object of JSON.
    var json: String {
        var object = ObjectValue([
            (key: "time", value: .string(time)), (key: "level", value: .string(level.rawValue)),
            (key: "service", value: .string(service)), (key: "message", value: .string(message)),
        ])
        for (name, value) in fields.sorted(by: { $0.key < $1.key }) {
            object[Self.reserved.contains(name) ? "\(name)_" : name] = Self.value(of: value, name)
        }
        return JSONText.print(.object(object))
    }

    private static let reserved: Set<String> = ["time", "level", "service", "message"]
    /// Fields that are numbers in JSON.
    private static let numbers: Set<String> = ["duration_ms", "status", "count", "seconds", "bytes"]

    private static func value(of value: Logger.MetadataValue, _ name: String) -> Value {
        switch value {
        case .string(let text): number(text, name) ?? .string(text)
        case .stringConvertible(let part): number("\(part)", name) ?? .string("\(part)")
        case .array(let parts): .array(parts.map { Self.value(of: $0, "") })
        case .dictionary(let parts):
            .object(
                ObjectValue(parts.sorted { $0.key < $1.key }.map { ($0.key, Self.value(of: $0.value, "")) }))
        }
    }

    private static func number(_ text: String, _ name: String) -> Value? {
        guard numbers.contains(name) else { return nil }
        return Int64(text).map { .int($0) } ?? Double(text).map { .double($0) }
    }
}
