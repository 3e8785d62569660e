import Foundation
import Logging
import NIOSSL
import Synchronization

/// The certificate chain and the key that a listener speaks TLS with, read anew when the files change: a
/// renewed certificate counts for connections from then on, without a restart.
///
/// `state` guards what was read last. The files are looked at when a connection comes, at most once per
/// `Limits.certificateLook`; files that cannot be used leave what there was in use, and are warned of.
public final class TLSFiles: Sendable {
    private struct Stamp: Equatable {
        var certificate: [Int]
        var key: [Int]
    }

    private struct State {
        var context: NIOSSLContext
        var stamp: Stamp
        var lookedAt: ContinuousClock.Instant
    }

    private let certificate: String
    private let key: String
    private let logger: Logger
    private let state: Mutex<State>

    /// Reads the files, PEM both; the certificate's file holds its whole chain, its own first.
    /// - Throws: `SRV-0106`.
    public init(certificate: String, key: String, logger: Logger) throws(ServiceError) {
        self.certificate = certificate
        self.key = key
        self.logger = logger
        let stamp = Self.stamp(certificate, key)
        do {
            state = Mutex(
                State(context: try Self.read(certificate, key), stamp: stamp, lookedAt: .now))
        } catch {
            throw ServiceError(
                .certificateUnusable, "the certificate \(certificate) and its key cannot be used: \(error)")
        }
    }

    /// What a new connection is given.
    func context() -> NIOSSLContext {
        state.withLock { state in
            let now = ContinuousClock.now
            guard now - state.lookedAt >= Limits.certificateLook else { return state.context }
            state.lookedAt = now
            let stamp = Self.stamp(certificate, key)
            guard stamp != state.stamp else { return state.context }
            do {
                state.context = try Self.read(certificate, key)
                state.stamp = stamp
                logger.notice("the certificate was read anew", metadata: ["file": "\(certificate)"])
            } catch {
                // Perhaps one of the two is still being written: tried again with the next connection.
                logger.warning(
                    "a new certificate cannot be used; the one before stays",
                    metadata: ["file": "\(certificate)", "reason": "\(error)"])
            }
            return state.context
        }
    }

    private static func read(_ certificate: String, _ key: String) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(certificate).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: key, format: .pem)))
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        return try NIOSSLContext(configuration: configuration)
    }

    /// What tells whether the files are others: time, size and place of each.
    private static func stamp(_ certificate: String, _ key: String) -> Stamp {
        func numbers(_ path: String) -> [Int] {
            guard let found = try? FileManager.default.attributesOfItem(atPath: path) else { return [] }
            let time = (found[.modificationDate] as? Date)?.timeIntervalSince1970 ?? 0
            return [
                Int(time * 1_000), (found[.size] as? NSNumber)?.intValue ?? 0,
                (found[.systemFileNumber] as? NSNumber)?.intValue ?? 0,
            ]
        }
        return Stamp(certificate: numbers(certificate), key: numbers(key))
    }
}
