import AsyncHTTPClient
import Attachments
import CRDT
import Foundation
import NIOCore

/// Sends one attachment to the server, by tus where the server knows it. Bytes that have arrived there count,
/// also after a restart of the application: the place of the upload is kept in the mark of the attachment.
struct AttachmentUpload: Sendable {
    let id: BlobID
    let folder: AttachmentFolder
    let server: AttachmentServer

    private static let version = (name: "Tus-Resumable", value: "1.0.0")

    /// How an attempt ended.
    enum Outcome: Sendable { case sent, refused, later }

    /// One attempt, of several requests.
    /// - Throws: `AttachmentError` when the attachment cannot be read here.
    func attempt() async throws -> Outcome {
        let (folder, id) = (folder, id)
        let reader = try await AttachmentFolder.disk.run { try folder.store().reader(id) }
        var course = UploadCourse(length: reader.length, place: folder.placeOfUpload(id))
        while !Task.isCancelled {
            let place = course.place
            let answer = try await answer(to: course.step, reader)
            let goesOn = course.take(answer)
            if course.place != place { folder.notePlace(of: id, course.place) }
            switch course.step {
            case .done: return .sent
            case .refused: return .refused
            default: guard goesOn else { return .later }
            }
        }
        return .later
    }

    private func answer(
        to step: UploadCourse.Step, _ reader: BlobReader
    ) async throws -> UploadCourse.Answer {
        var request: HTTPClientRequest
        do {
            request = try await server.request(Self.path(of: step))
        } catch {
            return .failed
        }
        request.headers.add(name: Self.version.name, value: Self.version.value)
        switch step {
        case .create:
            request.method = .POST
            request.headers.add(name: "Upload-Length", value: "\(reader.length)")
            let announced = Data(id.text.utf8).base64EncodedString()
            request.headers.add(name: "Upload-Metadata", value: "id \(announced)")
        case .look: request.method = .HEAD
        case .send(_, let offset):
            request.method = .PATCH
            request.headers.add(name: "Upload-Offset", value: "\(offset)")
            request.headers.add(name: "Content-Type", value: "application/offset+octet-stream")
            request.body = .stream(
                BlobChunks(reader: reader, offset: offset), length: .known(reader.length - offset))
        case .sendWhole:
            request.method = .POST
            request.headers.add(name: "Content-Type", value: "application/octet-stream")
            request.body = .stream(BlobChunks(reader: reader, offset: 0), length: .known(reader.length))
        case .done, .refused: return .failed
        }
        do {
            let response = try await HTTPConnections.execute(
                request, seconds: Limits.transferTimeoutSeconds)
            let body = try await response.body.collect(upTo: Limits.uploadAnswerBytes)
            return meaning(of: response, Array(body.readableBytesView), step)
        } catch let error as AttachmentError {
            throw error
        } catch {
            return .failed
        }
    }

    private static func path(of step: UploadCourse.Step) -> String {
        switch step {
        case .create: "uploads"
        case .look(let place), .send(let place, _): place
        case .sendWhole, .done, .refused: "upload"
        }
    }

    private func meaning(
        of response: HTTPClientResponse, _ body: [UInt8], _ step: UploadCourse.Step
    ) -> UploadCourse.Answer {
        let headers = response.headers
        let code = (try? JSONText.parse(body))?["error"]?["code"]?.stringValue
        switch response.status.code {
        case 200...299:
            if headers.first(name: "Mimeo-Attachment-Id") == id.text { return .stored }
            if case .sendWhole = step {
                return (try? JSONText.parse(body))?["id"]?.stringValue == id.text ? .stored : .failed
            }
            if case .create = step, let place = headers.first(name: "Location")?.split(separator: "/").last {
                // A proxy in front may serve the path under another beginning.
                return .created(place: "uploads/\(place)")
            }
            return headers.first(name: "Upload-Offset").flatMap { Int64($0) }.map { .offset($0) } ?? .failed
        case 413: return .refused
        case 404 where step == .create, 405 where step == .create: return .unsupported
        // The bytes there are not those of this attachment.
        case 404, 410,
            400 where code == AttachmentErrorCode.digestMismatch.rawValue, 409:
            return .unknown
        default: return .failed
        }
    }
}

/// The bytes of a blob from an offset on, read one chunk at a time.
private struct BlobChunks: AsyncSequence, Sendable {
    typealias Element = ByteBuffer
    let reader: BlobReader
    let offset: Int64

    func makeAsyncIterator() -> Iterator { Iterator(reader: reader, offset: offset) }

    struct Iterator: AsyncIteratorProtocol {
        let reader: BlobReader
        var offset: Int64

        mutating func next() async throws -> ByteBuffer? {
            guard offset < reader.length else { return nil }
            let (reader, place) = (reader, offset)
            let chunk = try await AttachmentFolder.disk.run { try reader.read(at: place) }
            guard !chunk.isEmpty else { return nil }
            offset += Int64(chunk.count)
            return ByteBuffer(bytes: chunk)
        }
    }
}
