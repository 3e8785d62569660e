import CRDT
import Foundation
import Synchronization

/// A server on a bare socket, which answers its calls as no HTTP library would.
final class RawServer: Sendable {
    /// The answer to one call.
    enum Behaviour: Sendable {
        /// These bytes, and the end of the connection.
        case answers(String)
        /// The end of the connection.
        case closes
        /// A proper answer, after this time.
        case late(Duration)
        /// A head, and then a byte now and then for three seconds.
        case drips
    }

    private struct State {
        var calls: [Value] = []
        var isStopped = false
    }

    private let listener: Int32
    private let port: UInt16
    private let behaviours: [Behaviour]
    private let state = Mutex(State())

    /// A server with these answers to its first calls; proper ones to all others.
    init(_ behaviours: [Behaviour]) {
        self.behaviours = behaviours
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let (listener, length) = (listener, size)
        let isBound = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 64) == 0
                    && getsockname(listener, $0, &size) == 0
            }
        }
        precondition(isBound, "a free port of this machine")
        port = UInt16(bigEndian: address.sin_port)
        Thread.detachNewThread { [self] in
            while true {
                let client = accept(listener, nil, nil)
                if state.withLock({ $0.isStopped }) { return }
                guard client >= 0 else { continue }
                Thread.detachNewThread { self.serve(client) }
            }
        }
    }

    var url: String { "http://127.0.0.1:\(port)/hook" }
    /// The bodies of all calls so far.
    var calls: [Value] { state.withLock { $0.calls } }

    func stop() {
        state.withLock { $0.isStopped = true }
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    private func serve(_ client: Int32) {
        defer { close(client) }
        guard let body = Self.body(of: client) else { return }
        let number = state.withLock { state in
            state.calls.append(body)
            return state.calls.count - 1
        }
        let proper = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
        switch number < behaviours.count ? behaviours[number] : .answers(proper) {
        case .answers(let text): Self.write(text, to: client)
        case .closes: return
        case .late(let time):
            usleep(UInt32(time.components.seconds) * 1_000_000)
            Self.write(proper, to: client)
        case .drips:
            Self.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", to: client)
            for _ in 0..<30 where Self.write("x", to: client) { usleep(100_000) }
        }
    }

    /// The JSON body of one request; nil if it breaks off.
    private static func body(of client: Int32) -> Value? {
        var received: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 65_536)
        while true {
            let text = String(decoding: received, as: UTF8.self)
            if let end = text.range(of: "\r\n\r\n") {
                let head = text[..<end.lowerBound].lowercased()
                let field = head.split(separator: "\r\n").first { $0.hasPrefix("content-length:") }
                let length = field.flatMap { Int($0.dropFirst(15).trimmingCharacters(in: .whitespaces)) } ?? 0
                let body = Array(text[end.upperBound...].utf8)
                if body.count >= length { return try? JSONText.parse(body) }
            }
            let count = recv(client, &part, part.count, 0)
            guard count > 0 else { return nil }
            received += part.prefix(count)
        }
    }

    /// Returns whether the client still reads.
    @discardableResult
    private static func write(_ text: String, to client: Int32) -> Bool {
        let bytes = Array(text.utf8)
        return send(client, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count
    }
}
