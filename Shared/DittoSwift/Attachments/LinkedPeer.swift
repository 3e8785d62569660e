import Attachments
import Transport

/// A linked peer as a source of attachments. Pieces are asked for a few at a time, so that the time of a way
/// there and back does not count for each.
struct LinkedPeer: AttachmentSource {
    let link: BlobLink

    var name: String { "peer \(link.peerKey)" }

    private static func failure(_ refusal: BlobRefusal) -> SourceFailure {
        switch refusal {
        case .missing: SourceFailure(.missing)
        case .busy, .unusable, .unreachable: SourceFailure(.unreachable)
        case .wrong: SourceFailure(.wrong)
        }
    }

    func chunks(of id: BlobID) async throws -> ChunkList? {
        switch await link.chunks(of: id.digest) {
        case .none(let refusal): throw Self.failure(refusal)
        case .bytes: throw SourceFailure(.wrong)
        case .chunks(let length, let digests):
            let size = Attachments.Limits.digestBytes
            guard digests.count % size == 0, let length = Int64(exactly: length) else {
                throw SourceFailure(.wrong)
            }
            let parts = stride(from: 0, to: digests.count, by: size).map { Array(digests[$0..<$0 + size]) }
            guard let list = try? ChunkList(length: length, digests: parts) else {
                throw SourceFailure(.wrong)
            }
            return list
        }
    }

    func receive(
        _ id: BlobID, from offset: Int64, _ body: @Sendable ([UInt8]) async throws -> Void
    ) async throws {
        let (digest, size) = (id.digest, Transport.Limits.blobPieceBytes)
        try await withThrowingTaskGroup(of: (Int, BlobAnswer).self) { group in
            var (asked, taken) = (0, 0)
            var early: [Int: BlobAnswer] = [:]
            func ask() {
                let number = asked
                asked += 1
                group.addTask { [link] in
                    let place = UInt64(offset) + UInt64(number * size)
                    return (number, await link.bytes(of: digest, from: place, count: size))
                }
            }
            defer { group.cancelAll() }
            for _ in 0..<Limits.piecesAtOnce { ask() }
            while let (number, answer) = try await group.next() {
                early[number] = answer
                while let next = early.removeValue(forKey: taken) {
                    taken += 1
                    guard case .bytes(let bytes) = next else {
                        guard case .none(let refusal) = next else { throw SourceFailure(.wrong) }
                        throw Self.failure(refusal)
                    }
                    if !bytes.isEmpty { try await body(bytes) }
                    // The end, or a peer that sends less than it should: then the rest is asked for again.
                    guard bytes.count == size else { return }
                    ask()
                }
            }
        }
    }
}
