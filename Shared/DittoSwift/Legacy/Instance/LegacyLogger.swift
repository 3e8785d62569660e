import Foundation

extension DittoLogger {
    /// Changes nothing: levels are shown as text.
    @available(*, deprecated, message: "Leave it out: levels are shown as text")
    public static var emojiLogLevelHeadingsEnabled: Bool {
        get { LogSettings.shared.hasHeadings }
        set { LogSettings.shared.hasHeadings = newValue }
    }

    /// Also appends what is shown to a file; nil ends that.
    @available(*, deprecated, message: "Use DittoLogger.export(to:) or setCustomLogCallback(_:)")
    public static func setLogFile(_ logFile: String?) {
        LogSettings.shared.extra = logFile.flatMap { ExtraLogFile(path: $0) }
    }

    /// Also appends what is shown to a file; nil ends that.
    @available(*, deprecated, message: "Use DittoLogger.export(to:) or setCustomLogCallback(_:)")
    public static func setLogFileURL(_ logFile: URL?) { setLogFile(logFile?.path) }
}
