import Foundation
import Hummingbird
import ServiceKit
import TestSupport
import Testing

@Suite("The admin credential of a service that does not make it")
struct AdminCredentialTests {
    @Test("nobody gets in before there is one, and nobody without it")
    func admits() async throws {
        try await withTemporaryDirectory { folder in
            let file = folder.appendingPathComponent("admin.token")
            let credential = AdminCredential(path: file.path)
            try await serving { mount in
                mount.on(.get, "/admin/test") { request, _ in
                    try credential.admit(request, route: "/x")
                    return .json(Array("{}".utf8))
                }
            } _: { address async throws in
                let good = String(repeating: "k", count: 43)
                func status(_ token: String?) async throws -> (Int, String?) {
                    let answer = try await ask(
                        address, "/admin/test",
                        headers: token.map { ["Authorization": "Bearer \($0)"] } ?? [:])
                    return (answer.status, answer.code)
                }
                #expect(try await status(good) == (401, "SRV-0401"))
                try Data("short\n".utf8).write(to: file)
                #expect(try await status("short") == (401, "SRV-0401"))
                try Data("\(good)\n".utf8).write(to: file)
                #expect(try await status(good).0 == 200)
                #expect(try await status(nil) == (401, "SRV-0401"))
                #expect(try await status(good + "x") == (401, "SRV-0401"))
                #expect(try await status("") == (401, "SRV-0401"))
                // Changed in place, at once and after a while: the same length, another text.
                for letter in ["l", "m"] {
                    let other = String(repeating: letter, count: 43)
                    try Data("\(other)\n".utf8).write(to: file)
                    #expect(try await status(good).0 == 401)
                    #expect(try await status(other).0 == 200)
                    let past = Date(timeIntervalSinceNow: -60)
                    try FileManager.default.setAttributes([.modificationDate: past], ofItemAtPath: file.path)
                    #expect(try await status(other).0 == 200)
                }
                try FileManager.default.removeItem(at: file)
                #expect(try await status(String(repeating: "m", count: 43)).0 == 401)
            }
        }
    }

    @Test("parts drain while the host still serves")
    func drains() async throws {
        let status = Box<Int?>(nil)
        let address = Box<ListenAddress?>(nil)
        var part = TestPart(mounting: { _ in })
        part.draining = {
            guard let address = address.value else { return }
            let answer = try? await ask(address, "/health")
            status.change { $0 = answer?.status }
        }
        try await serving([part]) { found async throws in address.change { $0 = found } }
        #expect(status.value == 200)
    }
}
