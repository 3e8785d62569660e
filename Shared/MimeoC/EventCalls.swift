public import CMimeo
import CRDT
import DittoSwift
import Foundation
import Machine
import Synchronization

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_observe(
    _ database: mimeo_handle, _ statement: UnsafePointer<CChar>!, _ statementSize: Int,
    _ arguments: UnsafeRawPointer!, _ argumentsSize: Int, _ flags: UInt32, _ callback: mimeo_callback!,
    _ context: UnsafeMutableRawPointer!, _ observer: UnsafeMutablePointer<mimeo_handle>!,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(on: database, observer, error) { database in
        let format = try Format(flags: flags)
        let statement = try Statement(statement, statementSize, arguments, argumentsSize)
        let receiver = Receiver(callback, context)
        return try database.add(Running(database)) { handle, running in
            let started = try database.ditto.store.observe(
                statement.text, statement.arguments, on: database.queue
            ) { [events = database.events] result, signalNext in
                events.tell(
                    Event(
                        MIMEO_ROWS, from: handle, to: receiver, .array(result.items.map(\.row)), format,
                        count: result.items.count, done: signalNext))
            }
            running.started(handle) { started.cancel() }
        }
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_watch(
    _ database: mimeo_handle, _ kind: Int32, _ flags: UInt32, _ callback: mimeo_callback!,
    _ context: UnsafeMutableRawPointer!, _ watcher: UnsafeMutablePointer<mimeo_handle>!,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(on: database, watcher, error) { database in
        let format = try Format(flags: flags)
        let receiver = Receiver(callback, context)
        return try database.add(Running(database)) { handle, running in
            switch kind {
            case MIMEO_LOGIN: try watchLogins(database, handle, running, receiver, format)
            case MIMEO_PRESENCE: watchPresence(database, handle, running, receiver, format)
            default: throw BorderError(.choiceUnknown, "\(kind) is no kind of event to watch")
            }
        }
    }
}

private func watchLogins(
    _ database: Database, _ handle: mimeo_handle, _ running: Running, _ receiver: Receiver?, _ format: Format
) throws {
    guard let auth = database.ditto.auth else {
        throw BorderError(.noServer, "the database has no server to log in to")
    }
    let events = database.events
    auth.expirationHandler = { _, seconds in
        // Resumed once the program has released the event, after its login.
        let released = PendingAnswer<Void>()
        events.tell(
            Event(MIMEO_LOGIN, from: handle, to: receiver, .double(seconds), format) { released.give(()) })
        await released.value()
    }
    running.started(handle) { [weak auth] in auth?.expirationHandler = nil }
}

private func watchPresence(
    _ database: Database, _ handle: mimeo_handle, _ running: Running, _ receiver: Receiver?, _ format: Format
) {
    let events = database.events
    let observer = database.ditto.presence.observe { graph in
        events.tell(
            Event(MIMEO_PRESENCE, from: handle, to: receiver, plain(graph), format), isLatest: true)
    }
    running.started(handle) { observer.stop() }
}

/// A value from an `Encodable` of the SDK; null for none.
func plain(_ encodable: some Encodable) -> Value {
    (try? JSONText.parse([UInt8](JSONEncoder().encode(encodable)))) ?? .null
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_next_event(
    _ source: mimeo_handle, _ milliseconds: Int32, _ event: UnsafeMutablePointer<mimeo_event>!,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(event, error) {
        let found = try HandleTable.shared.object(source)
        guard let next = try events(of: found, source).polled.next(within: milliseconds) else { return nil }
        // With its database an unread event ends too, and lets a login go on.
        let handle = try (found as? Database)?.add(next) ?? HandleTable.shared.add(next)
        (found as? Database).map { database in next.whenEnded { database.forget(handle) } }
        return next.told(handle)
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_event_fd(
    _ source: mimeo_handle, _ descriptor: UnsafeMutablePointer<Int32>!,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(descriptor, error) {
        try events(of: HandleTable.shared.object(source), source).polled.descriptor()
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_wake(_ source: mimeo_handle, _ error: UnsafeMutablePointer<mimeo_error>!) -> mimeo_status {
    call(error) { try events(of: HandleTable.shared.object(source), source).polled.wake() }
}

private func events(of found: any Held, _ handle: mimeo_handle) throws -> Events {
    switch found {
    case let database as Database: return database.events
    case let log as LogTap: return log.events
    default:
        throw BorderError(
            .handleOfOtherKind, "handle \(handle) is \(type(of: found).kind), not a database or log")
    }
}

/// The lines of the process's log for the program.
final class LogTap: Held {
    static let kind = "a log"
    /// The most lines that wait to be read. More of them would be memory that nobody looks at.
    private static let waitingLines = 1_000
    /// The one that gets the lines. Held while the callback of the log is set.
    private static let latest = Mutex<ObjectIdentifier?>(nil)
    let events = Events(limit: LogTap.waitingLines)
    private let dropped = Mutex(0)

    /// Gets the lines from now on, in place of any other.
    func listen(_ heard: @escaping @Sendable (DittoLogLevel, String) -> Void) {
        Self.latest.withLock { latest in
            latest = ObjectIdentifier(self)
            DittoLogger.setCustomLogCallback(heard)
        }
    }

    func end() {
        Self.latest.withLock { latest in
            // The lines of a later one go on.
            guard latest == ObjectIdentifier(self) else { return }
            latest = nil
            DittoLogger.setCustomLogCallback(nil)
        }
        events.close()
    }

    func tell(_ level: DittoLogLevel, _ message: String, _ handle: UInt64, _ to: Receiver?, _ format: Format)
    {
        let lost = dropped.withLock { dropped in
            defer { dropped = 0 }
            return dropped
        }
        let line = ObjectValue(unique: [
            (key: "level", value: .int(Int64(level.rawValue))), (key: "message", value: .string(message)),
            (key: "dropped", value: .int(Int64(lost))),
        ])
        let more = events.tell(Event(MIMEO_LOG, from: handle, to: to, .object(line), format))
        if more > 0 { dropped.withLock { $0 += more } }
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_logs(
    _ level: Int32, _ flags: UInt32, _ callback: mimeo_callback!, _ context: UnsafeMutableRawPointer!,
    _ log: UnsafeMutablePointer<mimeo_handle>!, _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(log, error) {
        Fork.watch()
        let format = try Format(flags: flags)
        let least = try logLevel(level)
        let receiver = Receiver(callback, context)
        let tap = LogTap()
        let handle = HandleTable.shared.add(tap)
        tap.listen { [weak tap] level, message in
            guard level.rawValue <= least.rawValue else { return }
            tap?.tell(level, message, handle, receiver, format)
        }
        return handle
    }
}

private func logLevel(_ level: Int32) throws -> DittoLogLevel {
    guard let found = DittoLogLevel(rawValue: Int(level)) else {
        throw BorderError(.choiceUnknown, "\(level) is no level of the log")
    }
    return found
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_log_level(_ level: Int32, _ error: UnsafeMutablePointer<mimeo_error>!) -> mimeo_status {
    call(error) {
        if level != 0 { DittoLogger.minimumLogLevel = try logLevel(level) }
        DittoLogger.isEnabled = level != 0
    }
}
