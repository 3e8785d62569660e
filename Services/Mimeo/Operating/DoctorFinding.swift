import CRDT

/// Every code of `mimeo doctor`; the raw value is stable and published in Docs/doctor.md.
enum DoctorCode: String, CaseIterable, Sendable {
    /// A flag, a variable or the file of `--config` is wrong.
    case configuration = "DOC-0101"
    /// The data folder is missing: the server makes a new one.
    case dataMissing = "DOC-0201"
    /// The data folder or a file in it is somebody else's, or others can read it.
    case dataRights = "DOC-0202"
    /// The disk is nearly full.
    case diskNearlyFull = "DOC-0203"
    /// The disk is four fifths full.
    case diskFilling = "DOC-0204"
    /// A sync to the disk takes a quarter of a second, or a second.
    case diskSlow = "DOC-0205"
    /// The disk is mounted read-only.
    case diskReadOnly = "DOC-0206"
    /// The temporary folder takes no copy of the system database.
    case temporaryFolder = "DOC-0207"
    /// The sealing key is missing, or others can read it.
    case keyUnusable = "DOC-0301"
    /// Two sealing keys are there: a change was not ended.
    case keyChanging = "DOC-0302"
    /// The certificate and its key cannot be used.
    case certificateUnusable = "DOC-0303"
    /// The certificate ends within seven days, or has ended.
    case certificateEnding = "DOC-0304"
    /// The certificate ends within thirty days.
    case certificateRenewal = "DOC-0305"
    /// The clock is wrong by years, or behind the log's newest operations.
    case clock = "DOC-0401"
    /// The limit of open files is low.
    case openFiles = "DOC-0402"
    /// The log cannot be opened or read.
    case logUnusable = "DOC-0501"
    /// A database's log has many operations behind its snapshot.
    case logUnbounded = "DOC-0502"
    /// This version would change the log's format.
    case logOlder = "DOC-0503"
    /// PostgreSQL cannot be reached, or is too old.
    case postgresUnusable = "DOC-0601"
    /// A setting of PostgreSQL loses acknowledged writes.
    case postgresDurability = "DOC-0602"
    /// The server that answers is a standby.
    case postgresStandby = "DOC-0603"
    /// A setting of PostgreSQL is unwise: page checksums, autovacuum, connections.
    case postgresSetting = "DOC-0604"
    /// An inactive replication slot holds write-ahead log back.
    case postgresSlot = "DOC-0605"
    /// Transaction ids are running out.
    case postgresWraparound = "DOC-0606"
    /// The clocks of PostgreSQL and of this machine differ.
    case postgresClock = "DOC-0607"
    /// There is no backup, or none that can be read.
    case backupMissing = "DOC-0701"
    /// The newest backup is older than 26 hours.
    case backupOld = "DOC-0702"
    /// The bucket of attachments does not answer, or refuses the credentials, or others can read their file.
    case bucketUnusable = "DOC-0801"
    /// The servers keep attachments in a bucket that these settings do not name.
    case bucketUnnamed = "DOC-0802"
}

/// Something that the doctor has to say.
struct DoctorFinding: Sendable, Equatable {
    /// How bad it is.
    enum Severity: String, Comparable, Sendable {
        case note, warning, error

        static func < (one: Severity, other: Severity) -> Bool { one.rank < other.rank }
        private var rank: Int { [.note: 0, .warning: 1, .error: 2][self] ?? 0 }
    }

    let code: DoctorCode
    let severity: Severity
    /// The thing that was looked at.
    let subject: String
    let message: String
    /// A sentence that says what to do.
    let remedy: String

    init(
        _ code: DoctorCode, _ severity: Severity, _ subject: String, _ message: String, _ remedy: String
    ) {
        (self.code, self.severity, self.subject) = (code, severity, subject)
        (self.message, self.remedy) = (message, remedy)
    }

    var text: String { "\(severity.rawValue) \(code.rawValue) \(subject): \(message). Remedy: \(remedy)." }

    var value: Value {
        [
            "code": .string(code.rawValue), "severity": .string(severity.rawValue),
            "subject": .string(subject), "message": .string(message), "remedy": .string(remedy),
        ]
    }
}
