import Synchronization

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#else
    import Darwin
#endif

/// Holds a directory for one replica at a time: an advisory lock on its `lock` file, released by the kernel
/// when the process ends for any reason.
///
/// The file's content remembers that a peer's store was opened here, so that an empty one in its place is
/// told from a new one.
final class DirectoryLock: Sendable {
    /// nil once released.
    private let descriptor: Mutex<Int32?>

    /// Takes the lock, trying `attempts` times with `pause` in between. Throws `directoryLocked` or
    /// `directoryUnusable`.
    init(directory: String, attempts: Int, pause: () -> Void) throws(ReplicaError) {
        let path = directory + "/lock"
        let opened = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard opened >= 0 else {
            throw ReplicaError(.directoryUnusable, "cannot open \(path): \(String(cString: strerror(errno)))")
        }
        var attempt = 1
        while flock(opened, LOCK_EX | LOCK_NB) != 0 {
            guard attempt < attempts else {
                close(opened)
                throw ReplicaError(
                    .directoryLocked, "the directory \(directory) is in use by another process or replica")
            }
            attempt += 1
            pause()
        }
        descriptor = Mutex(opened)
    }

    deinit { release() }

    /// Frees the directory; a second call is a no-op.
    func release() {
        descriptor.withLock { descriptor in
            if let descriptor { close(descriptor) }
            descriptor = nil
        }
    }

    /// True if `rememberStore` was called in this directory.
    var remembersStore: Bool {
        descriptor.withLock { descriptor in
            var information = stat()
            return descriptor.map { fstat($0, &information) == 0 && information.st_size > 0 } ?? false
        }
    }

    /// Notes that there is a store from now on. A failure leaves the directory without a memory.
    func rememberStore() {
        descriptor.withLock { descriptor in
            guard let descriptor else { return }
            let note = Array("store\n".utf8)
            _ = note.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, $0.count, 0) }
        }
    }

    /// Notes that the store was removed on purpose.
    func forgetStore() {
        descriptor.withLock { descriptor in
            if let descriptor { _ = ftruncate(descriptor, 0) }
        }
    }

    /// Creates the directory, for its owner only, and its missing parents with the umask's rights; an
    /// existing one stays unchanged. Throws `directoryUnusable`.
    static func create(_ directory: String) throws(ReplicaError) {
        guard !directory.isEmpty else { throw ReplicaError(.directoryUnusable, "the directory is unnamed") }
        var path = directory.hasPrefix("/") ? "" : "."
        let parts = directory.split(separator: "/").filter { $0 != "." }
        for (index, part) in parts.enumerated() {
            path += "/" + part
            // The directory's mode protects the store's files: SQLite makes them 0644.
            let mode: mode_t = index == parts.count - 1 ? 0o700 : 0o755
            guard mkdir(path, mode) == 0 || errno == EEXIST else {
                throw ReplicaError(
                    .directoryUnusable, "cannot create \(path): \(String(cString: strerror(errno)))")
            }
        }
    }

    /// Removes a file; a missing one is not an error.
    static func remove(_ path: String) throws(ReplicaError) {
        guard unlink(path) == 0 || errno == ENOENT else {
            throw ReplicaError(
                .directoryUnusable, "cannot remove \(path): \(String(cString: strerror(errno)))")
        }
    }

    /// True if there is no such file, or nothing in it.
    static func isEmpty(_ path: String) -> Bool {
        var information = stat()
        return stat(path, &information) != 0 || information.st_size == 0
    }

    /// Device, inode and time of birth of a file; nil when it does not exist. The time is needed because a
    /// file that is removed and copied back may get its old inode again.
    static func identity(of path: String) -> FileIdentity? {
        var information = stat()
        guard stat(path, &information) == 0 else { return nil }
        return FileIdentity(
            device: UInt64(information.st_dev), inode: UInt64(information.st_ino), born: birth(of: path))
    }

    /// A file's time of birth, in nanoseconds since 1970; 0 if the system or the file system does not have
    /// it.
    private static func birth(of path: String) -> UInt64 {
        // The headers that Swift sees do not declare statx(2), which glibc has since 2.28 and musl since
        // 1.2.5.
        typealias Statx =
            @convention(c) (
                Int32, UnsafePointer<CChar>, Int32, UInt32, UnsafeMutableRawPointer
            ) -> Int32
        guard let symbol = dlsym(nil, "statx") else { return 0 }
        let statx = unsafeBitCast(symbol, to: Statx.self)
        return withUnsafeTemporaryAllocation(byteCount: 256, alignment: 8) { buffer in
            guard let start = buffer.baseAddress, statx(AT_FDCWD, path, 0, Birth.mask, start) == 0,
                buffer.load(as: UInt32.self) & Birth.mask != 0
            else { return 0 }
            let seconds = buffer.load(fromByteOffset: Birth.secondsOffset, as: Int64.self)
            let nanoseconds = buffer.load(fromByteOffset: Birth.secondsOffset + 8, as: UInt32.self)
            return UInt64(clamping: seconds) &* 1_000_000_000 &+ UInt64(nanoseconds)
        }
    }

    /// Constants of struct statx, as Linux has fixed it: the bit that requests the time of birth, and its
    /// offset.
    private enum Birth {
        static let mask: UInt32 = 0x800
        static let secondsOffset = 80
    }
}
