import Dispatch
import Foundation
import Synchronization

/// Facts about an instance that only the 4.x API knows: the application's id, the delegate.
final class InstanceOrigin: Sendable {
    /// Calls a delegate.
    typealias Tell = (_ delegate: AnyObject, Ditto, DittoTransportCondition, DittoConditionSource) -> Void

    // Safe: the delegate is only called, on the queue that the application names.
    private struct State: @unchecked Sendable {
        weak var delegate: AnyObject?
        var tell: Handler<Tell>?
        var queue = DittoStore.defaultDeliveryQueue
        var told: [DittoConditionSource: DittoTransportCondition] = [:]
    }

    /// The application's id as it was given.
    let appID: String?
    private let state = Mutex(State())

    init(appID: String? = nil) { self.appID = appID }

    var delegate: AnyObject? { state.withLock { Held($0.delegate) }.object }

    /// The queue of the delegate's calls.
    var queue: DispatchQueue {
        get { state.withLock { $0.queue } }
        set { state.withLock { $0.queue = newValue } }
    }

    func setDelegate(_ delegate: AnyObject?, _ tell: @escaping Tell) {
        let (held, tell) = (Held(delegate), Handler(tell))
        state.withLock { state in
            state.delegate = held.object
            state.tell = tell
            state.told = [:]
        }
    }

    /// The condition of all connections over TCP, those with the server and those with peers; nil before
    /// there is anything to tell.
    private static func condition(of ditto: Ditto) -> DittoTransportCondition? {
        let links = ditto.links?.condition
        if links == .TcpListenFailure || links == .Ok { return links }
        guard ditto.auth != nil else { return links }
        let status = ditto.sync.status
        return switch (status.text, status.lastError) {
        case ("connected", _): .Ok
        case (_, .some): .CannotEstablishConnection
        default: links
        }
    }

    /// Tells the delegate about connections, and about the finding of peers, if their condition is another
    /// one.
    func connectionChanged(of ditto: Ditto) {
        if let condition = Self.condition(of: ditto) { tell(ditto, condition, .Tcp) }
        guard let found = ditto.links?.discovery, found.condition != .Unknown else { return }
        tell(ditto, found.condition, .Mdns)
    }

    private func tell(_ ditto: Ditto, _ condition: DittoTransportCondition, _ source: DittoConditionSource) {
        let call: (held: Held, tell: Handler<Tell>, queue: DispatchQueue)? = state.withLock { state in
            guard condition != state.told[source], let delegate = state.delegate, let tell = state.tell else {
                return nil
            }
            state.told[source] = condition
            return (Held(delegate), tell, state.queue)
        }
        guard let call else { return }
        call.queue.deliver {
            if let delegate = call.held.object { call.tell.call(delegate, ditto, condition, source) }
        }
    }

    /// An object of the application on its way through a lock.
    private struct Held: @unchecked Sendable {  // Safe: as above.
        let object: AnyObject?
        init(_ object: AnyObject?) { self.object = object }
    }
}
