import CRDT

/// The place that a database was moved to. Its former log refuses appends, and names it.
public struct NewPlace: Sendable, Equatable {
    /// The log there, without a secret. A move that was interrupted must go on to the same one.
    public let log: String
    /// The address for clients, as the operator has named it; nil if the address stays the same.
    public let address: String?

    /// A place; spaces of an address are encoded.
    public init(log: String, address: String?) {
        (self.log, self.address) = (log, address?.replacing(" ", with: "%20"))
    }

    /// A place as `text` has it.
    package init(_ text: String) {
        let parts = text.split(separator: " ", maxSplits: 1).map(String.init)
        self.init(log: parts.count > 1 ? parts[1] : "", address: parts.first.flatMap { $0 == "-" ? nil : $0 })
    }

    /// The form that drivers store.
    package var text: String { "\(address ?? "-") \(log)" }

    /// The refusal of an append. Clients see its message, so it names the address alone.
    package func refusal(of database: DatabaseID? = nil) -> OperationLogError {
        OperationLogError(
            .moved,
            address.map { "the database was moved to \($0)" } ?? "the database was moved to another log",
            database: database)
    }
}
