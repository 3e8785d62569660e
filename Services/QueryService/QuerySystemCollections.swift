import CRDT
import DQL
import Identity

/// What the `system:` collections of a database show over HTTP: nothing that the grant does not let its
/// holder read.
struct QuerySystemCollections: SystemCollections {
    let names: [String]
    let grant: Grant

    func rows(of collection: SystemCollection) -> [ObjectValue]? {
        switch collection {
        case .dual: [ObjectValue()]
        case .collections:
            names.filter { grant.allowsReading(collection: $0) }.map { name in
                ObjectValue([(key: "_id", value: .string(name)), (key: "name", value: .string(name))])
            }
        default: nil
        }
    }
}
