// The samples of the initialization guide, as an application would hold them. Changed only where no compiler
// accepts the text (a `let` that is assigned to, a stray comma) and where a placeholder stands for a value.
import DittoSwift

final class ServerApplication {
    var ditto: Ditto?
    let outcomes = Outcomes()

    /// "Server Connection".
    func connect(databaseID: String, url: String, token: String, persistenceDirectory: URL) async throws {
        // Your HTTP Cloud URL Endpoint
        let config = DittoConfig(
            databaseID: databaseID,  // This was "appID" in v4
            connect: .server(url: URL(string: url)),  // This was "Custom Auth URL" in v4
            persistenceDirectory: persistenceDirectory
        )

        let ditto = try await Ditto.open(config: config)
        self.ditto = ditto

        // Set up authentication expiration handler (required for server connections)
        ditto.auth?.expirationHandler = { [weak self] ditto, secondsRemaining in

            // Authenticate when token is expiring

            ditto.auth?.login(
                // Your development token, replace with your actual token
                token: token,
                // Use .development or your actual provider name
                provider: .development
            ) { clientInfo, error in
                if let error = error {
                    print("Authentication failed: \(error)")
                    self?.outcomes.note("failed")
                } else {
                    print("Authentication successful")
                    self?.outcomes.note("successful")
                }
            }
        }

        try ditto.sync.start()
    }

    /// "Online Playground", the URL as text, `start` in a `do`.
    func connectAsPlayground(databaseID: String, url: String, token: String, root: URL) async throws {
        var config = DittoConfig(
            databaseID: databaseID,  // This was "appID" in v4
            connect: .server(url: url)
        )
        config.persistenceDirectory = root

        let ditto = try await Ditto.open(config: config)
        self.ditto = ditto

        // Set up authentication expiration handler (required for server connections)
        ditto.auth?.expirationHandler = { [weak self] ditto, secondsRemaining in
            // Authenticate when token is expiring
            ditto.auth?.login(
                token: token,
                provider: .development
            ) { clientInfo, error in
                if let error = error {
                    print("Authentication failed: \(error)")
                } else {
                    print("Authentication successful")
                    self?.outcomes.note("successful")
                }
            }
        }

        do {
            try ditto.sync.start()
        } catch {
            print(error.localizedDescription)
        }
    }

    /// "Authentication Lifecycle".
    func lifecycle(_ ditto: Ditto, myJWT: String) {
        ditto.auth?.expirationHandler = { [weak self] ditto, secondsRemaining in
            ditto.auth?.login(token: myJWT, provider: "my-auth-provider") { clientInfo, error in
                if let error = error {
                    print("Authentication failed: \(error)")
                    self?.outcomes.note("failed")
                } else {
                    print("Authentication successful")
                }
            }
        }
    }

    /// "You can condition on secondsRemaining == 0".
    func conditional(_ ditto: Ditto) {
        ditto.auth?.expirationHandler = { [weak self] ditto, secondsRemaining in
            if secondsRemaining == 0 {
                // Do what you'd do in `authenticationRequired`
                self?.outcomes.note("required")
            } else {
                // Do what you'd do in `authenticationExpiringSoon`
                self?.outcomes.note("expiring soon")
            }
        }
    }
}

enum Directories {
    /// "Small Peers Only", "Persistence Directory", "Maintaining Compatibility": configurations only.
    static func all() -> [DittoConfig] {
        // Without encryption
        let config = DittoConfig(
            databaseID: "38d4b612-e6ea-42f2-ae3e-f4cba92c918",
            connect: .smallPeersOnly(privateKey: nil)  // add your OpenSSL key in production
        )

        // For compatibility between the two methods, specify the old directory path
        let compatible = DittoConfig(
            databaseID: "f232511c-256b-4b69-8d28-90283bf715d2",
            connect: .server(url: URL(string: "https://your-server.ditto.live")!),
            persistenceDirectory: URL(string: "/app/sandbox/ditto")!  // old path
        )

        // Absolute path
        let config1 = DittoConfig(
            databaseID: "f232511c-256b-4b69-8d28-90283bf715d2",
            connect: .smallPeersOnly(),
            persistenceDirectory: URL(string: "/data/DittoData")!
        )

        // Relative path
        let config2 = DittoConfig(
            databaseID: "f232511c-256b-4b69-8d28-90283bf715d2",
            connect: .smallPeersOnly(),
            persistenceDirectory: URL(string: "MyApp/Data")!
        )

        // Default (nil) - NEW: includes database ID
        let config3 = DittoConfig(
            databaseID: "f232511c-256b-4b69-8d28-90283bf715d2",
            connect: .smallPeersOnly(),
            // Will use "ditto-f232511c-256b-4b69-8d28-90283bf715d2" as default directory
            persistenceDirectory: nil
        )
        return [config, compatible, config1, config2, config3]
    }

    /// "Default Configuration".
    static func modified() -> DittoConfig {
        // Use the default configuration as a starting point
        var defaultConfig = DittoConfig.default

        // Modify as needed
        defaultConfig.databaseID = "38d4b612-e6ea-42f2-ae3e-f4cba92c918d"  // This was "appID" in v4
        defaultConfig.connect = .server(url: URL(string: "https://my-server.ditto.live")!)
        return defaultConfig
    }

    /// "Async".
    static func openAsync(_ config: DittoConfig) async -> Ditto? {
        do {
            let ditto = try await Ditto.open(config: config)
            // Ditto instance is ready to use
            return ditto
        } catch {
            print("Failed to initialize Ditto: \(error)")
            return nil
        }
    }

    /// "Sync".
    static func openSync(_ config: DittoConfig) -> Ditto? {
        do {
            let ditto = try Ditto.openSync(config: config)
            // Ditto instance is ready to use
            return ditto
        } catch {
            print("Failed to initialize Ditto: \(error)")
            return nil
        }
    }

    /// "Error Handling".
    static func failure(_ config: DittoConfig) async -> String {
        do {
            let ditto = try await Ditto.open(config: config)
            await ditto.close()
            return "opened"
        } catch DittoSwiftError.storeError(.persistenceDirectoryLocked) {
            // Another Ditto instance is using this directory
            return "locked"
        } catch DittoSwiftError.validationError(.invalidDittoConfig) {
            // Configuration validation failed
            return "invalid"
        } catch {
            // Other initialization failures
            return "other"
        }
    }
}

/// The events, in order, from any thread.
final class Outcomes: @unchecked Sendable {
    // Safe: `lock` guards the list.
    private let lock = NSLock()
    private var list: [String] = []

    func note(_ text: String) { lock.withLock { list.append(text) } }
    var all: [String] { lock.withLock { list } }
}
