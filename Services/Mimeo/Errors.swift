import DittoSwift
import Foundation

/// Every code that the command line itself raises; the raw value is stable and published.
public enum MimeoErrorCode: String, Sendable, CaseIterable {
    /// Flags contradict each other, or a value is invalid.
    case usage = "CLI-0101"
    /// The store cannot be opened.
    case storeUnusable = "CLI-0201"
    /// The store is in use by another process.
    case storeLocked = "CLI-0202"
    /// The server cannot be reached, or failed.
    case serverUnreachable = "CLI-0301"
    /// The server refuses the login or the request.
    case notLoggedIn = "CLI-0302"
    /// A file cannot be read.
    case fileUnreadable = "CLI-0401"
    /// A file is of a kind that cannot be imported, or its kind is unknown.
    case fileKindUnknown = "CLI-0402"
    /// A file's content does not match its kind; the message has the place.
    case fileMalformed = "CLI-0403"
    /// Documents of a file could not be stored.
    case importFailed = "CLI-0404"
    /// Documents could not be read for an export, or have no place in its format.
    case exportFailed = "CLI-0405"
    /// The file of an export cannot be written.
    case fileUnwritable = "CLI-0406"
    /// A dot command does not exist, or has wrong arguments.
    case dotCommandInvalid = "CLI-0501"
    /// The server did not acknowledge in time.
    case waitTimedOut = "CLI-0502"
    /// The log that a command works on does not exist.
    case logMissing = "CLI-0601"
    /// The log has an older format than this version's, which a server of this version would change.
    case logOlder = "CLI-0602"
    /// A statement that is being typed is longer than any statement may be.
    case statementTooLong = "CLI-0503"
}

/// Every code of what an import tells besides its result; the raw value is stable and published.
public enum MimeoNoteCode: String, Sendable, CaseIterable {
    /// A column without a name, or with one that stood before, got a name.
    case columnRenamed = "CLI-W101"
    /// A column that looks like numbers or booleans is text, lest something is lost.
    case columnStaysText = "CLI-W102"
    /// A decision about the whole input, most of which a flag can change: header, format, list, encoding.
    case inputGuessed = "CLI-W103"
    /// Values of extended JSON were imported as they stand.
    case extendedJSON = "CLI-W104"
    /// A number that no document can hold became another: an integer beyond 64 bits became a double.
    case numberChanged = "CLI-W105"
    /// A key stands twice in an object of the file.
    case keyRepeated = "CLI-W106"
    /// Records were skipped.
    case recordsSkipped = "CLI-W107"
    /// A value of an export or an answer has no JSON text and was written as something else.
    case valueChanged = "CLI-W108"
    /// Documents without an id got new ones, in a collection that has others.
    case idsMade = "CLI-W109"
}

/// The error that ends a command. It holds no secret.
public struct MimeoError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The stable code.
    public let code: MimeoErrorCode
    /// For a person.
    public let message: String

    init(_ code: MimeoErrorCode, _ message: String) {
        self.code = code
        self.message = message
    }

    /// Code and message.
    public var description: String { "\(code.rawValue): \(message)" }

    /// Exit code of the process.
    public var exitCode: Int32 {
        switch code {
        case .usage, .fileKindUnknown: 2
        case .serverUnreachable, .notLoggedIn: 3
        case .storeLocked: 4
        default: 1
        }
    }

    /// Translates the error of opening a store.
    init(opening error: any Error) {
        guard case DittoSwiftError.storeError(.persistenceDirectoryLocked) = error else {
            self.init(.storeUnusable, error.localizedDescription)
            return
        }
        self.init(.storeLocked, error.localizedDescription)
    }
}
