import CRDT
import Foundation
import Synchronization

/// The recipients of a small peer's report.
public enum DittoSmallPeerInfoSyncScope: Sendable {
    /// The server.
    case bigPeerOnly
    /// Nobody: the report stays on this device.
    case localPeerOnly
}

/// This small peer's report about itself, for operators of many peers. It is a document of the collection
/// `__small_peer_info`, written while sync is connected: every `small_peer_info_publish_interval_secs`, and
/// after the metadata was set; and for the first statement that reads or changes reports. UPDATE may give it
/// more fields, which stay: so a tool asks a device for something, if the device subscribes to its report.
public final class DittoSmallPeerInfo: Sendable {
    private struct State {
        var metadata = ObjectValue()
        var syncScope = DittoSmallPeerInfoSyncScope.bigPeerOnly
        /// True if the metadata was set after the last report.
        var hasNews = false
    }

    private let engine: Engine
    private let state = Mutex(State())
    /// Called when a report may be due.
    private let listener = Mutex<(@Sendable () -> Void)?>(nil)

    init(_ engine: Engine) { self.engine = engine }

    func onNews(_ body: @escaping @Sendable () -> Void) { listener.withLock { $0 = body } }

    /// True if the application's metadata is not in a report yet.
    var hasNews: Bool { state.withLock { $0.hasNews } }
    /// The application's metadata for the next report.
    var told: ObjectValue { state.withLock { $0.metadata } }
    /// Notes that a report with the metadata is being written.
    func wasTold() { state.withLock { $0.hasNews = false } }

    /// True if reports are written at all: the system parameter `small_peer_info_is_enabled`.
    public var isEnabled: Bool {
        get { engine.settings.parameters.smallPeerInfoIsEnabled }
        set { engine.settings.set("small_peer_info_is_enabled", to: .bool(newValue)) }
    }

    /// The recipients of the report.
    public var syncScope: DittoSmallPeerInfoSyncScope {
        get { state.withLock { $0.syncScope } }
        set { state.withLock { $0.syncScope = newValue } }
    }

    /// The application's metadata in the report.
    public var metadata: [String: Any?] { state.withLock { $0.metadata }.plain }

    /// Replaces the application's metadata. It lasts until the instance closes.
    /// - Throws: `validationError`: `.notJSONCompatible` for a value that JSON cannot hold,
    ///   `.sizeLimitExceeded` above 128 KiB of JSON, `.depthLimitExceeded` below 64 levels.
    public func setMetadata(_ metadata: [String: Any?]) throws {
        do {
            try set(try PeerMetadata.object(metadata))
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// The metadata as JSON text.
    public var metadataJSONString: String {
        JSONText.print(.object(state.withLock { $0.metadata }), sortedKeys: true)
    }

    /// As `setMetadata`, from JSON text.
    /// - Throws: also `validationError`: `.invalidJSON`, `.notADictionary`.
    public func setMetadataJSONString(_ jsonString: String) throws {
        do {
            try set(try PeerMetadata.object(json: jsonString))
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    private func set(_ metadata: ObjectValue) throws {
        try PeerMetadata.check(metadata, bytes: Limits.peerMetadataBytes)
        state.withLock { state in
            state.metadata = metadata
            state.hasNews = true
        }
        listener.withLock { $0 }?()
    }
}

/// Checks the metadata of an application.
enum PeerMetadata {
    static func object(_ metadata: [String: Any?]) throws(SDKError) -> ObjectValue {
        let object: ObjectValue
        do {
            object = try Arguments.object(metadata)
        } catch  where error.code == SDKErrorCode.argumentTooDeep.rawValue {
            throw SDKError(.metadataTooDeep, error.message)
        } catch {
            throw SDKError(.metadataNotJSON, error.message)
        }
        guard isJSON(.object(object)) else {
            throw SDKError(.metadataNotJSON, "JSON cannot hold binary data, NaN or infinity")
        }
        return object
    }

    static func object(json: String) throws(SDKError) -> ObjectValue {
        let value: Value
        do {
            value = try JSONText.parse(json)
        } catch  where error.code == .tooDeep {
            throw SDKError(.metadataTooDeep, error.message)
        } catch {
            throw SDKError(.metadataInvalidJSON, error.message)
        }
        guard let object = value.objectValue else {
            throw SDKError(.metadataNotADictionary, "the JSON text is not an object")
        }
        return object
    }

    static func check(_ metadata: ObjectValue, bytes: Int) throws(SDKError) {
        guard depth(.object(metadata)) <= Limits.peerMetadataDepth else {
            throw SDKError(
                .metadataTooDeep, "the metadata is nested deeper than \(Limits.peerMetadataDepth) levels")
        }
        let size = JSONText.print(.object(metadata)).utf8.count
        guard size <= bytes else {
            throw SDKError(.metadataTooLarge, "the metadata has \(size) bytes as JSON, the limit is \(bytes)")
        }
    }

    private static func isJSON(_ value: Value) -> Bool {
        switch value {
        case .binary: false
        case .double(let number): number.isFinite
        case .array(let elements): elements.allSatisfy(isJSON)
        case .object(let object): object.entries.allSatisfy { isJSON($0.value) }
        default: true
        }
    }

    private static func depth(_ value: Value) -> Int {
        switch value {
        case .array(let elements): 1 + (elements.lazy.map(depth).max() ?? 0)
        case .object(let object): 1 + (object.entries.lazy.map { depth($0.value) }.max() ?? 0)
        default: 0
        }
    }
}
