import CRDT
import Dispatch
import Foundation

extension Ditto {
    /// Opens an instance, in the folder `ditto` unless a directory is named. It does not throw: an instance
    /// that cannot be opened says why in the log and at the first call that throws, `startSync()` mostly.
    @available(*, deprecated, message: "Use Ditto.open(config:) with a DittoConfig")
    public convenience init(
        identity: DittoIdentity = .offlinePlayground(), persistenceDirectory directory: URL? = nil
    ) {
        let folder = directory ?? URL(fileURLWithPath: DittoIdentity.folder, isDirectory: true)
        let opening: Opening
        do {
            opening = try Opening(
                identity.configuration(folder, environment: ProcessInfo.processInfo.environment))
        } catch {
            opening = Opening(failed: Failure(error), directory: folder)
        }
        self.init(opening, origin: InstanceOrigin(appID: identity.appID))
        identity.attach(to: self)
    }

    /// As `sync.start()`. For an instance that could not be opened it throws the reason.
    @available(*, deprecated, message: "Use ditto.sync.start()")
    public func startSync() throws { try sync.start() }

    /// As `startSync()`, its name in 1.x.
    @available(*, deprecated, message: "Use ditto.sync.start()")
    public func tryStartSync() throws { try sync.start() }

    /// As `sync.stop()`.
    @available(*, deprecated, message: "Use ditto.sync.stop()")
    public func stopSync() { sync.stop() }

    /// As `sync.isActive`.
    @available(*, deprecated, message: "Use ditto.sync.isActive")
    public var isSyncActive: Bool { sync.isActive }

    /// Does nothing: there is no sync with version 3.
    @available(*, deprecated, message: "Leave it out: there is no sync with version 3")
    public func disableSyncWithV3() throws {}

    /// As `isActivated`.
    @available(*, deprecated, renamed: "isActivated")
    public var activated: Bool { isActivated }

    /// The id of the application as it was given; else the database's id.
    @available(*, deprecated, message: "Use ditto.config.databaseID")
    public var appID: String { origin.appID ?? config.databaseID }

    /// A number made of this peer's key.
    @available(*, deprecated, message: "Use ditto.presence.graph.localPeer.peerKey")
    public var siteID: UInt64 { hash64(Array(presence.graph.localPeer.peerKey.utf8)) }

    /// As `absolutePersistenceDirectory`.
    @available(*, deprecated, renamed: "absolutePersistenceDirectory")
    public var persistenceDirectory: URL { absolutePersistenceDirectory }

    /// The version with a prefix and the platform, as in 4.x: `Swi_0.2.0_Linux`.
    @available(*, deprecated, message: "Use Ditto.version")
    public var sdkVersion: String { "Swi_\(Ditto.version)_\(DittoPeerOS.current.stringValue)" }

    /// No licence is needed: any token is accepted.
    @available(*, deprecated, renamed: "setOfflineOnlyLicenseToken(_:)")
    public func setLicenseToken(_ token: String) throws { try setOfflineOnlyLicenseToken(token) }

    /// No licence is needed: any token is accepted.
    @available(*, deprecated, renamed: "setOfflineOnlyLicenseToken(_:)")
    public func setAccessLicense(_ token: String) { try? setOfflineOnlyLicenseToken(token) }

    /// Replaces the transport configuration.
    @available(*, deprecated, message: "Assign ditto.transportConfig")
    public func setTransportConfig(config: DittoTransportConfig) { transportConfig = config }
}
