import CLibPQ
import Glibc

/// A statement's result in binary format, freed with this object. Columns are read by the type that the
/// statement gives them: a value of another width is a mistake of this module, not of the data.
final class Rows {
    private let result: OpaquePointer

    /// Takes ownership of a `PGresult`.
    init(_ result: OpaquePointer) { self.result = result }

    deinit { PQclear(result) }

    /// The number of rows.
    var count: Int { Int(PQntuples(result)) }

    /// True for the result of a change that returns no rows.
    var isChange: Bool { PQresultStatus(result) == PGRES_COMMAND_OK }

    /// The number of rows that a change has written.
    var written: Int { strtol(PQcmdTuples(result), nil, 10) }

    /// Returns whether the value is NULL.
    func isNull(_ row: Int, _ column: Int) -> Bool { PQgetisnull(result, Int32(row), Int32(column)) == 1 }

    /// An int8.
    func int8(_ row: Int, _ column: Int) -> Int64 {
        let raw = raw(row, column)
        precondition(raw.count == 8, "column \(column) is no int8")
        return Int64(bigEndian: raw.loadUnaligned(as: Int64.self))
    }

    /// An unsigned number that is stored by its bits.
    func bits(_ row: Int, _ column: Int) -> UInt64 { UInt64(bitPattern: int8(row, column)) }

    /// A boolean.
    func bool(_ row: Int, _ column: Int) -> Bool { raw(row, column).first == 1 }

    /// A text.
    func text(_ row: Int, _ column: Int) -> String { String(decoding: raw(row, column), as: UTF8.self) }

    /// A bytea.
    func bytes(_ row: Int, _ column: Int) -> [UInt8] { [UInt8](raw(row, column)) }

    /// A value's bytes in place, valid while this object lives.
    func raw(_ row: Int, _ column: Int) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(
            start: PQgetvalue(result, Int32(row), Int32(column)),
            count: Int(PQgetlength(result, Int32(row), Int32(column))))
    }
}
