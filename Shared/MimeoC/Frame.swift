internal import CMimeo

// The frame of every function of the interface: nothing runs in a forked child, no error leaves a function,
// and an answer is written where the program has given room for it.

/// Runs a body that says itself how it went.
func guarded(
    _ error: UnsafeMutablePointer<mimeo_error>?, _ body: () throws -> mimeo_status
) -> mimeo_status {
    guard !Fork.isChild else {
        BorderError(
            .forked,
            "this process was forked from one that had opened a database, and has none of its threads: let"
                + " only the forked processes open databases, or start them by spawning"
        ).write(to: error)
        return MIMEO_ERROR
    }
    do {
        return try body()
    } catch let thrown {
        BorderError(thrown).write(to: error)
        return MIMEO_ERROR
    }
}

/// Runs a body without an answer.
func call(_ error: UnsafeMutablePointer<mimeo_error>?, _ body: () throws -> Void) -> mimeo_status {
    guarded(error) {
        try body()
        return MIMEO_OK
    }
}

/// Runs a body and writes its answer to `place`; `MIMEO_EMPTY` for none.
func call<Answer>(
    _ place: UnsafeMutablePointer<Answer>?, _ error: UnsafeMutablePointer<mimeo_error>?,
    _ body: () throws -> Answer?
) -> mimeo_status {
    guarded(error) {
        guard let place else {
            throw BorderError(.argumentUnusable, "the pointer for the result is NULL")
        }
        guard let answer = try body() else { return MIMEO_EMPTY }
        place.pointee = answer
        return MIMEO_OK
    }
}

/// Runs a body on an open database.
func call<Answer>(
    on database: mimeo_handle, _ place: UnsafeMutablePointer<Answer>?,
    _ error: UnsafeMutablePointer<mimeo_error>?, _ body: (Database) throws -> Answer?
) -> mimeo_status {
    call(place, error) { try body(HandleTable.shared.object(database, as: Database.self)) }
}

/// Runs a body without an answer on an open database.
func call(
    on database: mimeo_handle, _ error: UnsafeMutablePointer<mimeo_error>?, _ body: (Database) throws -> Void
) -> mimeo_status {
    call(error) { try body(HandleTable.shared.object(database, as: Database.self)) }
}
