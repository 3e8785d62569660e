import CRDT
import Foundation
import Synchronization

/// Who learns what a small peer tells about itself.
public enum DittoSmallPeerInfoSyncScope: Sendable {
    /// The server.
    case bigPeerOnly
    /// Nobody: it stays on this device.
    case localPeerOnly
}

/// What this small peer tells about itself, for those who look after many of them: a document of the
/// collection `__small_peer_info`, written while sync has a connection, every
/// `small_peer_info_publish_interval_secs` and when the metadata was set.
public final class DittoSmallPeerInfo: Sendable {
    private struct State {
        var metadata = ObjectValue()
        var syncScope = DittoSmallPeerInfoSyncScope.bigPeerOnly
        /// Whether the metadata was not told since it was set.
        var hasNews = false
    }

    private let engine: Engine
    private let state = Mutex(State())
    /// Called when there may be something to tell.
    private let listener = Mutex<(@Sendable () -> Void)?>(nil)

    init(_ engine: Engine) { self.engine = engine }

    func onNews(_ body: @escaping @Sendable () -> Void) { listener.withLock { $0 = body } }

    /// Whether the application has said something that was not told yet.
    var hasNews: Bool { state.withLock { $0.hasNews } }
    /// What there is to tell.
    var told: ObjectValue { state.withLock { $0.metadata } }
    /// It is being told.
    func wasTold() { state.withLock { $0.hasNews = false } }

    /// Whether anything is told at all: the system parameter `small_peer_info_is_enabled`.
    public var isEnabled: Bool {
        get { engine.settings.parameters.smallPeerInfoIsEnabled }
        set { engine.settings.set("small_peer_info_is_enabled", to: .bool(newValue)) }
    }

    /// Who learns it.
    public var syncScope: DittoSmallPeerInfoSyncScope {
        get { state.withLock { $0.syncScope } }
        set { state.withLock { $0.syncScope = newValue } }
    }

    /// What the application adds to it.
    public var metadata: [String: Any?] { state.withLock { $0.metadata }.plain }

    /// Replaces what the application adds. Lasts until the instance closes.
    /// - Throws: `validationError`: `.notJSONCompatible` for a value that JSON cannot hold,
    ///   `.sizeLimitExceeded` above 128 KiB of JSON, `.depthLimitExceeded` below 64 levels.
    public func setMetadata(_ metadata: [String: Any?]) throws {
        do {
            try set(try PeerMetadata.object(metadata))
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// The same as JSON text.
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

/// What an application tells about itself, checked.
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
            throw SDKError(.metadataNotJSON, "binary data and numbers that are none cannot stand in JSON")
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
            throw SDKError(.metadataNotADictionary, "the JSON text is no object")
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
            throw SDKError(.metadataTooLarge, "the metadata has \(size) bytes as JSON, \(bytes) are allowed")
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
