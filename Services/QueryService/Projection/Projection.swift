import CRDT
import DQL
import Identity
import Logging
import Machine
import OperationLog
import Replica
import ServiceKit

/// One database's projection, in either kind of store, and the queue of writes through this process.
///
/// Writes of this process run one after the other (`writing`). Each is drafted against the projection,
/// appended to the log, folded and answered, so each sees the one before. Between processes an append carries
/// a condition (rule 22): the data that the statement read or wrote has not been touched since. If it has,
/// the statement runs again. Peers write without conditions; their writes are merged as concurrent ones.
actor Projection {
    nonisolated let store: any ProjectionStore
    /// The latest operations, for followers.
    nonisolated let recent: RecentChanges
    private let log: any OperationLog
    nonisolated let database: DatabaseID
    private let bounds: QueryServicePart.Bounds
    private let statements: PreparedStatements
    private let writer: LeasedActor
    private var follower: Task<Void, Never>?
    private var writing: Task<ExecuteAnswer, any Error>?
    private var waitingWrites = 0
    /// The offset of this process's last write. No draft begins before it is folded, since each stamp must
    /// exceed every earlier one of its actor.
    private var written: Offset = 0
    /// The kept answers, as they were counted last.
    private var census: KeptAnswers.Census?
    /// True if the outcome of an append is unknown. Until the log is folded up to its head, a stamp could be
    /// used twice.
    private var isUnsure = false

    static func open(
        _ database: DatabaseID, log: any OperationLog, in stores: ProjectionStores,
        bounds: QueryServicePart.Bounds, statements: PreparedStatements,
        erased: @escaping @Sendable () -> ErasedDocuments? = { nil },
        whenLost: @escaping @Sendable (Projection) -> Void
    ) async throws -> Projection {
        let recent = RecentChanges()
        let store = try await stores.open(database, log: log, recent: recent)
        let projection = Projection(database, log, store, recent, bounds, statements, erased)
        await projection.follow(whenLost)
        return projection
    }

    /// The documents whose ids take no writes any more.
    private let erased: @Sendable () -> ErasedDocuments?

    private init(
        _ database: DatabaseID, _ log: any OperationLog, _ store: any ProjectionStore,
        _ recent: RecentChanges, _ bounds: QueryServicePart.Bounds, _ statements: PreparedStatements,
        _ erased: @escaping @Sendable () -> ErasedDocuments?
    ) {
        self.erased = erased
        self.database = database
        self.log = log
        self.store = store
        self.recent = recent
        self.bounds = bounds
        self.statements = statements
        writer = LeasedActor(log: log, database: database, purpose: "query-service")
    }

    /// Follows the log; calls `whenLost` if the log lacks the folded history or the next operation.
    private func follow(_ whenLost: @escaping @Sendable (Projection) -> Void) {
        follower = Task {
            await store.run()
            if await store.hasLostHistory { whenLost(self) }
        }
    }

    /// Makes `recent` tell of every operation from now on.
    nonisolated func beginFollowing() async throws { try await store.beginFollowing() }

    func close() async {
        recent.endFollowers(isFinal: true)
        follower?.cancel()
        _ = try? await writing?.value
        await writer.close()
        await store.close()
    }

    /// Executes a statement for an identity on a state no older than offset `minimum`.
    nonisolated func execute(
        _ request: ExecuteRequest, isStrict: Bool, _ identity: Identity, after minimum: Offset?, _ past: Past
    ) async throws -> ExecuteAnswer {
        let statement = try statements.prepare(request.statement)
        guard !statement.evicts else { throw QueryError(.evictIsLocal) }
        guard statement.kind != .alterSystem else { throw QueryError(.parametersAreLocal) }
        try Self.authorize(statement, identity.rights)
        let head = try await log.head(of: database)
        // Also if the position is ahead of the head: the fold detects a log that was reset.
        let offset = max(minimum ?? 0, head.offset)
        if await store.position != head { try await store.advance() }
        guard await store.wait(for: offset, timeout: bounds.transactionWait) else {
            throw QueryError(.transactionNotReached)
        }
        let options = options(isStrict: isStrict)
        if let point = request.asOf {
            guard statement.isReadOnly else { throw QueryError(.pastIsReadOnly) }
            let offset = try await past.offset(of: point, in: database)
            return try await past.translating(database) {
                try await past.folds.read(database, at: offset) { documents in
                    try Self.evaluate(statement, request.arguments, options, identity.rights, in: documents)
                }
            }
        }
        guard statement.isReadOnly else {
            return try await write(statement, request.arguments, options, identity.rights, request.key)
        }
        return try await read(statement, request.arguments, options, identity.rights, from: offset)
    }

    /// - Throws: `QUERY-0202` or `QUERY-0203` if the statement names a collection of which its author may not
    ///   read or write any document.
    static func authorize(_ statement: PreparedStatement, _ rights: CompiledGrant) throws(QueryError) {
        for collection in statement.collectionsRead where !rights.read.allowsAny(of: collection) {
            guard collection.text.hasPrefix("system:") else {
                throw QueryError(.readNotGranted, collection.text)
            }
        }
        for collection in statement.collectionsWritten where !rights.write.allowsAny(of: collection) {
            throw QueryError(.writeNotGranted, collection.text)
        }
    }

    /// The rows of a live query on a state no older than an offset; without one no older than the log's head.
    nonisolated func rows(of query: Observation.Query, from offset: Offset?) async throws -> Observation.Rows
    {
        var least = offset ?? 0
        if offset == nil {
            let head = try await log.head(of: database)
            if await store.position != head { try await store.advance() }
            least = head.offset
        }
        guard await store.wait(for: least, timeout: bounds.transactionWait) else {
            throw QueryError(.unavailable, "the projection lags behind the log")
        }
        let (options, most) = (options(isStrict: false), bounds.observedBytes)
        return try await store.read(from: least) { documents in
            var options = options
            options.system = QuerySystemCollections(
                names: try documents.collectionNames(), rules: query.rights.read)
            let readable: any DocumentSource =
                query.rights.coversWhole(query.statement)
                ? documents : GrantedDocuments(base: documents, rules: query.rights.read)
            var rows: [KeptRow] = []
            var bytes = 0
            try query.statement.forEachResult(
                in: readable, arguments: query.arguments, options: options
            ) { row in
                let kept = row.kept
                bytes += try kept.withDocument { $0.count + $1.count } ?? CBOR.encode(kept.value).count
                guard bytes <= most else { throw QueryError(.resultTooLarge, "\(most)") }
                rows.append(kept)
                return true
            }
            return Observation.Rows(rows: rows, offset: try documents.offset())
        }
    }

    /// Execution options of a statement that begins now.
    nonisolated func options(isStrict: Bool) -> ExecutionOptions {
        let deadline = ContinuousClock.now + bounds.statementTime
        let now = Int64(clamping: Environment.system.wallMilliseconds())
        var options = ExecutionOptions(
            strictMode: isStrict, context: FunctionContext(now: now, timeZones: SystemTimeZones()))
        options.interruption = { ContinuousClock.now < deadline ? nil : .timeout }
        return options
    }

    private nonisolated func read(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ options: ExecutionOptions,
        _ rights: CompiledGrant, from offset: Offset
    ) async throws -> ExecuteAnswer {
        try await store.read(from: offset) { documents in
            try Self.evaluate(statement, arguments, options, rights, in: documents)
        }
    }

    /// Evaluates a statement that reads on a snapshot, within its reader's rights.
    static func evaluate(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ options: ExecutionOptions,
        _ rights: CompiledGrant, in documents: any ProjectedDocuments
    ) throws -> ExecuteAnswer {
        var options = options
        options.system = QuerySystemCollections(names: try documents.collectionNames(), rules: rights.read)
        let readable: any DocumentSource =
            rights.coversWhole(statement)
            ? documents : GrantedDocuments(base: documents, rules: rights.read)
        var rows: [Value] = []
        let warnings = try statement.forEachRow(
            in: readable, arguments: arguments, options: options
        ) { row in
            rows.append(row)
            return true
        }
        return ExecuteAnswer(
            transactionID: try documents.offset(), queryType: statement.kind, items: rows,
            warnings: warnings.map(\.message))
    }

    private func write(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ options: ExecutionOptions,
        _ rights: CompiledGrant, _ key: IdempotencyKey?
    ) async throws -> ExecuteAnswer {
        guard waitingWrites < bounds.waitingWrites else { throw QueryError(.overloaded) }
        waitingWrites += 1
        defer { waitingWrites -= 1 }
        let previous = writing
        let task = Task {
            _ = try? await previous?.value
            return try await self.perform(statement, arguments, options, rights, key)
        }
        writing = task
        return try await task.value
    }

    /// Drafts, appends and folds. The statement runs again if another process touched data that it read or
    /// wrote, under another lease if this one has expired, and once under a new actor if the log knows other
    /// operations of this one.
    private func perform(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ options: ExecutionOptions,
        _ rights: CompiledGrant, _ key: IdempotencyKey?
    ) async throws -> ExecuteAnswer {
        if await store.position.offset < written { try await catchUp(to: written) }
        var isActorNew = false
        if let key { try await countKeptAnswers(for: key) }
        for _ in 0..<Limits.writeAttempts {
            let (lease, isFresh) = try await writer.lease()
            if isFresh {
                // The lease's previous holder may have written operations that are not folded here.
                written = max(written, try await log.head(of: database).offset)
                try await catchUp(to: written)
            }
            // The sequence comes from the log, so a deleted or restored projection never repeats one. It is
            // read before the fold below: a write that arrives between the two takes the same sequence.
            let frontier = try await log.frontier(of: [lease.actor], in: database)
            let sequence = (frontier[lease.actor]?.sequence ?? 0).next
            if isUnsure {
                written = max(written, try await log.head(of: database).offset)
                try await catchUp(to: written)
                isUnsure = false
            }
            let draft = try await draft(
                statement, arguments, options, rights, key, as: lease.actor, sequence: sequence)
            if let kept = draft.kept { return try await repeated(kept, for: key, statement.kind) }
            var answer = ExecuteAnswer(
                transactionID: max(draft.readAt, await store.position.offset), queryType: statement.kind,
                items: draft.result.rows, mutatedDocumentIDs: draft.result.mutatedDocumentIDs.map(\.value),
                warnings: draft.result.warnings.map(\.message) + draft.warnings)
            guard let operation = draft.operation else { return answer }
            try checkErased(operation)
            let condition = AppendCondition(
                readAt: draft.readAt, reads: Touch.all(of: operation, reading: statement))
            switch try await append(operation, under: lease, condition) {
            case .appended(let offset):
                answer.transactionID = offset
                if let key { noteKeptAnswer(of: key) }
                return answer
            case .conflict(.condition(let offset)): try await catchUp(to: offset)
            case .conflict(.leaseLost): await writer.lose(lease)
            case .duplicate, .gap, .conflict:
                guard !isActorNew else { throw QueryError(.conflict) }
                isActorNew = true
                await writer.lose(lease, retiring: true)
            }
        }
        throw QueryError(.conflict)
    }

    /// Refuses a write to a document that an operator has erased.
    private func checkErased(_ operation: Operation) throws(QueryError) {
        guard let erased = erased() else { return }
        for change in operation.changes where erased.contains(change.collection, change.id) {
            throw QueryError(.erased, "a document of \(change.collection)")
        }
    }

    /// Waits until drafts see the operation at an offset of the log.
    private func catchUp(to offset: Offset) async throws {
        try await store.advance()
        guard await store.wait(for: offset, timeout: bounds.transactionWait) else {
            throw QueryError(.unavailable, "the projection lags behind the log")
        }
    }

    private func draft(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ options: ExecutionOptions,
        _ rights: CompiledGrant, _ key: IdempotencyKey?, as actor: ActorID, sequence: SequenceNumber
    ) async throws -> StatementDraft {
        let isWhole = rights.coversWhole(statement)
        let now = bounds.nowSeconds()
        let since = now - bounds.keptAnswers.components.seconds
        let readAt = await store.position.offset
        let (found, isFull, old) = (KeptAnswers.Found(), key.map(hasTooMany) ?? false, answersToRemove)
        var draft = try await store.draft(from: written, as: actor, sequence: sequence) { writer in
            if let key {
                found.kept = try KeptAnswers.find(key, in: writer, since: since)
                if found.kept != nil { return StatementResult() }
                if isFull { throw QueryError(.tooManyIdempotencyKeys) }
            }
            let result = try statement.execute(
                in: isWhole ? writer : GrantedWriter(base: writer, rights: rights), arguments: arguments,
                options: options,
                idGenerator: { Environment.system.generateDocumentID() })
            if let key {
                let kept = KeptAnswers.Kept(
                    request: key.request, at: now, actor: "\(actor)",
                    sequence: Int64(clamping: sequence.rawValue), readAt: readAt,
                    answer: KeptAnswers.text(of: result))
                try KeptAnswers.keep(kept, under: key, removing: old, in: writer)
            }
            return result
        }
        draft.kept = found.kept
        return draft
    }

    // MARK: Idempotency keys

    /// Counts the kept answers, unless that was done a moment ago.
    private func countKeptAnswers(for key: IdempotencyKey) async throws {
        let patience = hasTooMany(key) ? Limits.keptAnswersSecondLook : Limits.keptAnswersLook
        if let census, ContinuousClock.now - census.at < patience { return }
        let since = bounds.nowSeconds() - bounds.keptAnswers.components.seconds
        census = try await store.read(from: written) { documents in
            try KeptAnswers.Census(documents, since: since)
        }
    }

    private func hasTooMany(_ key: IdempotencyKey) -> Bool {
        census?.counts[key.user, default: 0] ?? 0 >= bounds.keptAnswersPerUser
    }

    private var answersToRemove: [DocumentID] { Array(census?.old.prefix(Limits.keptAnswersRemoved) ?? []) }

    private func noteKeptAnswer(of key: IdempotencyKey) {
        census?.counts[key.user, default: 0] += 1
        let removed = answersToRemove.count
        census?.old.removeFirst(removed)
    }

    /// The answer of the first request with this key.
    private func repeated(
        _ kept: KeptAnswers.Kept, for key: IdempotencyKey?, _ kind: StatementKind
    ) async throws -> ExecuteAnswer {
        guard kept.request == key?.request else { throw QueryError(.idempotencyKeyReused) }
        return KeptAnswers.answer(kept, kind: kind, at: await offset(of: kept))
    }

    /// The offset of the operation that wrote an answer; if the log no longer has it, the present one.
    private func offset(of kept: KeptAnswers.Kept) async -> Offset {
        var after = kept.readAt
        let end = after.rawValue + UInt64(Limits.keptAnswerSearch)
        while after.rawValue < end, let entries = try? await log.read(database, after: after) {
            guard let last = entries.last else { break }
            let own = entries.first {
                "\($0.actor)" == kept.actor && $0.sequence.rawValue == UInt64(clamping: kept.sequence)
            }
            if let own { return own.offset }
            after = last.offset
        }
        return await store.position.offset
    }

    private func append(
        _ operation: Operation, under lease: ActorLease, _ condition: AppendCondition
    ) async throws -> AppendOutcome {
        let request = AppendRequest(operation, under: lease, condition: condition)
        // The outcome is unknown until the log has answered.
        isUnsure = true
        guard let outcome = try await log.append([request], to: database).first else {
            preconditionFailure("an append of one operation has one outcome")
        }
        isUnsure = false
        if case .appended(let offset) = outcome {
            written = offset
            // The write is durable now. If the projection cannot follow, later statements fail, not this one.
            if (try? await store.advance()) != nil {
                _ = await store.wait(for: offset, timeout: bounds.transactionWait)
            }
        }
        return outcome
    }
}

extension Touch {
    /// The data that nobody may have touched for a statement's operation to be valid: the documents it
    /// writes, and the collections it copies from. The collections it writes to are not included: two
    /// statements may write different documents of one collection.
    fileprivate static func all(of operation: Operation, reading statement: PreparedStatement) -> [Touch] {
        let documents = operation.changes.map { Touch.document($0.collection, $0.id) }
        // An INSERT copies from every collection it reads; other statements only from those in subqueries.
        let copied = statement.collectionsRead.filter { collection in
            statement.kind == .insert || !statement.collectionsWritten.contains(collection)
        }
        return documents + copied.map { Touch.collection($0) }
    }
}
