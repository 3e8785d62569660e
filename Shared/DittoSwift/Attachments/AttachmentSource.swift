import AsyncHTTPClient
import Attachments
import CRDT
import Foundation
import NIOCore

/// A place that may have attachments: the server (`AttachmentServer`), or a linked peer (`LinkedPeer`).
protocol AttachmentSource: Sendable {
    /// Names it among the sources of a download.
    var name: String { get }
    /// The hashes of an attachment's chunks; nil if the source does not know such lists.
    func chunks(of id: BlobID) async throws -> ChunkList?
    /// Calls `body` with the bytes from an offset on, up to the end.
    func receive(
        _ id: BlobID, from offset: Int64, _ body: @Sendable ([UInt8]) async throws -> Void
    ) async throws
}

/// The way in which a source failed, thrown by its methods.
struct SourceFailure: Error {
    let failure: Download.Failure
    init(_ failure: Download.Failure) { self.failure = failure }
}

/// Requests to the server's attachments with the present session's token.
struct AttachmentServer: AttachmentSource {
    let name = "server"
    let origin: URL
    let authenticator: DittoAuthenticator

    /// A request to a path below the attachments'.
    func request(_ path: String) async throws -> HTTPClientRequest {
        var request = HTTPClientRequest(url: origin.appendingPathComponent(path).absoluteString)
        request.headers.add(name: "Authorization", value: "Bearer \(try await authenticator.token())")
        return request
    }

    private func execute(_ request: HTTPClientRequest) async throws -> HTTPClientResponse {
        do {
            return try await HTTPConnections.execute(request, seconds: Limits.transferTimeoutSeconds)
        } catch {
            throw SourceFailure(.unreachable)
        }
    }

    private func failure(_ status: UInt, _ body: HTTPClientResponse.Body) async -> SourceFailure {
        let bytes = (try? await body.collect(upTo: Limits.uploadAnswerBytes)).map {
            Array($0.readableBytesView)
        }
        // A proxy in front may answer with a 410 of its own.
        let code = bytes.flatMap { try? JSONText.parse($0) }?["error"]?["code"]?.stringValue
        return switch status {
        case 410 where code == AttachmentErrorCode.collected.rawValue: SourceFailure(.collected)
        case 404, 410: SourceFailure(.missing)
        default: SourceFailure(.unreachable)
        }
    }

    func chunks(of id: BlobID) async throws -> ChunkList? {
        let response = try await execute(try await request("\(id.text)/chunks"))
        guard response.status.code == 200 else {
            let failure = await failure(response.status.code, response.body)
            // A server of an earlier version knows no such path; whether it has the attachment is seen next.
            guard failure.failure == .collected || failure.failure == .unreachable else { return nil }
            throw failure
        }
        let body = Array(
            try await response.body.collect(upTo: Limits.chunkListBytes).readableBytesView)
        guard let value = try? JSONText.parse(body), case .int(let length)? = value["len"],
            value["chunkBytes"] == .int(ChunkList.chunkBytes), let chunks = value["chunks"]?.arrayValue,
            let list = try? ChunkList(length: length, texts: chunks.compactMap(\.stringValue))
        else { return nil }
        return list
    }

    func receive(
        _ id: BlobID, from offset: Int64, _ body: @Sendable ([UInt8]) async throws -> Void
    ) async throws {
        var request = try await request(id.text)
        // Name and type of the file are in the token.
        request.headers.add(name: "Accept", value: "application/octet-stream")
        if offset > 0 { request.headers.add(name: "Range", value: "bytes=\(offset)-") }
        let response = try await execute(request)
        switch (response.status.code, offset) {
        case (200, 0), (206, 1...): break
        // More bytes are here than the server has.
        case (416, _), (200, _): throw SourceFailure(.wrong)
        case (let status, _): throw await failure(status, response.body)
        }
        var chunks = response.body.makeAsyncIterator()
        while true {
            let buffer: ByteBuffer?
            do {
                buffer = try await chunks.next()
            } catch {
                throw SourceFailure(.unreachable)
            }
            guard let buffer else { return }
            try await body(Array(buffer.readableBytesView))
        }
    }
}
