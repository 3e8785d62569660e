import Foundation

/// Standard output and error, whose reader may leave before the end: `mimeo observe … | head -n 1`.
///
/// `FileHandle.write` ends the process with a crash then, and so it does on a full disk.
enum OutputPipe {
    /// Writes all bytes to standard output. If its reader has left, the process ends as others do then, by
    /// SIGPIPE; if it cannot be written for another reason, with a message and exit code 1.
    static func write(_ data: Data) {
        guard let reason = failure(writing: data, to: STDOUT_FILENO) else { return }
        if reason == EPIPE { leave() }
        let text = String(cString: strerror(reason))
        writeError(Data("mimeo: standard output cannot be written: \(text)\n".utf8))
        exit(1)
    }

    /// Writes all bytes to standard error, if that can be.
    static func writeError(_ data: Data) { _ = failure(writing: data, to: STDERR_FILENO) }

    /// Ends the process once the reader of standard output has left, though there is nothing to write.
    static func watchReader() async throws {
        while true {
            try await Task.sleep(for: Limits.readerLook)
            var place = pollfd(fd: STDOUT_FILENO, events: 0, revents: 0)
            if poll(&place, 1, 0) == 1, place.revents & Int16(POLLERR | POLLHUP) != 0 { leave() }
        }
    }

    /// The error that a descriptor answers with; nil if everything is written.
    private static func failure(writing data: Data, to descriptor: Int32) -> Int32? {
        data.withUnsafeBytes { bytes in
            var done = 0
            while done < bytes.count {
                let count = Foundation.write(
                    descriptor, bytes.baseAddress?.advanced(by: done), bytes.count - done)
                if count > 0 {
                    done += count
                } else if errno == EAGAIN {
                    var place = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    poll(&place, 1, -1)
                } else if errno != EINTR {
                    return errno
                }
            }
            return nil
        }
    }

    /// Ends by SIGPIPE, which a library may have blocked.
    private static func leave() -> Never {
        signal(SIGPIPE, SIG_DFL)
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, SIGPIPE)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        raise(SIGPIPE)
        _exit(128 + SIGPIPE)
    }
}
