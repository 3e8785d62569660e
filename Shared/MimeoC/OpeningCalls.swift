public import CMimeo
import CRDT
import DittoSwift
import Foundation

// The functions of `include/mimeo.h`, which documents them. The compiler holds each against its declaration.

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_abi_version() -> UInt32 { UInt32(MIMEO_ABI_VERSION) }

private let settings: Set = ["database_id", "persistence_directory", "connect", "experimental"]

/// The text stays where it is for the life of the process.
private let version = Bytes(Array(Ditto.version.utf8) + [0])

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_version() -> UnsafePointer<CChar>! {
    version.start.map { UnsafeRawPointer($0).assumingMemoryBound(to: CChar.self) }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_open(
    _ config: UnsafeRawPointer!, _ configSize: Int, _ flags: UInt32,
    _ database: UnsafeMutablePointer<mimeo_handle>!, _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(database, error) {
        Fork.watch()
        guard flags & ~MIMEO_ALONE == 0 else { throw BorderError(.choiceUnknown, "\(flags) is no flag") }
        var members = try Incoming.map(config, configSize, "settings")
        // A name that is misspelt would open another directory.
        for (name, _) in members.entries where !settings.contains(name) {
            throw BorderError(.choiceUnknown, "\(name) is no setting")
        }
        // A path here, and a URL in the configuration.
        let path = try members["persistence_directory"].map { value in
            guard let path = value.stringValue, Incoming.isPath(path) else {
                throw BorderError(.settingUnusable, "persistence_directory is no path")
            }
            return path
        }
        members["persistence_directory"] = nil
        members["experimental"] = members["experimental"] ?? .object(ObjectValue())
        var decoded = try DittoConfig(jsonData: Data(JSONText.print(.object(members)).utf8))
        if let path { decoded.persistenceDirectory = URL(fileURLWithPath: path, isDirectory: true) }
        let config = decoded
        let isAlone = flags & MIMEO_ALONE != 0
        let ditto = try DittoStore.waiting {
            isAlone ? try await Ditto.openAlone(config: config) : try await Ditto.open(config: config)
        }
        return HandleTable.shared.add(Database(ditto))
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_close(_ database: mimeo_handle, _ error: UnsafeMutablePointer<mimeo_error>!) -> mimeo_status
{
    call(error) {
        _ = try HandleTable.shared.object(database, as: Database.self)
        try HandleTable.shared.remove(database).end()
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_release(_ handle: mimeo_handle, _ error: UnsafeMutablePointer<mimeo_error>!) -> mimeo_status
{
    call(error) { try HandleTable.shared.remove(handle).end() }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_configure(
    _ database: mimeo_handle, _ settings: UnsafeRawPointer!, _ settingsSize: Int,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(on: database, error) { database in
        let ditto = database.ditto
        for (name, value) in try Incoming.map(settings, settingsSize, "settings").entries {
            switch (name, value) {
            case ("device_name", .string(let text)): ditto.deviceName = text
            case ("metadata", .object):
                try ditto.presence.setPeerMetadataJSONData(Data(JSONText.print(value).utf8))
            case ("transports", .object(let changes)): try configure(ditto, changes)
            case ("device_name", _), ("metadata", _), ("transports", _):
                throw BorderError(.settingUnusable, "\(name) has the wrong type")
            default: throw BorderError(.choiceUnknown, "\(name) is no setting")
            }
        }
    }
}

/// Merges changes into the present transports.
private func configure(_ ditto: Ditto, _ changes: ObjectValue) throws {
    let present = try JSONText.parse([UInt8](JSONEncoder().encode(ditto.transportConfig)))
    let merged = try merge(changes, into: present.objectValue ?? ObjectValue(), "transports")
    do {
        ditto.transportConfig = try JSONDecoder().decode(
            DittoTransportConfig.self, from: Data(JSONText.print(.object(merged)).utf8))
    } catch let error as DecodingError {
        throw BorderError(.settingUnusable, "transports cannot be used: \(error)")
    }
}

private func merge(_ changes: ObjectValue, into object: ObjectValue, _ path: String) throws -> ObjectValue {
    var merged = object
    for (name, change) in changes.entries {
        guard let old = object[name] else {
            throw BorderError(.choiceUnknown, "\(path).\(name) is no setting")
        }
        if case .object(let inside) = old, case .object(let inner) = change {
            merged[name] = .object(try merge(inner, into: inside, "\(path).\(name)"))
        } else {
            merged[name] = change
        }
    }
    return merged
}
