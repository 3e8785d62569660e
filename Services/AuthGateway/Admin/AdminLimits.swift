import CRDT
import Hummingbird
import ServiceKit

/// Admin routes for the limits of a database and of its users.
extension AdminRoutes {
    func showLimits(_ database: DatabaseID) -> Response {
        let limits =
            state.system.directory.limits(of: database) ?? DatabaseLimits(database: database)
        let users = limits.users.map { (key: $0.name, value: Self.value(of: $0.limits)) }
        let answer: Value = [
            "whole": Self.value(of: limits.whole), "eachUser": Self.value(of: limits.eachUser),
            "users": .object(ObjectValue(users)),
        ]
        return .json(JSONText.print(answer).utf8, headers: [.cacheControl: "no-store"])
    }

    /// Sets all limits at once; an empty body removes them.
    func putLimits(_ request: Request, _ database: DatabaseID) async throws -> Response {
        let body = try await AdminBody(request, known: ["whole", "eachUser", "users"])
        var limits = DatabaseLimits(database: database)
        limits.whole = try Self.limits(body.value("whole"), "whole")
        limits.eachUser = try Self.limits(body.value("eachUser"), "eachUser")
        if let users = body.value("users"), users != .null {
            guard let users = users.objectValue, users.entries.count <= Limits.limitedUsers,
                users.entries.allSatisfy({ 1...Limits.userIDBytes ~= $0.key.utf8.count })
            else {
                throw AuthGatewayError(
                    .requestMalformed,
                    "users must be an object with the limits of at most \(Limits.limitedUsers) users")
            }
            limits.users = try users.entries.map {
                UserLimits(name: $0.key, limits: try Self.limits($0.value, "users.\($0.key.prefix(40))"))
            }
        }
        let isEmpty = limits == DatabaseLimits(database: database)
        try await state.system.write { [limits] writer in
            try writer.remove(limits.id, DatabaseLimits.self)
            if !isEmpty { try writer.put(limits) }
        }
        return Response(status: .noContent)
    }

    private static func limits(_ value: Value?, _ place: String) throws(AuthGatewayError) -> UsageLimits {
        var limits = UsageLimits()
        guard let value, value != .null else { return limits }
        guard let members = value.objectValue else {
            throw AuthGatewayError(.requestMalformed, "\(place) must be an object")
        }
        for (name, value) in members.entries {
            guard let kind = LimitKind.allCases.first(where: { utf8Equal($0.rawValue, name) }) else {
                let known = LimitKind.allCases.map(\.rawValue).joined(separator: ", ")
                throw AuthGatewayError(
                    .requestMalformed, "\(place): '\(name.prefix(40))' is no limit; there are \(known)")
            }
            guard value != .null else { continue }
            guard let most = value.intValue, 1..<1 << 50 ~= most else {
                throw AuthGatewayError(
                    .requestMalformed, "\(place).\(name) must be a whole number from 1, or null")
            }
            limits[kind] = most
        }
        return limits
    }

    private static func value(of limits: UsageLimits) -> Value {
        .object(
            ObjectValue(
                LimitKind.allCases.compactMap { kind in
                    limits[kind].map { (key: kind.rawValue, value: Value.int($0)) }
                }))
    }
}
