import TestSupport
import Testing

@testable import Transport

@Suite("The choice among peers that were found")
struct LinkChooserTests {
    private static let own = PeerMark(100)

    /// A chooser, its time, and the addresses that it chose.
    private struct Side {
        var chooser = LinkChooser(own: LinkChooserTests.own, boot: 1)
        var settings = LinkChooser.Settings()
        var now = Duration.zero
        var chosen: Set<MeshAddress> = []
        var warnings = 0
        private var random = SplitMix64(seed: 5)

        init(outgoing: Int = 4) {
            settings.tag = 7
            settings.hears = [.beacon]
            settings.outgoing = outgoing
            receive(.set(settings))
        }

        mutating func receive(_ event: LinkChooser.Event) {
            for action in chooser.receive(event, at: now, random: random.next()) {
                switch action {
                case .choose(let addresses): chosen = addresses
                case .warn: warnings += 1
                }
            }
        }

        mutating func hear(
            _ peer: UInt64, at address: MeshAddress, tag: UInt64 = 7, boot: UInt64 = 1, free: Int = 9
        ) {
            let hint = LinkChooser.Hint(tag: tag, peer: PeerMark(peer), boot: boot, free: free)
            receive(.heard(hint, address))
        }

        /// The chosen addresses have these states, and lead to these peers.
        mutating func report(
            _ dials: [MeshAddress: LinkChooser.Links.State], to peers: [MeshAddress: UInt64] = [:],
            linked: [UInt64] = [], reason: String? = nil
        ) {
            var links = LinkChooser.Links()
            links.linked = Set(linked.map(PeerMark.init)).union(peers.values.map(PeerMark.init))
            links.dials = dials.reduce(into: [:]) { result, dial in
                result[dial.key] = LinkChooser.Links.Dial(
                    peer: peers[dial.key].map(PeerMark.init), state: dial.value, reason: reason)
            }
            receive(.links(links))
        }

        mutating func wait(_ time: Duration) {
            now += time
            receive(.elapsed)
        }
    }

    @Test("the two that follow in the circle of marks come first, then others up to the bound")
    func order() {
        var side = Side(outgoing: 2)
        side.settings.outgoing = 0
        side.receive(.set(side.settings))
        for peer in [90, 5, 120, 101, 200] as [UInt64] { side.hear(peer, at: peerAddress(Int(peer))) }
        #expect(side.chosen.isEmpty)
        side.settings.outgoing = 2
        side.receive(.set(side.settings))
        #expect(side.chosen == [peerAddress(101), peerAddress(120)])
        side.settings.outgoing = 4
        side.receive(.set(side.settings))
        #expect(side.chosen.count == 4)
        side.settings.outgoing = 1
        side.receive(.set(side.settings))
        #expect(side.chosen == [peerAddress(101)])
    }

    @Test("beacons of another database or group, own ones, and of a peer that takes no more are not dialed")
    func ignored() {
        var side = Side()
        side.hear(1, at: peerAddress(1), tag: 8)
        side.hear(Self.own.value, at: peerAddress(2))
        #expect(!side.chooser.hasHeard)
        side.hear(3, at: peerAddress(3), free: 0)
        #expect(side.chosen.isEmpty && side.chooser.hasHeard)
        side.hear(3, at: peerAddress(3), free: 1)
        #expect(side.chosen == [peerAddress(3)])
    }

    @Test("a peer with this one's mark and another start is a copy: it is dialed, and the reason is kept")
    func copy() {
        var side = Side()
        side.hear(Self.own.value, at: peerAddress(1), boot: 2)
        #expect(side.chosen == [peerAddress(1)] && side.chooser.hasHeard)
        side.report([peerAddress(1): .failed(isFinal: true)], reason: "SYNC-0606: a copy")
        #expect(side.chosen.isEmpty)
        side.report([:])
        #expect(side.chooser.spots[peerAddress(1)]?.reason == "SYNC-0606: a copy")
        // It goes with its beacons.
        side.wait(side.settings.beaconLife)
        #expect(side.chooser.spots.isEmpty)
    }

    @Test("the reason why an address failed is over once a link is open, and is none for a double link")
    func reasons() {
        var side = Side()
        for number in 1...3 { side.hear(UInt64(number), at: peerAddress(number)) }
        let addresses = (1...3).map { peerAddress($0) }
        side.report(
            [addresses[0]: .denied, addresses[1]: .double, addresses[2]: .failed(isFinal: false)],
            reason: "no")
        #expect(addresses.map { side.chooser.spots[$0]?.reason } == ["no", nil, "no"])
        side.wait(.seconds(6))
        side.report([addresses[0]: .open], to: [addresses[0]: 1])
        #expect(side.chooser.spots[addresses[0]]?.reason == nil)
        #expect(side.chooser.spots[addresses[2]]?.reason == "no")
    }

    @Test("who is linked already, by whichever side, is not dialed at another address")
    func linked() {
        var side = Side()
        side.report([:], linked: [1])
        side.hear(1, at: peerAddress(1))
        #expect(side.chosen.isEmpty)
        side.hear(2, at: peerAddress(2))
        side.hear(2, at: peerAddress(3))
        #expect(side.chosen == [peerAddress(2)])
        // The other side dialed too: this dial is not cancelled for it.
        side.report([peerAddress(2): .trying], linked: [1, 2])
        #expect(side.chosen == [peerAddress(2)])
        side.report([peerAddress(2): .double], linked: [1, 2])
        #expect(side.chosen.isEmpty)
    }

    @Test("an address that fails gives its place to others, and is tried again later each time, up to 60 s")
    func pauses() {
        var side = Side(outgoing: 1)
        side.hear(1, at: peerAddress(1))
        var pauses: [Duration] = []
        for _ in 0..<6 {
            #expect(side.chosen == [peerAddress(1)])
            side.report([peerAddress(1): .failed(isFinal: false)])
            #expect(side.chosen.isEmpty)
            side.report([:])
            let failedAt = side.now
            while side.chosen.isEmpty {
                side.wait(.seconds(1))
                side.hear(1, at: peerAddress(1))
            }
            pauses.append(side.now - failedAt)
        }
        for (pause, most) in zip(pauses, [5, 10, 20, 40, 60, 60]) {
            #expect(pause <= .seconds(most + 1) && pause >= .seconds(most * 4 / 5))
        }
    }

    @Test("a peer that was started again at an address is dialed within a second, whatever failed before")
    func restarted() {
        var side = Side(outgoing: 1)
        side.hear(1, at: peerAddress(1))
        for _ in 0..<2 {
            side.report([peerAddress(1): .failed(isFinal: false)])
            side.report([:])
        }
        side.hear(1, at: peerAddress(1), boot: 2)
        side.wait(.seconds(1))
        #expect(side.chosen == [peerAddress(1)])
    }

    @Test("an address of another authority is left alone for half an hour after three tries")
    func blocked() {
        var side = Side(outgoing: 1)
        side.settings.candidates = [peerAddress(1)]
        side.receive(.set(side.settings))
        for _ in 0..<3 {
            while side.chosen.isEmpty { side.wait(.seconds(1)) }
            side.report([peerAddress(1): .failed(isFinal: true)])
            side.report([:])
        }
        side.wait(.seconds(1_400))
        #expect(side.chosen.isEmpty)
        side.wait(.seconds(500))
        #expect(side.chosen == [peerAddress(1)])
    }

    @Test("a forged beacon that leads elsewhere does not keep the peer out that it names")
    func forged() {
        var side = Side(outgoing: 1)
        side.hear(1, at: peerAddress(66))
        #expect(side.chosen == [peerAddress(66)])
        side.hear(1, at: peerAddress(1))
        // Somebody else answers there.
        side.report([peerAddress(66): .open], to: [peerAddress(66): 9])
        #expect(side.chosen == [peerAddress(1)])
        for number in 70..<200 { side.hear(1, at: peerAddress(number)) }
        #expect(side.chooser.spots.count <= Limits.spotsOfPeer)
        #expect(side.chosen == [peerAddress(1)])
    }

    @Test("ten thousand beacons of unknown peers in a second cost little memory and one line in the log")
    func flood() {
        var side = Side()
        for number in 0..<10_000 { side.hear(UInt64(1_000 + number), at: peerAddress(number)) }
        #expect(side.chooser.spots.count == Limits.newSpots)
        #expect(side.warnings == 1)
        for _ in 0..<10 {
            side.wait(.seconds(1))
            for number in 0..<200 {
                side.hear(
                    UInt64(side.now.components.seconds) * 1_000 + UInt64(number),
                    at: peerAddress(20_000 + number))
            }
        }
        #expect(side.chooser.spots.count <= Limits.spots)
        #expect(side.warnings == 1)
        #expect(side.chosen.count == 4)
    }

    @Test("hints cannot make this peer dial more than a few new addresses a second")
    func paced() {
        var side = Side()
        var dialed = 0
        for number in 0..<60 {
            side.hear(UInt64(1_000 + number), at: peerAddress(number))
            dialed += side.chosen.count
            side.report(side.chosen.reduce(into: [:]) { $0[$1] = .failed(isFinal: false) })
        }
        #expect(dialed == Limits.newTargets)
        side.wait(.seconds(1))
        #expect(!side.chosen.isEmpty)
    }

    @Test(
        "a beacon counts for five intervals; an open link stays without one, and a lost one is not dialed on")
    func expiry() {
        var side = Side()
        side.hear(1, at: peerAddress(1))
        side.hear(2, at: peerAddress(2))
        side.report([peerAddress(1): .open], to: [peerAddress(1): 1])
        side.wait(.seconds(14))
        #expect(side.chosen.count == 2)
        side.wait(.seconds(2))
        #expect(side.chosen == [peerAddress(1)])
        side.report([peerAddress(1): .trying])
        #expect(side.chosen.isEmpty && side.chooser.spots.isEmpty)
    }

    @Test(
        "what is turned off is forgotten and its links end; addresses of the application are chosen from too")
    func turnedOff() {
        var side = Side()
        side.settings.candidates = [peerAddress(50)]
        side.receive(.set(side.settings))
        side.hear(1, at: peerAddress(1))
        side.report([peerAddress(1): .open], to: [peerAddress(1): 1])
        #expect(side.chosen == [peerAddress(1), peerAddress(50)])
        side.settings.hears = []
        side.receive(.set(side.settings))
        #expect(side.chosen == [peerAddress(50)])
        side.settings.candidates = []
        side.receive(.set(side.settings))
        #expect(side.chosen.isEmpty && side.chooser.wakesAt(after: side.now) == nil)
    }

    @Test("another sync group forgets the hints of the former one")
    func otherGroup() {
        var side = Side()
        side.hear(1, at: peerAddress(1))
        side.settings.tag = 8
        side.receive(.set(side.settings))
        #expect(side.chosen.isEmpty)
        side.hear(1, at: peerAddress(1))
        #expect(side.chosen.isEmpty)
    }

    @Test("a denied peer is asked again after seconds, then later each time, up to five minutes")
    func denied() {
        var side = Side(outgoing: 1)
        side.settings.candidates = [peerAddress(1)]
        side.receive(.set(side.settings))
        var last = Duration.zero
        for _ in 0..<8 {
            side.report([peerAddress(1): .denied])
            side.report([:])
            let deniedAt = side.now
            while side.chosen.isEmpty { side.wait(.seconds(1)) }
            last = side.now - deniedAt
        }
        #expect(last <= .seconds(301) && last >= .seconds(240))
    }

    @Test("of ten thousand hints a second, unknown or of a changing peer, a hundred or so are looked at")
    func cheapFlood() {
        var side = Side()
        side.hear(1, at: peerAddress(1))
        for number in 0..<5_000 as Range<UInt64> {
            side.hear(1_000 + number, at: peerAddress(Int(2 + number)))
            side.hear(1, at: peerAddress(1), boot: number)
        }
        #expect(side.chooser.considered <= UInt64(Limits.newSpots + Limits.changedSpots + 2))
        #expect(side.warnings == 1)
        // The peer that is there still counts, and its restart is seen in the next second.
        side.wait(.seconds(1))
        side.hear(1, at: peerAddress(1), boot: 77)
        #expect(side.chooser.spots[peerAddress(1)]?.boot == 77)
    }

    @Test("a hint of DNS-SD names the same place as a beacon; each is forgotten with its own way")
    func ways() {
        var side = Side()
        side.settings.hears = [.beacon, .service]
        side.receive(.set(side.settings))
        let service = LinkChooser.Hint(tag: 7, peer: PeerMark(1), boot: 1, way: .service)
        side.hear(1, at: peerAddress(1), free: 0)
        side.receive(.heard(service, peerAddress(1)))
        // A service does not say how many links its peer takes.
        #expect(side.chooser.spots[peerAddress(1)]?.free == 0 && side.chosen.isEmpty)
        side.hear(2, at: peerAddress(2))
        side.settings.hears = [.service]
        side.receive(.set(side.settings))
        #expect(side.chooser.spots.keys.sorted() == [peerAddress(1)])
        side.hear(3, at: peerAddress(3))
        #expect(side.chooser.spots.count == 1)
        side.settings.hears = [.beacon]
        side.receive(.set(side.settings))
        #expect(side.chooser.spots.isEmpty)
        // Without its beacons a peer is dialed at what its service says.
        side.settings.hears = [.service]
        side.receive(.set(side.settings))
        side.receive(.heard(service, peerAddress(1)))
        #expect(side.chosen == [peerAddress(1)])
    }
}

private func peerAddress(_ number: Int) -> MeshAddress {
    guard let address = MeshAddress(tcp: "10.0.0.1:\(number + 1)") else {
        preconditionFailure("a host and a port")
    }
    return address
}
