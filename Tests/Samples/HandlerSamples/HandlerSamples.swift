// Handlers where applications write them, in language mode 5 and with warnings as errors: that this compiles
// is the first test.
import Dispatch
import DittoSwift
import TestSupport
import Testing

/// A view model as applications have it: its handlers change its state.
@MainActor
final class CarList {
    let ditto: Ditto
    private(set) var count = -1
    private(set) var graphs = 0
    private(set) var sizes = 0
    private(set) var logins: [String] = []
    private var tokens: [AnyObject] = []

    init(_ ditto: Ditto) { self.ditto = ditto }

    func begin() throws {
        try ditto.store.registerObserver(query: "SELECT * FROM cars") { [weak self] result in
            self?.count = result.items.count
        }
        try ditto.store.registerObserver(
            query: "SELECT * FROM cars",
            handlerWithSignalNext: { result, signalNext in
                self.logins.append("\(result.items.count)")
                Task { signalNext() }
            })
        tokens.append(ditto.presence.observe { [weak self] _ in self?.graphs += 1 })
        tokens.append(ditto.diskUsage.observe { [weak self] item in self?.sizes += item.childItems.count })
        ditto.presence.connectionRequestHandler = { request in
            self.logins.append(request.peerKeyString)
            return .allow
        }
        ditto.auth?.expirationHandler = { [weak self] ditto, secondsRemaining in
            self?.logins.append("\(secondsRemaining)")
            ditto.auth?.login(token: "t", provider: .development) { clientInfo, error in
                self?.logins.append(clientInfo ?? "\(String(describing: error))")
            }
        }
        if let status = ditto.auth?.observeStatus({ self.logins.append("\($0.isAuthenticated)") }) {
            tokens.append(status)
        }
        ditto.auth?.logout { _ in self.logins = [] }
    }

    var isTold: Bool { count == 1 && graphs > 0 && sizes > 0 }

    func fetch(_ token: [String: Any?]) throws {
        try ditto.store.fetchAttachment(token: token) { [weak self] event in
            if case .completed = event { self?.count += 1 }
        }
    }
}

/// A class without an actor, with handlers in `async` functions that change a variable of theirs.
final class Differences {
    var last = 0

    func watch(_ ditto: Ditto) async throws -> DittoStoreObserver {
        let differ = DittoDiffer()
        var ids: [String] = []
        return try ditto.store.registerObserver(
            query: "SELECT * FROM cars", deliverOn: DispatchQueue(label: "differences")
        ) { result in
            let diff = differ.diff(result.items)
            ids = result.items.compactMap { $0.value["_id"] as? String }
            self.last = ids.count + diff.deletions.count
        }
    }
}

@Suite("Handlers in language mode 5", .timeLimit(.minutes(1)))
struct HandlerSamples {
    private func withDitto(_ body: (Ditto) async throws -> Void) async throws {
        try await withTemporaryDirectory { directory in
            var config = DittoConfig.default
            config.persistenceDirectory = directory
            let ditto = try await Ditto.openAlone(config: config)
            try await body(ditto)
            await ditto.close()
        }
    }

    private func eventually(_ condition: () async throws -> Bool) async throws -> Bool {
        for _ in 0..<1_000 {
            if try await condition() { return true }
            try await Task.sleep(for: .milliseconds(10))
        }
        return false
    }

    @Test("a view model's handlers change its state on the main actor, where the main queue is served")
    func viewModel() async throws {
        try await withDitto { ditto in
            let list = await CarList(ditto)
            try await list.begin()
            try await ditto.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
            #expect(try await eventually { await list.isTold })
            // On Linux any thread may serve the main queue.
            let mark = DispatchSpecificKey<Bool>()
            DispatchQueue.main.setSpecific(key: mark, value: true)
            let isMain = await withCheckedContinuation { continuation in
                _ = try? ditto.store.registerObserver(query: "SELECT * FROM boats") { _ in
                    continuation.resume(returning: DispatchQueue.getSpecific(key: mark))
                }
            }
            #expect(isMain == true)
        }
    }

    @Test("a handler changes a variable of the function that registered it, on the queue that it named")
    func differences() async throws {
        try await withDitto { ditto in
            let differences = Differences()
            let observer = try await differences.watch(ditto)
            try await ditto.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 'a'}), ({'_id': 'b'})")
            #expect(try await eventually { differences.last == 2 })
            observer.cancel()
        }
    }
}
