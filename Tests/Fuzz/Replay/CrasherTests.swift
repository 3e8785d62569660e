import Foundation
import FuzzTargets
import Testing

/// Every input that ever broke something, through the fuzzers' own checks. A check that does not hold
/// traps: the run ends there, and the log names the file.
@Suite("What the fuzzers found")
struct CrasherTests {
    /// The stack that dispatch gives its workers. Frames of unoptimized code are several times as large.
    #if DEBUG
        private static let stackBytes = 4 * 1_024 * 1_024
    #else
        private static let stackBytes = 512 * 1_024
    #endif

    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("Crashers")

    static let crashers: [Crasher] = FuzzTarget.all.flatMap { target in
        let names =
            (try? FileManager.default.contentsOfDirectory(
                atPath: folder.appendingPathComponent(target.name).path)) ?? []
        return names.sorted().map { Crasher(target: target, name: $0) }
    }

    struct Crasher: Sendable, CustomStringConvertible {
        let target: FuzzTarget
        let name: String

        var description: String { "\(target.name)/\(name)" }

        func bytes() throws -> [UInt8] {
            let file = CrasherTests.folder.appendingPathComponent(target.name).appendingPathComponent(name)
            return [UInt8](try Data(contentsOf: file))
        }
    }

    @Test("an input that once broke something no longer does", arguments: crashers)
    func replay(_ crasher: Crasher) throws {
        let bytes = try crasher.bytes()
        let done = DispatchSemaphore(value: 0)
        let thread = Thread {
            crasher.target.run(bytes)
            done.signal()
        }
        thread.stackSize = Self.stackBytes
        thread.start()
        #expect(done.wait(timeout: .now() + 60) == .success, "\(crasher) does not end")
    }

    @Test("every folder of crashers belongs to a target")
    func folders() throws {
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
        #expect(Set(folders).subtracting(FuzzTarget.all.map(\.name)).isEmpty)
        #expect(!Self.crashers.isEmpty)
    }
}
