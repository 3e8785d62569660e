import CRDT
import OperationLog

/// Documents whose state takes about 300 bytes, one an operation, by one author.
struct Samples {
    let operations: [Operation]
    let bytes: [[UInt8]]
    /// Ids and states, as a receiver stores them.
    let states: [(id: [UInt8], bytes: [UInt8])]
    static let actor = ActorID(0x5EED_0000_0000_0007)

    init(_ count: Int) throws {
        var operations: [Operation] = []
        var states: [(id: [UInt8], bytes: [UInt8])] = []
        for number in 0..<count {
            let stamp = Stamp(
                time: UInt64(1_700_000_000_000 + number) << 16, actor: Samples.actor)
            var editor = DocumentEditor(document: Document(), stamp: stamp)
            editor.create()
            let id = try Samples.id(number)
            for (key, value) in Samples.fields(number).entries { try editor.set([key], value) }
            guard let delta = editor.pending.delta(stamp: stamp) else { fatalError("an edit has a delta") }
            states.append((id.bytes, editor.document.encoded().bytes))
            operations.append(
                Operation(
                    actor: Samples.actor, sequence: SequenceNumber(UInt64(number + 1)), timestamp: stamp.time,
                    changes: [.init(collection: "orders", id: id, delta: delta.encoded())]))
        }
        self.operations = operations
        self.states = states
        bytes = operations.map { $0.encoded() }
    }

    static func id(_ number: Int) throws -> DocumentID {
        let digits = String(number)
        return try DocumentID(.string("order-" + String(repeating: "0", count: 7 - digits.count) + digits))
    }

    static func fields(_ number: Int) -> ObjectValue {
        let customer: Value = [
            "name": .string("Customer \(number % 977)"), "city": .string("City \(number % 211)"),
        ]
        let fields: [(key: String, value: Value)] = [
            (key: "status", value: .string(statuses[number % 4])),
            (key: "priority", value: .int(Int64(number % 10))),
            (key: "site", value: .string("site-\(number % 50)")),
            (key: "price", value: .double(Double(number * 104_729 % 10_000) / 100)),
            (key: "customer", value: customer), (key: "note", value: .string(note)),
        ]
        return ObjectValue(fields)
    }

    private static let statuses = ["open", "assigned", "blocked", "done"]
    private static let note = String(repeating: "n", count: 100)

    /// Appends all of it to a log, in groups.
    func append(to log: any OperationLog, _ database: DatabaseID) async throws {
        for start in stride(from: 0, to: operations.count, by: 1_000) {
            let end = min(start + 1_000, operations.count)
            let requests = (start..<end).map {
                AppendRequest(operations[$0], bytes: bytes[$0], authorKey: "author")
            }
            _ = try await log.append(requests, to: database)
        }
    }
}
