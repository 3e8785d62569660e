extension Publisher {
    /// The question that the driver has: a page of a subscription, or the comparison of one.
    enum PageRead: Sendable {
        case idle
        case reading(id: UInt64)
        case comparing(id: UInt64)
        /// The rights have changed since it was asked: the answer counts for nothing.
        case stale(id: UInt64)

        /// The rights have changed.
        mutating func expire() {
            switch self {
            case .reading(let id), .comparing(let id): self = .stale(id: id)
            case .idle, .stale: break
            }
        }
    }
}
