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
        var failed = false
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            filled = 0
            while filled < count {
                let got = pread(
                    descriptor, buffer.baseAddress! + filled, count - filled, off_t(offset) + off_t(filled))
                if got < 0, errno == EINTR { continue }
                if got < 0 { failed = true }
                guard got > 0 else { break }
                filled += got
            }
        }
        if failed { throw Self.failure("read", nil) }
        return bytes
    }

    func sync() throws(AttachmentError) {
        guard fsync(descriptor) == 0 else { throw Self.failure("fsync", nil) }
    }

    /// Facts of a file that differ after a program has changed it: enough to trust an earlier comparison.
    struct State: Sendable, Equatable {
        let length: Int64
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
