import DittoSwift
import Foundation
import Testing

@Suite("The 4.x API, signature by signature")
struct SurfaceTests {
    @Test("it does what its names say")
    func surface() async throws {
        try await withLegacyStore { ditto in
            let surface = LegacySurface(ditto)
            #expect(try surface.instance() == ["13", "2"])
            #expect(try surface.collections() == ["", "a", "cars", "3.5"])
            #expect(try surface.documents() == ["a", "a", "5", "{"])
            #expect(surface.registrations() == ["+t cars", "+u cars", "~t", "-t", "/u"])
            let file = ditto.persistenceDirectory.appendingPathComponent("file")
            try Data([1, 2, 3]).write(to: file)
            #expect(try surface.attachments(path: file.path) == ["same", "3", "x"])
        }
    }
}
