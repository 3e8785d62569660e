/// The service's numbers, with their reasons.
public enum Limits {
    /// A login is a few hundred bytes, a provider's token some kilobytes.
    public static let loginBodyBytes = 64 * 1024
    /// How long a session of the development provider lasts: a day, so that a developer logs in about once
    /// per working day and a token that leaks into a terminal's history is soon worthless.
    public static let developmentSession: Duration = .seconds(24 * 60 * 60)
    /// 256 bits, as much as the hash behind every comparison.
    public static let developmentTokenBytes = 32
}
