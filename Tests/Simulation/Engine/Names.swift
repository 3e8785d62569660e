import CRDT
import Sync

// Words for the last lines of a failed history.

extension Action {
    var name: String { caseName(of: self) }

    /// Whether it hides documents one by one.
    var hidesSome: Bool {
        switch self {
        case .stage(let page): !page.hides.isEmpty
        case .store(let batch): !batch.hides.isEmpty
        default: false
        }
    }
}

extension Event {
    var name: String { caseName(of: self) }
}

/// The case of an enumeration, without what it holds: that may be megabytes.
private func caseName(of value: some Any) -> String {
    Mirror(reflecting: value).children.first?.label ?? "\(value)"
}

extension Frame {
    /// A frame in a line.
    static func describe(_ bytes: [UInt8]) -> String {
        guard let frame = try? Frame(decoding: bytes) else { return "\(bytes.count) bytes" }
        switch frame {
        case .hello(let hello):
            let actors = hello.actors.map { "\($0.actor):\($0.sequence)" }
            return "hello \(actors) at \(hello.head?.offset ?? 0)\(hello.isBehind ? ", behind" : "")"
        case .subscribe(let request):
            return "subscribe \(request.id) \(request.statement) from \(request.cursor?.offset ?? 0)"
        case .catchUp(let page):
            return "catchUp \(page.id) \(page.documents.map(\.key.words)) "
                + "not \(page.candidates.map(\.key.words)) gone \(page.gone.map(\.key.words)) "
                + "hidden \(page.hidden.map(\.words)) end \(page.end.map { "\($0.offset)" } ?? "-")"
        case .operations(let operations):
            let updates = operations.updates.map { update in
                if case .delta(let stamp, _) = update.content { return "\(update.key.words) by \(stamp)" }
                return "\(update.key.words) whole"
            }
            return "operations \(updates) to \(operations.position.offset)"
        case .progress(let position, let skipped):
            return "progress \(position.offset)\(skipped ? ", skipped" : "")"
        case .upload(let operations):
            let headers = operations.compactMap { try? OperationHeader.peek($0) }
            return "upload \(headers.map { "\($0.actor):\($0.sequence)" })"
        case .acknowledged(let all, let offset):
            return "acknowledged \(all.map { "\($0.actor):\($0.sequence)" }) to \(offset)"
        case .want(let keys, let held):
            return "want \(keys.map(\.words)), held \(held.map(\.key.words))"
        case .states(let states, let position, _, let gone):
            return "states \(states.map { $0.key.words + ($0.state == nil ? " (none)" : "") }), "
                + "gone \(gone.map(\.key.words)) at \(position?.offset ?? 0)"
        case .refused(let refusal):
            return "refused \(refusal.actor):\(refusal.sequence) \(refusal.error.code)"
        case .close(let error): return "close \(error)"
        case .list(let id, let last): return "list \(id)\(last == nil ? "" : " behind a document")"
        case .held(let id, let all, let isLast):
            return "held \(id) \(all.map(\.key.words))\(isLast ? " end" : "")"
        default: return "\(caseName(of: frame)) of \(bytes.count) bytes"
        }
    }
}
