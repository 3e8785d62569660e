import CPageSums

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The numbers at the beginning of a SQLite file, read without SQLite and without a change: not even of the
/// files that SQLite keeps beside it, which an opening for reading makes or rewrites.
///
/// The last transaction counts that has ended, as for SQLite: the first page in the write-ahead log, else in
/// a rollback journal that was left, else in the file. Other processes may have the file open.
package struct StoredHeader: Sendable, Equatable {
    /// A file that is no database, whose first page is damaged, or that the system does not let us read.
    package struct Unreadable: Error, Sendable, Equatable, CustomStringConvertible {
        /// True for damage of a database, false for another kind of file.
        package let isDamaged: Bool
        package let description: String
        /// True where nothing is known of the file, because the system refuses it or fails.
        package let isClosed: Bool

        init(isDamaged: Bool, description: String) {
            (self.isDamaged, self.description, isClosed) = (isDamaged, description, false)
        }

        init(_ path: String, errno number: Int32) {
            isDamaged = false
            description = "\(path) cannot be read: \(String(cString: strerror(number)))"
            isClosed = true
        }
    }

    /// `PRAGMA application_id`.
    package let application: Int64
    /// `PRAGMA user_version`.
    package let version: Int64
    /// True if the file has a table.
    package let hasTables: Bool

    init(application: Int64, version: Int64, hasTables: Bool) {
        (self.application, self.version, self.hasTables) = (application, version, hasTables)
    }

    /// Reads the header of the file at a path.
    /// - Returns: nil for a missing or empty file, and for one whose creation was interrupted.
    package static func read(_ path: String) throws(Unreadable) -> StoredHeader? {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else {
            if errno == ENOENT { return nil }
            throw Unreadable(path, errno: errno)
        }
        defer { close(file) }
        // As for SQLite, nothing beside an empty file counts.
        guard try !bytes(file, at: 0, 1, path).isEmpty else { return nil }
        // Before the file: a checkpoint copies pages from here to there.
        var log = page_sums_log()
        let failure = page_sums_read_log("\(path)-wal", &log)
        guard failure == 0 || failure == ENOENT else { throw Unreadable("\(path)-wal", errno: failure) }
        if log.has_first != 0 {
            return try StoredHeader(withUnsafeBytes(of: log.first) { Array($0) }, path)
        }
        switch try Journal(path) {
        case .ofNothing: return nil
        case .of(let page): return try StoredHeader(page, path)
        case nil: break
        }
        guard let page = try firstPage(file, path) else { return nil }
        return try StoredHeader(page, path)
    }

    private init(_ page: [UInt8], _ path: String) throws(Unreadable) {
        guard page.count >= Self.leastBytes, page.starts(with: Self.magic) else {
            throw Unreadable(isDamaged: false, description: "\(path) is no database")
        }
        version = Int64(Int32(bitPattern: Self.word(page, 60)))
        application = Int64(Int32(bitPattern: Self.word(page, 68)))
        // The list of tables is a tree; its root is a leaf without cells while there is none.
        let isLeaf = page[100] == 13
        hasTables = !isLeaf || page[103] != 0 || page[104] != 0
    }

    /// The first page, or as much of it as there is; nil for an empty file.
    private static func firstPage(_ file: Int32, _ path: String) throws(Unreadable) -> [UInt8]? {
        // A checkpoint may be writing it.
        for attempt in 1... {
            let beginning = try bytes(file, at: 0, leastBytes, path)
            guard !beginning.isEmpty else { return nil }
            guard beginning.count == leastBytes, beginning.starts(with: magic) else { return beginning }
            let stored = Int(beginning[16]) << 8 | Int(beginning[17])
            let size = stored == 1 ? 65_536 : stored
            let isSize = size >= 512 && size & (size - 1) == 0
            let page = try isSize ? bytes(file, at: 0, size, path) : []
            let hasSums = beginning[20] == UInt8(PAGE_SUMS_BYTES)
            let isWhole = isSize && page.count == size
            if isWhole, !hasSums || page_sums_fit(page, Int32(size), 0) != 0 { return page }
            guard attempt < 3 else { break }
            usleep(20_000)
        }
        throw Unreadable(isDamaged: true, description: "the first page of \(path) is damaged")
    }

    /// A rollback journal that a writer has left: only the creation of our files has one.
    private enum Journal {
        /// The database was empty before.
        case ofNothing
        /// The first page of the database as it was before.
        case of([UInt8])

        private static let magic: [UInt8] = [0xD9, 0xD5, 0x05, 0xF9, 0x20, 0xA1, 0x63, 0xD7]

        /// Nil if there is none that counts.
        init?(_ path: String) throws(Unreadable) {
            let path = "\(path)-journal"
            let file = open(path, O_RDONLY | O_CLOEXEC)
            guard file >= 0 else {
                if errno == ENOENT { return nil }
                throw Unreadable(path, errno: errno)
            }
            defer { close(file) }
            let header = try bytes(file, at: 0, 28, path)
            guard header.count == 28, header.starts(with: Self.magic) else { return nil }
            guard word(header, 16) > 0 else {
                self = .ofNothing
                return
            }
            let (records, sector) = (word(header, 8), Int(word(header, 20)))
            let page = Int(word(header, 24))
            guard records > 0, page >= 512, page <= 65_536, sector <= 65_536 else { return nil }
            for record in 0..<Int(min(records, 1_000)) {
                let place = sector + record * (page + 8)
                let number = try bytes(file, at: place, 4, path)
                guard number.count == 4 else { return nil }
                if word(number, 0) == 1 {
                    self = .of(try bytes(file, at: place + 4, page, path))
                    return
                }
            }
            return nil
        }
    }

    private static let magic = Array("SQLite format 3\0".utf8)
    private static let leastBytes = Int(PAGE_SUMS_FIRST_BYTES)

    private static func word(_ bytes: [UInt8], _ place: Int) -> UInt32 {
        bytes[place..<place + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// Fewer bytes than asked for at the end of the file.
    private static func bytes(
        _ file: Int32, at place: Int, _ count: Int, _ path: String
    ) throws(Unreadable) -> [UInt8] {
        var failure: Int32 = 0
        let found = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            let got = pread(file, buffer.baseAddress, count, off_t(place))
            if got < 0 { failure = errno }
            initialized = max(0, got)
        }
        guard failure == 0 else { throw Unreadable(path, errno: failure) }
        return found
    }
}
