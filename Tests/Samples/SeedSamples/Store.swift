// The samples of the guides to the store, to observers and to sync. Where the guide left out `try`, it is
// here.
import DittoSwift

enum StoreSamples {
    /// Creating, reading, updating, deleting, as the concepts describe them.
    static func crud(_ ditto: Ditto) async throws -> [[String: Any?]] {
        let newCar: [String: Any?] = [
            "_id": "123", "make": "Hyundai", "year": 2018, "color": "black",
            "features": ["trim": "Standard", "speakers": 5],
        ]
        try await ditto.store.execute(
            query: "INSERT INTO cars DOCUMENTS (:newCar)",
            arguments: ["newCar": newCar])

        try await ditto.store.execute(
            query: "UPDATE cars SET color = 'blue', mileage = 3001 WHERE _id = '123'")

        let result = try await ditto.store.execute(
            query: "SELECT * FROM COLLECTION cars (features MAP) WHERE features.trim = 'Standard'")
        let values = result.items.map { $0.value }

        try await ditto.store.execute(query: "EVICT FROM cars WHERE _id = '123'")
        return values
    }

    /// "Setting Up Store Observers" and "Store Observer with Query Arguments".
    static func observe(_ ditto: Ditto, _ outcomes: Outcomes) throws -> DittoStoreObserver {
        let observer = try ditto.store.registerObserver(
            query: "SELECT * FROM cars WHERE color = :color",
            arguments: ["color": "blue"]
        ) { result in
            // handle change
            outcomes.note("\(result.items.count) blue")
        }
        return observer
    }

    /// "Diffing Results".
    static func diff(_ ditto: Ditto, _ outcomes: Outcomes) throws -> DittoStoreObserver {
        let differ = DittoDiffer()
        var previousDocumentIds: [String] = []  // Store only extracted IDs

        let observer = try ditto.store.registerObserver(
            query: "SELECT * FROM cars"
        ) { queryResult in
            let diff = differ.diff(queryResult.items)

            // Extract current document IDs and dematerialize items
            let currentDocumentIds = queryResult.items.map { item in
                let id = item.value["_id"] as? String ?? "unknown"
                item.dematerialize()  // Release memory after extracting data
                return id
            }

            // Handle deletions using stored IDs from previous emission
            for index in diff.deletions {
                let deletedId = previousDocumentIds[index]
                print("Deleted car with ID: \(deletedId)")
                outcomes.note("deleted \(deletedId)")
            }

            // Handle insertions using current IDs
            for index in diff.insertions {
                let insertedId = currentDocumentIds[index]
                print("Inserted car with ID: \(insertedId)")
                outcomes.note("inserted \(insertedId)")
            }

            // Handle updates using current IDs
            for index in diff.updates {
                let updatedId = currentDocumentIds[index]
                print("Updated car with ID: \(updatedId)")
                outcomes.note("updated \(updatedId)")
            }

            // Store only the document IDs for next callback - no live references!
            previousDocumentIds = currentDocumentIds
        }
        return observer
    }

    /// "ditto.sync.registerSubscription" together with an observer.
    static func subscribe(_ ditto: Ditto) throws -> DittoSyncSubscription {
        let subscription = try ditto.sync.registerSubscription(
            query: "SELECT * FROM cars WHERE color = :color",
            arguments: ["color": "blue"])
        return subscription
    }

    /// "Example: Apple UIKit", on stand-ins for Apple's types. (`moves` is the diff's; the guide asks the
    /// collection view for it.)
    static func updateViews(
        _ ditto: Ditto, _ tableView: TableView, _ collectionView: CollectionView
    ) throws -> DittoStoreObserver {
        let differ = DittoDiffer()
        return try ditto.store.registerObserver(query: "SELECT * FROM cars ORDER BY place") { queryResult in

            // ... Update data source content based on query result ...

            let diff = differ.diff(queryResult.items)
            tableView.performBatchUpdates(
                {
                    let insertions = diff.insertions.map { IndexPath(item: $0, section: 0) }
                    let deletions = diff.deletions.map { IndexPath(item: $0, section: 0) }
                    let reloads = diff.updates.map { IndexPath(item: $0, section: 0) }

                    collectionView.insertItems(at: insertions)
                    collectionView.deleteItems(at: deletions)
                    collectionView.reloadItems(at: reloads)

                    diff.moves.forEach { move in
                        let (from, to) = move
                        collectionView.move(at: from, to: to)
                    }
                }, completion: nil)
        }
    }
}

/// In place of UIKit's.
final class TableView: Sendable {
    func performBatchUpdates(_ updates: () -> Void, completion: (() -> Void)?) {
        updates()
        completion?()
    }
}

/// In place of UIKit's: notes what it is told.
final class CollectionView: Sendable {
    let outcomes = Outcomes()

    func insertItems(at paths: [IndexPath]) { note("+", paths) }
    func deleteItems(at paths: [IndexPath]) { note("-", paths) }
    func reloadItems(at paths: [IndexPath]) { note("~", paths) }
    func move(at from: Int, to: Int) { outcomes.note("\(from)>\(to)") }

    private func note(_ sign: String, _ paths: [IndexPath]) {
        for path in paths { outcomes.note("\(sign)\(path[1])") }
    }
}

extension IndexPath {
    /// As UIKit's.
    init(item: Int, section: Int) { self = IndexPath(indexes: [section, item]) }
}
