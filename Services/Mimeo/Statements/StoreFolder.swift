import Foundation

/// The folder of a local store, as a command line names it.
enum StoreFolder {
    /// Refuses the data folder of a server, and the server's own copies in it: a store there would have no
    /// document, and what is written into a copy is gone when the server builds it again.
    /// - Throws: `CLI-0201`.
    static func check(_ path: String) throws(MimeoError) {
        let folder = URL(fileURLWithPath: path, isDirectory: true).standardizedFileURL
        let above = folder.deletingLastPathComponent()
        // A copy lies in a part's folder, or in one of its database there.
        let parts = [folder, above].filter { partNames.contains($0.lastPathComponent) }
        let candidates = [folder] + parts.map { $0.deletingLastPathComponent() }
        guard let server = candidates.first(where: isOfServer) else { return }
        throw MimeoError(
            .storeUnusable,
            "a server keeps its data in \(server.path), and a peer's store is a folder of its own: "
                + "ask the server with --url, or name another folder")
    }

    private static func isOfServer(_ folder: URL) -> Bool {
        ["log.sqlite", "server.json"].contains { name in
            FileManager.default.fileExists(atPath: folder.appendingPathComponent(name).path)
        }
    }

    /// The folders of the parts of a server that keep copies of documents.
    private static let partNames: Set = ["system", "audit", "replicator", "query", "attachment-documents"]
}
