import CRDT
import Exchange
import Foundation
import Identity
import Synchronization
import TestSupport
import Testing

@testable import Sync
@testable import Transport

/// A newer certificate that comes within a link, at the end that verifies it.
@Suite("A certificate that is renewed within its link", .timeLimit(.minutes(1)))
struct LinkRenewalTests {
    private static func identity(key: String = "other", grant: Grant = .everything) -> Identity {
        Identity(userID: "u", databaseID: "d", peerKey: key, grant: grant, expiresAtSeconds: 200)
    }

    private static func hello(takesCertificates: Bool) throws -> [UInt8] {
        let feed = try #require(LogID(bytes: Array(repeating: 9, count: 16)))
        var greeting = MeshGreeting(feed: feed, starts: 1, start: 1)
        greeting.takesCertificates = takesCertificates
        var hello = Frame.Hello(
            version: 4, databaseID: "d", peerKey: "other", wallMilliseconds: 1_800_000_000_000,
            credit: 1 << 20, actors: [])
        hello.mesh = greeting
        return Frame.hello(hello).encoded()
    }

    private final class Heard: Sendable {
        let ended = Mutex<SyncError?>(nil)
        let renewed = Mutex<Identity?>(nil)
        let hasGreeted = Mutex(false)
    }

    /// Links, and brings a certificate that is verified so; returns the end's reason, or the new identity.
    private func bring(
        _ verdict: Result<Identity, SyncError>, takesCertificates: Bool = true, times: Int = 1
    ) async throws -> (code: String?, renewed: Identity?) {
        var outcome: (code: String?, renewed: Identity?) = (nil, nil)
        try await withTemporaryDirectory { folder in
            let peer = try MeshPeer("p", in: folder, seed: 1) { 1_800_000_000_000 }
            let (connection, heard) = (MemoryConnection(), Heard())
            let start = LinkStart(
                id: 1, isDialer: true, kind: .tcp, identity: Self.identity(), channel: connection.channel,
                syncGroup: 0, verify: { _ in try verdict.get() },
                renewed: { identity in heard.renewed.withLock { $0 = identity } }, told: { _ in },
                greeted: { _ in heard.hasGreeted.withLock { $0 = true } },
                ended: { reason in heard.ended.withLock { $0 = reason } })
            let own = MeshSession.Own(
                databaseID: "d", peerKey: "own", isClockTrusted: false,
                wallMilliseconds: 1_800_000_000_000, presence: nil, progressed: { _, _ in })
            let session = MeshSession(start, of: peer.feed, own)
            connection.arrive(try Self.hello(takesCertificates: takesCertificates))
            try await until { heard.hasGreeted.withLock { $0 } }
            session.open()
            for _ in 0..<times { connection.arrive(Frame.certificate([1, 2, 3]).encoded()) }
            try await until {
                heard.ended.withLock { $0 } != nil || times == 1 && heard.renewed.withLock { $0 } != nil
            }
            outcome = (heard.ended.withLock { $0?.code }, heard.renewed.withLock { $0 })
            session.finish(SyncError(.goingAway, "the test is over"))
            try await until { heard.ended.withLock { $0 } != nil }
            let names = try peer.replica.read { try $0.collectionNames() }
            #expect(names.isEmpty)
            try peer.close()
        }
        return outcome
    }

    @Test("takes the end of a newer one of the same key and rights")
    func taken() async throws {
        let outcome = try await bring(.success(Self.identity()))
        #expect(outcome.code == nil && outcome.renewed?.expiresAtSeconds == 200)
    }

    @Test("ends with a code where it has expired, is of another key, or has other rights; nothing is stored")
    func refused() async throws {
        let expired = SyncError(code: "AUTH-0105", message: "the certificate has expired")
        let cases: [(Result<Identity, SyncError>, String)] = [
            (.failure(expired), "AUTH-0105"),
            (.success(Self.identity(key: "third")), "SYNC-0505"),
            (.success(Self.identity(grant: .readOnly)), "SYNC-0503"),
        ]
        for (verdict, code) in cases {
            let outcome = try await bring(verdict)
            #expect(outcome.code == code && outcome.renewed == nil)
        }
    }

    @Test("ends a link that brings them too often: each is verified")
    func often() async throws {
        let outcome = try await bring(.success(Self.identity()), times: 2 * Limits.renewals.burst)
        #expect(outcome.code == SyncErrorCode.unexpectedMessage.rawValue)
        #expect(outcome.renewed != nil)
    }

    @Test("ends a link whose other side has not said that it sends any")
    func unexpected() async throws {
        #expect(
            try await bring(.success(Self.identity()), takesCertificates: false).code
                == SyncErrorCode.unexpectedMessage.rawValue)
    }
}
