import CRDT
import DQL
import Machine

// The machine as DQL and CRDT ask for it. Machine knows neither, and neither knows a clock.

extension SystemTimeZones: TimeZoneRules {}

extension Environment {
    /// A generated document id: UUID version 7 as text.
    public func generateDocumentID() -> DocumentID {
        guard let id = try? DocumentID(.string(generateUUID())) else {
            preconditionFailure("a UUID is a valid id")
        }
        return id
    }
}
