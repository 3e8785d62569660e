// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation

// Types of the 4.x API. Each is declared so that a program that uses one is told its successor; its members
// are there so that an expression gets as far as that message.
import Dispatch
import Foundation

/// The body of a declaration that nobody can call.
func unavailable() -> Never { preconditionFailure("unavailable") }

@available(*, unavailable, message: "Use DittoConfig with Ditto.open(config:)")
public enum DittoIdentity {
    case offlinePlayground(appID: String? = nil, siteID: UInt64? = nil)
    case onlinePlayground(
        appID: String, token: String, enableDittoCloudSync: Bool = true, customAuthURL: URL? = nil)
    case onlineWithAuthentication(
        appID: String, authenticationDelegate: any DittoAuthenticationDelegate,
        enableDittoCloudSync: Bool = true, customAuthURL: URL? = nil)
    case sharedKey(appID: String, sharedKey: String, siteID: UInt64? = nil)
    case manual(certificateConfig: String)

    public static func development(appID: String) -> DittoIdentity { unavailable() }
    public static func development(appName: String) -> DittoIdentity { unavailable() }
}

@available(*, unavailable, message: "Set ditto.auth?.expirationHandler")
public protocol DittoAuthenticationDelegate {}

@available(*, unavailable, message: "Query system:transports_info")
public protocol DittoDelegate: AnyObject {}

@available(*, unavailable, message: "Use DittoPeer of ditto.presence.graph")
public struct DittoRemotePeer {}

@available(*, unavailable, message: "Use DittoObserver of ditto.presence.observe")
public final class DittoPeersObserver {}

@available(*, unavailable, message: "Use DQL: ditto.store.execute(query:arguments:)")
public final class DittoCollection {
    public var name: String { unavailable() }
    public func findByID(_ id: DittoDocumentID) -> DittoPendingIDSpecificOperation { unavailable() }
    public func findByID(_ id: Any?) -> DittoPendingIDSpecificOperation { unavailable() }
    public func find(_ query: String) -> DittoPendingCursorOperation { unavailable() }
    public func find(_ query: String, args: [String: Any?]) -> DittoPendingCursorOperation { unavailable() }
    public func findAll() -> DittoPendingCursorOperation { unavailable() }
    @discardableResult public func upsert(
        _ content: [String: Any?], writeStrategy: DittoWriteStrategy = .merge
    ) throws -> DittoDocumentID { unavailable() }
    @discardableResult public func insert(
        _ content: [String: Any?], id: Any? = nil, isDefault: Bool = false
    ) throws -> DittoDocumentID { unavailable() }
    public func newAttachment(path: String, metadata: [String: String] = [:]) -> DittoAttachment? {
        unavailable()
    }
    @discardableResult public func fetchAttachment(
        token: DittoAttachmentToken, deliverOn queue: DispatchQueue = .main,
        onFetchEvent: @escaping (DittoAttachmentFetchEvent) -> Void
    ) -> DittoAttachmentFetcher? { unavailable() }
}

@available(*, unavailable, message: "Use INSERT … ON ID CONFLICT DO UPDATE or another of DQL")
public enum DittoWriteStrategy {
    case merge, insertIfAbsent, insertDefaultIfAbsent, updateDifferentValues, overwrite
}

@available(*, unavailable, message: "Use ORDER BY … ASC or DESC")
public enum DittoSortDirection {
    case ascending, descending
}

@available(*, unavailable, message: "Use DQL: ditto.store.execute(query:arguments:)")
public final class DittoPendingCursorOperation {
    public func limit(_ limit: Int32) -> Self { unavailable() }
    public func offset(_ offset: UInt32) -> Self { unavailable() }
    public func sort(_ query: String, direction: DittoSortDirection = .ascending) -> Self { unavailable() }
    public func exec() -> [DittoDocument] { unavailable() }
    @discardableResult public func update(
        _ updater: @escaping ([DittoMutableDocument]) -> Void
    ) -> [DittoDocumentID: [DittoUpdateResult]] { unavailable() }
    @discardableResult public func remove() -> [DittoDocumentID] { unavailable() }
    @discardableResult public func evict() -> [DittoDocumentID] { unavailable() }
    public func subscribe() -> DittoSubscription { unavailable() }
    public func observeLocal(
        deliverOn queue: DispatchQueue = .main,
        eventHandler: @escaping ([DittoDocument], DittoLiveQueryEvent) -> Void
    ) -> DittoLiveQuery { unavailable() }
    public func observeLocalWithNextSignal(
        deliverOn queue: DispatchQueue = .main,
        eventHandler: @escaping ([DittoDocument], DittoLiveQueryEvent, @escaping DittoSignalNext) -> Void
    ) -> DittoLiveQuery { unavailable() }
    public func observe(
        deliverOn queue: DispatchQueue = .main,
        eventHandler: @escaping ([DittoDocument], DittoLiveQueryEvent) -> Void
    ) -> DittoLiveQuery { unavailable() }
}

@available(*, unavailable, message: "Use DQL with WHERE _id = :id")
public final class DittoPendingIDSpecificOperation {
    public func exec() -> DittoDocument? { unavailable() }
    @discardableResult public func update(
        _ updater: @escaping (DittoMutableDocument?) -> Void
    ) -> [DittoUpdateResult] { unavailable() }
    @discardableResult public func remove() -> Bool { unavailable() }
    @discardableResult public func evict() -> Bool { unavailable() }
    public func subscribe() -> DittoSubscription { unavailable() }
    public func observeLocal(
        deliverOn queue: DispatchQueue = .main,
        eventHandler: @escaping (DittoDocument?, DittoSingleDocumentLiveQueryEvent) -> Void
    ) -> DittoLiveQuery { unavailable() }
    public func observeLocalWithNextSignal(
        deliverOn queue: DispatchQueue = .main,
        eventHandler:
            @escaping (DittoDocument?, DittoSingleDocumentLiveQueryEvent, @escaping DittoSignalNext) -> Void
    ) -> DittoLiveQuery { unavailable() }
    public func observe(
        deliverOn queue: DispatchQueue = .main,
        eventHandler: @escaping (DittoDocument?, DittoSingleDocumentLiveQueryEvent) -> Void
    ) -> DittoLiveQuery { unavailable() }
}

@available(*, unavailable, message: "Query system:collections")
public final class DittoPendingCollectionsOperation {
    public func exec() -> [DittoCollection] { unavailable() }
    public func subscribe() -> DittoSubscription { unavailable() }
    public func observeLocal(
        deliverOn queue: DispatchQueue = .main, eventHandler: @escaping (DittoCollectionsEvent) -> Void
    ) -> DittoLiveQuery { unavailable() }
}

@available(*, unavailable, message: "Observe system:collections")
public struct DittoCollectionsEvent {
    public var isInitial: Bool { unavailable() }
    public var collections: [DittoCollection] { unavailable() }
    public var oldCollections: [DittoCollection] { unavailable() }
}

@available(*, unavailable, message: "Use DittoQueryResultItem")
public final class DittoDocument {
    public var id: DittoDocumentID { unavailable() }
    public var value: [String: Any?] { unavailable() }
    public subscript(key: String) -> DittoDocumentPath { unavailable() }
    public func typed<T: Decodable>(as type: T.Type) throws -> DittoTypedDocument<T> { unavailable() }
}

@available(*, unavailable, message: "Use DittoQueryResultItem.decode(as:)")
public struct DittoTypedDocument<Content> {
    public var id: DittoDocumentID { unavailable() }
    public var value: Content { unavailable() }
}

@available(*, unavailable, message: "Use DittoQueryResultItem.value")
public final class DittoDocumentPath {
    public subscript(key: String) -> DittoDocumentPath { unavailable() }
    public subscript(index: Int) -> DittoDocumentPath { unavailable() }
    public var value: Any? { unavailable() }
    public var string: String? { unavailable() }
    public var stringValue: String { unavailable() }
    public var bool: Bool? { unavailable() }
    public var boolValue: Bool { unavailable() }
    public var int: Int? { unavailable() }
    public var intValue: Int { unavailable() }
    public var double: Double? { unavailable() }
    public var doubleValue: Double { unavailable() }
    public var float: Float? { unavailable() }
    public var floatValue: Float { unavailable() }
    public var array: [Any?]? { unavailable() }
    public var arrayValue: [Any?] { unavailable() }
    public var dictionary: [String: Any?]? { unavailable() }
    public var dictionaryValue: [String: Any?] { unavailable() }
    public var attachmentToken: DittoAttachmentToken? { unavailable() }
    public var counter: DittoCounter? { unavailable() }
    public var register: DittoRegister? { unavailable() }
}

@available(*, unavailable, message: "Use DittoDocumentID.value")
public struct DittoDocumentIDPath {}

@available(*, unavailable, message: "Use UPDATE … SET")
public final class DittoMutableDocument {
    public var id: DittoDocumentID { unavailable() }
    public var value: [String: Any?] { unavailable() }
    public subscript(key: String) -> DittoMutableDocumentPath { unavailable() }
}

@available(*, unavailable, message: "Use UPDATE … SET")
public final class DittoMutableDocumentPath {
    public subscript(key: String) -> DittoMutableDocumentPath { unavailable() }
    public subscript(index: Int) -> DittoMutableDocumentPath { unavailable() }
    public var value: Any? { unavailable() }
    public func set(_ value: Any?, isDefault: Bool = false) { unavailable() }
    public func remove() { unavailable() }
    public func increment(amount: Double) { unavailable() }
    public func replaceWithCounter(isDefault: Bool = false) { unavailable() }
    public var counter: DittoMutableCounter? { unavailable() }
    public var register: DittoMutableRegister? { unavailable() }
}

@available(*, unavailable, message: "Use UPDATE … APPLY … PN_INCREMENT BY")
public final class DittoCounter {
    public init() { unavailable() }
    public var value: Double { unavailable() }
}

@available(*, unavailable, message: "Use UPDATE … APPLY … PN_INCREMENT BY")
public final class DittoMutableCounter {
    public var value: Double { unavailable() }
    public func increment(by amount: Double) { unavailable() }
}

@available(*, unavailable, message: "Declare the field as REGISTER in the statement")
public final class DittoRegister {
    public init(value: Any?) { unavailable() }
    public var value: Any? { unavailable() }
}

@available(*, unavailable, message: "Declare the field as REGISTER in the statement")
public final class DittoMutableRegister {
    public var value: Any? { unavailable() }
    public func set(value: Any?) { unavailable() }
}

@available(*, unavailable, message: "Use DittoStoreObserver of ditto.store.registerObserver")
public final class DittoLiveQuery {
    public func stop() { unavailable() }
}

@available(*, unavailable, message: "Use DittoSyncSubscription of ditto.sync.registerSubscription")
public final class DittoSubscription {
    public func cancel() { unavailable() }
}

@available(*, unavailable, message: "Use DittoDiffer")
public enum DittoLiveQueryEvent {
    case initial
    case update(DittoLiveQueryUpdate)
}

@available(*, unavailable, message: "Use DittoDiff of DittoDiffer")
public struct DittoLiveQueryUpdate {
    public var oldDocuments: [DittoDocument] { unavailable() }
    public var insertions: [Int] { unavailable() }
    public var deletions: [Int] { unavailable() }
    public var updates: [Int] { unavailable() }
    public var moves: [(from: Int, to: Int)] { unavailable() }
}

@available(*, unavailable, message: "Use DittoDiffer")
public struct DittoSingleDocumentLiveQueryEvent {
    public var isInitial: Bool { unavailable() }
    public var oldDocument: DittoDocument? { unavailable() }
}

@available(*, unavailable, message: "Use DittoQueryResult.mutatedDocumentIDs()")
public enum DittoUpdateResult {}

@available(*, unavailable, message: "Use DittoTransaction of ditto.store.transaction")
public final class DittoWriteTransaction {
    public func scoped(toCollectionNamed name: String) -> DittoScopedWriteTransaction { unavailable() }
    public subscript(collectionName: String) -> DittoScopedWriteTransaction { unavailable() }
}

@available(*, unavailable, message: "Use DittoTransaction of ditto.store.transaction")
public final class DittoScopedWriteTransaction {
    public func findByID(_ id: DittoDocumentID) -> DittoPendingIDSpecificOperation { unavailable() }
    public func findByID(_ id: Any?) -> DittoPendingIDSpecificOperation { unavailable() }
    public func find(_ query: String) -> DittoPendingCursorOperation { unavailable() }
    public func find(_ query: String, args: [String: Any?]) -> DittoPendingCursorOperation { unavailable() }
    public func findAll() -> DittoPendingCursorOperation { unavailable() }
    @discardableResult public func upsert(
        _ content: [String: Any?], writeStrategy: DittoWriteStrategy = .merge
    ) throws -> DittoDocumentID { unavailable() }
    @discardableResult public func insert(
        _ content: [String: Any?], id: Any? = nil, isDefault: Bool = false
    ) throws -> DittoDocumentID { unavailable() }
}

@available(*, unavailable, message: "Use DittoQueryResult.mutatedDocumentIDs()")
public enum DittoWriteTransactionResult {}

@available(*, unavailable, message: "Pass the token's dictionary, as it stands in the document")
public final class DittoAttachmentToken {
    public var id: String { unavailable() }
    public var len: Int { unavailable() }
    public var metadata: [String: String] { unavailable() }
}
