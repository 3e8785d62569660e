/// The system database as a part of a host: open before the services that ask it, followed while they run,
/// closed after them. The first part of every host.
public struct SystemDatabasePart: ServicePart {
    /// `system-database`.
    public let name = "system-database"
    private let system: SystemDatabase

    /// A part of this database.
    public init(_ system: SystemDatabase) { self.system = system }

    /// Follows the log.
    public func mount(on mount: inout ServiceMount) {
        mount.background("system database") { await system.run() }
    }

    /// Reads what is in the log.
    public func start() async throws { try await system.open() }

    /// Closes it.
    public func stop() async { await system.close() }

    /// Failing while the log cannot be followed: revocations would not arrive.
    /// So it is while the log has no database: then it is another one than the auth-gateway's.
    public func health() async -> HealthCheck {
        guard await system.failure() == nil else {
            return .failing("the system database cannot be followed; see the log")
        }
        return system.directory.databases.isEmpty
            ? .failing("the log has no database; --log names the one of the auth-gateway") : .ok
    }
}
