public import CMimeo
import CRDT
import DittoSwift

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_execute(
    _ location: mimeo_handle, _ statement: UnsafePointer<CChar>!, _ statementSize: Int,
    _ arguments: UnsafeRawPointer!, _ argumentsSize: Int, _ flags: UInt32,
    _ result: UnsafeMutablePointer<mimeo_result>!, _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(result, error) {
        let format = try Format(flags: flags)
        return mimeo_result(
            try run(location, Statement(statement, statementSize, arguments, argumentsSize)), format)
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_query(
    _ location: mimeo_handle, _ statement: UnsafePointer<CChar>!, _ statementSize: Int,
    _ arguments: UnsafeRawPointer!, _ argumentsSize: Int, _ cursor: UnsafeMutablePointer<mimeo_handle>!,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(cursor, error) {
        let statement = try Statement(statement, statementSize, arguments, argumentsSize)
        let found = try HandleTable.shared.object(location)
        let database = found as? Database ?? (found as? HeldTransaction)?.database
        if let store = database?.ditto.store, try !store.onlyReads(statement.text) {
            throw BorderError(.argumentUnusable, "only a SELECT has rows to fetch, the statement writes")
        }
        return HandleTable.shared.add(Cursor(try run(location, statement)))
    }
}

/// Executes a statement in a database or a transaction.
private func run(_ location: mimeo_handle, _ statement: Statement) throws -> DittoQueryResult {
    switch try HandleTable.shared.object(location) {
    case let transaction as HeldTransaction:
        return try transaction.execute(statement.text, statement.arguments)
    case let database as Database:
        return try database.ditto.store.executeBlocking(statement.text, statement.arguments) {
            try database.checkNotInside()
        }
    case let other:
        throw BorderError(
            .handleOfOtherKind, "handle \(location) is \(type(of: other).kind), not a database or transaction"
        )
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_next_rows(
    _ cursor: mimeo_handle, _ limit: Int, _ flags: UInt32, _ result: UnsafeMutablePointer<mimeo_result>!,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(result, error) {
        let format = try Format(flags: flags)
        guard limit != 0 else {
            throw BorderError(.argumentUnusable, "the limit of rows is 0, which would look like the end")
        }
        let cursor = try HandleTable.shared.object(cursor, as: Cursor.self)
        return mimeo_result(cursor.rows(atMost: limit), format)
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_begin(
    _ database: mimeo_handle, _ flags: UInt32, _ transaction: UnsafeMutablePointer<mimeo_handle>!,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(on: database, transaction, error) { database in
        guard flags & ~(MIMEO_READ_ONLY | MIMEO_ANY_THREAD) == 0 else {
            throw BorderError(.choiceUnknown, "\(flags) is no flag of a transaction")
        }
        let isReadOnly = flags & MIMEO_READ_ONLY != 0
        if !isReadOnly { try database.checkNotInside() }
        let begun = try database.ditto.store.beginBlocking(isReadOnly: isReadOnly)
        let isBound = !isReadOnly && flags & MIMEO_ANY_THREAD == 0
        let held = HeldTransaction(database, begun, isBound: isBound)
        do {
            let handle = try database.add(held)
            held.named(handle)
            return handle
        } catch {
            held.end()
            throw error
        }
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_end(
    _ transaction: mimeo_handle, _ commits: Int32, _ commit: UnsafeMutablePointer<UInt64>!,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(error) {
        let held = try HandleTable.shared.object(transaction, as: HeldTransaction.self)
        _ = try HandleTable.shared.remove(transaction)
        let number = try held.end(commits: commits != 0)
        commit?.pointee = number
    }
}
