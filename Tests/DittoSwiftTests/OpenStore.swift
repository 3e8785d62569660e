import DittoSwift
import TestSupport

/// Runs a test's body with an open store that has no server.
func withDitto(
    isolation: isolated (any Actor)? = #isolation, _ body: (Ditto) async throws -> Void
) async throws {
    try await withTemporaryDirectory { directory in
        let ditto = try await Ditto.openAlone(config: .local(directory))
        do {
            try await body(ditto)
        } catch {
            await ditto.close()
            throw error
        }
        await ditto.close()
    }
}

extension DittoConfig {
    /// The default configuration in this directory.
    static func local(_ directory: URL) -> DittoConfig {
        var config = DittoConfig.default
        config.persistenceDirectory = directory
        return config
    }
}

/// The reason of a store error by its case's name; nil for any other error.
func storeReason(_ error: any Error) -> String? {
    guard case DittoSwiftError.storeError(let reason) = error else { return nil }
    return Mirror(reflecting: reason).children.first?.label
}
