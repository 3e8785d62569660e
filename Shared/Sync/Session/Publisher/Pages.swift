import CRDT
import Exchange

extension FlowControl {
    /// A page in frames of about `batchBytes`; only the last carries what stands for all of it.
    mutating func sendPage(_ page: Frame.CatchUp) {
        var frame = Frame.CatchUp(id: page.id)
        // Each of them is stored by itself, and stands for the log as far as it was read.
        frame.asOf = page.asOf ?? page.end
        var size = 0
        let limit = readBytes
        var isPlaceTold = false
        func makeRoom(_ next: Int) {
            if size > 0, size + next > limit {
                send(.catchUp(frame))
                frame = Frame.CatchUp(id: page.id)
                frame.asOf = page.asOf ?? page.end
                size = 0
            }
            size += next
        }
        for key in page.hidden {
            makeRoom(key.size)
            frame.hidden.append(key)
        }
        for item in page.gone {
            makeRoom(item.size)
            frame.gone.append(item)
        }
        for document in page.documents {
            makeRoom(document.size)
            frame.documents.append(document)
            guard document.size > max(limit, Limits.firstBurstBytes) else { continue }
            // One that a later session may go on with is a message without anything that may be another then.
            // The place up to which the log was read is told before the message.
            if !isPlaceTold {
                var place = Frame.CatchUp(id: page.id)
                place.asOf = frame.asOf
                send(.catchUp(place))
                isPlaceTold = true
            }
            let asOf = frame.asOf
            frame.asOf = nil
            send(.catchUp(frame))
            frame = Frame.CatchUp(id: page.id)
            frame.asOf = asOf
            size = 0
        }
        for candidate in page.candidates {
            makeRoom(candidate.size)
            frame.candidates.append(candidate)
        }
        frame.asOf = page.asOf
        frame.end = page.end
        frame.resume = page.resume
        frame.rights = page.rights
        send(.catchUp(frame))
    }
}

extension DocumentVersion {
    /// About how many bytes it takes in a frame.
    var size: Int { vector.count + (void?.count ?? 0) + key.size }
}

extension DocumentKey {
    /// About how many bytes it takes in a frame.
    var size: Int { id.bytes.count + collection.text.utf8.count + 8 }
}

extension DocumentUpdate {
    /// About how many bytes it takes in a frame.
    var size: Int {
        let content =
            switch content {
            case .state(let bytes): bytes.count
            case .delta(_, let bytes): bytes.count + 20
            case .gone(let bytes), .void(let bytes): bytes.count
            }
        return content + key.size
    }
}
