import AttachmentStore
import AuthGateway
import QueryService
import Replicator
import Testing

@testable import Mimeo

@Suite("Programs of one file")
struct ServiceProgramTests {
    @Test(
        "a link with a service's name, in whatever folder, is that service",
        arguments: [
            ("auth-gateway", ServiceProgram.authGateway), ("/usr/lib/mimeo/replicator", .replicator),
            ("./query-service", .queryService), ("../bin/attachment-store", .attachmentStore),
        ])
    func called(path: String, program: ServiceProgram) {
        #expect(ServiceProgram(calledAs: path) == program)
    }

    @Test(
        "every other name is mimeo",
        arguments: ["mimeo", "/usr/bin/mimeo", "", "/", "replicator/mimeo", "replicator.old", "Replicator"])
    func others(path: String) {
        #expect(ServiceProgram(calledAs: path) == nil)
    }

    @Test("the links are named as the executables that a build has")
    func names() {
        let commands = [
            AttachmentStoreCommand.configuration.commandName, AuthGatewayCommand.configuration.commandName,
            QueryServiceCommand.configuration.commandName, ReplicatorCommand.configuration.commandName,
        ]
        #expect(ServiceProgram.allCases.map(\.rawValue) == commands)
    }
}
