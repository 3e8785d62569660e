import CBuildCommit

/// The version of our programs: `--version`, health, metrics.
public enum BuildVersion {
    /// The release's three numbers; the SDK's `Ditto.version` is the same.
    public static let number = "0.2.0"

    /// The commit that was built; nil unless the build was told it (`MIMEO_BUILD_COMMIT`).
    public static var commit: String? {
        let commit = String(cString: mimeo_build_commit())
        return commit.isEmpty ? nil : shown(commit)
    }

    /// The compiler's version, major and minor.
    static var swift: String {
        #if swift(>=6.4)
            "6.4"
        #elseif swift(>=6.3)
            "6.3"
        #else
            "6"
        #endif
    }

    /// `0.2.0`, with the commit if the build knew it: `0.2.0 (commit 1a2b3c4d5e6f)`.
    public static var text: String { text(number, String(cString: mimeo_build_commit())) }

    static func text(_ number: String, _ commit: String) -> String {
        commit.isEmpty ? number : "\(number) (commit \(shown(commit)))"
    }

    private static func shown(_ commit: String) -> String { String(commit.prefix(12)) }
}
