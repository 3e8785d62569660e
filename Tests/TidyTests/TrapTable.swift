/// The places that end the process: `precondition` and `preconditionFailure`, for a broken state of our own.
/// Each row says why no bytes, rows or timing of a client lead there; what can, is an error with a code.
///
/// Modules through which a client's frames, rows and timing go have theirs in `TrapLines`, one by one.
/// A new one fails the test until it has its place here: first ask whether a client can reach it. Fewer than
/// a row says are welcome. Force unwraps, `try!`, `as!` and `fatalError` have no rows, for there are none.
enum TrapTable {
    /// The most of a file, and why they are out of reach.
    static let rows: [String: (most: Int, reason: String)] = [
        "Services/AttachmentStore/Bucket/BucketCollection.swift": (
            1, "a constant, or set before it is signalled"
        ),
        "Services/AttachmentStore/Uploads/TusFields.swift": (1, "a constant, or set before it is signalled"),
        "Services/AttachmentStore/Uploads/Upload.swift": (1, "a constant, or set before it is signalled"),
        "Services/AuthGateway/Accounts/PasswordHash.swift": (1, "the parameters are constants"),
        "Services/AuthGateway/Admin/AdminProviders.swift": (1, "its own encoding"),
        "Services/AuthGateway/AuthGateway.swift": (1, "asked after the start alone"),
        "Services/AuthGateway/State/Sealer.swift": (1, "asked after the start alone"),
        "Services/Console/PageFiles.swift": (1, "the page is in the program"),
        "Services/Mimeo/Operating/BackupCommand.swift": (1, "the command line's own"),
        "Services/Mimeo/Options/SecretOption.swift": (1, "the command line's own"),
        "Services/Mimeo/Peer/PeerConsole.swift": (1, "the command line's own"),
        "Services/QueryService/ExecuteAnswer.swift": (1, "printed in the line before"),
        "Services/QueryService/Legacy/LegacyRoutes.swift": (1, "the translation prints SELECT * first"),
        "Services/QueryService/Projection/EmbeddedStore.swift": (1, "the group answers each of its writes"),
        "Services/QueryService/Projection/ProjectionPlace.swift": (1, "the place has one"),
        "Services/QueryService/Projection/WriteGroup.swift": (1, "the group answers each of its writes"),
        "Services/QueryService/Projection/WriteLane.swift": (1, "the log gives one outcome an operation"),
        "Services/Replicator/Sessions/PooledEvaluator.swift": (1, "the pool runs the work once"),
        "Shared/Attachments/BlobID.swift": (1, "a SHA-256 has 32 bytes"),
        "Shared/Attachments/BlobWriter.swift": (2, "states of its own transfer"),
        "Shared/Attachments/Chunks/ChunkList.swift": (1, "states of its own transfer"),
        "Shared/Attachments/Transfers/Download.swift": (2, "the receiver refuses bytes beyond the length"),
        "Shared/Attachments/Transfers/DownloadFile.swift": (
            2, "the receiver refuses bytes beyond the length"
        ),
        "Shared/Attachments/Uploads/PartialUploads.swift": (1, "states of its own transfer"),
        "Shared/Attachments/Uploads/UploadRecord.swift": (1, "states of its own transfer"),
        "Shared/Attachments/Uploads/UploadSession.swift": (2, "states of its own transfer"),
        "Shared/Backup/Files/Frames.swift": (1, "the writer cuts at the same bound"),
        "Shared/Backup/Files/Manifest.swift": (1, "its own encoding"),
        "Shared/Backup/Making/SealedKey.swift": (1, "its own encoding"),
        "Shared/Backup/Restoring/Restorer.swift": (1, "a chain is read with its end first"),
        "Shared/CRDT/Bytes/ByteReader.swift": (1, "the callers name the widths 1 to 8"),
        "Shared/CRDT/Document/DeltaEncoding.swift": (1, "a removal is made from what its base has"),
        "Shared/CRDT/Document/DocumentEditor.swift": (1, "checked before it is built"),
        "Shared/CRDT/Document/DocumentEncoding.swift": (
            2, "decoding checks that the vector covers each stamp"
        ),
        "Shared/CRDT/Document/FieldCursor.swift": (1, "checked before it is built"),
        "Shared/CRDT/Document/FreshDocument.swift": (2, "checked before it is built"),
        "Shared/CRDT/Document/Leaves.swift": (2, "the index is one of its own"),
        "Shared/CRDT/Document/RestampedDelta.swift": (1, "checked before it is built"),
        "Shared/CRDT/Document/Tombstone.swift": (1, "checked before it is built"),
        "Shared/CRDT/Document/WritePlan.swift": (2, "checked before it is built"),
        "Shared/CRDT/HybridClock.swift": (1, "foreign times are bounded on arrival (STORE-0302)"),
        "Shared/DQL/Access/IndexDescription.swift": (
            2, "the parser and the stored form have a key, each with a path"
        ),
        "Shared/DQL/Access/KeyRange.swift": (1, "a value's rank is the number of its class"),
        "Shared/DQL/Access/RowPlanner.swift": (2, "an index covers a plan if it has all that is read"),
        "Shared/DQL/Analysis/Binder.swift": (1, "the switch around it has the kinds"),
        "Shared/DQL/Cache/StatementCache.swift": (3, "the parameter has a range from 0"),
        "Shared/DQL/Execution/DocumentTest.swift": (1, "an abstract method, which each kind overrides"),
        "Shared/DQL/Execution/Evaluator.swift": (2, "a parameter without an argument is DQL-0501 before"),
        "Shared/DQL/Execution/Execution.swift": (1, "the caller runs statements that read elsewhere"),
        "Shared/DQL/Execution/ExecutionContext.swift": (1, "made in the lines before"),
        "Shared/DQL/Execution/ResultRow.swift": (1, "a row is made of a document or of a row"),
        "Shared/DQL/Execution/RowRunner.swift": (7, "the plan was made on this source"),
        "Shared/DQL/Execution/SystemCollections.swift": (
            1, "a system collection of another name is DQL-0217"
        ),
        "Shared/DQL/Execution/WriteDraft.swift": (1, "the log's frontier counts from 1"),
        "Shared/DQL/Explain/PlanDescription.swift": (1, "the plan was made on this source"),
        "Shared/DQL/Legacy/LegacyLexer.swift": (1, "the lexer makes numbers of two kinds"),
        "Shared/DQL/Plan/BoundExpression.swift": (1, "the binder makes paths with steps"),
        "Shared/DQL/PushDown/ConditionTranslator.swift": (2, "its callers look at the kind before"),
        "Shared/DQL/PushDown/PushedGrouping.swift": (1, "the plan was made on this source"),
        "Shared/DQL/PushDown/PushedJoin+Running.swift": (1, "the plan was made on this source"),
        "Shared/DQL/PushDown/PushedOrder.swift": (1, "the plan was made on this source"),
        "Shared/DQL/Semantics/Dates/DateFormatParsers.swift": (1, "the switch around it has the kinds"),
        "Shared/DQL/Semantics/Dates/RFC3339.swift": (1, "the time is clamped before"),
        "Shared/DQL/Semantics/Truth.swift": (1, "its caller has the six comparisons"),
        "Shared/DQL/Subscription/SubscriptionQuery.swift": (2, "the parser takes SELECT only there"),
        "Shared/DQL/Syntax/ExpressionJSON.swift": (2, "the switch around it has the kinds"),
        "Shared/DQL/Syntax/ExpressionPrinter.swift": (3, "the switch around it has the kinds"),
        "Shared/DQL/System/SystemStatement.swift": (1, "its caller asks isSystem before"),
        "Shared/Identity/AccessToken.swift": (
            4, "the key is looked up by the identity's database; P-256 always signs"
        ),
        "Shared/Identity/PeerCertificate.swift": (4, "P-256 always signs"),
        "Shared/Identity/PeerChallenge.swift": (1, "P-256 always signs"),
        "Shared/Identity/PresenceSignature.swift": (1, "P-256 always signs"),
        "Shared/Machine/PendingAnswer.swift": (2, "each is made and waited for in one function"),
        "Shared/MimeoC/AttachmentCalls.swift": (
            6, "pointers as the C header types them; the caller gives them"
        ),
        "Shared/MimeoC/EventCalls.swift": (7, "pointers as the C header types them; the caller gives them"),
        "Shared/MimeoC/OpeningCalls.swift": (2, "pointers as the C header types them; the caller gives them"),
        "Shared/MimeoC/StatementCalls.swift": (
            2, "pointers as the C header types them; the caller gives them"
        ),
        "Shared/MimeoC/SyncCalls.swift": (1, "pointers as the C header types them; the caller gives them"),
        "Shared/OperationLog/LogEntry.swift": (1, "callers read one entry at least"),
        "Shared/OperationLog/LogPosition.swift": (1, "states of its own writer"),
        "Shared/OperationLog/RestorableLog.swift": (1, "states of its own writer"),
        "Shared/OperationLog/SQLite/FrontierIndex.swift": (1, "states of its own writer"),
        "Shared/OperationLog/SQLite/LogLeases.swift": (1, "states of its own writer"),
        "Shared/OperationLog/SQLite/LogSchema.swift": (
            2, "requests beyond the head are refused before (LOG-0104)"
        ),
        "Shared/OperationLog/SQLite/LogTruncation.swift": (1, "states of its own writer"),
        "Shared/OperationLog/Writing/GroupCommitter.swift": (2, "states of its own writer"),
        "Shared/ServiceKit/Audit/AuditLog.swift": (2, "the statement inserts with ids"),
        "Shared/ServiceKit/Console/ConsoleSessions.swift": (2, "AES-GCM seals anything; a constant"),
        "Shared/ServiceKit/Contact/LogContact.swift": (1, "states of its own"),
        "Shared/ServiceKit/Evaluation/EvaluationPool.swift": (1, "a turn is listed and taken under one lock"),
        "Shared/ServiceKit/Evaluation/EvaluationSchedule.swift": (
            4, "the pool ends a turn once, under its lock"
        ),
        "Shared/ServiceKit/HTTP/Gzip.swift": (2, "a constant; zlib has memory"),
        "Shared/ServiceKit/HTTP/IdempotencyKey.swift": (1, "a constant; zlib has memory"),
        "Shared/ServiceKit/HTTP/RequestID.swift": (1, "a constant; zlib has memory"),
        "Shared/ServiceKit/HTTP/RequestTrace.swift": (1, "a constant; zlib has memory"),
        "Shared/ServiceKit/Host/HostRoutes.swift": (1, "states of its own"),
        "Shared/ServiceKit/Materialization/FoldThrottle.swift": (1, "states of its own"),
        "Shared/ServiceKit/Materialization/Materializer.swift": (1, "a fold of entries folds one or throws"),
        "Shared/ServiceKit/Options/Setting.swift": (1, "a constant of the table"),
        "Shared/ServiceKit/Options/SettingSources.swift": (1, "a constant of the table"),
        "Shared/ServiceKit/SystemDatabase/SecretBox.swift": (1, "states of its own"),
        "Shared/ServiceKit/SystemDatabase/SystemDatabase.swift": (1, "states of its own"),
        "Shared/ServiceKit/SystemDatabase/SystemRecords.swift": (
            1, "a record is a struct, which encodes as an object"
        ),
        "Shared/ServiceKit/Tracing/OTLP.swift": (1, "states of its own"),
        "Shared/WebSocket/Connection/DeliveryMachine.swift": (2, "one driver reads a connection"),
        "Shared/WebSocket/Server/WebSocketUpgrade.swift": (1, "the upgrade follows its own decision"),
    ]
}
