import Foundation
import Synchronization
import TestSupport
import Testing

@testable import DittoSwift

@Suite("Disk usage, the small peer's information, the device's name")
struct DiagnosticsTests {
    private func reason(_ body: () throws -> Void) -> String? {
        do {
            try body()
            return nil
        } catch DittoSwiftError.validationError(let reason) {
            return Mirror(reflecting: reason).children.first?.label
        } catch {
            return "\(error)"
        }
    }

    @Test("disk usage is the directory as a tree; a directory takes what is in it")
    func tree() async throws {
        try await withDitto { ditto in
            let root = ditto.diskUsage.item
            #expect(root.type == .directory)
            #expect(root.path == ditto.absolutePersistenceDirectory.path)
            #expect(root.sizeInBytes == root.childItems.reduce(0) { $0 + $1.sizeInBytes })
            #expect(root.sizeInBytes > 0)
            let files = root.childItems.flatMap(\.childItems).filter { $0.type == .file }
            #expect(files.count > 2)
            #expect(files.allSatisfy { $0.childItems.isEmpty && $0.path.hasPrefix(root.path + "/") })
            #expect(root.childItems.map(\.path) == root.childItems.map(\.path).sorted())
            #expect("\(root.type)" == "directory")
            #expect(ditto.diskUsage.exec.path == root.path)
        }
    }

    @Test("the folders have the names that applications look for, with what belongs to each")
    func folders() async throws {
        try await withDitto { ditto in
            func sizes() -> [String: Int] {
                var sizes: [String: Int] = [:]
                for item in ditto.diskUsage.item.childItems {
                    sizes[URL(fileURLWithPath: item.path).lastPathComponent] = item.sizeInBytes
                    #expect(item.type == .directory)
                }
                return sizes
            }
            let before = sizes()
            #expect(
                before.keys.sorted() == [
                    "ditto_attachments", "ditto_auth", "ditto_logs", "ditto_metrics", "ditto_replication",
                    "ditto_store", "ditto_system_info",
                ])
            #expect(before["ditto_attachments"] == 0)
            let file = ditto.absolutePersistenceDirectory.appendingPathComponent("photo")
            try Data(repeating: 7, count: 5_000).write(to: file)
            _ = try await ditto.store.newAttachment(path: file.path)
            try FileManager.default.removeItem(at: file)
            // Nobody has taken the write, so its operation waits to be sent.
            try await ditto.store.execute(
                query: "INSERT INTO c DOCUMENTS (:d)",
                arguments: ["d": ["text": String(repeating: "x", count: 100_000)]])
            try await ditto.store.execute(query: "UPDATE c SET text = :t", arguments: ["t": longText])
            let after = sizes()
            #expect((after["ditto_attachments"] ?? 0) >= 5_000)
            #expect((after["ditto_replication"] ?? 0) - (before["ditto_replication"] ?? 0) >= 200_000)
            #expect((after["ditto_store"] ?? 0) - (before["ditto_store"] ?? 0) >= 200_000)
            let total = try FileManager.default.subpathsOfDirectory(
                atPath: ditto.absolutePersistenceDirectory.path
            ).reduce(0) { sum, path in
                let full = ditto.absolutePersistenceDirectory.path + "/" + path
                let facts = try FileManager.default.attributesOfItem(atPath: full)
                let isFile = facts[.type] as? FileAttributeType == .typeRegular
                return sum + (isFile ? (facts[.size] as? NSNumber)?.intValue ?? 0 : 0)
            }
            #expect(ditto.diskUsage.item.sizeInBytes == total)
        }
    }

    private let longText = String(repeating: "y", count: 200_000)

    @Test("links are not followed, and what is not there is empty")
    func links() throws {
        try withTemporaryDirectory { directory in
            let manager = FileManager.default
            try Data(repeating: 1, count: 100).write(to: directory.appendingPathComponent("a"))
            try manager.createSymbolicLink(
                at: directory.appendingPathComponent("b"), withDestinationURL: URL(fileURLWithPath: "/"))
            let item = DiskUsageItem(at: directory)
            #expect(item.childItems.map(\.type) == [.file, .symlink])
            #expect(item.childItems[0].sizeInBytes == 100)
            #expect(item.childItems[1].childItems.isEmpty)
            #expect(DiskUsageItem(at: directory.appendingPathComponent("none")).sizeInBytes == 0)
        }
    }

    @Test("an observer of disk usage is told the present one and what changes it, until it is stopped")
    func observed() async throws {
        try await withDitto { ditto in
            let sizes = Collected<Int>()
            let handle = ditto.diskUsage.observe { sizes.add($0.sizeInBytes) }
            let first = try #require(await sizes.wait { !$0.isEmpty }.first)
            try await ditto.store.execute(
                query: "INSERT INTO c DOCUMENTS (:d)",
                arguments: ["d": ["text": String(repeating: "x", count: 200_000)]])
            let grown = await sizes.wait { ($0.last ?? 0) >= first + 200_000 }
            #expect((grown.last ?? 0) >= first + 200_000)
            handle.stop()
            let count = sizes.all.count
            try await ditto.store.execute(
                query: "INSERT INTO c DOCUMENTS (:d)",
                arguments: ["d": ["text": String(repeating: "y", count: 200_000)]])
            handle.look()
            try await Task.sleep(for: .milliseconds(20))
            #expect(sizes.all.count == count)
        }
    }

    @Test("metadata is what was set, as a dictionary and as JSON text")
    func metadata() async throws {
        try await withDitto { ditto in
            let info = ditto.smallPeerInfo
            #expect(info.metadata.isEmpty)
            #expect(info.metadataJSONString == "{}")
            try info.setMetadata(["role": "till", "floor": 2, "tags": ["a", nil] as [String?]])
            #expect(info.metadata["floor"] as? Int == 2)
            #expect(info.metadataJSONString == #"{"floor":2,"role":"till","tags":["a",null]}"#)
            try info.setMetadataJSONString(#"{"role": "kitchen"}"#)
            #expect(info.metadata["role"] as? String == "kitchen")
            #expect(info.metadata.count == 1)
        }
    }

    @Test("metadata that cannot be told is refused, and what was set stays")
    func badMetadata() async throws {
        try await withDitto { ditto in
            let info = ditto.smallPeerInfo
            try info.setMetadata(["role": "till"])
            #expect(reason { try info.setMetadata(["a": { 1 }]) } == "notJSONCompatible")
            #expect(reason { try info.setMetadata(["a": Data([1])]) } == "notJSONCompatible")
            #expect(reason { try info.setMetadata(["a": Double.infinity]) } == "notJSONCompatible")
            let long = String(repeating: "x", count: Limits.peerMetadataBytes)
            #expect(reason { try info.setMetadata(["a": long]) } == "sizeLimitExceeded")
            var deep: Any = 1
            for _ in 0..<Limits.peerMetadataDepth { deep = ["a": deep] }
            #expect(reason { try info.setMetadata(["a": deep]) } == "depthLimitExceeded")
            for _ in 0..<200 { deep = ["a": deep] }
            #expect(reason { try info.setMetadata(["a": deep]) } == "depthLimitExceeded")
            #expect(reason { try info.setMetadataJSONString("{") } == "invalidJSON")
            #expect(reason { try info.setMetadataJSONString("[1]") } == "notADictionary")
            let nested = String(repeating: "[", count: 300) + String(repeating: "]", count: 300)
            #expect(reason { try info.setMetadataJSONString(nested) } == "depthLimitExceeded")
            #expect(info.metadata["role"] as? String == "till")
        }
    }

    @Test("the limits of metadata are inclusive")
    func metadataLimits() async throws {
        try await withDitto { ditto in
            let frame = #"{"a":""}"#.utf8.count
            let text = String(repeating: "x", count: Limits.peerMetadataBytes - frame)
            #expect(reason { try ditto.smallPeerInfo.setMetadata(["a": text]) } == nil)
            var deep: Any = 1
            for _ in 0..<(Limits.peerMetadataDepth - 1) { deep = ["a": deep] }
            #expect(reason { try ditto.smallPeerInfo.setMetadata(["a": deep]) } == nil)
        }
    }

    @Test("being told about is a system parameter; the scope is the server's, unless it is set")
    func switches() async throws {
        try await withDitto { ditto in
            let info = ditto.smallPeerInfo
            #expect(info.isEnabled)
            #expect(info.syncScope == .bigPeerOnly)
            info.isEnabled = false
            info.syncScope = .localPeerOnly
            #expect(info.syncScope == .localPeerOnly)
            let shown = try await ditto.store.execute(query: "SHOW small_peer_info_is_enabled")
            #expect(shown.items.first?.value["small_peer_info_is_enabled"] as? Bool == false)
            try await ditto.store.execute(query: "ALTER SYSTEM SET small_peer_info_is_enabled = true")
            #expect(info.isEnabled)
        }
    }

    @Test("a device's name is the computer's until it is set, and is cut between characters")
    func deviceName() async throws {
        try await withDitto { ditto in
            #expect(!ditto.deviceName.isEmpty)
            #expect(ditto.deviceName.utf8.count <= 24)
            ditto.deviceName = "till 7"
            #expect(ditto.deviceName == "till 7")
            ditto.deviceName = String(repeating: "x", count: 23) + "é"
            #expect(ditto.deviceName == String(repeating: "x", count: 23))
            ditto.deviceName = String(repeating: "é", count: 13)
            #expect(ditto.deviceName == String(repeating: "é", count: 12))
        }
    }
}
