import DQL
import Foundation

/// The environment variables that begin with `MIMEO_`.
///
/// Every setting has one (`Setting.variable`). A variable that is set and read by nobody would be a setting
/// that silently does nothing. So a name that looks like one of ours is an error. Any other name is left
/// alone, because a platform may set such names itself, as Kubernetes sets `MIMEO_PORT` beside a service that
/// is called `mimeo`.
public enum EnvironmentKeys {
    static let prefix = "MIMEO_"

    /// Variables of the command line that are no setting: the history of the prompt.
    static let others = ["MIMEO_HISTORY"]

    /// Variables of the build, the tests and compose, which no program of ours reads.
    static let foreign: Set<String> = [
        "MIMEO_BIN", "MIMEO_BUILD_COMMIT", "MIMEO_CACHE", "MIMEO_DEPTH", "MIMEO_IMAGE", "MIMEO_KEEP",
        "MIMEO_MEASURE", "MIMEO_MUTATION", "MIMEO_SECRETS", "MIMEO_SEED", "MIMEO_TEST_POSTGRES",
        "MIMEO_WRITE_REFERENCE",
    ]

    private static let known = Setting.all.filter { !$0.isWord }.map(\.variable) + others
    /// The variable of the log's level, which has no prefix.
    private static let logLevel = "LOG_LEVEL"

    /// Refuses variables that look like ours and are not, and settings that are empty.
    /// - Throws: `SRV-0108`.
    public static func check(
        _ environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(ServiceError) {
        let words = known.map { String($0.dropFirst(prefix.count)) } + [logLevel]
        for key in environment.keys.sorted() where key.hasPrefix(prefix) {
            guard !others.contains(key), !foreign.contains(key) else { continue }
            if known.contains(key) {
                guard environment[key] != "" else {
                    throw ServiceError(
                        .environmentInvalid, "\(key) is empty: give it a value, or unset it")
                }
                continue
            }
            // It would be forgotten there, and speak again at later starts.
            if let word = Setting.all.first(where: { $0.isWord && $0.variable == key }) {
                throw ServiceError(
                    .environmentInvalid,
                    "\(key): --\(word.flag) is a word for one start; give it as a flag")
            }
            let word = String(key.dropFirst(prefix.count))
            let meant = word == logLevel ? word : Suggestion.closest(to: word, among: words)
            if let meant {
                let name = meant == logLevel ? logLevel : prefix + meant
                throw ServiceError(
                    .environmentInvalid, "\(key) is no variable of ours (did you mean \(name)?)")
            }
        }
    }
}
