import DQL
import Foundation

/// The environment variables that begin with `MIMEO_`.
///
/// A variable that is set and read by nobody would be a setting that silently does nothing. So a name that
/// looks like one of ours is an error: a misspelt variable, and a setting that the services take from flags
/// and `--config` only. Any other name is left alone, because a platform may set such names itself, as
/// Kubernetes sets `MIMEO_PORT` beside a service that is called `mimeo`.
public enum EnvironmentKeys {
    /// The variables that the command line reads.
    public static let known = ["MIMEO_API_KEY", "MIMEO_HISTORY", "MIMEO_TOKEN"]

    /// Variables of the build, the tests and compose, which no program of ours reads.
    static let foreign: Set<String> = [
        "MIMEO_BIN", "MIMEO_BUILD_COMMIT", "MIMEO_CACHE", "MIMEO_DEPTH", "MIMEO_IMAGE", "MIMEO_KEEP",
        "MIMEO_LISTEN", "MIMEO_MEASURE", "MIMEO_MUTATION", "MIMEO_SECRETS", "MIMEO_SEED",
        "MIMEO_TEST_POSTGRES", "MIMEO_WRITE_REFERENCE",
    ]

    private static let prefix = "MIMEO_"
    /// The variable of the log's level, which has no prefix.
    private static let logLevel = "LOG_LEVEL"

    /// Refuses variables that look like ours and are not.
    /// - Parameter serves: true for a service. Compose's `MIMEO_LISTEN` names the address of another program,
    ///   so that a service that met it would listen elsewhere than it says.
    /// - Throws: `SRV-0108`.
    public static func check(
        _ environment: [String: String] = ProcessInfo.processInfo.environment, serves: Bool = false
    ) throws(ServiceError) {
        let settings = Dictionary(
            uniqueKeysWithValues: ConfigurationFile.names.map { (variable(of: $0), $0) })
        let words = (known + settings.keys.sorted()).map { String($0.dropFirst(prefix.count)) } + [logLevel]
        for key in environment.keys.sorted() where key.hasPrefix(prefix) {
            let isForeign = foreign.contains(key) && !(serves && settings[key] != nil)
            guard !known.contains(key), !isForeign else { continue }
            let word = String(key.dropFirst(prefix.count))
            let meant = word == logLevel ? word : Suggestion.closest(to: word, among: words)
            if let setting = settings[key] ?? meant.flatMap({ settings[prefix + $0] }) {
                throw ServiceError(
                    .environmentInvalid,
                    "\(key) is set, but settings are not read from the environment: use "
                        + "--\(flag(of: setting)), or \"\(setting)\" in the file of --config")
            }
            if let meant {
                let name = meant == logLevel ? logLevel : prefix + meant
                throw ServiceError(
                    .environmentInvalid, "\(key) is no variable of ours (did you mean \(name)?)")
            }
        }
    }

    /// `tlsKey` makes `MIMEO_TLS_KEY`.
    private static func variable(of setting: String) -> String {
        prefix + flag(of: setting).uppercased().map { $0 == "-" ? "_" : String($0) }.joined()
    }

    /// `tlsKey` makes `tls-key`, `tombstoneTTLHours` makes `tombstone-ttl-hours`.
    static func flag(of setting: String) -> String {
        var flag = ""
        let letters = Array(setting)
        for (place, letter) in letters.enumerated() {
            let beginsWord =
                letter.isUppercase && place > 0
                && (letters[place - 1].isLowercase
                    || letters.indices.contains(place + 1) && letters[place + 1].isLowercase)
            flag += (beginsWord ? "-" : "") + letter.lowercased()
        }
        return flag
    }
}
