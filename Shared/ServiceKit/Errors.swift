/// Every code this module raises.
public enum ServiceErrorCode: String, Sendable, CaseIterable {
    /// `--listen` is not a `HOST:PORT`.
    case listenInvalid = "SRV-0101"
    /// A log or projection URL is neither `sqlite:PATH` nor `postgres://…`.
    case storageURLInvalid = "SRV-0102"
    /// The configuration file cannot be read, is not a JSON object, or has an unknown name or a wrong value.
    case configurationInvalid = "SRV-0104"
    /// `--issuer` is not an `http(s)://HOST[:PORT]`, or is missing where it is needed.
    case issuerInvalid = "SRV-0105"
    /// The certificate or its key cannot be read, the two do not belong together, or only one is named.
    case certificateUnusable = "SRV-0106"
    /// `--cors-origin` is neither `*` nor `http(s)://HOST[:PORT]`.
    case corsOriginInvalid = "SRV-0107"
    /// A `MIMEO_…` variable of the environment is misspelt or empty, or is a setting that only flags and file
    /// take; or a flag of the command line is empty.
    case environmentInvalid = "SRV-0108"
    /// The listener's certificate has ended, and clients refuse it. Only logged: the listener serves on.
    case certificateEnded = "SRV-0109"
    /// Another process is listening on the address.
    case addressInUse = "SRV-0201"
    /// The process cannot listen on the address: the host is unknown, or not allowed.
    case addressUnavailable = "SRV-0202"
    /// The data folder cannot be created or written, or others can read it and that cannot be changed.
    case dataFolderUnusable = "SRV-0203"
    /// The log is empty or missing beside folders that followed a log before: a wrong `--log`, or a disk that
    /// is not there. `--new-log` begins a new one.
    case logMissing = "SRV-0204"
    /// Only told by `/health`: each of the last commits of the log took a second or more. Nothing is refused;
    /// look at its disk, or at PostgreSQL's synchronous standby.
    case storageSlow = "SRV-0205"
    /// Only told by `/health`: temporary files cannot be made in the data folder, so large sorts fail; give
    /// the folder `temporary` in it to the server's user.
    case temporaryFolderUnusable = "SRV-0206"
    /// 401: the admin credential is missing or wrong.
    case adminRefused = "SRV-0401"
    /// 403: `--admin-loopback` is set, and the request has not come over loopback alone.
    case adminElsewhere = "SRV-0402"
    /// 403: the role of the admin credential does not suffice for the route.
    case roleTooLow = "SRV-0403"
    /// 404: nothing is served at the path.
    case notFound = "SRV-0404"
    /// 405: the path does not accept the method; `Allow` lists the ones it accepts.
    case methodNotAllowed = "SRV-0405"
    /// 406: the route answers in none of the media types that `Accept` lists.
    case notAcceptable = "SRV-0406"
    /// 408: the head or the body of the request did not arrive in time.
    case requestTimeout = "SRV-0408"
    /// 400: the body has more members and elements than one request may.
    case tooManyValues = "SRV-0412"
    /// 413: the body is larger than the route allows, as sent or unpacked; or takes, with its values, more
    /// memory than a credential may hold at this server.
    case bodyTooLarge = "SRV-0413"
    /// 414: the first line of the request is too long.
    case lineTooLong = "SRV-0414"
    /// 415: the body has a `Content-Encoding` other than gzip.
    case encodingUnknown = "SRV-0415"
    /// 429: as many statements of the credential are running as may.
    case tooManyRunning = "SRV-0429"
    /// 429: the requests and answers of the credential hold as much memory, or room on disk, as they may.
    case tooMuchHeld = "SRV-0430"
    /// 431: the header fields of the request are too long or too many.
    case headTooLarge = "SRV-0431"
    /// 429: a database, or one user of it, has reached one of its limits (`LimitReached`).
    case limitReached = "SRV-0432"
    /// 400: the request is malformed, as HTTP or for its route.
    case badRequest = "SRV-0400"
    /// 426: the path speaks only WebSocket, and the upgrade must be the first request of its connection.
    case upgradeRequired = "SRV-0426"
    /// 500: a defect or a failing disk; the log has the reason.
    case internalFailure = "SRV-0500"
    /// 500: the service's own copy of the documents was damaged repeatedly. It is rebuilt from the log, but
    /// seldom: check the disk.
    case copyDamaged = "SRV-0501"
    /// 502: sent by nginx in front (`compose/nginx.conf`): no process of the service can be reached.
    case serviceUnreachable = "SRV-0502"
    /// 503: the requests and answers of all clients hold as much memory, or room on disk, as they may.
    case budgetSpent = "SRV-0503"
    /// 504: sent by nginx in front: the service did not answer in time.
    case serviceSilent = "SRV-0504"
    /// 503: the keys of the issuer of access tokens cannot be fetched.
    case issuerUnreachable = "SRV-0601"
    /// 503: the instance has had no contact with the log for longer than the grace, so it refuses every
    /// credential: it may have been revoked. Ask another instance, or wait.
    case contactLost = "SRV-0602"
    /// 503: the log was put back to an earlier state, which takes back revocations or keys. No token is
    /// accepted until an operator accepts that: `POST /admin/auth/restore`, or `--accept-restore`.
    case restoreNotAccepted = "SRV-0603"
    /// Not ready: the databases of this process cannot be folded from the log.
    case notFolded = "SRV-0701"
    /// Not ready: what is folded is older than the log by more than half a minute.
    case foldBehind = "SRV-0702"
    /// Not ready: the projection cannot be opened or used.
    case projectionUnusable = "SRV-0703"
    /// Not ready: the process is about to stop.
    case stopping = "SRV-0704"
    /// Not ready: the log has no database, so it is probably not the one of the auth-gateway.
    case noDatabase = "SRV-0705"
    /// Not ready: a file with a key or credential is missing or cannot be used.
    case keyFileUnusable = "SRV-0706"
}

/// The error of this module. It holds no secret; `message` may be sent to the client that caused it.
public struct ServiceError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The stable code.
    public let code: ServiceErrorCode
    /// For a person.
    public let message: String

    /// An error of the given parts.
    public init(_ code: ServiceErrorCode, _ message: String) {
        self.code = code
        self.message = message
    }

    /// Code and message.
    public var description: String { "\(code.rawValue): \(message)" }

    /// Exit code of a process that ends with this error: 2 for wrong flags, 1 for everything else.
    public var exitCode: Int32 {
        switch code {
        case .listenInvalid, .storageURLInvalid, .configurationInvalid, .issuerInvalid,
            .certificateUnusable, .corsOriginInvalid, .environmentInvalid:
            2
        default: 1
        }
    }
}
