import AttachmentStore
import AuthGateway
import QueryService
import Replicator

/// The services as programs of their own in the file of `mimeo`, each by the name of a link to it. Packages
/// have one file with four links, because five files would each have the same libraries in them.
enum ServiceProgram: String, CaseIterable {
    case attachmentStore = "attachment-store"
    case authGateway = "auth-gateway"
    case queryService = "query-service"
    case replicator

    /// The service that a program's path names, as in `/usr/lib/mimeo/replicator`; nil for other names.
    init?(calledAs path: String) {
        self.init(rawValue: path.split(separator: "/").last.map(String.init) ?? "")
    }

    /// Runs the service as its own executable does, and ends the process.
    func runAsProcess() async -> Never {
        switch self {
        case .attachmentStore: await AttachmentStoreCommand.runAsProcess()
        case .authGateway: await AuthGatewayCommand.runAsProcess()
        case .queryService: await QueryServiceCommand.runAsProcess()
        case .replicator: await ReplicatorCommand.runAsProcess()
        }
    }
}
