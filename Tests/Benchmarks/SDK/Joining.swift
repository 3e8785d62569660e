import DittoSwift
import Foundation

/// Joins a server with a code, says the code and the user, and then how many reports there are, until the end
/// of its input. In another run it has its credential and says no code.
func join(_ directory: String, database: String, url: String, name: String) async throws {
    guard let url = URL(string: url) else { return say(["failed": "not a URL"]) }
    let ditto = try await Ditto.openAlone(
        config: DittoConfig(
            databaseID: database, connect: .server(url: url),
            persistenceDirectory: URL(fileURLWithPath: directory, isDirectory: true)))
    ditto.auth?.expirationHandler = { ditto, _ in
        do {
            try await ditto.auth?.join(deviceName: name) { code in
                say(["code": code.userCode, "url": code.url, "qrText": code.qrText])
            }
            say(["user": ditto.auth?.status.userID ?? ""])
        } catch {
            say(["failed": "\(error)"])
        }
    }
    try ditto.sync.registerSubscription(query: "SELECT * FROM reports")
    let observer = try ditto.store.registerObserver(query: "SELECT * FROM reports") { result in
        say(["reports": result.items.count])
    }
    try ditto.sync.start()
    // The main queue stays free: callbacks come there.
    await Task.detached { while readLine() != nil {} }.value
    observer.cancel()
    await ditto.close()
}
