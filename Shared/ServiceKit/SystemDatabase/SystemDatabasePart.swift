import Foundation

/// The system database as a part of a host: opened before the services that use it, followed while they run,
/// closed after them. It is the first part of every host.
public struct SystemDatabasePart: ServicePart {
    /// `system-database`.
    public let name = "system-database"
    let system: SystemDatabase

    /// A part of this database.
    public init(_ system: SystemDatabase) { self.system = system }

    /// Follows the log, and keeps contact with it.
    public func mount(on mount: inout ServiceMount) {
        mount.background("system database") { await system.run() }
        mount.background("contact with the log") { await system.keepContact() }
        mount.background("audit") { await system.audit.run() }
        mount.background("erasure from the log") { await system.logEraser.run() }
    }

    /// Opens the database and reads the log.
    public func start() async throws { try await system.open() }

    /// Writes the rest of the audit, and closes the database.
    public func stop() async {
        await system.audit.close()
        await system.close()
    }

    /// Failing without contact with the log and while it cannot be followed, since revocations would not
    /// arrive. Also failing while the log has no database: then it is not the auth-gateway's log.
    public func health() async -> HealthCheck {
        let contact = system.contact.health
        guard contact == .ok else { return contact }
        if system.restoreNotice != nil {
            return .failing(
                "\(ServiceErrorCode.restoreNotAccepted.rawValue): the log was put back to an earlier state: "
                    + "GET /admin/auth/restore tells what that takes back, POST accepts it")
        }
        guard await system.failure() == nil else {
            return .failing("the system database cannot be followed; see the service's log for the reason")
        }
        return system.directory.databases.isEmpty
            ? .failing("the log has no database; give --log the value that the auth-gateway has") : .ok
    }

    /// Not ready without contact with the log, while a restore is not accepted, and without a database.
    public func readiness() async -> [Unreadiness] {
        guard system.contact.state == .held else {
            let reason = system.contact.health.detail ?? "no contact with the operation log"
            return [Unreadiness(name, .contactLost, reason)]
        }
        if system.restoreNotice != nil {
            let reason = "the log was put back to an earlier state, and nobody has accepted that"
            return [Unreadiness(name, .restoreNotAccepted, reason)]
        }
        guard await system.failure() == nil else {
            return [Unreadiness(name, .notFolded, "the system database cannot be followed")]
        }
        return system.directory.databases.isEmpty
            ? [Unreadiness(name, .noDatabase, "the log has no database")] : []
    }

    /// Tells the use of limits, when a backup has failed, and the age of the contact with the log.
    public func measure() async {
        system.usage.measure(Array(system.directory.limits.values))
        system.directory.measureFailedBackups(nowSeconds: Int64(Date().timeIntervalSince1970))
        guard let silence = system.contact.silence else { return }
        Measured.set("mimeo_log_contact_age_seconds", silence / .seconds(1))
    }
}
