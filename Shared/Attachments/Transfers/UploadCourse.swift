/// An upload to a server of tus as a state machine: no socket, no clock, no file.
///
/// It begins, or asks how far an earlier attempt has come, and sends the rest. Whatever goes wrong, it asks
/// again before it sends: the server's offset counts, never its own.
public struct UploadCourse: Sendable {
    /// The next thing to do.
    public enum Step: Sendable, Equatable {
        /// Begin an upload.
        case create
        /// Ask for the offset.
        case look(at: String)
        /// Send the bytes from an offset on.
        case send(to: String, from: Int64)
        /// Send the whole file in one request: the server knows no resumable uploads.
        case sendWhole
        /// The server has the blob.
        case done
        /// The server never takes it.
        case refused
    }

    /// An answer of the server.
    public enum Answer: Sendable, Equatable {
        /// An upload has begun there.
        case created(place: String)
        /// So many bytes are durable.
        case offset(Int64)
        /// The blob is stored.
        case stored
        /// There is no such upload, or it is of no use any more.
        case unknown
        /// The server knows no such route.
        case unsupported
        /// Too large, or not allowed for good.
        case refused
        /// Nothing came back, or an error that passes.
        case failed
    }

    private let length: Int64

    /// The next step.
    public private(set) var step: Step

    /// - Parameter place: where an earlier attempt has begun.
    public init(length: Int64, place: String? = nil) {
        self.length = length
        step = place.map { .look(at: $0) } ?? .create
    }

    /// The place to remember; nil if there is none.
    public var place: String? {
        switch step {
        case .look(let place), .send(let place, _): place
        case .create, .sendWhole, .done, .refused: nil
        }
    }

    /// Takes the answer to the step.
    /// - Returns: false if the next step has to wait for a pause.
    public mutating func take(_ answer: Answer) -> Bool {
        switch (step, answer) {
        case (.done, _), (.refused, _): return true
        case (_, .stored): step = .done
        case (_, .refused): step = .refused
        case (.create, .created(let place)): step = .send(to: place, from: 0)
        case (.create, .unsupported): step = .sendWhole
        case (.look(let place), .offset(let offset)) where 0...length ~= offset:
            step = .send(to: place, from: offset)
        case (.send(let place, let before), .offset(let offset)) where before < offset && offset <= length:
            step = .send(to: place, from: offset)
        case (.send(let place, _), _) where answer != .unknown:
            step = .look(at: place)
            return false
        case (.look, .unknown), (.look, .unsupported), (.look, .offset), (.send, _):
            step = .create
            return answer == .unknown
        case (.look, _), (.create, _), (.sendWhole, _): return false
        }
        return true
    }
}
