import Foundation

extension Options {
    /// The seeds of a file: the first word of each line that does not begin with `#`.
    static func seeds(in path: String) -> [UInt64]? {
        guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return nil }
        return text.split(separator: "\n").compactMap { line in
            line.split(separator: " ").first.flatMap { UInt64($0) }
        }
    }
}
