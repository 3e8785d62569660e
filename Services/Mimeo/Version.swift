import CBuildCommit
import DittoSwift

/// The version of this program.
enum Version {
    /// `0.1.0`, with the commit that was built if the build knew it: `0.1.0 (commit 1a2b3c4d5e6f)`.
    static var text: String {
        text(version: Ditto.version, commit: String(cString: mimeo_build_commit()))
    }

    static func text(version: String, commit: String) -> String {
        commit.isEmpty ? version : "\(version) (commit \(commit.prefix(12)))"
    }
}
