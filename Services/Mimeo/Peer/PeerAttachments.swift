import CRDT
import DittoSwift
import Foundation

extension PeerConsole {
    /// `.attach FILE`: makes an attachment of a file, and answers with its token.
    func attach(_ path: String) async throws(MimeoError) -> Value {
        do {
            let attachment = try await ditto.store.newAttachment(path: path)
            return [
                "attachment": [
                    "id": .string(attachment.id), "len": .int(Int64(attachment.len)), "metadata": [:],
                ]
            ]
        } catch {
            throw MimeoError(.dotCommandInvalid, "\(error.localizedDescription)")
        }
    }

    /// `.fetch ID LEN FILE`: fetches an attachment into a file. How it goes comes as events.
    func fetch(_ words: [String]) throws(MimeoError) -> Value {
        guard words.count == 4, let length = Int64(words[2]), length >= 0 else {
            throw MimeoError(.dotCommandInvalid, ".fetch takes an id, a length and a file")
        }
        let (id, path, output) = (words[1], words[3], output)
        let event: @Sendable (String, (key: String, value: Value)?) -> Void = { outcome, more in
            var fields: [(key: String, value: Value)] = [
                ("event", "attachment"), ("id", .string(id)), ("outcome", .string(outcome)),
            ]
            if let more { fields.append(more) }
            output.write(.object(ObjectValue(fields)))
        }
        do {
            try ditto.store.fetchAttachment(token: ["id": id, "len": length, "metadata": [String: String]()])
            {
                event("problem", ("message", .string($0.description)))
            } onFetchEvent: { happened in
                switch happened {
                case .progress: break
                case .deleted: event("deleted", nil)
                case .completed(let attachment):
                    do {
                        try? FileManager.default.removeItem(atPath: path)
                        try attachment.copy(toPath: path)
                        event("completed", ("file", .string(path)))
                    } catch {
                        event("problem", ("message", .string("the file cannot be written: \(error)")))
                    }
                }
            }
            return ["fetching": .string(id)]
        } catch {
            throw MimeoError(.dotCommandInvalid, "\(error.localizedDescription)")
        }
    }
}
