import AsyncHTTPClient
import Attachments
import CRDT
import Foundation
import Logging
import Synchronization

/// Fetches attachments from the server, and uploads those made on this device, while sync is connected.
///
/// An interrupted download resumes where it stopped, as long as its fetcher lives. Its bytes are checked
/// against the token's id before they are delivered. An upload starts again from its beginning. Both retry
/// until they succeed, with growing pauses. `signal` advances when a retry may succeed.
///
/// `state` guards the fetchers and the single upload task.
final class AttachmentTransfers: Sendable {
    private struct State {
        var fetchers: Set<DittoAttachmentFetcher> = []
        var sending: Task<Void, Never>?
        /// True if more work may have come while the task was ending.
        var isCalled = false
        var isShutDown = false
    }

    private let folder: AttachmentFolder
    private let server: URL?
    private let authenticator: DittoAuthenticator?
    private let logger: Logger
    private let isConnected: @Sendable () -> Bool
    private let signal = ChangeSignal()
    private let state = Mutex(State())

    init(
        _ folder: AttachmentFolder, server: ServerAddresses?, authenticator: DittoAuthenticator?,
        logger: Logger, isConnected: @escaping @Sendable () -> Bool
    ) {
        self.folder = folder
        self.server = server?.attachments
        self.authenticator = authenticator
        self.logger = logger
        self.isConnected = isConnected
    }

    var fetchers: Set<DittoAttachmentFetcher> { state.withLock { $0.fetchers } }

    func add(_ fetcher: DittoAttachmentFetcher) {
        let isTaken = state.withLock { state in
            guard !state.isShutDown else { return false }
            return state.fetchers.insert(fetcher).inserted
        }
        guard isTaken else { return fetcher.stop() }
        fetcher.begin { [weak self] in await self?.fetch(fetcher) }
    }

    func remove(_ fetcher: DittoAttachmentFetcher) {
        state.withLock { _ = $0.fetchers.remove(fetcher) }
    }

    /// The connection's status has changed, or there is something to upload.
    func wake() {
        signal.advance()
        guard server != nil, isConnected() else { return }
        state.withLock { state in
            state.isCalled = true
            guard state.sending == nil, !state.isShutDown else { return }
            state.sending = Task { [weak self] in await self?.send() }
        }
    }

    /// Cancels everything, and waits until nothing more is written.
    func shutDownAndWait() async {
        let (fetchers, sending) = state.withLock { ($0.fetchers, $0.sending) }
        shutDown()
        await sending?.value
        for fetcher in fetchers { await fetcher.ended() }
    }

    /// Cancels everything.
    func shutDown() {
        let (fetchers, sending) = state.withLock { state in
            state.isShutDown = true
            return (state.fetchers, state.sending)
        }
        sending?.cancel()
        for fetcher in fetchers { fetcher.stop() }
    }

    /// A request to the server with the present session's token; nil without a connection.
    private func request(_ path: String) async throws -> HTTPClientRequest? {
        guard let server, let authenticator, isConnected() else { return nil }
        var request = HTTPClientRequest(url: server.appendingPathComponent(path).absoluteString)
        request.headers.add(name: "Authorization", value: "Bearer \(try await authenticator.token())")
        return request
    }

    /// Waits until a retry may succeed or the pause is over; returns the next pause.
    private func rest(after version: UInt64, _ pause: Duration) async -> Duration {
        await signal.wait(after: version, atMost: isConnected() ? pause : .seconds(3_600))
        return min(pause * 2, Limits.longestTransferPause)
    }
}

// MARK: - Downloads

extension AttachmentTransfers {
    /// The received part of an attachment.
    ///
    /// Unchecked: belongs to one task, which waits for each of its steps.
    private final class Incoming: @unchecked Sendable {
        private var writer: BlobWriter?
        var told: Int64 = 0
        var length: Int64 { writer?.length ?? 0 }

        func begin(_ folder: AttachmentFolder) throws {
            writer = try folder.store().writer()
            told = 0
        }
        func write(_ bytes: [UInt8]) throws { try writer?.write(bytes) }
        func finish(_ id: BlobID) throws {
            _ = try writer?.finish(expected: id)
            writer = nil
        }
        func drop() { writer = nil }
    }

    private func fetch(_ fetcher: DittoAttachmentFetcher) async {
        let incoming = Incoming()
        var pause = Limits.firstTransferPause
        while !Task.isCancelled {
            let version = signal.version
            do {
                if try await isHere(fetcher) { return fetcher.complete() }
                let before = incoming.length
                if try await download(fetcher, incoming) { return fetcher.complete() }
                if incoming.length > before { pause = Limits.firstTransferPause }
            } catch let error as AttachmentError {
                // Wrong bytes or a full disk: the received part is worthless.
                incoming.drop()
                logger.warning("an attachment cannot be fetched", metadata: ["error": "\(error)"])
            } catch {
                logger.debug("a download was interrupted", metadata: ["error": "\(error)"])
            }
            pause = await rest(after: version, pause)
        }
    }

    private func isHere(_ fetcher: DittoAttachmentFetcher) async throws -> Bool {
        let (folder, id) = (folder, fetcher.id)
        return try await AttachmentFolder.disk.run { try folder.holds(id) }
    }

    /// One attempt. Returns false when the server does not have the attachment or there is no connection.
    private func download(_ fetcher: DittoAttachmentFetcher, _ incoming: Incoming) async throws -> Bool {
        guard var request = try await request(fetcher.id.text) else { return false }
        let total = Int64(fetcher.attachment.len)
        if incoming.length > 0 { request.headers.add(name: "Range", value: "bytes=\(incoming.length)-") }
        let response = try await HTTPConnections.execute(
            request, seconds: Limits.transferTimeoutSeconds)
        let folder = folder
        switch response.status.code {
        case 200: try await AttachmentFolder.disk.run { try incoming.begin(folder) }
        case 206 where incoming.length > 0: break
        case 416:
            // More bytes are here than the server has: they belong to another attachment.
            incoming.drop()
            return false
        default:
            logger.debug(
                "the server has no attachment for this peer",
                metadata: ["id": "\(fetcher.id)", "status": "\(response.status.code)"])
            return false
        }
        let step = max(Limits.progressBytes, total / 100)
        for try await buffer in response.body {
            let bytes = Array(buffer.readableBytesView)
            try await AttachmentFolder.disk.run { try incoming.write(bytes) }
            guard incoming.length <= total else {
                throw AttachmentError(.digestMismatch, "the server sent more bytes than the token says")
            }
            if incoming.length - incoming.told >= step || incoming.length == total {
                incoming.told = incoming.length
                fetcher.report(incoming.length)
            }
        }
        try await AttachmentFolder.disk.run {
            try incoming.finish(fetcher.id)
        }
        return true
    }
}

// MARK: - Uploads

extension AttachmentTransfers {
    private func send() async {
        var pause = Limits.firstTransferPause
        while !Task.isCancelled {
            let version = signal.version
            state.withLock { $0.isCalled = false }
            let (folder, waiting) = (folder, folder.waiting)
            var sent = 0
            // A failed upload does not hold up the others. One that the server refuses for good is not
            // retried.
            for id in waiting where isConnected() && !Task.isCancelled {
                do {
                    guard try await upload(id) else { continue }
                } catch let error as AttachmentError {
                    logger.warning(
                        "an attachment cannot be sent", metadata: ["id": "\(id)", "error": "\(error)"])
                    guard error.code == .notFound || error.code == .tooLarge else { continue }
                } catch {
                    logger.debug("an upload was interrupted", metadata: ["error": "\(error)"])
                    continue
                }
                folder.wasSent(id)
                sent += 1
            }
            if sent == waiting.count || !isConnected() {
                let isDone = state.withLock { state in
                    guard !state.isCalled || state.isShutDown else { return false }
                    state.sending = nil
                    return true
                }
                if isDone { return }
            } else {
                pause = await rest(after: version, sent > 0 ? Limits.firstTransferPause : pause)
            }
        }
    }

    /// One attempt. Returns false when the server does not accept it now or there is no connection. Throws
    /// `AttachmentError`; `tooLarge` when the server will never accept it.
    private func upload(_ id: BlobID) async throws -> Bool {
        guard var request = try await request("upload") else { return false }
        let folder = folder
        let reader = try await AttachmentFolder.disk.run { try folder.store().reader(id) }
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/octet-stream")
        request.body = .stream(BlobBytes(reader: reader), length: .known(reader.length))
        let response = try await HTTPConnections.execute(
            request, seconds: Limits.transferTimeoutSeconds)
        let answer = Array(try await response.body.collect(upTo: Limits.uploadAnswerBytes).readableBytesView)
        guard response.status.code != 413 else {
            throw AttachmentError(.tooLarge, "the server does not accept an attachment of this size")
        }
        guard response.status.code == 200,
            (try? JSONText.parse(answer))?["id"]?.stringValue == id.text
        else {
            logger.warning(
                "the server does not accept an attachment",
                metadata: ["id": "\(id)", "status": "\(response.status.code)"])
            return false
        }
        return true
    }
}

/// The bytes of a blob, read one chunk at a time.
private struct BlobBytes: AsyncSequence, Sendable {
    typealias Element = UInt8
    let reader: BlobReader

    func makeAsyncIterator() -> Iterator { Iterator(reader: reader) }

    struct Iterator: AsyncIteratorProtocol {
        let reader: BlobReader
        private var chunk: [UInt8] = []
        private var next = 0
        private var offset: Int64 = 0

        init(reader: BlobReader) { self.reader = reader }

        mutating func next() async throws -> UInt8? {
            if next == chunk.count {
                guard offset < reader.length else { return nil }
                let (reader, place) = (reader, offset)
                chunk = try await AttachmentFolder.disk.run { try reader.read(at: place) }
                guard !chunk.isEmpty else { return nil }
                offset += Int64(chunk.count)
                next = 0
            }
            defer { next += 1 }
            return chunk[next]
        }
    }
}

/// The transfers of a store, which are created after the store.
final class TransfersLink: Sendable {
    private let transfers = Mutex<AttachmentTransfers?>(nil)

    var current: AttachmentTransfers? { transfers.withLock { $0 } }
    func connect(_ made: AttachmentTransfers) { transfers.withLock { $0 = made } }
}
