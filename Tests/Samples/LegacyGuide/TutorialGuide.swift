import DittoSwiftCombine
import Foundation

/// The tutorial's application: a view model that logs in, and a view that counts cars. `ObservableObject` and
/// `@Published` come with the publishers; the views of Apple and the identity provider are stand-ins.
@available(*, deprecated, message: "samples of the 4.x API")
enum TutorialGuide {
    class AuthDelegate: DittoAuthenticationDelegate {
        var token: String
        init(token: String) {
            self.token = token
        }

        func authenticationRequired(authenticator: DittoAuthenticator) {
            authenticator.loginWithToken(self.token, provider: "my-auth") { err in
                print("Login request completed. Error? \(err)")
            }
        }

        func authenticationExpiringSoon(authenticator: DittoAuthenticator, secondsRemaining: Int64) {
            print("Auth token expiring in \(secondsRemaining)")
            authenticator.loginWithToken(self.token, provider: "my-auth") { err in
                print("Login request completed. Error? \(err)")
            }
        }
    }

    class ProfileViewModel: ObservableObject {
        let credentialsManager = CredentialsManager(authentication: Auth0.authentication())

        @Published var ditto: Ditto?
        @Published var docs: [DittoDocument] = []
        @Published private(set) var state = State.isLoading
        // swift-format-ignore: NeverUseImplicitlyUnwrappedOptionals
        var authDelegate: AuthDelegate!
        // The tutorial has them as constants of `startDitto`, where they end with it.
        var subscription: DittoSubscription?
        var liveQuery: DittoLiveQuery?

        enum State {
            case isLoading
            case loaded(UserInfo)
        }

        func login() {
            Auth0
                .webAuth()
                .scope("openid profile")
                .audience("https://ENTER_YOUR_SCOPE_URL_HERE.auth0.com/userinfo")
                .start { result in
                    switch result {
                    case .success(let credentials):
                        print("Obtained credentials")
                        self.credentialsManager.store(credentials: credentials)
                        self.startDitto()
                    case .failure(let error):
                        print("Failed with: \(error)")
                    // Handle Error
                    }
                }
        }

        func startDitto() {
            // 1. Get the access token from Auth0
            credentialsManager.credentials { error, credentials in
                guard error == nil, let credentials = credentials else {
                    // Handle error
                    return
                }
                guard let accessToken = credentials.accessToken else {
                    // Handle Error
                    return
                }
                self.authDelegate = AuthDelegate(token: accessToken)
                // 2. Start the Ditto instance
                let identity = DittoIdentity.onlineWithAuthentication(
                    appID: Placeholders.appID,
                    authenticationDelegate: self.authDelegate)

                let ditto = Ditto(identity: identity)
                try! ditto.startSync()  // as in the guide: safe, the program's folder is its own

                // 3. Create a liveQuery
                self.ditto = ditto
                self.subscription = ditto.store.collection("cars").find("state == 'FOR_SALE'").subscribe()
                self.liveQuery = ditto.store.collection("cars").find("name == 'Toyota'").observeLocal {
                    docs, event in
                    self.docs = docs
                }
            }
        }

        // "Bonus points: implement addItem button using Ditto's `upsert`"
        func addItem() {
            _ = try? ditto?.store.collection("cars").upsert(
                ["name": "Toyota", "state": "FOR_SALE"] as [String: Any?])
        }

        func logout() {
            Auth0
                .webAuth()
                .clearSession(federated: false) { result in
                    if result {
                        if self.ditto != nil {
                            // Clean up the cars collection after logout
                            self.ditto!.auth?.logout(cleanup: { ditto in
                                ditto.store.collection("cars").findAll().evict()
                            })
                        }
                        self.state = State.isLoading
                    }
                }
        }
    }

    struct ContentView {
        let viewModel: ProfileViewModel
        var body: String { "Cars:" + String(viewModel.docs.count) }
    }
}

// MARK: stand-ins for the tutorial's identity provider

struct UserInfo { var name: String? }

struct Credentials { var accessToken: String? }

final class CredentialsManager {
    private var kept: Credentials?
    init(authentication: Auth0) {}
    func store(credentials: Credentials) { kept = credentials }
    func credentials(_ body: (Error?, Credentials?) -> Void) { body(nil, kept) }
}

struct Auth0 {
    static func authentication() -> Auth0 { Auth0() }
    static func webAuth() -> Auth0 { Auth0() }
    func scope(_ text: String) -> Auth0 { self }
    func audience(_ text: String) -> Auth0 { self }
    func start(_ body: (Result<Credentials, Error>) -> Void) {
        body(.success(Credentials(accessToken: ThirdPartyAuth.getToken())))
    }
    func clearSession(federated: Bool, _ body: (Bool) -> Void) { body(true) }
}
