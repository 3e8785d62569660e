import CRDT

/// The records of a file with their ids, without those that are wrong if these are to be skipped.
struct RecordFeed {
    private var reader: any DocumentReading
    private let idField: String?
    private let skips: SkippedRecords

    /// - Parameter idField: the field to copy to `_id`.
    init(_ reader: any DocumentReading, idField: String?, skips: SkippedRecords) {
        self.reader = reader
        self.idField = idField
        self.skips = skips
    }

    /// The next record; nil at the end.
    /// - Throws: `CLI-0401`, `CLI-0403`.
    mutating func next() throws -> DocumentRecord? {
        while true {
            do {
                guard var record = try reader.next() else { return nil }
                record.document = try withID(record)
                return record
            } catch let error as RecordError {
                try skips.skip(error.ending)
            }
        }
    }

    private func withID(_ record: DocumentRecord) throws -> ObjectValue {
        var document = record.document
        if let idField {
            guard let id = document[idField] else {
                throw RecordError(
                    place: record.place, problem: "the document has no field '\(idField)' for --id")
            }
            // Ids of a table stay strings: typed by their look, 007 and 8 would be ids of two types.
            let value: Value = record.isTable ? .string(record.text(of: idField) ?? "") : id
            document = ObjectValue([(key: "_id", value: value)] + document.without("_id").entries)
        }
        if let id = document["_id"] {
            do { _ = try DocumentID(id) } catch {
                throw RecordError(place: record.place, problem: "its id is none (\(error))")
            }
        }
        return document
    }
}

/// The records that an import skips.
final class SkippedRecords {
    private(set) var count = 0
    private let keepGoing: Bool
    private let report: (String) -> Void

    /// - Parameters:
    ///   - keepGoing: false to end with the first error.
    ///   - report: gets the first errors.
    init(keepGoing: Bool, report: @escaping (String) -> Void = { _ in }) {
        self.keepGoing = keepGoing
        self.report = report
    }

    /// Counts a record that is skipped because of an error.
    /// - Throws: the error, if nothing may be skipped.
    func skip(_ error: MimeoError) throws {
        guard keepGoing else { throw error }
        count += 1
        if count <= Limits.shownErrors { report("mimeo: \(error)") }
        if count == Limits.shownErrors + 1 { report("mimeo: further skipped records are only counted") }
    }

    /// True if records may be skipped.
    var isAllowed: Bool { keepGoing }
}
