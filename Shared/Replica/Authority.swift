/// The counterpart whose word an update, a list or a question is.
///
/// The server has the log and its frontier. So it says the last word on what is lost, void or forbidden, and
/// is asked about everything that is unclear. Another small peer has neither: its states and deltas are
/// merged, and a notice of void stamps counts where the server has said nothing.
enum Authority: Sendable {
    case server
    case link
}
