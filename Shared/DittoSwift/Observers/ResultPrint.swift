import CRDT
import DQL

/// A fingerprint of a result, in 16 bytes a row (8 for a large result). It tells if the next result differs,
/// without keeping rows.
///
/// A row counts by its content, so writing the same value again changes nothing. When a document's stored
/// bytes are unchanged, the previous print has its content hash; only documents written since are decoded.
struct ResultPrint: Sendable {
    /// Hashes of the rows' encodings and of their contents, in order.
    private var encodings: [UInt64] = []
    private var contents: [UInt64] = []

    /// The print of a result. `last` is the print of the previous result, if there was one.
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

    /// Returns whether both results have the same content, in the same order.
    func says(whatSays other: ResultPrint) -> Bool { contents == other.contents }

    /// Looks up rows in an earlier print: mostly the next row is also the next one there.
    private struct Known {
        let print: ResultPrint
        private var next = 0
        /// Created when a row has moved.
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
                // The row seems to have changed in place.
                next += 1
                return nil
            }
            next = place + 1
            return print.contents[place]
        }
    }
}
