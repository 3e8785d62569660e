// The 4.x API, signature by signature, as applications write it: with the labels, defaults and types that
// public client code relies on. That it compiles is the test; `SurfaceTests` runs it on one store.
import Dispatch
import DittoObjC
import DittoSwift
import Foundation

/// Applications extend the types of the SDK, and declare names that it has too.
extension DittoStore {
    func named(_ name: String) -> DittoCollection { self[name] }
}

extension DittoPendingCursorOperation {
    func first() -> DittoDocument? { limit(1).exec().first }
}

enum ApplicationTypes {
    struct DittoSubscription { var name: String }
    enum DittoError: Error { case mine }
}

final class LegacySurface: DittoDelegate, DittoAuthenticationDelegate {
    let ditto: Ditto
    var liveQuery: DittoLiveQuery?
    var subscription: DittoSubscription?
    var peers: DittoPeersObserver?

    init(_ ditto: Ditto) { self.ditto = ditto }

    func authenticationRequired(authenticator: DittoAuthenticator) {
        authenticator.loginWithToken("t", provider: "p") { (error: DittoSwiftError?) in _ = error }
        authenticator.loginWithCredentials(username: "u", password: "p", provider: "p") { _ in }
        authenticator.login(token: "t", provider: "p") { (info: String?, error: DittoSwiftError?) in
            _ = (info, error)
        }
        authenticator.logout()
        authenticator.logout { (_: Ditto) in }
    }
    func authenticationExpiringSoon(authenticator: DittoAuthenticator, secondsRemaining: Int64) {
        let _: DittoAuthenticationStatus = authenticator.status
    }

    func dittoTransportConditionDidChange(
        ditto: Ditto, condition: DittoTransportCondition, subsystem: DittoConditionSource
    ) {}

    /// Sections 1 and 3.
    func instance() throws -> [String] {
        let identities: [DittoIdentity] = [
            .offlinePlayground(), .offlinePlayground(appID: "a"), .offlinePlayground(appID: "a", siteID: 1),
            .onlinePlayground(appID: "a", token: "t"),
            .onlinePlayground(appID: "a", token: "t", enableDittoCloudSync: false),
            .onlinePlayground(
                appID: "a", token: "t", enableDittoCloudSync: false, customAuthURL: URL(string: "http://h")),
            .onlineWithAuthentication(appID: "a", authenticationDelegate: self),
            .onlineWithAuthentication(
                appID: "a", authenticationDelegate: self, enableDittoCloudSync: true, customAuthURL: nil),
            .sharedKey(appID: "a", sharedKey: "k"), .sharedKey(appID: "a", sharedKey: "k", siteID: 1),
            .manual(certificateConfig: "c"), .development(appID: "a"), .development(appName: "a"),
        ]
        ditto.delegate = self
        ditto.delegate = nil
        ditto.delegateEventQueue = .main
        let _: (String, UInt64, URL, String, Bool, Bool) = (
            ditto.appID, ditto.siteID, ditto.persistenceDirectory, ditto.sdkVersion, ditto.isSyncActive,
            ditto.activated
        )
        try ditto.disableSyncWithV3()
        try ditto.setLicenseToken("t")
        ditto.setAccessLicense("t")
        try ditto.setOfflineOnlyLicenseToken("t")
        var config = DittoTransportConfig()
        config.enableAllPeerToPeer()
        config.peerToPeer.bluetoothLE.enabled = false
        config.connect.websocketURLs = ["wss://example.org"]
        ditto.setTransportConfig(config: config)
        ditto.updateTransportConfig { transportConfig in
            transportConfig.connect.webSocketURLs.insert("wss://example.com")
        }
        peers = ditto.observePeers { (peers: [DittoRemotePeer]) in
            _ = peers.map { ($0.id, $0.deviceName, $0.connections, $0.rssi as Float?) }
        }
        peers?.stop()
        ditto.observeTransportDiagnostics { _ in }.stop()
        ditto.stopSync()
        do {
            try ditto.startSync()
        } catch let error as DittoSwiftError {
            _ = error.errorDescription
        }
        try? ditto.tryStartSync()
        ditto.stopSync()
        return ["\(identities.count)", "\(ditto.transportConfig.connect.websocketURLs.count)"]
    }

    /// Section 5 and 15: collections.
    func collections() throws -> [String] {
        let store: DittoStore = ditto.store
        let cars: DittoCollection = store["cars"]
        let same: DittoCollection = store.collection("cars")
        let _: (String, [String], DittoPendingCollectionsOperation) = (
            cars.name, store.collectionNames(), store.collections()
        )
        let id: DittoDocumentID = try cars.upsert(["_id": "a", "n": 1] as [String: Any?])
        try cars.upsert(["_id": "b"], writeStrategy: .merge)
        for strategy: DittoWriteStrategy in [
            .insertIfAbsent, .insertDefaultIfAbsent, .updateDifferentValues, .overwrite,
        ] {
            try cars.upsert(["_id": "b", "n": 2], writeStrategy: strategy)
        }
        try cars.upsert(["_id": "c", "text": "x"] as [String: String])
        try same.insert(["n": 1])
        try same.insert(["n": 1], id: "d")
        try same.insert(["n": 1], id: ["k": 1], isDefault: true)
        let byID: DittoPendingIDSpecificOperation = cars.findByID(id)
        let all: [DittoPendingIDSpecificOperation] = [
            cars.findByID("a"), cars.findByID(["k": 1] as [String: Any]), cars.findByID(5), byID,
        ]
        let cursor: DittoPendingCursorOperation = cars.find("n == 1").sort("n").limit(5).offset(0)
        let _: [DittoDocument] = cars.find("n == $args.n", args: ["n": 1])
            .sort("n", direction: .descending).sort("m", direction: DittoSortDirection.ascending).exec()
        let document: DittoDocument? = byID.exec()
        let _: [DittoUpdateResult] = byID.update { (document: DittoMutableDocument?) in
            document?["k"].set(1)
            document?["a"]["b"].set("x", isDefault: true)
            document?["a"]["b"].remove()
            document?["v"].increment(amount: 1)
            document?["w"].replaceWithCounter()
            document?["w"].replaceWithCounter(isDefault: true)
            let _: DittoMutableCounter? = document?["v"].counter
            document?["v"].mutableCounter?.increment(by: 2.5)
            document?["k"].mutableRegister?.set(value: 2)
            let _: DittoMutableRegister? = document?["k"].register
            let _: (DittoDocumentID?, [String: Any?]?) = (document?.id, document?.value)
            let _: (String?, Any??) = (document?["k"].stringValue, document?["k"].value)
        }
        let _: [DittoDocumentID: [DittoUpdateResult]] = cursor.update { documents in
            for document in documents { document["seen"].set(true) }
        }
        let _: (Bool, Bool) = (all[2].remove(), all[2].evict())
        let _: ([DittoDocumentID], [DittoDocumentID]) = (
            cars.find("n == 99").remove(), cars.find("n == 99").evict()
        )
        return [
            document?["v"].stringValue ?? "", "\(cars.find("_id == 'a'").first()?.id ?? "")",
            "\(store.named("cars").name)",
        ]
            + [byID.exec()?["v"].counter.map { "\($0.value)" } ?? "none"]
    }

    /// Section 15: documents.
    func documents() throws -> [String] {
        let cars = ditto.store["cars"]
        guard let document = cars.findByID("a").exec() else { return [] }
        let path: DittoDocumentPath = document["n"]
        let _: (String?, String, Bool?, Bool, Int?, Int) = (
            path.string, path.stringValue, path.bool, path.boolValue, path.int, path.intValue
        )
        let _: (Double?, Double, Float?, Float) = (path.double, path.doubleValue, path.float, path.floatValue)
        let _: ([Any?]?, [Any?], [String: Any?]?, [String: Any?]) = (
            path.array, path.arrayValue, path.dictionary, path.dictionaryValue
        )
        let _: (DittoAttachmentToken?, DittoCounter?, DittoRegister?) = (
            path.attachmentToken, path.counter, path.register
        )
        let _: (DittoDocumentPath, DittoDocumentPath, Any?) = (path["k"], path[0], path.value)
        struct Car: Decodable { var _id: String }
        let typed: DittoTypedDocument<Car> = try document.typed(as: Car.self)
        let _: [DittoCounter] = [DittoCounter(), DittoCounter()]
        let _: Any? = DittoRegister(value: ["k": 1]).value
        let id: DittoDocumentID = document.id
        let _: (Any?, String?, String, Int, String, String) = (
            id.value, id.string, id.stringValue, id.intValue, id.toString(), id.description
        )
        let _: DittoDocumentIDPath = id["k"]
        let literals: Set<DittoDocumentID> = ["a", 1, true, ["k": 1], ["x"], DittoDocumentID(value: "a")]
        return [
            typed.value._id, typed.id.stringValue, "\(literals.count)",
            document.description.prefix(1).description,
        ]
    }

    /// Section 15: live queries, subscriptions, transactions.
    func registrations() -> [String] {
        let cars = ditto.store["cars"]
        let queue = DispatchQueue(label: "surface")
        subscription = cars.findAll().subscribe()
        subscription = cars.findByID("a").subscribe()
        subscription?.cancel()
        subscription = nil
        let handler: ([DittoDocument], DittoLiveQueryEvent) -> Void = { _, event in
            switch event {
            case .initial: break
            case .update(let update):
                let _: ([DittoDocument], [Int], [Int], [Int]) = (
                    update.oldDocuments, update.insertions, update.deletions, update.updates
                )
                let _: [(from: Int, to: Int)] = update.moves
            @unknown default: break
            }
            let _: (UInt64, String) = (event.hash(documents: []), event.description)
        }
        var queries: [DittoLiveQuery] = [
            cars.findAll().observeLocal(eventHandler: handler),
            cars.findAll().observeLocal(deliverOn: queue, eventHandler: handler),
            cars.findAll().observe(eventHandler: handler),
            cars.findAll().observe(deliverOn: queue) { _, _ in },
        ]
        queries.append(
            cars.findAll().observeLocalWithNextSignal { (_, _, signalNext: DittoSignalNext) in signalNext() })
        queries.append(
            cars.findByID("a").observeLocal { (document: DittoDocument?, event) in
                let _: (Bool, DittoDocument?) = (event.isInitial, event.oldDocument)
            })
        queries.append(cars.findByID("a").observe(deliverOn: queue) { _, _ in })
        queries.append(
            cars.findByID("a").observeLocalWithNextSignal(deliverOn: queue) { _, _, next in next() })
        liveQuery = ditto.store.collections().observeLocal(deliverOn: .main) {
            (event: DittoCollectionsEvent) in
            let _: (Bool, [DittoCollection], [DittoCollection]) = (
                event.isInitial, event.collections, event.oldCollections
            )
        }
        let _: (UInt, String) = (
            ditto.store.queriesHash(queries: queries), ditto.store.queriesHashMnemonic(queries: queries)
        )
        for query in queries { query.stop() }
        liveQuery?.stop()
        let results: [DittoWriteTransactionResult] = ditto.store.write {
            (transaction: DittoWriteTransaction) in
            let scope: DittoScopedWriteTransaction = transaction.scoped(toCollectionNamed: "cars")
            let _: DittoScopedWriteTransaction = transaction["cars"]
            do {
                try scope.upsert(["_id": "t"], writeStrategy: .insertIfAbsent)
                try scope.insert(["n": 1], id: "u", isDefault: false)
            } catch {}
            scope.findByID("t").update { $0?["n"].set(1) }
            _ = (scope.findByID("t" as DittoDocumentID).exec(), scope.findAll().exec())
            scope.find("n == 1").update { _ in }
            scope.find("_id == $args.id", args: ["id": "t"]).limit(1).remove()
            scope.findByID("u").evict()
        }
        var texts: [String] = []
        for result in results {
            switch result {
            case .inserted(let docID, let collection): texts.append("+\(docID) \(collection)")
            case .updated(let docID, _): texts.append("~\(docID)")
            case .removed(let docID, _): texts.append("-\(docID)")
            case .evicted(let docID, _): texts.append("/\(docID)")
            }
        }
        DittoLogger.enabled = true
        DittoLogger.emojiLogLevelHeadingsEnabled = false
        DittoLogger.setLogFile(nil)
        DittoLogger.setLogFileURL(nil)
        return texts
    }

    /// Attachments.
    func attachments(path: String) throws -> [String] {
        let files = ditto.store["files"]
        guard let attachment: DittoAttachment = files.newAttachment(path: path),
            let named = files.newAttachment(path: path, metadata: ["name": "x"])
        else { return [] }
        try files.upsert(["_id": "a", "file": attachment] as [String: Any?])
        let _: Data = try attachment.getData()
        guard let token: DittoAttachmentToken = files.findByID("a").exec()?["file"].attachmentToken else {
            return []
        }
        let fetcher: DittoAttachmentFetcher? = files.fetchAttachment(token: token) { event in
            switch event {
            case .completed, .progress, .deleted: break
            @unknown default: break
            }
        }
        fetcher?.stop()
        try ditto.store.fetchAttachment(token: token, deliverOn: .main) { _ in }.stop()
        return [token.id == attachment.id ? "same" : "other", "\(token.len)", named.metadata["name"] ?? ""]
    }
}
