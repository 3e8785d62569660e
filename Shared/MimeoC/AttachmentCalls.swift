public import CMimeo
import CRDT
import DittoSwift
import Foundation

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_attach_bytes(
    _ database: mimeo_handle, _ bytes: UnsafeRawPointer!, _ size: Int, _ metadata: UnsafeRawPointer!,
    _ metadataSize: Int, _ flags: UInt32, _ result: UnsafeMutablePointer<mimeo_result>!,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(on: database, result, error) { database in
        guard bytes != nil || size == 0 else {
            throw BorderError(.argumentUnusable, "the pointer to the bytes is NULL")
        }
        try Incoming.checkSize(size, "attachment")
        let data = bytes.map { Data(bytes: $0, count: size) } ?? Data()
        return try attach(database, metadata, metadataSize, flags) { store, metadata in
            try await store.newAttachment(data: data, metadata: metadata)
        }
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_attach_file(
    _ database: mimeo_handle, _ path: UnsafePointer<CChar>!, _ pathSize: Int, _ metadata: UnsafeRawPointer!,
    _ metadataSize: Int, _ flags: UInt32, _ result: UnsafeMutablePointer<mimeo_result>!,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(on: database, result, error) { database in
        let path = try Incoming.path(path, pathSize)
        return try attach(database, metadata, metadataSize, flags) { store, metadata in
            try await store.newAttachment(path: path, metadata: metadata)
        }
    }
}

private func attach(
    _ database: Database, _ metadata: UnsafeRawPointer?, _ metadataSize: Int, _ flags: UInt32,
    _ make: @escaping @Sendable (DittoStore, [String: String]) async throws -> DittoAttachment
) throws -> mimeo_result {
    let format = try Format(flags: flags)
    let store = database.ditto.store
    var texts: [String: String] = [:]
    for (name, value) in try Incoming.map(metadata, metadataSize, "metadata").entries {
        guard let text = value.stringValue else {
            throw BorderError(.settingUnusable, "\(name) of the metadata is no text")
        }
        texts[name] = text
    }
    let given = texts
    let made = HeldAttachment(try DittoStore.waiting { try await make(store, given) }, format)
    return mimeo_result(
        handle: HandleTable.shared.add(made), data: made.token.start, size: made.size, count: 1, commit: 0,
        format: made.format.rawValue, is_write: 0)
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_fetch(
    _ database: mimeo_handle, _ token: UnsafeRawPointer!, _ tokenSize: Int, _ flags: UInt32,
    _ callback: mimeo_callback!, _ context: UnsafeMutableRawPointer!,
    _ fetch: UnsafeMutablePointer<mimeo_handle>!, _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(on: database, fetch, error) { database in
        let format = try Format(flags: flags)
        let values = try Incoming.map(token, tokenSize, "parts of the token")
        let receiver = Receiver(callback, context)
        return try database.add(Running(database)) { handle, running in
            let events = database.events
            let fetcher = try database.ditto.store.fetchAttachment(
                token: .object(values), on: database.queue
            ) { event in
                let (told, isLatest) = heard(event, handle, receiver, format)
                events.tell(told, isLatest: isLatest)
            }
            running.started(handle) { fetcher.stop() }
        }
    }
}

/// The event of a fetch; `isLatest` if it replaces one that was not read yet.
private func heard(
    _ event: DittoAttachmentFetchEvent, _ handle: mimeo_handle, _ receiver: Receiver?, _ format: Format
) -> (event: Event, isLatest: Bool) {
    switch event {
    case .progress(let downloaded, let total):
        let value = ObjectValue(unique: [
            (key: "downloaded", value: .int(Int64(clamping: downloaded))),
            (key: "total", value: .int(Int64(clamping: total))),
        ])
        return (
            Event(MIMEO_FETCH_PROGRESS, from: handle, to: receiver, .object(value), format), true
        )
    case .completed(let attachment):
        let object = HeldAttachment(attachment)
        return (
            Event(MIMEO_FETCH_DONE, from: handle, to: receiver, .null, format, object: object), true
        )
    case .deleted: return (Event(MIMEO_FETCH_GONE, from: handle, to: receiver, .null, format), true)
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_attachment_bytes(
    _ attachment: mimeo_handle, _ result: UnsafeMutablePointer<mimeo_result>!,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(result, error) {
        let data = try HandleTable.shared.object(attachment, as: HeldAttachment.self).attachment.data()
        return mimeo_result([UInt8](data), .cbor, count: 1)
    }
}

// swift-format-ignore: AlwaysUseLowerCamelCase, AllPublicDeclarationsHaveDocumentation
@c @implementation
public func mimeo_attachment_copy(
    _ attachment: mimeo_handle, _ path: UnsafePointer<CChar>!, _ pathSize: Int,
    _ error: UnsafeMutablePointer<mimeo_error>!
) -> mimeo_status {
    call(error) {
        let path = try Incoming.path(path, pathSize)
        try HandleTable.shared.object(attachment, as: HeldAttachment.self).attachment.copy(toPath: path)
    }
}
