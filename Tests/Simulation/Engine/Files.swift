import Foundation

/// Files of the simulated machines, by folder and prefix.
enum Files {
    static func create(_ folder: String) throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    }

    static func url(_ path: String) -> URL { URL(fileURLWithPath: path, isDirectory: true) }

    static func remove(_ folder: String) { try? FileManager.default.removeItem(atPath: folder) }

    static func names(in folder: String, prefix: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder).filter {
            $0.hasPrefix(prefix) && !$0.hasSuffix("-shm") && !$0.hasSuffix("-wake")
                && !$0.hasSuffix(".backup")
        }.sorted()
    }

    /// Removes a database's files.
    static func remove(in folder: String, prefix: String) throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: folder)
        where name.hasPrefix(prefix) && !name.hasSuffix(".backup") {
            try FileManager.default.removeItem(atPath: "\(folder)/\(name)")
        }
    }

    /// Copies a database's files. In place (`keepsInodes`), the file that is there gets the content: what a
    /// machine's snapshot does.
    static func copy(from source: String, to target: String, prefix: String, keepsInodes: Bool) throws {
        try create(target)
        for name in try names(in: source, prefix: prefix) {
            let content = try Data(contentsOf: URL(fileURLWithPath: "\(source)/\(name)"))
            let path = "\(target)/\(name)"
            if keepsInodes, let handle = FileHandle(forWritingAtPath: path) {
                try handle.truncate(atOffset: 0)
                try handle.write(contentsOf: content)
                try handle.close()
            } else {
                try? FileManager.default.removeItem(atPath: path)
                try content.write(to: URL(fileURLWithPath: path))
            }
        }
    }
}
