#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// The few system calls that the store needs; errors name the call and the path. Owns its descriptor; used
/// by one task at a time.
struct File: ~Copyable {
    private let descriptor: Int32

    /// - Parameter flags: the flags of `open`.
    init(path: String, flags: Int32, mode: mode_t = 0o600) throws(AttachmentError) {
        descriptor = open(path, flags | O_CLOEXEC, mode)
        guard descriptor >= 0 else { throw Self.failure("open", path) }
    }

    deinit { _ = close(descriptor) }

    func write(_ bytes: UnsafeRawBufferPointer) throws(AttachmentError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = systemWrite(descriptor, rest.baseAddress, rest.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.failure("write", nil) }
            rest = UnsafeRawBufferPointer(rebasing: rest[count...])
        }
    }

    /// Reads at most `count` bytes from `offset`; empty at the end.
    func read(at offset: Int64, count: Int) throws(AttachmentError) -> [UInt8] {
        var failure: AttachmentError?
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            filled = 0
            do throws(AttachmentError) {
                filled = try read(at: offset, into: UnsafeMutableRawBufferPointer(buffer))
            } catch { failure = error }
        }
        if let failure { throw failure }
        return bytes
    }

    /// Fills a buffer from `offset`; with fewer bytes only at the end.
    /// - Returns: the bytes that were read.
    func read(
        at offset: Int64, into buffer: UnsafeMutableRawBufferPointer
    ) throws(AttachmentError) -> Int {
        var filled = 0
        while filled < buffer.count {
            let got = pread(
                descriptor, buffer.baseAddress.map { $0 + filled }, buffer.count - filled,
                off_t(offset) + off_t(filled))
            if got < 0, errno == EINTR { continue }
            guard got >= 0 else { throw Self.failure("read", nil) }
            guard got > 0 else { break }
            filled += got
        }
        return filled
    }

    func sync() throws(AttachmentError) {
        guard fsync(descriptor) == 0 else { throw Self.failure("fsync", nil) }
    }

    /// Writes at an offset, whatever was there.
    func write(_ bytes: [UInt8], at offset: Int64) throws(AttachmentError) {
        var written = 0
        while written < bytes.count {
            let count = bytes.withUnsafeBytes { buffer in
                pwrite(
                    descriptor, buffer.baseAddress.map { $0 + written }, bytes.count - written,
                    off_t(offset) + off_t(written))
            }
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.failure("write", nil) }
            written += count
        }
    }

    /// Cuts the file to a length, and writes on from there.
    func cut(to length: Int64) throws(AttachmentError) {
        guard ftruncate(descriptor, off_t(length)) == 0 else { throw Self.failure("ftruncate", nil) }
        try moveToEnd()
    }

    /// Writes on at the end.
    func moveToEnd() throws(AttachmentError) {
        guard lseek(descriptor, 0, SEEK_END) >= 0 else { throw Self.failure("lseek", nil) }
    }

    /// Locks the file against other openings of it, also those of other processes, until it is closed.
    /// - Returns: false if another one has the lock and `waits` is false.
    func lock(waits: Bool) throws(AttachmentError) -> Bool {
        while flock(descriptor, LOCK_EX | (waits ? 0 : LOCK_NB)) != 0 {
            if errno == EINTR { continue }
            if errno == EWOULDBLOCK { return false }
            throw Self.failure("flock", nil)
        }
        return true
    }

    /// True if the open file has no name any more.
    var isRemoved: Bool {
        get throws(AttachmentError) {
            var status = stat()
            guard fstat(descriptor, &status) == 0 else { throw Self.failure("stat", nil) }
            return status.st_nlink == 0
        }
    }

    /// Runs `body` while no other process and no other caller here is in such a section of the folder.
    static func alone<Result>(
        in folder: String, _ body: () throws(AttachmentError) -> Result
    ) throws(AttachmentError) -> Result {
        let file = try File(path: folder, flags: O_RDONLY | O_DIRECTORY)
        _ = try file.lock(waits: true)
        return try body()
    }

    /// Sets the time of the last change to now.
    static func touch(_ path: String) throws(AttachmentError) {
        guard utimensat(AT_FDCWD, path, nil, 0) == 0 else { throw failure("utimensat", path) }
    }

    /// The state of the file of this name; nil if there is none.
    static func state(of path: String) -> State? {
        var status = stat()
        return stat(path, &status) == 0 ? State(status) : nil
    }

    /// Facts of a file that differ after a program has changed it: enough to trust an earlier comparison.
    struct State: Sendable, Equatable {
        let length: Int64
        /// Seconds since 1970 when the content was last written, or the file touched.
        var writtenAtSeconds: Int64 { Int64(times[0]) }
        private let inode: UInt64
        /// Seconds and nanoseconds, of the content and of the rest.
        private let times: [Int]

        /// Returns whether both are of one file, whatever has changed in it.
        func isOfSameFile(as other: State) -> Bool { inode == other.inode }

        fileprivate init(_ status: stat) {
            length = Int64(status.st_size)
            inode = UInt64(status.st_ino)
            #if canImport(Darwin)
                let (content, rest) = (status.st_mtimespec, status.st_ctimespec)
            #else
                let (content, rest) = (status.st_mtim, status.st_ctim)
            #endif
            times = [content.tv_sec, content.tv_nsec, rest.tv_sec, rest.tv_nsec].map { Int($0) }
        }
    }

    var state: State {
        get throws(AttachmentError) {
            var status = stat()
            guard fstat(descriptor, &status) == 0 else { throw Self.failure("stat", nil) }
            return State(status)
        }
    }

    static func rename(_ from: String, to: String) throws(AttachmentError) {
        guard systemRename(from, to) == 0 else { throw failure("rename", to) }
    }

    static func remove(_ path: String) { _ = unlink(path) }

    static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

    /// Makes changes of a folder durable.
    static func syncFolder(_ path: String) throws(AttachmentError) {
        try File(path: path, flags: O_RDONLY | O_DIRECTORY).sync()
    }

    static func failure(_ call: String, _ path: String?) -> AttachmentError {
        guard errno != ENOSPC, errno != EDQUOT else {
            return AttachmentError(.storageFull, "the disk is full; nothing was stored")
        }
        let reason = String(cString: strerror(errno))
        return AttachmentError(.storageFailed, "\(call) failed\(path.map { " for \($0)" } ?? ""): \(reason)")
    }
}

/// `File.write` and `File.rename` hide the global functions of these names.
private func systemWrite(_ descriptor: Int32, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
    write(descriptor, bytes, count)
}

private func systemRename(_ from: String, _ to: String) -> Int32 { rename(from, to) }
