import GRDB

/// Runs statements on a log's file behind the log's back.
func edit(_ path: String, _ body: (Database) throws -> Void) throws {
    let connection = try DatabaseQueue(path: path)
    try connection.writeWithoutTransaction(body)
    try connection.close()
}

/// Another process that holds the write lock of a log until it is told to let go.
struct LockHolder {
    private let connection: DatabaseQueue

    init(_ path: String) throws {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        connection = try DatabaseQueue(path: path, configuration: configuration)
        try connection.writeWithoutTransaction { try $0.beginTransaction(.immediate) }
    }

    func letGo() throws {
        try connection.writeWithoutTransaction { try $0.rollback() }
        try connection.close()
    }
}
