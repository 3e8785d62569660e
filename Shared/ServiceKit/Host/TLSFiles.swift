import Foundation
import Logging
import NIOSSL
import Synchronization

/// The certificate chain and the private key of a TLS listener, read again when the files change: new
/// connections get a renewed certificate without a restart.
///
/// `state` guards the last certificate read. A new connection checks the files, at most once per
/// `Limits.certificateLook`. If the files cannot be used, the old certificate stays and a warning is logged.
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

    /// Reads both files (PEM). The certificate's file holds its whole chain, its own certificate first.
    /// - Throws: `SRV-0106`.
    public init(certificate: String, key: String, logger: Logger) throws(ServiceError) {
        self.certificate = certificate
        self.key = key
        self.logger = logger
        let stamp = Self.stamp(certificate, key)
        do {
            state = Mutex(
                State(context: try Self.read(certificate, key), stamp: stamp, lookedAt: .now))
            warnIfEnded()
        } catch {
            throw ServiceError(
                .certificateUnusable,
                "the certificate \(certificate) and its key \(key) cannot be used: \(error)")
        }
    }

    /// The TLS context for a new connection.
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
                measure()
                logger.notice("the certificate was renewed", metadata: ["file": "\(certificate)"])
                warnIfEnded()
            } catch {
                // Perhaps one of the two is still being written. The next connection tries again.
                logger.warning(
                    "a new certificate cannot be used; the old one stays",
                    metadata: ["file": "\(certificate)", "reason": "\(error)"])
            }
            return state.context
        }
    }

    /// Says that the certificate has ended. The listener serves on: it reads a renewed one by itself.
    private func warnIfEnded() {
        guard let end = try? CertificateFile.end(of: certificate), end <= Int64(time(nil)) else { return }
        logger.error(
            "the certificate has ended, and clients refuse it; renew it, and it is read without a restart",
            metadata: ["file": "\(certificate)", "code": "\(ServiceErrorCode.certificateEnded.rawValue)"])
    }

    /// Tells the end of the certificate as a metric.
    func measure() {
        guard let end = try? NIOSSLCertificate.fromPEMFile(certificate).first?.notValidAfter else { return }
        Measured.set("mimeo_tls_certificate_expiry_timestamp_seconds", Double(end))
    }

    private static func read(_ certificate: String, _ key: String) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(certificate).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: key, format: .pem)))
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        return try NIOSSLContext(configuration: configuration)
    }

    /// Modification time, size and inode of both files; a difference means that a file changed.
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
