import CRDT
import DQL

/// What a result says, in 16 bytes a row, of a large one in 8 bytes: to tell whether the next one says
/// something else without keeping rows.
///
/// A row counts by its content, so that a value that was written again changes nothing. Of a document that
/// is stored as it was the content is known from the print before: only what was written since is decoded.
struct ResultPrint: Sendable {
    /// Hashes of the rows' encodings, in order, and of what they say.
    private var encodings: [UInt64] = []
    private var contents: [UInt64] = []

    /// The print of a result. `last`: the one of the result before, if there was one.
    init(_ rows: [KeptRow], after last: ResultPrint?) {
        guard rows.count <= Limits.printedRows else {
            contents = [rows.reduce(1) { hash64(CBOR.encode($1.decoded), seed: $0) }]
            return
        }
        encodings.reserveCapacity(rows.count)
        contents.reserveCapacity(rows.count)
        var known = last.map(Known.init)
        for row in rows {
            guard let encoding = row.withDocument({ id, document in hash64(document, seed: hash64(id)) })
            else {
                let content = hash64(CBOR.encode(row.decoded))
                encodings.append(content)
                contents.append(content)
                continue
            }
            encodings.append(encoding)
            contents.append(known?.content(of: encoding) ?? hash64(CBOR.encode(row.decoded)))
        }
    }

    /// Whether both results say the same, in the same order.
    func says(whatSays other: ResultPrint) -> Bool { contents == other.contents }

    /// Looks rows up in an earlier print: mostly the next one is the next one there, too.
    private struct Known {
        let print: ResultPrint
        private var next = 0
        /// Made when a row stands elsewhere.
        private var places: [UInt64: Int]?

        init(_ print: ResultPrint) { self.print = print }

        mutating func content(of encoding: UInt64) -> UInt64? {
            if next < print.encodings.count, print.encodings[next] == encoding {
                defer { next += 1 }
                return print.contents[next]
            }
            let places =
                places
                ?? Dictionary(
                    print.encodings.enumerated().map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
            self.places = places
            guard let place = places[encoding] else {
                // Changed where it stands, as it seems.
                next += 1
                return nil
            }
            next = place + 1
            return print.contents[place]
        }
    }
}
