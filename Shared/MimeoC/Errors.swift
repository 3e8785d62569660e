internal import CMimeo
import DittoSwift
import Foundation

/// Every code that the border itself raises; the raw value is stable and published. Errors of the modules
/// below keep their own codes.
enum BorderErrorCode: String, Sendable, CaseIterable {
    /// A handle was released before, or never given. Release each handle once, and not before its last use.
    case handleUnknown = "NATIVE-0101"
    /// A handle stands for another kind of object than the call needs.
    case handleOfOtherKind = "NATIVE-0102"
    /// The process was forked from one that had opened a database, and has none of its threads. Open
    /// databases only in the children, after the fork.
    case forked = "NATIVE-0103"
    /// A text is not UTF-8, a pointer is missing that the call needs, a length is impossible, a limit of rows
    /// is 0, a path is empty or has a zero in it, or a statement whose rows are to be fetched writes.
    case argumentUnusable = "NATIVE-0104"
    /// Arguments, settings or a configuration are no map, in CBOR or JSON.
    case noMap = "NATIVE-0105"
    /// A flag, kind, topic or level that this version does not know.
    case choiceUnknown = "NATIVE-0106"
    /// The database has no server, and the call needs one.
    case noServer = "NATIVE-0107"
    /// Another call ended this one: a logout the login, a close the wait for an event.
    case interrupted = "NATIVE-0108"
    /// The file descriptor for events cannot be made: the process has too many open.
    case noDescriptor = "NATIVE-0109"
    /// A setting has another type than it needs.
    case settingUnusable = "NATIVE-0110"
}

/// An error of the border itself.
struct BorderError: Error, Sendable, Equatable {
    let code: String
    let message: String

    init(_ code: BorderErrorCode, _ message: String) {
        self.code = code.rawValue
        self.message = message
    }

    /// An error with the code of another module, which means the same here.
    init(code: String, _ message: String) {
        self.code = code
        self.message = message
    }

    init(unknown handle: UInt64) {
        self.init(.handleUnknown, "handle \(handle) was released before, or never given")
    }

    /// The parts of any error.
    init(_ error: any Error) {
        switch error {
        case let error as BorderError: self = error
        case is CancellationError: self.init(.interrupted, "the call was interrupted by another one")
        default:
            let failure = Failure(foreign: error)
            let place = failure.position.map { "at \($0.line):\($0.column): " } ?? ""
            self.init(code: failure.code, place + failure.message)
        }
    }

    /// Writes the parts where C reads them; what has no room is cut between two characters.
    func write(to error: UnsafeMutablePointer<mimeo_error>?) {
        guard let error else { return }
        withUnsafeMutableBytes(of: &error.pointee.code) { Self.copy(code, to: $0) }
        withUnsafeMutableBytes(of: &error.pointee.message) { Self.copy(message, to: $0) }
    }

    private static func copy(_ text: String, to room: UnsafeMutableRawBufferPointer) {
        let bytes = Array(text.utf8)
        var end = min(bytes.count, room.count - 1)
        // 10xxxxxx continues a character.
        while end < bytes.count, end > 0, bytes[end] & 0xC0 == 0x80 { end -= 1 }
        room.copyBytes(from: bytes[..<end])
        room[end] = 0
    }
}
