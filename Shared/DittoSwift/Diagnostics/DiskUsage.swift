import Dispatch
import Foundation
import Synchronization

/// The disk usage of an instance.
public final class DiskUsage: Sendable {
    private let engine: Engine
    private let measure: @Sendable () -> DiskUsageItem
    /// The active observations.
    private let handles = Mutex<[ObjectIdentifier: DiskUsageObserverHandle]>([:])

    init(_ engine: Engine, root: URL) {
        self.engine = engine
        measure = { [weak engine] in
            // A closed store is measured without its own account.
            let replication = (try? engine?.replica().replicationBytes()) ?? 0
            return DiskUsageItem(persistenceDirectory: root, replicationBytes: replication)
        }
    }

    /// The present persistence directory with everything in it. Walks through the directory.
    ///
    /// Its children are folders under the names that applications look for: `ditto_store` (documents and
    /// indexes), `ditto_replication` (what waits to be sent or applied), `ditto_attachments`, `ditto_auth`,
    /// `ditto_logs`; `ditto_metrics` and `ditto_system_info` are always empty. The first two are not folders
    /// on disk: they share the store's file, which stands below each with its part. Files that are none of
    /// the SDK's follow under their own names.
    public var item: DiskUsageItem { measure() }

    /// As `item`.
    public var exec: DiskUsageItem { item }

    /// Calls a handler, on the main queue where it is served, with the present usage and after each change,
    /// until the returned handle is stopped or the instance closes. The interval is
    /// `disk_usage_monitor_interval`; unless that is set, it varies between one second and half a minute.
    public func observe(eventHandler: @escaping (DiskUsageItem) -> Void) -> DiskUsageObserverHandle {
        let settings = engine.settings
        let handle = DiskUsageObserverHandle(
            measure, interval: { settings.parameters.diskUsageInterval }, Handler(eventHandler)
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
    private let measure: @Sendable () -> DiskUsageItem
    private let interval: @Sendable () -> Duration?
    private let handler: Handler<(DiskUsageItem) -> Void>
    private let ended: @Sendable (DiskUsageObserverHandle) -> Void

    init(
        _ measure: @escaping @Sendable () -> DiskUsageItem, interval: @escaping @Sendable () -> Duration?,
        _ handler: Handler<(DiskUsageItem) -> Void>,
        ended: @escaping @Sendable (DiskUsageObserverHandle) -> Void
    ) {
        self.measure = measure
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
            let item = measure()
            let (isNew, pause) = state.withLock { state in
                let isNew = item != state.last
                state.last = item
                state.pause =
                    isNew ? Limits.firstDiskUsagePause : min(state.pause * 2, Limits.longestDiskUsagePause)
                return (isNew, state.pause)
            }
            if isNew {
                DefaultDelivery.shared.async { [weak self] in
                    self?.delivery.withLock { if self?.isStopped == false { self?.handler.call(item) } }
                }
            }
            let wait = interval() ?? pause
            Self.queue.asyncAfter(deadline: .now() + wait / .seconds(1)) { [weak self] in self?.look() }
        }
    }
}
