// The Swift samples of the guides of 4.x to modelling and to authentication, as one program. It runs them in
// a folder of its own, against the server that MIMEO_SERVER_URL names: `LegacyGuide DATABASE TOKEN`.
import DittoObjC
import DittoSwift
import Foundation

/// Deprecated like all it uses: so the samples compile without a word about each.
@main
@available(*, deprecated, message: "samples of the 4.x API")
struct Guide {
    static func main() async throws {
        let arguments = CommandLine.arguments
        guard arguments.count == 3 else { fatalError("usage: LegacyGuide DATABASE TOKEN") }
        ThirdPartyAuth.token = arguments[2]
        Placeholders.appID = arguments[1]
        await ClientGuide.createAndStart()
        let viewModel = TutorialGuide.ProfileViewModel()
        let view = TutorialGuide.ContentView(viewModel: viewModel)
        viewModel.login()
        await waitFor("a login") { viewModel.ditto?.auth?.status.isAuthenticated == true }
        guard let ditto = viewModel.ditto else { fatalError("no instance") }
        ModellingGuide.write(ditto)
        print("people \(ditto.store["people"].findAll().exec().count)")
        ModellingGuide.versions(ditto)
        viewModel.addItem()
        await waitFor("a car") { view.body == "Cars:1" }
        print(view.body)
        ClientGuide.login(ditto)
        await upload(ditto)
        await ModellingGuide.latestVersion(ditto)
        viewModel.logout()
        print("logged out, cars \(ditto.store["cars"].findAll().exec().count)")
        await ditto.close()
    }

    /// Waits until the server has what was written. The guides have no need of it: their applications go on.
    static func upload(_ ditto: Ditto) async {
        let last = try? await ditto.store.execute(query: "UPDATE notes SET n = 1").commitID
        for _ in 0..<6_000 {
            let rows = try? await ditto.store.execute(
                query: "SELECT documents.synced_up_to_local_commit_id AS n FROM system:data_sync_info")
            if let last, let known = rows?.items.first?.value["n"] as? Int, known >= Int(last) { return }
            try? await Task.sleep(nanoseconds: 10_000_000)
        }
        print("never came: the upload")
    }

    /// Waits until the main thread, which the samples' views belong to, sees it.
    static func waitFor(_ what: String, _ condition: () -> Bool) async {
        for _ in 0..<6_000 where !condition() { try? await Task.sleep(nanoseconds: 10_000_000) }
        if !condition() { print("never came: \(what)") }
    }
}

/// The reader's own values.
enum Placeholders {
    // Safe: set before anything else runs.
    nonisolated(unsafe) static var appID = ""
}

/// The reader's identity provider.
enum ThirdPartyAuth {
    // Safe: set before anything else runs.
    nonisolated(unsafe) static var token = ""
    static func getToken() -> String { token }
}
