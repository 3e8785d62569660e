import DittoSwift
import Foundation

/// "Using a Write Transaction" and "Versioning". The texts are those of the guide where a compiler takes
/// them: its `case 1 {`, `V1Car(car)` and `return` without a value are written out.
@available(*, deprecated, message: "samples of the 4.x API")
enum ModellingGuide {
    static func write(_ ditto: Ditto) {
        ditto.store.write { transaction in
            let cars = transaction.scoped(toCollectionNamed: "cars")
            let people = transaction.scoped(toCollectionNamed: "people")
            let docId = "abc123"
            do {
                try people.upsert(["_id": docId, "name": "Susan"] as [String: Any?])
                try cars.upsert(["make": "Ford", "color": "red", "owner": docId] as [String: Any?])
                try cars.upsert(["make": "Toyota", "color": "black", "owner": docId] as [String: Any?])
            } catch (let err) {
                print(err.localizedDescription)
            }
            people.findByID(docId).evict()
        }
    }

    private struct V1Car {
        let _id: String
        let make: String
        let model: String
        let year: String
        var version: Int

        init(doc: DittoDocument) {
            self._id = doc["_id"].stringValue
            self.make = doc["make"].stringValue
            self.model = doc["model"].stringValue
            self.year = doc["year"].stringValue
            self.version = doc["version"].intValue
        }
    }

    private struct V2Car {
        let _id: String
        let make: String
        let model: String
        let year: Int
        let hometown: String
        var version: Int

        init(_id: String, make: String, model: String, year: Int, hometown: String, version: Int) {
            self._id = _id
            self.make = make
            self.model = model
            self.year = year
            self.hometown = hometown
            self.version = version
        }

        init(doc: DittoDocument) {
            self._id = doc["_id"].stringValue
            self.make = doc["make"].stringValue
            self.model = doc["model"].stringValue
            self.year = doc["year"].intValue
            self.hometown = doc["hometown"].stringValue
            self.version = doc["version"].intValue
        }
    }

    private static func decode(car: DittoDocument) -> V2Car? {
        switch (car["version"].intValue) {
        case 1:
            let oldCar = V1Car(doc: car)
            let migratedCar = V2Car(
                _id: oldCar._id, make: oldCar.make, model: oldCar.model, year: Int(oldCar.year) ?? 0,
                hometown: "N/A", version: 2)
            return migratedCar
        case 2:
            return V2Car(doc: car)
        default:
            // create default car item, or ignore document altogether
            return nil
        }
    }

    static func versions(_ ditto: Ditto) {
        let cars = ditto.store.collection("cars_v")
        do {
            try cars.upsert(["_id": "a", "make": "Ford", "year": "1999", "version": 1] as [String: Any?])
            try cars.upsert(
                ["_id": "b", "make": "Jeep", "year": 2020, "hometown": "Rome", "version": 2] as [String: Any?]
            )
            try cars.upsert(["_id": "c", "version": 3])
        } catch {
            print(error.localizedDescription)
        }
        let decoded = cars.findAll().exec().compactMap { decode(car: $0) }
        print("versions \(decoded.map { "\($0.year) \($0.hometown)" })")
    }

    /// "Supporting the latest version".
    static func latestVersion(_ ditto: Ditto) async {
        let query = "_schemaVersion > 1"
        let liveQuery = ditto.store.collection("notes").find(query).observeLocal { docs, event in
            guard !docs.isEmpty else { return }
            // Notify user to update to latest application version.
            ditto.stopSync()
        }
        _ = try? ditto.store.collection("notes").upsert(["_schemaVersion": 2])
        await Guide.waitFor("the end of sync") { !ditto.isSyncActive }
        print("sync \(ditto.isSyncActive ? "goes on" : "stopped")")
        liveQuery.stop()
    }
}
