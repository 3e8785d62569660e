import ArgumentParser
import CRDT
import Foundation
import ServiceKit

/// `mimeo support-bundle`: what somebody needs to help with a server, in one file.
struct SupportBundleCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "support-bundle",
        abstract:
            "Collect versions, settings, health, metrics, log lines and lags of a server in a tar file.",
        discussion: """
            The bundle has no documents, no statements and no secrets: the server leaves them out, and a \
            bundle in which the credential or a password were found would not be written. Users and \
            addresses in log lines are marks, the same one for the same user. It needs a credential with \
            the role read.
            """)

    @OptionGroup var server: AdminTarget
    @Option(
        help: ArgumentHelp("The file to write (default mimeo-support.tar).", valueName: "file"),
        transform: GivenText.of("--output"))
    var output: String?

    /// Files of the bundle and the paths that they come from.
    static let parts: [(file: String, path: String)] =
        [
            ("health.json", "/health"), ("ready.json", "/health/ready"), ("metrics.txt", "/metrics"),
            ("settings.json", "/admin/settings"), ("log-databases.json", "/admin/replicator/databases"),
            ("projections.json", "/admin/query-service/databases"),
        ]
        + ["auth-gateway", "replicator", "query-service", "attachment-store"].flatMap { service in
            [
                ("\(service)/health.json", "/admin/\(service)/health"),
                ("\(service)/settings.json", "/admin/\(service)/settings"),
                ("\(service)/log.txt", "/admin/\(service)/log-lines"),
            ]
        }

    func run() async throws {
        let client = try await server.client()
        _ = try await client.whoami()
        var files: [(name: String, text: String)] = [("version.txt", "mimeo \(BuildVersion.text)\n")]
        for (file, path) in Self.parts {
            var text = try await client.text(path) ?? "no answer\n"
            if file.hasSuffix("log.txt"),
                let lines = try? JSONText.parse(Array(text.utf8))["lines"]?.arrayValue
            {
                text = lines.compactMap(\.stringValue).map { Self.anonymous($0) + "\n" }.joined()
            }
            files.append((file, text))
        }
        if let secret = Self.secret(in: files, credential: client.credential) {
            throw MimeoError(.fileUnwritable, "\(secret) was found in the bundle, so it is not written")
        }
        let path = output ?? "mimeo-support.tar"
        try Self.write(Data(Tar.archive(of: files)), to: OutputFile(path))
        LineWriter.standardOutput.write(text: "\(path): \(files.count) files")
    }

    /// A line of the log without the people in it. A user or an address becomes a mark, which is the same for
    /// the same one in this process, and says nothing in another.
    static func anonymous(_ line: String) -> String {
        func mark(_ value: Substring) -> String {
            "~" + String(UInt(bitPattern: String(value).hashValue), radix: 36).prefix(8)
        }
        if line.hasPrefix("{") {
            return line.replacing(/"(user|address)":"((?:[^"\\]|\\.)*)"/) {
                "\"\($0.output.1)\":\"\(mark($0.output.2))\""
            }
        }
        // A value may have spaces: it ends before the next field, or before the source.
        return line.replacing(#/ (user|address)=(.*?)(?= [A-Za-z_]+=| \[)/#) {
            " \($0.output.1)=\(mark($0.output.2))"
        }
    }

    /// Only its owner may read it.
    private static func write(_ data: Data, to file: OutputFile) throws {
        do {
            let handle = try file.begin(isPrivate: true)
            try handle.write(contentsOf: data)
            try file.finish(handle)
        } catch {
            file.discard()
            if let error = error as? MimeoError { throw error }
            throw MimeoError(
                .fileUnwritable, "\(file.path) cannot be written: \(error.localizedDescription)")
        }
    }

    /// The kind of a secret that a file has; nil if none is found.
    static func secret(in files: [(name: String, text: String)], credential: String) -> String? {
        for (name, text) in files {
            if text.contains(credential) { return "the admin credential (\(name))" }
            // mimeo_<16 hexadecimal digits>_: an API key or admin credential.
            if text.contains(/mimeo_[0-9a-f]{16}_/) { return "a key (\(name))" }
            if text.contains(/:\/\/[^\/\s:@"]+:[^\*\/\s@"][^\/\s@"]*@/) {
                return "a password in a URL (\(name))"
            }
            if text.contains("PRIVATE KEY-----") { return "a private key (\(name))" }
        }
        return nil
    }
}

/// Archives in the format of POSIX `tar`.
enum Tar {
    /// An archive of small files with ASCII names of less than 100 bytes.
    static func archive(of files: [(name: String, text: String)]) -> [UInt8] {
        var bytes: [UInt8] = []
        for (name, text) in files {
            let content = Array(text.utf8)
            bytes += header("mimeo-support/\(name)", content.count) + content
            bytes += [UInt8](repeating: 0, count: (512 - content.count % 512) % 512)
        }
        return bytes + [UInt8](repeating: 0, count: 1_024)
    }

    private static func header(_ name: String, _ size: Int) -> [UInt8] {
        var block = [UInt8](repeating: 0, count: 512)
        func put(_ text: String, at place: Int) {
            for (offset, byte) in text.utf8.enumerated() { block[place + offset] = byte }
        }
        func octal(_ number: Int, _ digits: Int) -> String {
            let text = String(number, radix: 8)
            return String(repeating: "0", count: digits - text.count) + text
        }
        put(name, at: 0)
        put(octal(0o600, 7), at: 100)
        put(octal(0, 7), at: 108)
        put(octal(0, 7), at: 116)
        put(octal(size, 11), at: 124)
        put(octal(Int(Date().timeIntervalSince1970), 11), at: 136)
        put("        ", at: 148)
        put("0", at: 156)
        put("ustar", at: 257)
        put("00", at: 263)
        let sum = block.reduce(0) { $0 + Int($1) }
        put(octal(sum, 6), at: 148)
        block[154] = 0
        return block
    }
}
