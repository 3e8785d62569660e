import CRDT
import DQL
import Foundation
import Replica

/// The `system:` collections of a store, as one statement sees them.
struct EngineSystemCollections: SystemCollections {
    let engine: Engine
    /// The names of the collections that hold documents, as the statement's transaction sees them.
    let names: [CollectionName]
    /// The rows of `system:data_sync_info`.
    let peers: [ObjectValue]
    /// The rows of `system:indexes`.
    let indexes: [ObjectValue]

    func rows(of collection: SystemCollection) -> [ObjectValue]? {
        switch collection {
        case .dual: [ObjectValue()]
        case .collections:
            names.map { name in
                ObjectValue([
                    (key: "_id", value: .string(name.text)), (key: "name", value: .string(name.text)),
                ])
            }
        case .dataSyncInfo: peers
        case .systemInfo: systemInformation()
        case .sharedStatements: engine.settings.sharedStatements
        case .indexes: indexes
        case .activeRequests: engine.settings.requests.activeRows(nanoseconds: Engine.nanoseconds())
        case .requestHistory: engine.settings.requests.historyRows
        case .transportsInfo: engine.transportInformation()
        case .vitals, .metrics: nil
        }
    }

    func remove(_ ids: [DocumentID], from collection: SystemCollection) throws {
        let numbers = ids.compactMap(\.value.intValue)
        if collection == .activeRequests {
            for number in numbers { engine.settings.requests.cancel(number) }
        } else {
            engine.settings.requests.forget(Set(numbers))
        }
    }

    /// Rows of namespace, key, value and time.
    private func systemInformation() -> [ObjectValue] {
        let system = ProcessInfo.processInfo
        let facts: [(namespace: String, key: String, value: Value)] = [
            ("sdk", "version", .string(Ditto.version)), ("sdk", "language", "Swift"),
            ("device", "os", .string(system.operatingSystemVersionString)),
            ("device", "name", .string(system.hostName)),
            ("device", "processors", .int(Int64(system.activeProcessorCount))),
            ("process", "id", .int(Int64(system.processIdentifier))),
        ]
        let time = Int64(clamping: engine.environment.wallMilliseconds())
        return facts.map { fact in
            ObjectValue([
                (key: "_id", value: .string("\(fact.namespace).\(fact.key)")),
                (key: "namespace", value: .string(fact.namespace)), (key: "key", value: .string(fact.key)),
                (key: "value", value: fact.value), (key: "timestamp", value: .int(time)),
            ])
        }
    }
}
