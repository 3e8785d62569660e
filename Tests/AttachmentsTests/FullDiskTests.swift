import Foundation
import Testing

@testable import Attachments

@Suite("Full disk")
struct FullDiskTests {
    /// The device that finds the disk full at every write.
    @Test("a full disk is told from a broken one")
    func full() throws {
        let file = try File(path: "/dev/full", flags: O_WRONLY)
        let bytes: [UInt8] = [1, 2, 3]
        var code: AttachmentErrorCode?
        bytes.withUnsafeBytes { bytes in
            do throws(AttachmentError) { try file.write(bytes) } catch { code = error.code }
        }
        #expect(code == .storageFull)
    }
}
