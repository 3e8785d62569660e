import Foundation
import Glibc
import HTTPTypes
import Hummingbird
import NIOCore
import ServiceKit

/// Decides whether a request comes from a browser that the server's own user runs on the server's machine.
///
/// The server's user can read the admin credential's file, so letting him in without it gives nothing away.
/// The system says in `/proc/net/tcp` to whom the other end of a loopback connection belongs. A proxy on the
/// machine belongs to the machine too, so a request that any proxy has touched is refused, and so is one
/// whose `Host` is no loopback name: the page of another site that has its name point here (DNS rebinding).
enum LocalVisitor {
    static func isOwner(_ request: Request, _ context: ServiceContext, _ access: ConsoleAccess) -> Bool {
        guard access.offersLocalSignIn, isLoopback(host: request.head.authority),
            !request.headers.contains(where: { ProxyFields.all.contains($0.name.canonicalName) }),
            isSameOrigin(request), let peer = context.remoteAddress, let port = peer.port,
            let place = place(of: peer, port: port)
        else { return false }
        return owner(of: place.text, in: place.file) == getuid()
    }

    /// True for `localhost`, `127.0.0.1` and `[::1]` with any port.
    static func isLoopback(host: String?) -> Bool {
        guard var host = host?.lowercased() else { return false }
        if let colon = host.lastIndex(of: ":"), !host[colon...].contains("]") {
            host = String(host[..<colon])
        }
        return ["localhost", "127.0.0.1", "[::1]"].contains(host)
    }

    /// False if the browser says that a page of another origin sends the request.
    private static func isSameOrigin(_ request: Request) -> Bool {
        if let name = HTTPField.Name("Sec-Fetch-Site"), let site = request.headers[name] {
            return site == "same-origin" || site == "none"
        }
        guard let origin = request.headers[.origin] else { return true }
        return origin == "http://\(request.head.authority ?? "")"
            || origin == "https://\(request.head.authority ?? "")"
    }

    /// The peer's end of the connection as the system's table writes it, and the table's file.
    private static func place(of peer: SocketAddress, port: Int) -> (text: String, file: String)? {
        let end = String(port, radix: 16, uppercase: true)
        let padded = String(repeating: "0", count: 4 - end.count) + end
        switch peer.ipAddress {
        case "127.0.0.1": return ("0100007F:\(padded)", "/proc/net/tcp")
        case "::1": return ("00000000000000000000000001000000:\(padded)", "/proc/net/tcp6")
        default: return nil
        }
    }

    /// The user who has the socket with this local address; nil if the system does not say.
    private static func owner(of place: String, in file: String) -> UInt32? {
        // The system may leave out a line while connections come and go.
        for _ in 0..<3 {
            for line in content(of: file).split(separator: "\n") {
                let columns = line.split(separator: " ")
                // sl, local_address, rem_address, st, queues, timers, retransmits, uid
                if columns.count > 7, columns[1] == place { return UInt32(columns[7]) }
            }
        }
        return nil
    }

    /// The content of a file of the system's, which has no size and comes in pieces.
    private static func content(of path: String) -> String {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return "" }
        defer { close(file) }
        var content: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(file, &piece, piece.count)
            guard count > 0 else { return String(decoding: content, as: UTF8.self) }
            content += piece[..<count]
        }
    }
}
