import Dispatch
import Foundation

/// A file that the application named for the log, besides the instances' own. Lines are appended on a queue;
/// lines that cannot be written are lost.
final class ExtraLogFile: Sendable {
    private let path: String
    private let queue = DispatchQueue(label: "ditto.logs.extra", qos: .utility)

    init(path: String) {
        self.path = path
        if !FileManager.default.fileExists(atPath: path) {
            _ = FileManager.default.createFile(
                atPath: path, contents: nil, attributes: [.posixPermissions: 0o600])
        }
    }

    /// Appends a line.
    func add(_ level: DittoLogLevel, _ text: String) {
        let line = "\(ISO8601DateFormatter().string(from: Date())) \(level.name) \(text)\n"
        queue.async { [path] in
            guard let file = FileHandle(forWritingAtPath: path) else { return }
            defer { try? file.close() }
            _ = try? file.seekToEnd()
            try? file.write(contentsOf: Data(line.utf8))
        }
    }
}
