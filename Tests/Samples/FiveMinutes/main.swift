import DittoSwift

let environment = ProcessInfo.processInfo.environment
let ditto = try await Ditto.open(
    config: DittoConfig(
        databaseID: environment["DATABASE"] ?? "",
        connect: .server(url: environment["SERVER"] ?? "http://127.0.0.1:4000")))

struct Car: Codable {
    var make: String
    var color: String
    var bought = Date()
}

try await ditto.store.execute(
    query: "INSERT INTO cars DOCUMENTS (:car)",
    arguments: ["car": Car(make: "Hyundai", color: "blue")])

let result = try await ditto.store.execute(query: "SELECT * FROM cars WHERE color = 'blue'")
for item in result.items {
    let car = try item.decode(as: Car.self)
    print("a \(car.color) \(car.make), bought \(car.bought)")
}

try ditto.store.registerObserver(query: "SELECT make, color, seats FROM cars") { result in
    let cars = result.items.map { $0.jsonString() }
    print("\(cars.count) cars: \(cars.joined(separator: ", "))")
}

ditto.auth?.expirationHandler = { ditto, secondsRemaining in
    do {
        try await ditto.auth?.login(token: environment["TOKEN"] ?? "", provider: .development)
    } catch {
        print("no login: \(error)")
    }
}
try ditto.sync.registerSubscription(query: "SELECT * FROM cars")
try ditto.sync.start()

for statement in CommandLine.arguments.dropFirst() {
    try await ditto.store.execute(query: statement)
}
while true {
    try await Task.sleep(for: .seconds(60))
}
