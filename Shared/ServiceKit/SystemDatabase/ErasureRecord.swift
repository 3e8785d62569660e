import CRDT
import Foundation
import Identity

/// A receipt: one holder has erased what it kept of a deleted database, or of erased documents.
///
/// A *holder* is the log, or one instance of a service with a data folder of its own. Each reports for
/// itself. An instance that is switched off erases when it starts again, and reports then.
public struct ErasureRecord: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.erasures

    /// A hash of the fields before the time, so that each place has at most one receipt per erasure.
    public var id: String { Self.id(databaseID, subject, holder, place) }
    /// The database.
    public var databaseID: DatabaseID { DatabaseID(database) }
    /// The same as the document has it.
    private let database: String
    /// The id of a `DocumentErasure`; nil for the whole database.
    public var subject: String?
    /// `log`, `replicator`, `query-service`, `attachment-store`.
    public var holder: String
    /// The host and folder, or the server, for a person.
    public var place: String
    /// Seconds since 1970, of the latest erasure here.
    public var erasedAtSeconds: Int64

    /// A receipt of these facts.
    public init(
        database: DatabaseID, subject: String? = nil, holder: String, place: String, erasedAtSeconds: Int64
    ) {
        self.database = database.text
        self.subject = subject
        self.holder = holder
        self.place = place
        self.erasedAtSeconds = erasedAtSeconds
    }

    /// The id of a place's receipt.
    public static func id(
        _ database: DatabaseID, _ subject: String?, _ holder: String, _ place: String
    ) -> String {
        ErasedDocuments.digest(of: Array("\(database)/\(subject ?? "")/\(holder)/\(place)".utf8))
    }
}

/// The erasure of documents by an operator: their contents leave every storage, and their ids take no writes
/// any more, so that no peer brings them back.
///
/// The record names them by digests only. A digest hides an id from a reader of the record, not from somebody
/// who guesses it.
public struct DocumentErasure: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.documentErasures

    /// Random.
    public var id: String
    /// The database.
    public var databaseID: DatabaseID { DatabaseID(database) }
    /// The same as the document has it.
    private let database: String
    /// See `ErasedDocuments.digest(of:in:)`.
    public var digests: [String]
    /// The ids of the attachments that the documents refer to. A blob goes when no other document has it.
    public var blobs: [String]
    /// Seconds since 1970.
    public var requestedAtSeconds: Int64
    /// The log keeps nothing of the documents: entries up to this offset were removed. Nil until then.
    public var erasedThrough: UInt64?
    /// Seconds since 1970 of that.
    public var erasedAtSeconds: Int64?

    /// An erasure that begins.
    public init(database: DatabaseID, digests: [String], blobs: [String], requestedAtSeconds: Int64) {
        id = Base64URL.encode((0..<12).map { _ in UInt8.random(in: .min ... .max) })
        self.database = database.text
        self.digests = digests
        self.blobs = blobs
        self.requestedAtSeconds = requestedAtSeconds
    }
}
