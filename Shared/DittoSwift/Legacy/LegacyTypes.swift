// swift-format-ignore-file: AllPublicDeclarationsHaveDocumentation
// Types of the 4.x API. Each is declared so that a program that uses one is told its successor.

@available(*, unavailable, message: "Use DittoConfig with Ditto.open(config:)")
public enum DittoIdentity {}

@available(*, unavailable, message: "Set ditto.auth?.expirationHandler")
public protocol DittoAuthenticationDelegate {}

@available(*, unavailable, message: "Query system:transports_info")
public protocol DittoDelegate: AnyObject {}

@available(*, unavailable, message: "Use DittoPeer of ditto.presence.graph")
public struct DittoRemotePeer {}

@available(*, unavailable, message: "Use DittoObserver of ditto.presence.observe")
public final class DittoPeersObserver {}

@available(*, unavailable, message: "Use DQL: ditto.store.execute(query:arguments:)")
public final class DittoCollection {}

@available(*, unavailable, message: "Use INSERT … ON ID CONFLICT DO UPDATE or another of DQL")
public enum DittoWriteStrategy {}

@available(*, unavailable, message: "Use ORDER BY … ASC or DESC")
public enum DittoSortDirection {}

@available(*, unavailable, message: "Use DQL: ditto.store.execute(query:arguments:)")
public final class DittoPendingCursorOperation {}

@available(*, unavailable, message: "Use DQL with WHERE _id = :id")
public final class DittoPendingIDSpecificOperation {}

@available(*, unavailable, message: "Query system:collections")
public final class DittoPendingCollectionsOperation {}

@available(*, unavailable, message: "Observe system:collections")
public struct DittoCollectionsEvent {}

@available(*, unavailable, message: "Use DittoQueryResultItem")
public final class DittoDocument {}

@available(*, unavailable, message: "Use DittoQueryResultItem.decode(as:)")
public struct DittoTypedDocument<Content> {}

@available(*, unavailable, message: "Use DittoQueryResultItem.value")
public final class DittoDocumentPath {}

@available(*, unavailable, message: "Use DittoDocumentID.value")
public struct DittoDocumentIDPath {}

@available(*, unavailable, message: "Use UPDATE … SET")
public final class DittoMutableDocument {}

@available(*, unavailable, message: "Use UPDATE … SET")
public final class DittoMutableDocumentPath {}

@available(*, unavailable, message: "Use UPDATE … APPLY … PN_INCREMENT BY")
public final class DittoCounter {}

@available(*, unavailable, message: "Use UPDATE … APPLY … PN_INCREMENT BY")
public final class DittoMutableCounter {}

@available(*, unavailable, message: "Declare the field as REGISTER in the statement")
public final class DittoRegister {}

@available(*, unavailable, message: "Declare the field as REGISTER in the statement")
public final class DittoMutableRegister {}

@available(*, unavailable, message: "Use DittoStoreObserver of ditto.store.registerObserver")
public final class DittoLiveQuery {}

@available(*, unavailable, message: "Use DittoSyncSubscription of ditto.sync.registerSubscription")
public final class DittoSubscription {}

@available(*, unavailable, message: "Use DittoDiffer")
public enum DittoLiveQueryEvent {}

@available(*, unavailable, message: "Use DittoDiff of DittoDiffer")
public struct DittoLiveQueryUpdate {}

@available(*, unavailable, message: "Use DittoDiffer")
public struct DittoSingleDocumentLiveQueryEvent {}

@available(*, unavailable, message: "Use DittoQueryResult.mutatedDocumentIDs()")
public enum DittoUpdateResult {}

@available(*, unavailable, message: "Use DittoTransaction of ditto.store.transaction")
public final class DittoWriteTransaction {}

@available(*, unavailable, message: "Use DittoTransaction of ditto.store.transaction")
public final class DittoScopedWriteTransaction {}

@available(*, unavailable, message: "Use DittoQueryResult.mutatedDocumentIDs()")
public enum DittoWriteTransactionResult {}

@available(*, unavailable, message: "Pass the token's dictionary, as it stands in the document")
public final class DittoAttachmentToken {}
