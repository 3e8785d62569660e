import Foundation

/// The generated pages as they lie in the sources.
enum ReferencePages {
    static func text(_ name: String) throws -> String {
        try String(contentsOf: url(name), encoding: .utf8)
    }

    static func url(_ name: String) -> URL {
        var folder = URL(fileURLWithPath: #filePath)
        for _ in 0..<3 { folder.deleteLastPathComponent() }
        return folder.appendingPathComponent("Shared/DQL/Reference/\(name)")
    }
}
