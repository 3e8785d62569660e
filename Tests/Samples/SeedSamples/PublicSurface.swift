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
    var presenceObserver: DittoObserver?
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

    /// Section 9: presence.
    func presence() throws -> [String] {
        let presence: DittoPresence = ditto.presence
        presenceObserver = presence.observe { graph in
            let _: DittoPresenceGraph = graph
        }
        presenceObserver?.stop()
        presenceObserver = presence.observe(didChangeHandler: { graph in print(graph.remotePeers.count) })
        presenceObserver?.cancel()
        let metadata: [String: Any?] = ["role": "till", "n": 1]
        try presence.setPeerMetadata(metadata)
        try presence.setPeerMetadataJSONData(presence.peerMetadataJSONData)
        presence.connectionRequestHandler = { request in
            let _: (String, [String: Any?], Data) = (
                request.peerKeyString, request.peerMetadata, request.peerMetadataJSONData
            )
            let _: ([String: Any?], Data) = (
                request.identityServiceMetadata, request.identityServiceMetadataJSONData
            )
            return request.connectionType == .bluetooth ? .deny : .allow
        }
        presence.connectionRequestHandler = nil
        let graph: DittoPresenceGraph = presence.graph
        let peers: [DittoPeer] = [graph.localPeer] + graph.remotePeers
        var names: [String] = []
        for peer in peers {
            let _: (String, String, String) = (peer.peerKey, peer.peerKeyString, peer.deviceName)
            let _: (Bool, Bool) = (peer.isConnectedToDittoCloud, peer.isConnectedToDittoServer)
            let _: (DittoPeerOS?, DittoPeerOS?) = (peer.os, peer.osV2)
            let _: (String?, Bool?, UInt8) = (
                peer.dittoSDKVersion, peer.isCompatible, peer.queryOverlapGroup
            )
            let _: DittoAddress = peer.address
            names.append("\(peer.os?.stringValue ?? "") \(peer.peerMetadata.compactMapValues { $0 }.count)")
            names.append("\(peer.identityServiceMetadata.count)")
            for connection in peer.connections {
                let _: (String, String, String) = (connection.id, connection.peer1, connection.peer2)
                let _: (String, String) = (connection.peerKeyString1, connection.peerKeyString2)
                let _: Double? = connection.approximateDistanceInMeters
                switch connection.type {
                case .bluetooth, .accessPoint, .p2pWiFi, .webSocket: names.append(connection.type.rawValue)
                @unknown default: break
                }
            }
        }
        let data = try JSONEncoder().encode(graph)
        let same = try JSONDecoder().decode(DittoPresenceGraph.self, from: data) == graph
        return names + ["\(same)", "\(Set(DittoConnectionType.allCases).count)"]
    }

    /// Section 10: transports.
    func transports() -> [String] {
        ditto.transportConfig.peerToPeer.lan.isEnabled.toggle()
        ditto.updateTransportConfig { config in
            config.peerToPeer.bluetoothLE.isEnabled = false
            config.peerToPeer.awdl.isEnabled = false
            config.peerToPeer.wifiAware.isEnabled = false
            config.connect.webSocketURLs.insert("wss://example.com")
            config.connect.tcpServers = ["host:4040"]
            config.global.syncGroup = 1
            config.global.routingHint = 2
        }
        ditto.updateTransportConfig(block: { $0.connect.webSocketURLs.removeAll() })
        var config = DittoTransportConfig()
        config.enableAllPeerToPeer()
        config.setAllPeerToPeer(enabled: false)
        config.listen.tcp.isEnabled = false
        let _: (String, UInt16) = (config.listen.tcp.interfaceIP, config.listen.http.port)
        let _: (String?, Bool) = (config.listen.http.tlsKeyPath, config.listen.http.webSocketSync)
        let _: TimeInterval = config.connect.retryInterval
        let condition = DittoTransportCondition.NoBleHardware
        return [
            "\(ditto.transportConfig.peerToPeer.lan.isEnabled)", "\(condition)",
            "\(DittoConditionSource.Bluetooth)", "\(config == DittoTransportConfig())",
        ]
    }

    /// Section 11: attachments.
    func attachments(path: String) async throws -> [String] {
        let attachment: DittoAttachment = try await ditto.store.newAttachment(
            path: path, metadata: ["name": "x"])
        try await ditto.store.execute(
            query: "INSERT INTO COLLECTION files (file ATTACHMENT) DOCUMENTS (:new)",
            arguments: ["new": ["_id": "1", "file": attachment] as [String: Any?]])
        let items = try await ditto.store.execute(query: "SELECT * FROM files").items
        let token = items.first?.value["file"] as? [String: Any] ?? [:]
        let lengths: [String] = try await withCheckedThrowingContinuation { continuation in
            do {
                let fetcher: DittoAttachmentFetcher = try ditto.store.fetchAttachment(token: token) { event in
                    switch event {
                    case .completed(let attachment):
                        let data = (try? attachment.data()) ?? Data()
                        continuation.resume(returning: ["\(data.count)", "\(attachment.len)"])
                    case .progress(let downloadedBytes, let totalBytes):
                        let _: (UInt64, UInt64) = (downloadedBytes, totalBytes)
                    case .deleted: break
                    @unknown default: break
                    }
                }
                let _: Set<DittoAttachmentFetcher> = [fetcher]
            } catch {
                continuation.resume(throwing: error)
            }
        }
        let _: Set<DittoAttachmentFetcher> = ditto.store.attachmentFetchers
        let all: Set<DittoAttachment> = [attachment]
        return lengths + ["\(attachment.metadata["name"] ?? "")", "\(all.count)"]
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
