import CRDT

/// The table as a document of OpenAPI 3.1, from which public generators make clients.
enum OpenAPI {
    /// The document as JSON; made once.
    static let json: [UInt8] = JSONText.bytes(document)

    static var document: Value {
        var paths = ObjectValue()
        for route in Surface.routes {
            var item = paths[route.template]?.objectValue ?? ObjectValue()
            item[route.method.rawValue.lowercased()] = .object(operation(route))
            paths[route.template] = .object(item)
        }
        let schemas = ObjectValue(Surface.shapes.map { (key: $0.name, value: $0.schema.value) })
        return [
            "openapi": "3.1.0",
            "info": [
                "title": "Mimeo", "version": "5",
                "description": "Every route of every service. HEAD is served wherever GET is.",
            ],
            "servers": [["url": "/"]],
            "tags": .array(
                Surface.groups.map { ["name": .string($0.name), "description": .string($0.about)] }),
            "paths": .object(paths),
            "components": [
                "schemas": .object(schemas),
                "securitySchemes": [
                    "user": scheme("An access token or an API key."),
                    "administrator": scheme(
                        "The admin credential: the text of DATA/auth/admin.token, or a named one whose role "
                            + "is at least the route's x-role."),
                ],
            ],
        ]
    }

    private static func scheme(_ about: String) -> Value {
        ["type": "http", "scheme": "bearer", "description": .string(about)]
    }

    private static func operation(_ route: RouteDescription) -> ObjectValue {
        var operation = ObjectValue()
        operation["operationId"] = .string(route.name)
        operation["summary"] = .string(route.summary)
        if !route.details.isEmpty { operation["description"] = .string(route.details) }
        operation["tags"] = .array(
            Surface.groups.filter { group in group.routes.contains { $0.name == route.name } }
                .map { .string($0.name) })
        let parameters = route.pathParameters.map(pathParameter) + route.parameters.map(parameter)
        if !parameters.isEmpty { operation["parameters"] = .array(parameters) }
        if let body = route.body {
            operation["requestBody"] = [
                "required": .bool(body.isRequired), "content": content(body.types, body.schema.value),
            ]
        }
        operation["responses"] = .object(responses(route))
        operation["security"] =
            switch route.access {
            case .anybody: []
            case .user: [["user": []]]
            case .admin: [["administrator": []]]
            }
        if case .admin(let role) = route.access { operation["x-role"] = .string(role.rawValue) }
        return operation
    }

    private static func pathParameter(_ name: String) -> Value {
        ["name": .string(name), "in": "path", "required": true, "schema": ["type": "string"]]
    }

    private static func parameter(_ parameter: RouteDescription.Parameter) -> Value {
        var object = ObjectValue([
            (key: "name", value: .string(parameter.name)),
            (key: "in", value: .string(parameter.place.rawValue)),
            (key: "required", value: false), (key: "description", value: .string(parameter.about)),
        ])
        object["schema"] =
            parameter.repeats
            ? ["type": "array", "items": parameter.schema.value] : parameter.schema.value
        if parameter.repeats { object["explode"] = true }
        return .object(object)
    }

    private static func responses(_ route: RouteDescription) -> ObjectValue {
        let shape = Schema.named(route.errorShape).value
        var responses = ObjectValue()
        for answer in route.answers {
            var response = ObjectValue([(key: "description", value: .string(answer.about))])
            if let body = answer.body { response["content"] = content(body.types, body.schema.value) }
            responses["\(answer.status)"] = .object(response)
        }
        for failure in route.allFailures {
            // A status that is an answer and an error too: health checks, which say themselves what fails.
            guard responses["\(failure.status)"] == nil else { continue }
            // The wire and nginx answer before the route does, in everybody's form.
            let either: Value =
                route.errorShape == "Error" ? shape : ["anyOf": [shape, Schema.named("Error").value]]
            responses["\(failure.status)"] = [
                "description": .string(failure.codes.joined(separator: ", ")),
                "content": content(["application/json"], either),
            ]
        }
        return responses
    }

    private static func content(_ types: [String], _ schema: Value) -> Value {
        .object(ObjectValue(types.map { (key: $0, value: ["schema": schema]) }))
    }
}
