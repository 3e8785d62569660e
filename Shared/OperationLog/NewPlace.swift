import CRDT

/// The place that a database was moved to. Its former log refuses appends, and names it.
public struct NewPlace: Sendable, Equatable {
    /// The log there, without a secret. A move that was interrupted must go on to the same one.
    public let log: String
    /// The address for clients, as the operator has named it; nil if the address stays the same.
    public let address: String?
    /// The number of the database there: this one alone is shown as long as the former log names it.
    public let number: Int64?

    /// A place; spaces of an address are encoded.
    public init(log: String, address: String?, number: Int64? = nil) {
        (self.log, self.address, self.number) = (log, address?.replacing(" ", with: "%20"), number)
    }

    /// A place as `text` has it.
    package init(_ text: String) {
        var parts = text.split(separator: " ", maxSplits: 1).map(String.init)
        let address = parts.isEmpty ? "-" : parts.removeFirst()
        var (log, number) = (parts.first ?? "", Int64?.none)
        let rest = log.split(separator: " ", maxSplits: 1)
        if rest.count == 2, rest[0].first == "#", let known = Int64(rest[0].dropFirst()) {
            (log, number) = (String(rest[1]), known)
        }
        self.init(log: log, address: address == "-" ? nil : address, number: number)
    }

    /// The form that drivers store.
    package var text: String { "\(address ?? "-") \(number.map { "#\($0) " } ?? "")\(log)" }

    /// The same place, where the database has a number.
    public func with(number: Int64) -> NewPlace { NewPlace(log: log, address: address, number: number) }

    /// The refusal of an append. Clients see its message, so it names the address alone.
    package func refusal(of database: DatabaseID? = nil) -> OperationLogError {
        OperationLogError(
            .moved,
            address.map { "the database was moved to \($0)" } ?? "the database was moved to another log",
            database: database)
    }

    /// Refuses a change of the place if another one was made since.
    /// - Throws: `LOG-0313` if the database was moved to another log, `LOG-0314`.
    package static func require(
        _ known: NewPlace?, is former: NewPlace?, for place: NewPlace? = nil, of database: DatabaseID
    ) throws(OperationLogError) {
        if let known, let place, known.log != place.log { throw known.refusal(of: database) }
        guard known == former else {
            throw OperationLogError(
                .contended, "another move or --cancel has changed the database; begin again",
                database: database)
        }
    }
}
