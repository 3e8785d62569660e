import CRDT
import Exchange

/// Acknowledgements that wait to be stored with what the stream brings next, one sync for both (decision
/// 0041): a part of the reader.
struct OwedAcknowledgements: Sendable {
    private var owed: [OwnAcknowledgement] = []

    /// Notes acknowledgements, or has them stored at once. `open` is 0 if the stream has passed `offset`:
    /// then the operations are answered.
    mutating func note(
        _ acknowledgements: [Acknowledgement], offset: Offset, open: Offset, mayWait: Bool,
        _ flow: inout FlowControl
    ) {
        for item in acknowledgements {
            if mayWait {
                owed.append(OwnAcknowledgement(actor: item.actor, through: item.sequence, offset: open))
            } else {
                flow.perform(
                    .acknowledge(item.actor, through: item.sequence, offset: offset == 0 ? nil : open))
            }
        }
    }

    /// Takes them, to be stored with a part of the stream.
    mutating func take() -> [OwnAcknowledgement] {
        defer { owed = [] }
        return owed
    }

    /// Has them stored at once; answers up to `skipped` will not come.
    mutating func store(skipped: Offset = 0, _ flow: inout FlowControl) {
        for own in take() {
            let offset = own.offset > skipped ? own.offset : nil
            flow.perform(.acknowledge(own.actor, through: own.through, offset: offset))
        }
    }
}
