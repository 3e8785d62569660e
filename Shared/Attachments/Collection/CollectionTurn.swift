import Foundation
import Synchronization

/// The right to collect in a store's folder, which one process has at a time.
public final class CollectionTurn: Sendable {
    private final class Held: Sendable {
        let file: File

        init(_ file: consuming File) { self.file = file }
    }

    private let held: Mutex<Held?>

    init(_ file: consuming File) { held = Mutex(Held(file)) }

    /// Lets another one collect. An object that is dropped has ended too.
    public func end() { held.withLock { $0 = nil } }
}

extension BlobStore {
    /// The turn to collect here; nil while somebody else has it.
    /// - Throws: `BLOB-0201`.
    public func collectionTurn() throws(AttachmentError) -> CollectionTurn? {
        try Self.makeFolder("\(folder)/unmentioned")
        let file = try File(path: "\(folder)/unmentioned", flags: O_RDONLY | O_DIRECTORY)
        guard try file.lock(waits: false) else { return nil }
        return CollectionTurn(file)
    }
}
