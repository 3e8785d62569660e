import NIOCore
import NIOPosix

/// Announces this peer by DNS-SD and finds others, where avahi runs: drives `AvahiClient` over the system's
/// bus.
///
/// Everything happens on one event loop, which guards the state. While nothing is wished there is no
/// connection and no timer. Without a bus, or when it breaks, it tries again later, up to a minute later
/// each time.
final class ServiceFinder: Sendable {
    struct Parts: Sendable {
        var loop: any EventLoop
        /// The socket of the bus; nil if there is none.
        var path: String?
        var random: @Sendable () -> UInt64
        /// `found` or `condition` may be others; called on the loop.
        var changed: @Sendable () -> Void
    }

    private final class State {
        var talk: AvahiClient
        var channel: (any Channel)?
        /// True from the first attempt to connect until the connection has ended.
        var isConnecting = false
        var failures = 0
        /// The next try, or the next look whether to begin again.
        var timer: Scheduled<Void>?

        init(_ talk: AvahiClient) { self.talk = talk }
    }

    private let parts: Parts
    private let state: NIOLoopBoundBox<State>

    init(_ parts: Parts) {
        self.parts = parts
        state = .makeBoxSendingValue(State(AvahiClient(seed: parts.random())), eventLoop: parts.loop)
    }

    /// The peers that are announced; on the loop.
    var found: Set<AvahiClient.Found> { state.value.talk.found }

    /// The state of finding peers so; nil while nothing is wished. On the loop.
    var condition: AvahiClient.Condition? { state.value.talk.wish.isAny ? state.value.talk.condition : nil }

    /// Takes other wishes; on the loop.
    func set(_ wish: AvahiClient.Wish) {
        let state = state.value
        guard wish != state.talk.wish else { return }
        send(state.talk.set(wish), state)
        if wish.isAny, !state.isConnecting, state.timer == nil { connect(state) }
        if !wish.isAny { end(state) }
        parts.changed()
    }

    private func connect(_ state: State) {
        guard let path = parts.path else {
            state.talk.closed("DBUS_SYSTEM_BUS_ADDRESS has no socket with a path")
            return parts.changed()
        }
        state.isConnecting = true
        BusConnection.open(
            path, on: parts.loop,
            opened: { [weak self] in self?.opened() },
            received: { [weak self] message in self?.received(message) }
        ).whenComplete { [weak self] result in
            guard let self else {
                if case .success(let channel) = result { channel.close(promise: nil) }
                return
            }
            let state = self.state.value
            switch result {
            case .success(let channel):
                guard state.talk.wish.isAny else {
                    state.isConnecting = false
                    return channel.close(promise: nil)
                }
                state.channel = channel
                channel.closeFuture.whenComplete { _ in
                    self.closed(channel, "the bus of the system has closed the connection")
                }
            case .failure:
                state.isConnecting = false
                closed(nil, "the bus of the system, \(path), cannot be reached")
            }
        }
    }

    private func opened() {
        let state = state.value
        send(state.talk.opened(), state)
        state.timer?.cancel()
        look(state)
    }

    private func received(_ message: DBusMessage) {
        let state = state.value
        let (found, condition) = (state.talk.found, state.talk.condition)
        send(state.talk.received(message), state)
        if state.talk.condition == .works { state.failures = 0 }
        if state.talk.found != found || state.talk.condition != condition { parts.changed() }
    }

    private func send(_ messages: [DBusMessage], _ state: State) {
        guard let channel = state.channel, !messages.isEmpty else { return }
        channel.writeAndFlush(ByteBuffer(bytes: messages.flatMap(\.encoded)), promise: nil)
    }

    private func closed(_ channel: (any Channel)?, _ reason: String) {
        let state = state.value
        if let channel {
            guard channel === state.channel else { return }
            state.channel = nil
            state.isConnecting = false
        }
        state.talk.closed(reason)
        state.timer?.cancel()
        state.timer = nil
        guard state.talk.wish.isAny else { return }
        state.failures += 1
        let pause = min(Limits.firstBusPause * (1 << min(state.failures - 1, 10)), Limits.longestBusPause)
        schedule(pause, state) { finder, state in finder.connect(state) }
        parts.changed()
    }

    /// Now and then looks whether services had no place, or avahi refused something: then all begins again.
    private func look(_ state: State) {
        schedule(Limits.serviceLook, state) { finder, state in
            if case .fails = state.talk.condition, state.talk.isStuck {
                state.channel?.close(promise: nil)
            } else if state.talk.hasOverflowed {
                finder.send(state.talk.beginAgain(), state)
            }
            finder.look(state)
        }
    }

    private func schedule(
        _ pause: Duration, _ state: State, _ body: @escaping @Sendable (ServiceFinder, State) -> Void
    ) {
        state.timer = parts.loop.scheduleTask(in: .nanoseconds(pause.nanoseconds)) { [weak self] in
            guard let self else { return }
            self.state.value.timer = nil
            body(self, self.state.value)
        }
    }

    private func end(_ state: State) {
        state.timer?.cancel()
        state.timer = nil
        state.failures = 0
        state.channel?.close(promise: nil)
    }
}
