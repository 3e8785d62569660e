import Replicator

/// One replicator process: a hub with its materialization, which may lag and may be deleted.
///
/// `@unchecked Sendable`: a simulation has one thread.
final class Instance: @unchecked Sendable {
    let number: Int
    let folder: String
    let disk: Machine
    /// Nil while it is down or starting.
    var hub: DatabaseHub?
    var isStarting = false
    /// The last turn of its housekeeping. While one writes a snapshot, it has the store's files open.
    var housekeeping: Task<Void, Never>?
    /// Tells what belongs to an earlier process from this one's.
    var lifetime = 0

    init(number: Int, folder: String, disk: Machine) {
        self.number = number
        self.folder = folder
        self.disk = disk
    }
}
