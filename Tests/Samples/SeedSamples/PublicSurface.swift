// The current API, signature by signature, as applications write it: with the labels, defaults and types that
// public client code relies on. That it compiles is the test; `SampleTests` runs what can be run without a
// server.
import Dispatch
import DittoSwift

/// Applications keep what they registered in properties, and extend the SDK's types.
final class SurfaceApplication {
    let ditto: Ditto
    nonisolated(unsafe) var observer: DittoStoreObserver?  // one thread at a time: the test's
    nonisolated(unsafe) var subscription: DittoSyncSubscription?  // as above
    var statusObserver: DittoObserver?
    var usage: DiskUsageObserverHandle?

    init(_ ditto: Ditto) { self.ditto = ditto }

    /// Section 1 and 2 of the list: `Ditto`, `DittoConfig`.
    func instance() throws -> [String] {
        let _: String = Ditto.version
        let _: URL = Ditto.defaultRootDirectory
        let config: DittoConfig = ditto.config
        var copy = config
        copy.databaseID = "other"
        copy.connect = .smallPeersOnly()
        copy.experimental = .init()
        let _: URL? = copy.persistenceDirectory
        let _: URL = ditto.absolutePersistenceDirectory
        let store: DittoStore = ditto.store
        let sync: DittoSync = ditto.sync
        let auth: DittoAuthenticator? = ditto.auth
        let _: DiskUsage = ditto.diskUsage
        let _: DittoSmallPeerInfo = ditto.smallPeerInfo
        ditto.deviceName = "till"
        try ditto.setOfflineOnlyLicenseToken("any")
        switch config.connect {
        case .server(let url): return [url.absoluteString]
        case .smallPeersOnly(let privateKey):
            return [privateKey ?? "none", "\(store.observers.count)", "\(sync.isActive)", "\(auth == nil)"]
        @unknown default: return []
        }
    }

    /// Section 4: logging in.
    func authentication() {
        ditto.auth?.expirationHandler = { ditto, secondsRemaining in
            let _: TimeInterval = secondsRemaining
            ditto.auth?.login(token: "t", provider: .development) { clientInfo, error in
                let _: String? = clientInfo
                let _: DittoSwiftError? = error
            }
        }
        ditto.auth?.expirationHandler = { @Sendable d, _ in
            _ = try? await d.auth?.login(token: "t", provider: "mine")
        }
        ditto.auth?.logout()
        ditto.auth?.logout { _ in }
        ditto.auth?.logout(cleanup: { ditto in Task { try await ditto.store.execute(query: "EVICT FROM c") } }
        )
        let status: DittoAuthenticationStatus? = ditto.auth?.status
        _ = (status?.isAuthenticated, status?.userID)
        statusObserver = ditto.auth?.observeStatus { status in print(status.isAuthenticated) }
        statusObserver?.cancel()
        statusObserver?.stop()
    }

    /// Sections 5 and 6: the store and its results.
    func documents() async throws -> [String] {
        let store = ditto.store
        try await store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 'a', 'n': 1})")
        let none: [String: Any?]? = nil
        try await store.execute(query: "UPDATE c SET n = 2", arguments: none ?? [:])
        let executing: DittoQueryExecuting = store
        let result: DittoQueryResult = try await executing.execute(
            query: "SELECT * FROM c WHERE n = :n", arguments: ["n": 2])
        let _: UInt64? = result.commitID
        let written = try await store.execute(query: "UPDATE c SET n = 3 WHERE _id = 'a'")
        let ids: [DittoDocumentID] = written.mutatedDocumentIDs()
        let items: [DittoQueryResultItem] = result.items
        for item in items {
            item.materialize()
            let _: Bool = item.isMaterialized
            let _: [String: Any?] = item.value
            let _: Data = item.cborData()
            let _: Data = item.jsonData()
            item.dematerialize()
        }
        return items.map { $0.jsonString() } + ids.map { $0.stringValue } + [ids.first?.stringValue ?? ""]
    }

    /// Section 7: transactions.
    func transactions() async throws -> [String] {
        let action: DittoTransactionCompletionAction = try await ditto.store.transaction(hint: "a") {
            transaction in
            try await transaction.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 'b'})", arguments: [:])
            let info: DittoTransactionInfo = transaction.info
            let _: DittoStore = transaction.store
            if info.isReadOnly { return .commit }
            return .rollback
        }
        let count: Int = try await ditto.store.transaction(isReadOnly: true) { transaction in
            try await transaction.execute(query: "SELECT * FROM c WHERE _id = 'b'").items.count
        }
        try await ditto.store.transaction { transaction in
            _ = try await transaction.execute(query: "SELECT * FROM c")
        }
        return ["\(action)", "\(count)"]
    }

    /// Section 8: observers and sync.
    func registrations() throws -> [String] {
        try ditto.store.registerObserver(query: "SELECT * FROM c") { _ in }
        observer = try ditto.store.registerObserver(
            query: "SELECT * FROM c WHERE n = :n", arguments: ["n": 1], deliverOn: .global(qos: .default)
        ) { [weak self] result in
            let count = result.items.count
            Task { @MainActor in _ = (self, count) }
        }
        let handler: DittoStoreObservationHandlerWithSignalNext = { _, signalNext in signalNext() }
        let paced = try ditto.store.registerObserver(query: "SELECT * FROM c", handlerWithSignalNext: handler)
        let all: Set<DittoStoreObserver> = ditto.store.observers
        let _: (Ditto?, String, [String: Any?]?, Bool) = (
            paced.ditto, paced.queryString, paced.queryArguments, paced.isCancelled
        )
        for observer in all { observer.cancel() }
        try ditto.sync.registerSubscription(query: "SELECT * FROM c")
        subscription = try ditto.sync.registerSubscription(
            query: "SELECT * FROM c WHERE n = :n", arguments: ["n": 1])
        let known: Set<DittoSyncSubscription> = ditto.sync.subscriptions
        for subscription in known { subscription.cancel() }
        ditto.sync.stop()
        return ["\(all.count)", "\(known.count)", "\(subscription?.isCancelled ?? false)"]
    }

    /// Sections 12 and 13: differ, disk usage, small peer info, logger.
    func services() throws -> [String] {
        let diff: DittoDiff = DittoDiffer().diff([])
        let _: (IndexSet, IndexSet, IndexSet, [(from: Int, to: Int)]) = (
            diff.insertions, diff.deletions, diff.updates, diff.moves
        )
        let item: DiskUsageItem = ditto.diskUsage.exec
        let children: [DiskUsageItem] = item.childItems
        usage = ditto.diskUsage.observe { item in _ = (item.path, item.sizeInBytes, item.type) }
        usage?.stop()
        let info = ditto.smallPeerInfo
        info.isEnabled = true
        try info.setMetadata(["a": 1])
        try info.setMetadataJSONString(info.metadataJSONString)
        info.syncScope = .localPeerOnly
        DittoLogger.minimumLogLevel = .error
        DittoLogger.isEnabled = true
        DittoLogger.setCustomLogCallback { level, message in _ = (level.rawValue, message) }
        DittoLogger.setCustomLogCallback(nil)
        return ["\(children.isEmpty)", "\(info.metadata.count)", "\(DittoLogLevel.allCases.count)"]
    }

    /// Section 14: errors, matched with labels and without.
    static func name(_ error: any Error) -> String {
        switch error as? DittoSwiftError {
        case .storeError(.queryInvalid)?: return "query"
        case .storeError(reason: .persistenceDirectoryLocked(message: let message))?: return message
        case .validationError(let reason)?: return "\(reason)"
        case .authenticationError(.expirationHandlerMissing)?: return "handler"
        case .unsupportedError(let message)?: return message
        case let other?: return other.errorDescription ?? ""
        case nil: return "not ours"
        }
    }
}

/// As applications do; the SDK itself does not.
extension DittoLogLevel: CaseIterable {
    /// From the most urgent on.
    public static let allCases: [DittoLogLevel] = [.error, .warning, .info, .debug, .verbose]
}

/// Seven applications declare this name themselves.
extension DittoStore {
    func observePublisher(query: String) -> String { query }
}
