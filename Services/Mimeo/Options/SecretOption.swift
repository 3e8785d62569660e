import Foundation
import ServiceKit

/// The places where a secret can come from: a flag, a file, standard input, the environment.
struct SecretOption {
    /// The flag of the value itself; its file's flag adds `-file`.
    let flag: String
    let value: String?
    /// A path, or `-` for the first line of standard input.
    let file: String?
    /// The environment variable, used without both.
    let variable: String

    /// The secret; nil if there is none anywhere.
    /// - Throws: `CLI-0101` if it is empty, given twice or has several lines; `CLI-0401`. No message holds
    ///   it.
    func read(
        _ environment: [String: String], input: StandardInput
    ) async throws(MimeoError) -> String? {
        switch (value, file) {
        case (_?, _?): throw MimeoError(.usage, "give either \(flag) or \(flag)-file")
        case (let value?, nil): return try checked(value, flag)
        case (nil, "-"?):
            let line = await HiddenInput.whileHidden(asking: "\(flag.dropFirst(2)): ") { await input.next() }
            guard let line else { throw MimeoError(.usage, "\(flag)-file -: standard input is empty") }
            return try checked(line, "\(flag)-file -")
        case (nil, let file?): return try checked(try text(of: file), "\(flag)-file")
        case (nil, nil):
            guard let value = environment[variable] else { return nil }
            return try checked(value, variable)
        }
    }

    /// The text of a file, without the line feed at its end.
    private func text(of path: String) throws(MimeoError) -> String {
        do {
            let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            defer { try? handle.close() }
            let bytes = try handle.read(upToCount: Limits.secretBytes + 1) ?? Data()
            guard bytes.count <= Limits.secretBytes, let text = String(data: bytes, encoding: .utf8) else {
                throw MimeoError(
                    .fileUnreadable,
                    "\(flag)-file: \(path) is no text or has more than \(Limits.secretBytes) bytes")
            }
            return text.hasSuffix("\r\n") || text.hasSuffix("\n") ? String(text.dropLast()) : text
        } catch let error as MimeoError {
            throw error
        } catch {
            throw MimeoError(.fileUnreadable, "\(flag)-file: \(path) cannot be read")
        }
    }

    private func checked(_ text: String, _ place: String) throws(MimeoError) -> String {
        guard !text.isEmpty else { throw MimeoError(.usage, "\(place) is empty") }
        guard !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) else {
            throw MimeoError(.usage, "\(place) has several lines or a control character")
        }
        return text
    }
}

/// Reading a secret from a terminal without showing it.
enum HiddenInput {
    /// Runs `body` while the terminal on standard input does not echo. Elsewhere it only runs it.
    static func whileHidden<Result>(asking question: String, _ body: () async -> Result) async -> Result {
        var shown = termios()
        guard isatty(STDIN_FILENO) == 1, tcgetattr(STDIN_FILENO, &shown) == 0 else { return await body() }
        var hidden = shown
        hidden.c_lflag &= ~tcflag_t(ECHO)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &hidden)
        FileHandle.standardError.write(Data(question.utf8))
        let result = await body()
        tcsetattr(STDIN_FILENO, TCSADRAIN, &shown)
        FileHandle.standardError.write(Data("\n".utf8))
        return result
    }
}
