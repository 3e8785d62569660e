import DittoSwift
import Foundation

/// "Creating your client", "Login", "Logout". The texts are those of the guide, but for the application's id
/// and the `?` after `auth`, without which no compiler takes them.
@available(*, deprecated, message: "samples of the 4.x API")
enum ClientGuide {
    // MARK: the guide's text
    struct AuthDelegate: DittoAuthenticationDelegate {
        func authenticationRequired(authenticator: DittoAuthenticator) {
            print("Login request.")
        }

        func authenticationExpiringSoon(authenticator: DittoAuthenticator, secondsRemaining: Int64) {
            print("Auth token expiring in \(secondsRemaining)")
        }
    }

    static func createAndStart() async {
        let identity = DittoIdentity.onlineWithAuthentication(
            appID: Placeholders.appID,
            authenticationDelegate: AuthDelegate())

        let ditto = Ditto(identity: identity)
        try! ditto.startSync()  // as in the guide: safe, the program's folder is its own

        // The delegate is asked again and again, because it does not log in.
        await Guide.waitFor("a login's request") { ditto.isSyncActive }
        try? await Task.sleep(nanoseconds: 1_000_000_000)
        ditto.stopSync()
        await ditto.close()
    }

    static func login(_ ditto: Ditto) {
        ditto.auth?.loginWithToken(ThirdPartyAuth.getToken(), provider: "my-auth") { err in
            print("Login request completed. Error? \(err)")
        }
    }

    static func logout(_ ditto: Ditto) {
        ditto.auth?.logout(cleanup: { ditto in
            ditto.store.collection("cars").findAll().evict()
        })
    }
}
