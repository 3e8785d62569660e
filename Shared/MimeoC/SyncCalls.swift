public import CMimeo
import CRDT
import DittoSwift
import Foundation

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_sync_start(_ database: mimeo_handle, _ error: UnsafeMutablePointer<mimeo_error>!)
    -> mimeo_status
{
    call(on: database, error) { try $0.ditto.sync.start() }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_sync_stop(_ database: mimeo_handle, _ error: UnsafeMutablePointer<mimeo_error>!)
    -> mimeo_status
{
    call(on: database, error) { database in
        let sync = database.ditto.sync
        try DittoStore.waiting { await sync.stopAndWait() }
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_subscribe(
    _ database: mimeo_handle, _ statement: UnsafePointer<CChar>!, _ statementSize: Int,
    _ arguments: UnsafeRawPointer!, _ argumentsSize: Int, _ subscription: UnsafeMutablePointer<mimeo_handle>!,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(on: database, subscription, error) { database in
        let statement = try Statement(statement, statementSize, arguments, argumentsSize)
        return try database.add(Running(database)) { handle, running in
            let started = try database.ditto.sync.subscribe(statement.text, statement.arguments)
            running.started(handle) { started.cancel() }
        }
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_login(
    _ database: mimeo_handle, _ provider: UnsafePointer<CChar>!, _ providerSize: Int,
    _ token: UnsafePointer<CChar>!, _ tokenSize: Int, _ flags: UInt32,
    _ result: UnsafeMutablePointer<mimeo_result>!, _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(on: database, error) { database in
        let format = try Format(flags: flags)
        let auth = try authenticator(of: database)
        let provider = try Incoming.text(provider, providerSize, "provider")
        let token = try Incoming.text(token, tokenSize, "token")
        let info = try DittoStore.waiting {
            try await auth.login(
                token: token, provider: DittoAuthenticationProvider(stringLiteral: provider))
        }
        if let result {
            let value = try info.map { try JSONText.parse($0) } ?? .null
            result.pointee = mimeo_result(one: value, format)
        }
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_logout(_ database: mimeo_handle, _ error: UnsafeMutablePointer<mimeo_error>!)
    -> mimeo_status
{
    call(on: database, error) { try authenticator(of: $0).logout() }
}

private func authenticator(of database: Database) throws -> DittoAuthenticator {
    guard let auth = database.ditto.auth else {
        throw BorderError(.noServer, "the database has no server to log in to")
    }
    return auth
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_state(
    _ database: mimeo_handle, _ topic: Int32, _ flags: UInt32, _ result: UnsafeMutablePointer<mimeo_result>!,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(on: database, result, error) { database in
        let format = try Format(flags: flags)
        let ditto = database.ditto
        let value: Value
        switch topic {
        case MIMEO_PRESENCE: value = plain(ditto.presence.graph)
        case MIMEO_SYNC: value = try syncState(ditto)
        case MIMEO_TRANSPORTS: value = plain(ditto.transportConfig)
        default: throw BorderError(.choiceUnknown, "\(topic) is no topic")
        }
        return mimeo_result(one: value, format)
    }
}

private func syncState(_ ditto: Ditto) throws -> Value {
    let (status, commits, login) = (ditto.sync.status, try ditto.sync.commits(), ditto.auth?.status)
    let report = ditto.sync.linkReport
    let problems = status.problems.map { query, failure in
        (key: query, value: Value.string("\(failure.code): \(failure.message)"))
    }
    let links = (report?.links ?? []).map { link in
        object([("peer", .string(link.peerKey)), ("kind", .string(link.kind))])
    }
    let listening = (report?.listening ?? []).map { place in
        object([("address", .string(place.address)), ("port", .int(Int64(place.port)))])
    }
    return object([
        ("active", .bool(ditto.sync.isActive)), ("status", .string(status.text)),
        ("last_error", status.lastError.map { .string($0) } ?? .null),
        ("problems", .object(ObjectValue(problems))),
        ("last_commit", .int(Int64(commits.last))),
        ("acknowledged_commit", .int(Int64(commits.acknowledged))),
        ("authenticated", .bool(login?.isAuthenticated ?? false)),
        ("user_id", login?.userID.map { .string($0) } ?? .null), ("links", .array(links)),
        ("listening", .array(listening)),
    ])
}

private func object(_ members: [(String, Value)]) -> Value {
    .object(ObjectValue(unique: members.map { (key: $0.0, value: $0.1) }))
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_refused(
    _ database: mimeo_handle, _ commit: UInt64, _ limit: Int, _ flags: UInt32,
    _ result: UnsafeMutablePointer<mimeo_result>!, _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(on: database, result, error) { database in
        let format = try Format(flags: flags)
        // A size beyond the integers arrives as a negative one.
        let most = limit < 0 ? Int.max : limit
        let rows = try database.ditto.sync.refusedCommits(from: commit, limit: most).map { refused in
            object([
                ("commit", .int(Int64(refused.commitID))), ("code", .string(refused.code)),
                ("message", .string(refused.message)),
            ])
        }
        return mimeo_result(rows, format)
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_wait_acknowledged(
    _ database: mimeo_handle, _ commit: UInt64, _ milliseconds: Int32,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    guarded(error) {
        let sync = try HandleTable.shared.object(database, as: Database.self).ditto.sync
        let isThere = try DittoStore.waiting {
            await sync.waitForAcknowledgement(
                of: commit, timeout: .milliseconds(Int64(max(0, milliseconds))))
        }
        return isThere ? MIMEO_OK : MIMEO_EMPTY
    }
}
