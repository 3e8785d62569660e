import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOWebSocket
import ServiceKit
import Testing
import WebSocket

/// Frames that no client of ours would send, written by hand.
@Suite("WebSocket frames")
struct WebSocketFrameTests {
    /// Upgrades by hand, sends frames, returns the frames that come back. Whoever closes need not answer what
    /// came before, so the last frame is sent when `answered` has come.
    private static func exchange(
        _ address: ListenAddress, _ frames: [[UInt8]], answered: [UInt8] = []
    ) async throws -> [UInt8] {
        let upgrade =
            "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        let answer = try await RawConnection.exchange(
            address, steps: [Array(upgrade.utf8)] + frames, pause: .milliseconds(50), answered: answered)
        let end = Array("\r\n\r\n".utf8)
        let start = answer.indices.first { answer[$0...].starts(with: end) }
        return start.map { Array(answer[($0 + end.count)...]) } ?? []
    }

    /// A masked frame; the mask is zero, so the payload stands as it is.
    private static func frame(_ first: UInt8, _ payload: [UInt8]) -> [UInt8] {
        precondition(payload.count < 126, "short frames only")
        return [first, 0x80 | UInt8(payload.count), 0, 0, 0, 0] + payload
    }

    private static func closeCode(_ bytes: [UInt8]) -> Int? {
        guard bytes.count >= 4, bytes[0] == 0x88 else { return nil }
        return Int(bytes[2]) << 8 | Int(bytes[3])
    }

    @Sendable private static func echo(_ mount: inout ServiceMount) {
        mount.webSocket("/echo", authorize: { _ in }) { channel, _, _ in
            var configuration = WebSocketConfiguration()
            configuration.maximumMessageBytes = 1000
            configuration.closeTimeout = .milliseconds(200)
            try? await WebSocketConnection.run(over: channel, role: .server, configuration: configuration) {
                connection async throws in
                for try await message in connection.inbound { try await connection.send(message) }
            }
        }
    }

    @Test("fragments are put together, also around a ping, which is answered")
    func fragments() async throws {
        try await serving(Self.echo) { address async throws in
            let answer = try await Self.exchange(
                address,
                [
                    Self.frame(0x02, [1, 2]), Self.frame(0x89, [9]), Self.frame(0x00, [3]),
                    Self.frame(0x80, [4]), Self.frame(0x88, []),
                ], answered: [0x82, 4, 1, 2, 3, 4])
            #expect(answer == [0x8A, 1, 9, 0x82, 4, 1, 2, 3, 4, 0x88, 0])
        }
    }

    @Test(
        "a broken rule closes with its code",
        arguments: [
            ([frame(0x81, [104, 105])], 1003),
            ([frame(0x80, [1])], 1002),
            ([frame(0x02, [1]), frame(0x82, [2])], 1002),
            ([frame(0xC2, [1])], 1002),
            ([frame(0x83, [1])], 1002),
            ([[0x82, 1, 7]], 1002),
            ([frame(0x88, [3])], 1002),
            ([frame(0x88, [0x03, 0xE8, 0xFF])], 1002),
            ([frame(0x88, [0x03, 0xED])], 1002),
            ([frame(0x09, [1])], 1002),
            ([[0x82, 0xFF, 0, 0, 0, 0, 0x7F, 0, 0, 0, 0, 0, 0, 0]], 1009),
            (
                Array(repeating: frame(0x02, [UInt8](repeating: 1, count: 120)), count: 1)
                    + Array(repeating: frame(0x00, [UInt8](repeating: 1, count: 120)), count: 8), 1009
            ),
        ])
    func violations(frames: [[UInt8]], expected: Int) async throws {
        try await serving(Self.echo) { address async throws in
            #expect(Self.closeCode(try await Self.exchange(address, frames)) == expected)
        }
    }

    @Test("a close frame is answered with its code, one without a code with none")
    func close() async throws {
        try await serving(Self.echo) { address async throws in
            #expect(
                try await Self.exchange(address, [Self.frame(0x88, [0x03, 0xE8])]) == [0x88, 2, 0x03, 0xE8])
            #expect(try await Self.exchange(address, [Self.frame(0x88, [])]) == [0x88, 0])
        }
    }
}
