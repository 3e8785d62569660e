import Foundation
import Hummingbird
import NIOCore
import ServiceKit
import Synchronization

/// A webhook on a free port: answers what it is told to and remembers what it was asked.
final class Webhook: ServicePart {
    struct Call: Sendable, Equatable {
        var body: String
        var signature: String?
    }

    struct Reply: Sendable {
        var status = 200
        var body: String
    }

    let name = "webhook"
    private let replies: Mutex<[Reply]>
    private let received = Mutex<[Call]>([])

    /// Gives one reply after the other, and the last one for ever.
    init(_ replies: Reply...) { self.replies = Mutex(replies) }

    /// Replies the same each time.
    convenience init(_ body: String, status: Int = 200) { self.init(Reply(status: status, body: body)) }

    var calls: [Call] { received.withLock { $0 } }

    func mount(on mount: inout ServiceMount) {
        mount.on(.post, "/hook") { request, _ in
            let signature = request.headers.first { $0.name.canonicalName == "ditto-signature" }?.value
            let body = try await request.wholeBody(limitBytes: 1_000_000)
            self.received.withLock { $0.append(Call(body: String(buffer: body), signature: signature)) }
            let reply = self.replies.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }
            return .json(reply.body.utf8, status: .init(code: reply.status))
        }
    }

    /// The seed's own answer.
    static let seedAnswer = """
        {"authenticate": true, "expirationSeconds": 28800, "userID": "123abc", "permissions": {
        "read": {"everything": true, "queriesByCollection": {}},
        "write": {"everything": true, "queriesByCollection": {}}}}
        """
}
