import Foundation
import ServiceKit

/// A secret that is a value itself or in a file, as one place of settings gives it.
struct SecretOption {
    /// A setting's text, and the name by which a person knows the setting: `--token`, `MIMEO_TOKEN`.
    typealias Named = (name: String, text: String)

    let value: Named?
    /// A path, or `-` for the first line of standard input.
    let file: Named?

    /// Nil if there is neither.
    init?(value: Named?, file: Named?) {
        guard value != nil || file != nil else { return nil }
        (self.value, self.file) = (value, file)
    }

    /// The name of the setting.
    var place: String { value?.name ?? file?.name ?? "" }

    /// The secret.
    /// - Throws: `CLI-0101` if it is empty, given twice or has several lines; `CLI-0401`. No message holds
    ///   it.
    func read(input: StandardInput = .shared) async throws(MimeoError) -> String {
        switch (value, file) {
        case (let value?, let file?):
            throw MimeoError(.usage, "give either \(value.name) or \(file.name)")
        case (let value?, nil): return try checked(value.text, value.name)
        case (nil, let file?) where file.text == "-":
            let line = await HiddenInput.whileHidden(asking: question) { await input.next() }
            guard let line else { throw MimeoError(.usage, "\(file.name) -: standard input is empty") }
            return try checked(line, "\(file.name) -")
        case (nil, let file?): return try checked(try text(of: file.text, file.name), file.name)
        case (nil, nil): preconditionFailure("a secret without a place is not made")
        }
    }

    /// True if it is the first line of standard input.
    var isTyped: Bool { file?.text == "-" }

    private var question: String { place.lowercased().contains("key") ? "api-key: " : "token: " }

    /// The text of a file, without the line feed at its end.
    private func text(of path: String, _ name: String) throws(MimeoError) -> String {
        do {
            let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            defer { try? handle.close() }
            let bytes = try handle.read(upToCount: Limits.secretBytes + 1) ?? Data()
            guard bytes.count <= Limits.secretBytes, let text = String(data: bytes, encoding: .utf8) else {
                throw MimeoError(
                    .fileUnreadable,
                    "\(name): \(path) is no text or has more than \(Limits.secretBytes) bytes")
            }
            return text.hasSuffix("\r\n") || text.hasSuffix("\n") ? String(text.dropLast()) : text
        } catch let error as MimeoError {
            throw error
        } catch {
            throw MimeoError(.fileUnreadable, "\(name): \(path) cannot be read")
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
