import Hummingbird
import Logging
import NIOCore
import NIOPosix
import ServiceKit
import Testing

@Suite("Service host", .timeLimit(.minutes(5)))
struct HostTests {
    @Test("parts start before the host listens and stop after it, the last one first")
    func order() async throws {
        let events = Box<[String]>([])
        let parts = ["a", "b"].map { name in
            TestPart(
                name: name, starting: { events.change { $0.append("start \(name)") } },
                stopping: { events.change { $0.append("stop \(name)") } })
        }
        try await serving(parts) { _ in events.change { $0.append("serve") } }
        #expect(events.value == ["start a", "start b", "serve", "stop b", "stop a"])
    }

    @Test("a part that does not start ends the host, and what had started is stopped")
    func failingStart() async throws {
        let stopped = Box<[String]>([])
        let good = TestPart(name: "good", stopping: { stopped.change { $0.append("good") } })
        let bad = TestPart(
            name: "bad", starting: { throw ServiceError(.dataFolderUnusable, "no folder") },
            stopping: { stopped.change { $0.append("bad") } })
        let error = await #expect(throws: ServiceError.self) { try await serving([good, bad]) { _ in } }
        #expect(error?.code == .dataFolderUnusable)
        #expect(stopped.value == ["good"])
    }

    @Test("a background task runs with the host and is cancelled at its end")
    func background() async throws {
        let events = Box<[String]>([])
        try await serving { mount in
            mount.background("forever") {
                events.change { $0.append("began") }
                defer { events.change { $0.append("ended") } }
                try await Task.sleep(for: .seconds(3600))
            }
            mount.background("brief") {}
        } _: { address async throws in
            while events.value.isEmpty { try await Task.sleep(for: .milliseconds(5)) }
            #expect(try await ask(address, "/health").status == 200)
            for path in ["/health", "/health/live", "/health/ready", "/metrics"] {
                #expect(try await ask(address, "\(path)?_=1732800000").status == 200, "\(path)")
            }
        }
        #expect(events.value == ["began", "ended"])
    }

    @Test("a background task that has done its work while the host drains is no failure")
    func endingInDrain() async throws {
        let (gate, opening) = AsyncStream.makeStream(of: Void.self)
        let ended = Box(false)
        let part = TestPart(
            mounting: { mount in
                mount.background("until the drain") {
                    for await _ in gate {}
                    ended.change { $0 = true }
                }
            },
            draining: {
                opening.finish()
                while !ended.value { try? await Task.sleep(for: .milliseconds(5)) }
                // The group has time to notice.
                try? await Task.sleep(for: .milliseconds(200))
            })
        try await serving([part]) { _ in }
        #expect(ended.value)
    }

    @Test("a background task that fails ends the host with its error")
    func failingBackground() async throws {
        let error = await #expect(throws: ServiceError.self) {
            try await serving { mount in
                mount.background("doomed") { throw ServiceError(.dataFolderUnusable, "the disk is gone") }
            } _: { _ in
                try await Task.sleep(for: .seconds(30))
            }
        }
        #expect(error?.code == .dataFolderUnusable)
    }

    @Test("a port in use is an error that names the address")
    func portInUse() async throws {
        try await serving { _ in
        } _: { address async throws in
            let second = ServiceHost(parts: [TestPart()], listen: address, logger: quiet)
            let error = await #expect(throws: ServiceError.self) { try await second.run() }
            #expect(error?.code == .addressInUse)
            #expect(error?.message.contains("\(address)") == true)
            #expect(error?.exitCode == 1)
        }
    }

    @Test("an address that is not this machine's is an error")
    func foreignAddress() async throws {
        let host = ServiceHost(
            parts: [TestPart()], listen: ListenAddress(host: "192.0.2.1", port: 0), logger: quiet)
        let error = await #expect(throws: ServiceError.self) { try await host.run() }
        #expect(error?.code == .addressUnavailable)
    }

    @Test("idle connections do not hold up the end")
    func idleConnections() async throws {
        let opened = Box<[any Channel]>([])
        // Requests under way would have longer than the suite may take.
        let host = ServiceHost(
            parts: [TestPart()], listen: .anyLoopbackPort, stopping: .init(grace: .seconds(3_600)),
            logger: quiet)
        try await host.run { address async throws in
            // One that has never sent anything, and AsyncHTTPClient's kept-alive one.
            let silent = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connect(host: address.host, port: address.port).get()
            opened.change { $0.append(silent) }
            _ = try await ask(address, "/health")
        }
        try await opened.value[0].closeFuture.get()
    }

    @Test("a request that is being answered is answered to the end")
    func lastRequest() async throws {
        let (begun, hasBegun) = AsyncStream.makeStream(of: Void.self)
        let answer = try await serving { mount in
            mount.on(.get, "/slow") { _, _ in
                hasBegun.yield()
                try await Task.sleep(for: .milliseconds(300))
                return .json(Array("done".utf8))
            }
        } _: { address async throws in
            // The body ends, and with it the host's time, while the answer is still being made.
            let request = Task { try await ask(address, "/slow").body }
            _ = await begun.first { _ in true }
            return request
        }
        #expect(try await answer.value == "done")
    }

    private var quiet: Logger {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return logger
    }
}
