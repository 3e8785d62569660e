import Foundation
import ServiceKit
import Testing

@testable import AuthGateway

@Suite("Limits of a database, as an operator sets them", .timeLimit(.minutes(5)))
struct LimitRouteTests {
    @Test("limits are set and shown as a whole, and go with an empty body and with the database")
    func set() async throws {
        try await People.serving { people async throws in
            let limits = { people.gateway.systemDatabase.directory.limits(of: "fleet") }
            #expect(try await people.get("limits").text == #"{"whole":{},"eachUser":{},"users":{}}"#)
            let body =
                #"{"whole":{"requestsPerSecond":100,"bytesPerSecond":1000000,"sessions":null},"#
                + #""users":{"ann":{"sessions":3}}}"#
            #expect(try await people.send("PUT", "limits", body).status == 204)
            #expect(limits()?.whole.requestsPerSecond == 100 && limits()?.whole.sessions == nil)
            #expect(
                try await people.get("limits").text
                    == #"{"whole":{"requestsPerSecond":100,"bytesPerSecond":1000000},"eachUser":{},"#
                    + #""users":{"ann":{"sessions":3}}}"#)
            // A limit that another request does not name is gone.
            #expect(try await people.send("PUT", "limits", #"{"eachUser":{"sessions":2}}"#).status == 204)
            #expect(limits()?.users.isEmpty == true && limits()?.whole == UsageLimits())
            #expect(try await people.send("PUT", "limits", "{}").status == 204)
            #expect(limits() == nil)
            #expect(try await people.send("PUT", "limits", #"{"eachUser":{"sessions":2}}"#).status == 204)
            #expect(try await people.admin.delete("databases/fleet").status == 202)
            #expect(limits() == nil)
            #expect(try await people.send("PUT", "limits", "{}").code == "AUTH-0402")
        }
    }

    @Test(
        "a limit that is none is refused by its name",
        arguments: [
            (#"{"all":{}}"#, "all"), (#"{"whole":7}"#, "whole"), (#"{"whole":{"documents":1}}"#, "documents"),
            (#"{"whole":{"requestsPerSecond":0}}"#, "whole.requestsPerSecond"),
            (#"{"whole":{"requestsPerSecond":1.5}}"#, "whole.requestsPerSecond"),
            (#"{"eachUser":{"sessions":-1}}"#, "eachUser.sessions"),
            (#"{"eachUser":{"sessions":"9"}}"#, "eachUser.sessions"),
            (#"{"eachUser":{"bytesPerSecond":9223372036854775807}}"#, "eachUser.bytesPerSecond"),
            (#"{"users":[]}"#, "users"), (#"{"users":{"":{}}}"#, "users"),
            (#"{"users":{"ann":{"more":1}}}"#, "users.ann"),
        ])
    func malformed(body: String, name: String) async throws {
        try await People.serving { people async throws in
            let answer = try await people.send("PUT", "limits", body)
            #expect(answer.status == 400 && answer.code == "AUTH-0401")
            #expect(answer.text.contains(name), "\(answer.text)")
            #expect(people.gateway.systemDatabase.directory.limits(of: "fleet") == nil)
        }
    }

    @Test("a user's own requests are limited, and an operator's are not")
    func limited() async throws {
        try await People.serving { people async throws in
            try await people.account("ann")
            let session = try await people.login("ann").accessToken
            #expect(
                try await people.send("PUT", "limits", #"{"eachUser":{"requestsPerSecond":1}}"#).status == 204
            )
            var answers: [Answer] = []
            while answers.last?.status != 429, answers.count < 1_000 {
                answers.append(try await people.call("GET", "account", as: session))
            }
            let refused = try #require(answers.last)
            #expect(refused.status == 429 && refused.code == "SRV-0432" && refused.retryAfter == "1")
            #expect(answers.dropLast().allSatisfy { $0.status == 200 } && answers.count >= 3)
            for _ in 0..<5 { #expect(try await people.get("limits").status == 200) }
            #expect(try await people.send("PUT", "limits", "{}").status == 204)
            for _ in 0..<5 {
                #expect(try await people.call("GET", "account", as: session).status == 200)
            }
        }
    }
}
