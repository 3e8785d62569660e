import CRDT
import DQL
import Identity

/// The `system:` collections of a database over HTTP. Collections without any document that the rules allow
/// do not appear.
struct QuerySystemCollections: SystemCollections {
    let names: [CollectionName]
    let rules: CompiledRules

    func rows(of collection: SystemCollection) -> [ObjectValue]? {
        switch collection {
        case .dual: [ObjectValue()]
        case .collections:
            names.filter { rules.allowsAny(of: $0) }.map { name in
                ObjectValue([
                    (key: "_id", value: .string(name.text)), (key: "name", value: .string(name.text)),
                ])
            }
        default: nil
        }
    }
}
