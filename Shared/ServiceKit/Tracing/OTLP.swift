import Foundation
import Tracing

/// Spans in the JSON form of the OpenTelemetry protocol, as `POST /v1/traces` takes it.
enum OTLP {
    /// The body of a request.
    static func body(_ spans: [EndedSpan], resource: [(key: String, value: String)]) -> [UInt8] {
        let content: [String: Any] = [
            "resourceSpans": [
                [
                    "resource": [
                        "attributes": resource.map { ["key": $0.key, "value": ["stringValue": $0.value]] }
                    ],
                    "scopeSpans": [
                        [
                            "scope": ["name": "mimeo", "version": BuildVersion.number],
                            "spans": spans.map(span),
                        ]
                    ],
                ]
            ]
        ]
        guard let data = try? JSONSerialization.data(withJSONObject: content) else {
            preconditionFailure("spans are made of texts and numbers")
        }
        return [UInt8](data)
    }

    private static func span(_ span: EndedSpan) -> [String: Any] {
        var content: [String: Any] = [
            "traceId": span.identity.trace, "spanId": span.identity.span, "name": span.name,
            "kind": kind(span.kind), "startTimeUnixNano": "\(span.begin)", "endTimeUnixNano": "\(span.end)",
            "attributes": attributes(span.attributes),
        ]
        if let parent = span.parent { content["parentSpanId"] = parent }
        if !span.events.isEmpty {
            content["events"] = span.events.map {
                [
                    "name": $0.name, "timeUnixNano": "\($0.nanosecondsSinceEpoch)",
                    "attributes": attributes($0.attributes),
                ] as [String: Any]
            }
        }
        if let status = span.status {
            var told: [String: Any] = ["code": status.code == .ok ? 1 : 2]
            if let message = status.message { told["message"] = message }
            content["status"] = told
        }
        return content
    }

    private static func kind(_ kind: SpanKind) -> Int {
        switch kind {
        case .internal: 1
        case .server: 2
        case .client: 3
        case .producer: 4
        case .consumer: 5
        }
    }

    private static func attributes(_ attributes: SpanAttributes) -> [[String: Any]] {
        var list: [[String: Any]] = []
        attributes.forEach { key, value in list.append(["key": key, "value": Self.value(value)]) }
        return list
    }

    /// 64-bit integers are texts in this form.
    private static func value(_ value: SpanAttribute) -> [String: Any] {
        switch value {
        case .int32(let number): ["intValue": "\(number)"]
        case .int64(let number): ["intValue": "\(number)"]
        case .double(let number) where number.isFinite: ["doubleValue": number]
        case .bool(let flag): ["boolValue": flag]
        default: ["stringValue": text(value)]
        }
    }

    /// An attribute as text.
    static func text(_ value: SpanAttribute) -> String {
        switch value {
        case .string(let text): text
        case .int32(let number): "\(number)"
        case .int64(let number): "\(number)"
        case .bool(let flag): "\(flag)"
        case .double(let number): "\(number)"
        case .stringConvertible(let value): "\(value)"
        case .stringArray(let texts): texts.joined(separator: ",")
        default: "\(value)"
        }
    }
}
