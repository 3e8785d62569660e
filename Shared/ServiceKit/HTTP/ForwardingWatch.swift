import Hummingbird
import Logging
import NIOCore
import NIOHTTP1
import Synchronization

/// Says when the requests and `--behind-proxy` do not fit together, once an hour at most.
///
/// Behind a proxy that is not believed, all clients have the proxy's address: the wrong logins of one would
/// lock out all. A service cannot know whether a field comes from a proxy or was made up, so it believes none
/// unless told, and says so.
public final class ForwardingWatch: Sendable {
    /// True if the last address of `X-Forwarded-For` is a client's.
    public let trustsProxy: Bool

    private let logger: Logger
    private let now: @Sendable () -> ContinuousClock.Instant
    /// When the next line may be written.
    private let next: Mutex<ContinuousClock.Instant>

    /// - Parameter now: the clock, unless a test says otherwise.
    public init(
        trustsProxy: Bool, logger: Logger, now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) {
        self.trustsProxy = trustsProxy
        self.logger = logger
        self.now = now
        next = Mutex(now())
    }

    private static let fields = ["x-forwarded-for", "forwarded", "x-real-ip"]

    /// Looks at the head of each request.
    func saw(_ headers: HTTPHeaders, from address: SocketAddress?) {
        guard !trustsProxy, mayBeDue, let field = Self.fields.first(where: headers.contains(name:)), isDue()
        else { return }
        logger.warning(
            """
            a request carries a forwarding field that is not believed: behind a proxy all clients count as \
            one address, and the wrong logins of one lock out all. Start with --behind-proxy if a proxy of \
            yours sets X-Forwarded-For; otherwise a client made it up
            """,
            metadata: ["field": "\(field)", "from": "\(address?.ipAddress ?? "unknown")"])
    }

    /// Looks at a request whose client counts, and whom a trusted proxy should have named.
    public func expected(of request: Request, _ context: ServiceContext) {
        guard trustsProxy, mayBeDue,
            !request.headers.contains(where: { $0.name.canonicalName == Self.fields[0] }), isDue()
        else { return }
        logger.warning(
            """
            a login came without X-Forwarded-For, although --behind-proxy is set: it counts for the address \
            of the connection. If that is your proxy, let it set the field, or the wrong logins of one \
            client lock out all
            """,
            metadata: ["from": "\(context.remoteAddress?.ipAddress ?? "unknown")"])
    }

    private var mayBeDue: Bool {
        let time = now()
        return next.withLock { $0 <= time }
    }

    private func isDue() -> Bool {
        let time = now()
        return next.withLock { next in
            guard next <= time else { return false }
            next = time + Limits.forwardingNotice
            return true
        }
    }
}
