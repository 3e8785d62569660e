import Attachments
import Dispatch
import NIOCore
import ServiceKit
import Synchronization

extension BucketPlace {
    /// The turn: an object with the owner's number and the time until which it counts. Two processes that
    /// begin in the same moment may both have it, which costs work and harms nothing.
    func collectionTurn() async throws -> (any CollectionPlace)? {
        let key = "\(base)turn"
        let now = nowSeconds()
        if let text = try await client.small(key).flatMap({ String(validating: $0, as: UTF8.self) }) {
            let until = text.split(separator: " ").first.flatMap { Int64($0) } ?? 0
            guard until <= now || until > now + Limits.bucketTurnSeconds else { return nil }
        }
        let mine = "\(now + Limits.bucketTurnSeconds) \(UInt64.random(in: .min ... .max))"
        _ = try await client.put(key, ByteBuffer(string: mine))
        guard try await client.small(key) == Array(mine.utf8) else { return nil }
        return BucketTurn(place: self)
    }

    private struct BucketTurn: CollectionPlace {
        let place: BucketPlace
        var blobs: any CollectableBlobs { BucketShelves(place: place) }
        func end() async { try? await place.client.delete("\(place.base)turn") }
    }
}

/// A bucket as a collection sees it. Its calls block, on the disk's threads, where a collection runs.
struct BucketShelves: CollectableBlobs {
    let place: BucketPlace

    func shelves() throws -> [String] {
        try waiting { [place] in
            var names: [String] = []
            try await place.client.forEach("\(place.base)blobs/", delimiter: "/") { page in
                names += page.prefixes.compactMap { $0.split(separator: "/").last.map { String($0) } }
                return true
            }
            return names
        }
    }

    func entries(_ shelf: String) throws -> [BlobStore.Entry] {
        try waiting { [place] in
            var entries: [BlobStore.Entry] = []
            try await place.forEachEntry("\(place.base)blobs/\(shelf)/") { entry in
                entries.append(entry)
                return true
            }
            return entries
        }
    }

    /// Removes the objects that were listed. One that was stored since has another name, and stays.
    func collect(_ entry: BlobStore.Entry) throws -> Bool {
        try waiting { [place] in
            let stem = "\(place.base)blobs/\(entry.id.text.prefix(2))/\(entry.id.text)."
            let now = try await place.client.page(stem).objects.map(\.key)
            guard Set(now) == Set(entry.names) else { return false }
            for name in entry.names { try await place.client.delete(name) }
            guard try await place.client.page(stem, most: 1).objects.isEmpty else { return false }
            try? await place.client.delete("\(place.base)chunks/\(entry.id.text)")
            return true
        }
    }

    func times(_ ledger: BlobLedger.Kind, _ shelf: String) throws -> [BlobID: Int64] {
        try waiting { [place] in
            BlobLedger.times(
                try await place.client.small("\(place.base)\(ledger.rawValue)/\(shelf)") ?? [])
        }
    }

    func note(_ times: [BlobID: Int64], in ledger: BlobLedger.Kind, _ shelf: String) throws {
        try waiting { [place] in
            let key = "\(place.base)\(ledger.rawValue)/\(shelf)"
            guard !times.isEmpty else { return try await place.client.delete(key) }
            _ = try await place.client.put(key, ByteBuffer(bytes: BlobLedger.bytes(times)))
        }
    }

    func settle(_ shelf: String) throws {}

    /// Waits for asynchronous work on a thread that may block.
    private func waiting<Result: Sendable>(
        _ body: @escaping @Sendable () async throws -> Result
    ) throws -> Result {
        let done = DispatchSemaphore(value: 0)
        let outcome = Mutex<Swift.Result<Result, any Error>?>(nil)
        let task = Task {
            let result: Swift.Result<Result, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            outcome.withLock { $0 = result }
            done.signal()
        }
        done.wait()
        _ = task
        guard let result = outcome.withLock({ $0 }) else { preconditionFailure("it has signalled") }
        return try result.get()
    }
}
