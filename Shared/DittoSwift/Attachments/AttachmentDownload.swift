import Attachments
import Foundation
import Logging
import Machine

/// Drives one `Download`: asks sources, writes what they send, tells the fetchers.
///
/// One task runs it. Its parts on disk belong to that task.
final class AttachmentDownload: Sendable {
    /// The surroundings of a download.
    struct Surroundings: Sendable {
        /// The sources that there are now, the preferred one first.
        var sources: @Sendable () -> [any AttachmentSource]
        /// True if a document here mentions the attachment; nil if that cannot be told.
        var isMentioned: @Sendable (BlobID) async -> Bool?
        /// Advances when sources may have changed.
        var signal: ChangeSignal
        /// Time without a byte after which the fetchers are told.
        var patience: Duration
        var logger: Logger
    }

    let id: BlobID
    private let length: Int64
    private let folder: AttachmentFolder
    private let around: Surroundings
    private let report: @Sendable (Int64) -> Void
    private let tell: @Sendable (Download.Problem) -> Void

    init(
        _ id: BlobID, length: Int64, _ folder: AttachmentFolder, _ around: Surroundings,
        report: @escaping @Sendable (Int64) -> Void, tell: @escaping @Sendable (Download.Problem) -> Void
    ) {
        (self.id, self.length, self.folder, self.around) = (id, length, folder, around)
        (self.report, self.tell) = (report, tell)
    }

    /// The file, used by one task that awaits each call.
    private final class Part: @unchecked Sendable {
        private let file: DownloadFile
        private var told: Int64 = 0
        init(_ file: DownloadFile) { self.file = file }

        var received: Int64 { file.received }
        var chunks: ChunkList? { file.chunks }

        func onDisk<Result: Sendable>(
            _ body: @escaping @Sendable (DownloadFile) throws -> Result
        ) async throws -> Result {
            try await AttachmentFolder.disk.run { try body(self.file) }
        }

        /// Returns whether the progress is worth a report.
        func isWorth(_ step: Int64, of length: Int64) -> Bool {
            guard received - told >= step || received == length else { return false }
            told = received
            return true
        }
    }

    private func now() -> Duration { ContinuousClock.now - Self.beginning }
    private static let beginning = ContinuousClock.now

    /// Runs to the end, or until the task is cancelled.
    func run() async -> Download.Outcome {
        while !Task.isCancelled {
            do {
                if try await isHere() { return .completed }
                let part = try await open()
                return await run(part)
            } catch {
                around.logger.warning(
                    "an attachment cannot be fetched", metadata: ["id": "\(id)", "error": "\(error)"])
                tell(.storage)
                try? await Alarm.sleep(for: Limits.longestTransferPause)
            }
        }
        return .stopped
    }

    private func isHere() async throws -> Bool {
        let (folder, id) = (folder, id)
        return try await AttachmentFolder.disk.run { try folder.holds(id) }
    }

    private func open() async throws -> Part {
        let (folder, id, length) = (folder, id, length)
        return try await AttachmentFolder.disk.run {
            Part(try DownloadFile(folder.store(), id, length: length))
        }
    }

    private func run(_ part: Part) async -> Download.Outcome {
        var machine = Download(
            length: length, received: part.received, chunks: part.chunks, now: now(),
            patience: around.patience)
        var wasMentioned = false
        var last: String?
        while true {
            let version = around.signal.version
            if Task.isCancelled { machine.stop() }
            let sources = around.sources()
            machine.setSources(sources.map(\.name))
            let step = machine.next(now: now())
            while let problem = machine.takeProblem() { tell(problem) }
            switch step {
            case .over(let outcome):
                if outcome == .deleted { try? await part.onDisk { $0.discard() } }
                return outcome
            case .finish:
                await finish(&machine, part, last)
            case .wait(let pause):
                if let isMentioned = await around.isMentioned(id) {
                    if wasMentioned, !isMentioned {
                        machine.tellUnmentioned()
                        continue
                    }
                    wasMentioned = wasMentioned || isMentioned
                }
                await around.signal.wait(after: version, atMost: min(pause, Limits.mentionMemory))
                if around.signal.version != version { machine.retry() }
                // Somebody may have uploaded it from here, or deleted the documents.
                if (try? await isHere()) == true { return .completed }
            case .askChunks(let name), .receive(let name, _):
                guard let source = sources.first(where: { $0.name == name }) else { continue }
                last = name
                await ask(source, step, &machine, part)
            }
        }
    }

    private func finish(_ machine: inout Download, _ part: Part, _ last: String?) async {
        do {
            let isRight = try await part.onDisk { try $0.finish() }
            machine.tellFinished(isRight: isRight, source: last, now: now())
        } catch {
            log(error)
            machine.tellStorageFailed(keeping: part.received, now: now())
            try? await Alarm.sleep(for: Limits.firstTransferPause)
        }
    }

    /// Asks one source, and tells the machine how that went.
    private func ask(
        _ source: any AttachmentSource, _ step: Download.Step, _ machine: inout Download, _ part: Part
    ) async {
        let before = part.received
        do {
            if case .receive(_, let offset) = step {
                try await receive(source, part, offset)
                machine.tellBytes(Int(part.received - before), source: source.name, now: now())
                // An answer that ends early is one that broke off.
                if part.received < length { machine.fail(source.name, .unreachable, now: now()) }
            } else {
                let list = try await source.chunks(of: id)
                if let list, list.length == length { try await part.onDisk { try $0.setChunks(list) } }
                machine.tellChunks(list, source: source.name, now: now())
            }
        } catch is WrongChunk {
            machine.tellWrongChunk(source: source.name, keeping: part.received, now: now())
            if machine.chunks == nil { try? await part.onDisk { try $0.setChunks(nil) } }
        } catch let failed as SourceFailure {
            if part.received > before {
                machine.tellBytes(Int(part.received - before), source: source.name, now: now())
            }
            machine.fail(source.name, failed.failure, now: now())
        } catch let error as AttachmentError {
            log(error)
            machine.tellStorageFailed(keeping: part.received, now: now())
        } catch {
            machine.fail(source.name, .unreachable, now: now())
        }
    }

    private struct WrongChunk: Error {}

    private func receive(
        _ source: any AttachmentSource, _ part: Part, _ offset: Int64
    ) async throws {
        let step = max(Limits.progressBytes, length / 100)
        try await source.receive(id, from: offset) { [length, report] bytes in
            guard part.received + Int64(bytes.count) <= length else { throw SourceFailure(.wrong) }
            guard try await part.onDisk({ try $0.append(bytes) }) == .fine else { throw WrongChunk() }
            if part.isWorth(step, of: length) { report(part.received) }
        }
    }

    private func log(_ error: any Error) {
        around.logger.warning(
            "an attachment cannot be stored", metadata: ["id": "\(id)", "error": "\(error)"])
    }
}
