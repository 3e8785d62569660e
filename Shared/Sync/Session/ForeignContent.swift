import CRDT
import Exchange

/// Content from the other side is carried encoded from its frame to the store, which decodes it when it
/// merges it. So bytes that do not decode are found there; whose fault they are is found here.
extension Action {
    /// The reason why content from the other side does not decode; nil if all of it does. For a store that
    /// failed to process bytes: if this is nil, the bytes at fault are its own.
    public var foreignDefect: CRDTError? {
        do throws(CRDTError) {
            switch self {
            case .store(let batch): try batch.verify()
            case .stage(let page): try page.updates.verify()
            case .stageRepair(let states):
                for case (_, let state?) in states { _ = try Document(decoding: state) }
            case .repair(let repair): try repair.following?.verify()
            case .findOutdated(let candidates, _):
                for candidate in candidates {
                    _ = try VersionVector(decoding: candidate.vector)
                    if let void = candidate.void { _ = try VersionVector(decoding: void) }
                }
            default: break
            }
            return nil
        } catch {
            return error
        }
    }
}

extension Reception {
    fileprivate func verify() throws(CRDTError) { try updates.verify() }
}

extension [DocumentUpdate] {
    fileprivate func verify() throws(CRDTError) {
        for update in self { try update.verify() }
    }
}
