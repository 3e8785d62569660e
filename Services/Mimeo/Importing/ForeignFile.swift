/// A kind of file that no import reads, told by its first bytes: as a text it would be garbage, or an error
/// about its encoding.
enum ForeignFile: CaseIterable {
    case bzip2, xz, zstd, lz4, zip, sevenZip, rar, officeBinary, parquet, sqlite, pdf

    /// - Parameter head: the first 16 bytes of the file.
    /// - Returns: nil for none of these kinds.
    init?(_ head: [UInt8]) {
        let found = Self.allCases.first { kind in
            kind.marks.contains { mark in
                head.count >= mark.count
                    && mark.indices.allSatisfy { mark[$0] == nil || mark[$0] == head[$0] }
            }
        }
        guard let found else { return nil }
        self = found
    }

    /// The first bytes; nil stands for any byte.
    private var marks: [[UInt8?]] {
        switch self {
        // The size of its blocks, then the first block or the end.
        case .bzip2:
            [
                Array("BZh".utf8) + [nil, 0x31, 0x41, 0x59, 0x26],
                Array("BZh".utf8) + [nil, 0x17, 0x72, 0x45, 0x38],
            ]
        case .xz: [[0xFD, 0x37, 0x7A, 0x58, 0x5A, 0]]
        case .zstd: [[0x28, 0xB5, 0x2F, 0xFD]]
        case .lz4: [[0x04, 0x22, 0x4D, 0x18]]
        case .zip: [[0x50, 0x4B, 3, 4], [0x50, 0x4B, 5, 6], [0x50, 0x4B, 7, 8]]
        case .sevenZip: [[0x37, 0x7A, 0xBC, 0xAF, 0x27, 0x1C]]
        case .rar: [Array("Rar!".utf8) + [0x1A, 7]]
        case .officeBinary: [[0xD0, 0xCF, 0x11, 0xE0]]
        case .parquet: [Array("PAR1".utf8) + [0x15]]
        case .sqlite: [Array("SQLite format 3".utf8) + [0]]
        case .pdf: [Array("%PDF-".utf8)]
        }
    }

    var name: String {
        switch self {
        case .bzip2: "packed with bzip2"
        case .xz: "packed with xz"
        case .zstd: "packed with zstd"
        case .lz4: "packed with lz4"
        case .zip: "a ZIP archive (as spreadsheets are)"
        case .sevenZip: "a 7z archive"
        case .rar: "a RAR archive"
        case .officeBinary: "a spreadsheet or document of old Office programs"
        case .parquet: "a Parquet file"
        case .sqlite: "an SQLite database"
        case .pdf: "a PDF document"
        }
    }

    var remedy: String {
        switch self {
        case .bzip2: "unpack it, as with bzip2 -dc FILE | mimeo import … -"
        case .xz: "unpack it, as with xz -dc FILE | mimeo import … -"
        case .zstd: "unpack it, as with zstd -dc FILE | mimeo import … -"
        case .lz4: "unpack it, as with lz4 -dc FILE | mimeo import … -"
        case .zip: "save it as CSV, or unpack it"
        case .officeBinary: "save it as CSV"
        case .sevenZip, .rar: "unpack it"
        case .parquet, .sqlite, .pdf: "export it as CSV or JSON"
        }
    }
}
