import CRDT
import DQL
import ServiceKit

/// The commands of `POST /api/v4/store/write`, which become the statements of one transaction: all are done,
/// or none.
struct LegacyWrite: Sendable {
    /// A command as a statement.
    private struct Command {
        let method: String
        let step: ExecuteRequest.Step
    }

    private let commands: [Command]
    /// The transaction.
    let request: ExecuteRequest

    /// - Throws: `QUERY-0101` and DQL's errors, in a `TransactionFailure` that has the command's index.
    init(_ members: ObjectValue) throws {
        guard let list = members["commands"]?.arrayValue, 1...Limits.transactionStatements ~= list.count
        else {
            throw LegacyCall.malformed(
                "\"commands\" must be a list of 1 to \(Limits.transactionStatements) commands")
        }
        commands = try list.enumerated().map { index, item in
            do {
                return try Self.command(item)
            } catch {
                throw TransactionFailure(index: index, error: error)
            }
        }
        request = ExecuteRequest(transaction: commands.map(\.step))
    }

    /// `{"results": [{"method", "transactionId", "updated" or "deleted": ids}]}`.
    func answer(_ answer: ExecuteAnswer) -> Value {
        let results = zip(commands, answer.results ?? []).map { command, result -> Value in
            let ids = Value.array(result.mutatedDocumentIDs)
            var object = ObjectValue()
            object["method"] = .string(command.method)
            object["transactionId"] = .offset(answer.transactionID)
            object[command.method == "remove" ? "deleted" : "updated"] = ids
            return .object(object)
        }
        return ["results": .array(results), "txnId": .offset(answer.transactionID)]
    }

    // MARK: Commands

    private static func command(_ item: Value) throws -> Command {
        guard case .string(let method)? = item["method"],
            let known = members[method]
        else { throw LegacyCall.malformed("\"method\" must be \"upsert\", \"update\" or \"remove\"") }
        let call = try LegacyCall(LegacyCall.object(item, method, known: known))
        let step =
            switch method {
            case "upsert": try upsert(call)
            case "update": try update(call)
            default: try remove(call)
            }
        return Command(method: method, step: step)
    }

    private static let members = [
        "upsert": ["method", "collection", "id", "value", "valueTypeOverrides"],
        "update": ["method", "collection", "query", "args", "commands"],
        "remove": ["method", "collection", "query", "args"],
    ]

    private static func upsert(_ call: LegacyCall) throws -> ExecuteRequest.Step {
        guard case .object(var document)? = call.members["value"] else {
            throw LegacyCall.malformed("\"value\" must be an object")
        }
        if let id = call.members["id"] {
            guard document["_id"].map({ $0 == id }) ?? true else {
                throw LegacyCall.malformed("\"id\" and the \"_id\" of \"value\" differ")
            }
            document["_id"] = id
        }
        var types = FieldTypes()
        if let overrides = call.members["valueTypeOverrides"], overrides != .null {
            guard case .object(let overrides) = overrides else {
                throw LegacyCall.malformed("\"valueTypeOverrides\" must be an object of paths")
            }
            for entry in overrides.entries {
                guard let type = entry.value.stringValue.flatMap({ typeNames[$0] }) else {
                    throw LegacyCall.malformed(
                        "a type is \"counter\", \"register\" or \"attachment\"")
                }
                try types.declare(path(entry.key), type)
            }
        }
        return ExecuteRequest.Step(
            statement:
                "INSERT INTO \(types.source(call.collection)) DOCUMENTS (:value) ON ID CONFLICT DO UPDATE",
            arguments: ObjectValue([(key: "value", value: .object(document))]))
    }

    private static let typeNames = [
        "counter": "PN_COUNTER", "register": "REGISTER", "attachment": "ATTACHMENT",
    ]

    private static func update(_ call: LegacyCall) throws -> ExecuteRequest.Step {
        guard let changes = call.members["commands"]?.arrayValue, !changes.isEmpty else {
            throw LegacyCall.malformed("\"commands\" of an update must be a list of changes")
        }
        var arguments = try call.arguments()
        var (types, applied, set) = (FieldTypes(), [String](), [String]())
        for (index, change) in changes.enumerated() {
            let change = try LegacyCall.object(change, "a change", known: ["method", "path", "value"])
            guard let text = change["path"]?.stringValue else {
                throw LegacyCall.malformed("a change must have a \"path\"")
            }
            let names = try path(text)
            let target = names.map(LegacyCall.quoted).joined(separator: ".")
            let (name, method) = ("__change_\(index)", change["method"]?.stringValue)
            // A forgotten value must not empty the field.
            guard let value = change["value"] ?? (method == "replaceWithCounter" ? .int(0) : nil) else {
                throw LegacyCall.malformed("a change must have a \"value\"; null is one")
            }
            arguments[name] = value
            switch method {
            case "set"?: set.append("\(target) = :\(name)")
            case "setAttachment"?:
                try types.declare(names, "ATTACHMENT")
                set.append("\(target) = :\(name)")
            case "increment"?: applied.append("\(target) PN_INCREMENT BY :\(name)")
            case "replaceWithCounter"?:
                try types.declare(names, "PN_COUNTER")
                if value == .null { arguments[name] = 0 }
                set.append("\(target) = :\(name)")
            default:
                throw LegacyCall.malformed(
                    "the method of a change is \"set\", \"setAttachment\", \"increment\" or "
                        + "\"replaceWithCounter\"")
            }
        }
        var text = "UPDATE \(types.source(call.collection))"
        if !applied.isEmpty { text += " APPLY \(applied.joined(separator: ", "))" }
        if !set.isEmpty { text += " SET \(set.joined(separator: ", "))" }
        return ExecuteRequest.Step(statement: text + (try condition(call)), arguments: arguments)
    }

    private static func remove(_ call: LegacyCall) throws -> ExecuteRequest.Step {
        let text = "DELETE FROM \(LegacyCall.quoted(call.collection.text))" + (try condition(call))
        return ExecuteRequest.Step(statement: text, arguments: try call.arguments())
    }

    /// ` WHERE …`. A forgotten query must not mean all documents.
    private static func condition(_ call: LegacyCall) throws -> String {
        guard let query = try call.text("query"), !query.allSatisfy(\.isWhitespace) else {
            throw LegacyCall.malformed("\"query\" is missing; \"true\" stands for all documents")
        }
        let all = try LegacyQuery.statement("true", from: call.collection).dropLast("true".count)
        return " WHERE " + (try LegacyQuery.statement(query, from: call.collection)).dropFirst(all.count)
    }

    /// The names of `a.b`, and of `a['b']` or `a["b"]`, whose names may have any character but that quote.
    private static func path(_ text: String) throws(QueryError) -> [String] {
        var names: [String] = []
        var rest = text[...]
        repeat {
            if !names.isEmpty, rest.first == "." { rest = rest.dropFirst() }
            let name: Substring
            if let quote = rest.dropFirst().first, rest.first == "[", quote == "'" || quote == "\"" {
                name = rest.dropFirst(2).prefix { $0 != quote }
                rest = rest.dropFirst(2 + name.count)
                guard rest.hasPrefix("\(quote)]") else { throw malformedPath }
                rest = rest.dropFirst(2)
                guard rest.isEmpty || rest.first == "." || rest.first == "[" else { throw malformedPath }
            } else {
                name = rest.prefix { $0 != "." && $0 != "[" && $0 != "]" }
                rest = rest.dropFirst(name.count)
                guard rest.first != "]" else { throw malformedPath }
            }
            guard !name.isEmpty, rest != ".", names.count < Limits.shapeDepth * 4 else { throw malformedPath }
            names.append(String(name))
        } while !rest.isEmpty
        return names
    }

    private static var malformedPath: QueryError {
        LegacyCall.malformed(
            "a \"path\" is names with dots between them, or in brackets like a['b']; array elements have none"
        )
    }
}

/// The types that fields are declared with.
private struct FieldTypes {
    private indirect enum Declared {
        case type(String)
        case map([(name: String, of: Declared)])
    }

    private var fields: [(name: String, of: Declared)] = []

    /// - Throws: `QUERY-0101` for a path that is declared already, or that leads through one.
    mutating func declare(_ path: [String], _ type: String) throws(QueryError) {
        try Self.declare(path[...], type, in: &fields)
    }

    private static func declare(
        _ path: ArraySlice<String>, _ type: String, in fields: inout [(name: String, of: Declared)]
    ) throws(QueryError) {
        guard let name = path.first else { return }
        let place = fields.firstIndex { utf8Equal($0.name, name) }
        let rest = path.dropFirst()
        guard !rest.isEmpty else {
            guard place == nil else { throw LegacyCall.malformed("a path is named twice") }
            return fields.append((name, .type(type)))
        }
        var inner: [(name: String, of: Declared)] = []
        if let place {
            guard case .map(let known) = fields[place].of else {
                throw LegacyCall.malformed("a path is named twice")
            }
            inner = known
        }
        try declare(rest, type, in: &inner)
        if let place { fields[place].of = .map(inner) } else { fields.append((name, .map(inner))) }
    }

    /// The collection as a statement names it, with its declarations.
    func source(_ collection: CollectionName) -> String {
        let name = LegacyCall.quoted(collection.text)
        return fields.isEmpty ? name : "COLLECTION \(name) (\(Self.text(fields)))"
    }

    private static func text(_ fields: [(name: String, of: Declared)]) -> String {
        fields.map { field in
            switch field.of {
            case .type(let type): "\(LegacyCall.quoted(field.name)) \(type)"
            case .map(let inner): "\(LegacyCall.quoted(field.name)) MAP (\(text(inner)))"
            }
        }.joined(separator: ", ")
    }
}
