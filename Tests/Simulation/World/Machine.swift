import FaultDisk

/// The disk of a machine. In a world without power cuts it is an ordinary folder, and nothing can be lost.
struct Machine {
    let disk: FaultDisk?

    var isOff: Bool { disk?.isOff ?? false }

    /// Loses what was not synced and gives the power back.
    func restart() { disk?.restart() }

    /// The power goes during the n-th call from now that changes the disk, at once for 0.
    func cutPower(duringCall number: Int = 0) { disk?.cutPower(duringCall: number) }

    /// Takes back a cut that has not come.
    func sparePower() { disk?.sparePower() }
}
