import CRDT
import Identity
import OperationLog

extension DatabaseID {
    /// Returns whether a database of this id can be made: tokens take it, and so does the log.
    var canBeMade: Bool { isValid && isValidInLog }

    /// The form of such an id, for messages.
    static let form = "1 to 128 letters, digits, '-' or '_', the first a letter or digit"
}
