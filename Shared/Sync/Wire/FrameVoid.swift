import Exchange

extension Frame {
    /// The frame for a side that does not read what is void of a document (decision 0083): a side of before
    /// takes a candidate with a fifth member for malformed.
    var withoutVoid: Frame {
        switch self {
        case .operations(var operations) where operations.candidates.tellVoid:
            operations.candidates = operations.candidates.withoutVoid
            return .operations(operations)
        case .catchUp(var page) where page.candidates.tellVoid || page.gone.tellVoid:
            page.candidates = page.candidates.withoutVoid
            page.gone = page.gone.gone
            return .catchUp(page)
        case .states(let states, let position, let isPart, let gone) where gone.tellVoid:
            return .states(states, at: position, isPart: isPart, gone: gone.gone)
        default: return self
        }
    }
}

extension [DocumentVersion] {
    fileprivate var tellVoid: Bool { contains { $0.void != nil } }

    fileprivate var withoutVoid: [DocumentVersion] {
        map { version in
            var version = version
            version.void = nil
            return version
        }
    }

    /// The versions of which something is gone, and not only void.
    fileprivate var gone: [DocumentVersion] { filter(\.tellsGone).withoutVoid }
}
