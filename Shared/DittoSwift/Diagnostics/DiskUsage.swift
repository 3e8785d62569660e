import Dispatch
import Foundation
import Synchronization

/// The disk usage of an instance.
public final class DiskUsage: Sendable {
    private let engine: Engine
    private let root: URL
    /// The active observations.
    private let handles = Mutex<[ObjectIdentifier: DiskUsageObserverHandle]>([:])

    init(_ engine: Engine, root: URL) {
        self.engine = engine
        self.root = root
    }

    /// The present persistence directory with everything in it. Walks through the directory.
    public var item: DiskUsageItem { DiskUsageItem(at: root) }

    /// As `item`.
    public var exec: DiskUsageItem { item }

    /// Calls a handler, on a queue of the SDK, with the present usage and after each change, until the
    /// returned handle is stopped or the instance closes. The interval is `disk_usage_monitor_interval`;
    /// unless that is set, it varies between one second and half a minute.
    @preconcurrency
    public func observe(eventHandler: @escaping @Sendable (DiskUsageItem) -> Void) -> DiskUsageObserverHandle
    {
        let settings = engine.settings
        let handle = DiskUsageObserverHandle(
            root, interval: { settings.parameters.diskUsageInterval }, eventHandler
        ) { [weak self] handle in
            self?.handles.withLock { _ = $0.removeValue(forKey: ObjectIdentifier(handle)) }
        }
        handles.withLock { $0[ObjectIdentifier(handle)] = handle }
        handle.look()
        return handle
    }

    /// Ends all observations.
    func stopAll() { for handle in handles.withLock({ Array($0.values) }) { handle.stop() } }
}

/// The name of 5.x.
public typealias DittoDiskUsage = DiskUsage

/// Ends an observation of disk usage. Dropping it does not.
public final class DiskUsageObserverHandle: Sendable {
    private struct State {
        var isStopped = false
        var last: DiskUsageItem?
        var pause = Limits.firstDiskUsagePause
    }

    private static let queue = DispatchQueue(label: "ditto.disk-usage", qos: .utility)
    private let state = Mutex(State())
    private let delivery = NSRecursiveLock()
    private let root: URL
    private let interval: @Sendable () -> Duration?
    private let handler: @Sendable (DiskUsageItem) -> Void
    private let ended: @Sendable (DiskUsageObserverHandle) -> Void

    init(
        _ root: URL, interval: @escaping @Sendable () -> Duration?,
        _ handler: @escaping @Sendable (DiskUsageItem) -> Void,
        ended: @escaping @Sendable (DiskUsageObserverHandle) -> Void
    ) {
        self.root = root
        self.interval = interval
        self.handler = handler
        self.ended = ended
    }

    /// Ends the observation. No call of the handler runs after this has returned, unless this was called by
    /// the handler itself.
    public func stop() {
        state.withLock { $0.isStopped = true }
        delivery.withLock {}
        ended(self)
    }

    var isStopped: Bool { state.withLock { $0.isStopped } }

    func look() {
        Self.queue.async { [self] in
            guard !isStopped else { return }
            let item = DiskUsageItem(at: root)
            let (isNew, pause) = state.withLock { state in
                let isNew = item != state.last
                state.last = item
                state.pause =
                    isNew ? Limits.firstDiskUsagePause : min(state.pause * 2, Limits.longestDiskUsagePause)
                return (isNew, state.pause)
            }
            if isNew { delivery.withLock { if !isStopped { handler(item) } } }
            let wait = interval() ?? pause
            Self.queue.asyncAfter(deadline: .now() + wait / .seconds(1)) { [weak self] in self?.look() }
        }
    }
}

/// The disk usage of a file or directory.
public struct DiskUsageItem: Equatable, Sendable {
    /// Its type.
    public var type: DittoFileSystemType
    /// Its absolute path.
    public var path: String
    /// The bytes of a file; for a directory, those of everything in it.
    public var sizeInBytes: Int
    /// The content of a directory, by name; empty for anything else.
    public var childItems: [DiskUsageItem]
}

/// The name of 5.x.
public typealias DittoDiskUsageItem = DiskUsageItem

/// The type of an entry in a directory.
public enum DittoFileSystemType: CustomStringConvertible, Sendable {
    /// A directory.
    case directory
    /// A file.
    case file
    /// A symbolic link, which is not followed.
    case symlink

    /// `directory`, `file` or `symlink`.
    public var description: String {
        switch self {
        case .directory: "directory"
        case .file: "file"
        case .symlink: "symlink"
        }
    }
}

extension DiskUsageItem {
    /// Measures a file or directory. One that disappears meanwhile counts as empty.
    init(at url: URL) {
        let manager = FileManager.default
        path = url.path
        let attributes = try? manager.attributesOfItem(atPath: url.path)
        switch attributes?[.type] as? FileAttributeType {
        case .typeDirectory?:
            let names = (try? manager.contentsOfDirectory(atPath: url.path)) ?? []
            type = .directory
            childItems = names.sorted().map { DiskUsageItem(at: url.appendingPathComponent($0)) }
            sizeInBytes = childItems.reduce(0) { $0 + $1.sizeInBytes }
        case let found:
            type = found == .typeSymbolicLink ? .symlink : .file
            childItems = []
            sizeInBytes = (attributes?[.size] as? NSNumber)?.intValue ?? 0
        }
    }
}
