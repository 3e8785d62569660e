/* mimeo.h: a Mimeo peer for C, and for every language that can call C.
 *
 * A peer is a database in a directory of this device. It is read and written with DQL, observed, and synced
 * with a server and with other peers. Link with -lmimeo; the library needs nothing but the C library. The static
 * library has everything within too: link with libmimeo.a -lstdc++ -lm.
 *
 *     mimeo_handle db;
 *     mimeo_result result;
 *     mimeo_error error;
 *     const char *config = "{\"database_id\": \"cars\", \"persistence_directory\": \"/var/lib/cars\","
 *                          " \"connect\": {\"type\": \"small_peers_only\"}}";
 *     if (mimeo_open(config, strlen(config), 0, &db, &error) != MIMEO_OK) {
 *         fprintf(stderr, "%s: %s\n", error.code, error.message);
 *         return 1;
 *     }
 *     const char *select = "SELECT * FROM cars";
 *     if (mimeo_execute(db, select, strlen(select), NULL, 0, MIMEO_JSON, &result, &error) == MIMEO_OK) {
 *         printf("%.*s\n", (int)result.size, (const char *)result.data);
 *         mimeo_release(result.handle, NULL);
 *     }
 *     mimeo_close(db, &error);
 *
 * MEMORY. Whatever you pass in is copied before the call returns. Whatever you get belongs to a handle, and is
 * valid until that handle is released: the bytes of a result until mimeo_release(result.handle), those of an
 * event until mimeo_release(event.handle), or until the callback returns. There is nothing to free() and no
 * string that ends with a zero, except in mimeo_error and mimeo_version().
 *
 * HANDLES are numbers that are never given twice. A call with one that was released before, or with one of
 * another kind, returns MIMEO_ERROR (NATIVE-0101, NATIVE-0102) and does nothing else. Closing a database ends
 * its transactions (rolled back), observers, subscriptions, watchers and fetches, and releases them; results,
 * cursors and attachments stay readable until they are released. Zero is never a handle.
 *
 * THREADS. Every function may be called on any thread at any time, and blocks it until the answer is there;
 * reads run on the calling thread. A transaction belongs to the thread that began it, unless it was begun with
 * MIMEO_ANY_THREAD: meanwhile a write, or another transaction that writes, by that thread on the same database
 * fails (SDK-0205) where it would wait for itself forever.
 *
 * CALLBACKS run one after another on one dispatcher thread of their database (a log has one of its own), which
 * blocks all signals. A callback may call everything, also mimeo_release and mimeo_close. It has to return: no
 * exception of C++ and no longjmp may leave it, and it does not end its thread. After mimeo_release of its
 * observer has returned on another thread, a callback does not run any more and is not running. Pass NULL for
 * the callback and poll with mimeo_event_fd and mimeo_next_event where a loop of your own waits for events.
 *
 * FORK. After fork() the child has a copy of the memory and none of the threads, so nothing works there: in a
 * child of a process that has called mimeo_open or mimeo_logs, every function returns MIMEO_ERROR with
 * NATIVE-0103. Open in the process that uses the database, after it was forked: that works if its parent has
 * only loaded the library. exec is fine. A fork while another thread is inside the library is safe for the
 * parent.
 *
 * SIGNALS. The library installs no handler. From the first connection on the process ignores SIGPIPE.
 *
 * TEXT is UTF-8 with a length in bytes. Text that is not UTF-8 is refused (NATIVE-0104), never repaired. A path
 * that is empty or has a zero in it is refused too.
 *
 * VALUES go in and come out as CBOR (RFC 8949) or as JSON (RFC 8259), see MIMEO_CBOR.
 *
 * A write that returned MIMEO_OK is on the disk: neither a crash of the process nor of the machine loses it.
 */
#ifndef MIMEO_H
#define MIMEO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. A library with the same number has every function and every field below; a
 * change that breaks a program increases it. Compare with mimeo_abi_version() at run time. */
#define MIMEO_ABI_VERSION 1

/* An open database, transaction, cursor, result, observer, subscription, watcher, event, fetch, attachment or
 * log. */
typedef uint64_t mimeo_handle;

/* What a function returns. */
typedef int32_t mimeo_status;
#define MIMEO_OK 0
/* The call failed; mimeo_error says why. */
#define MIMEO_ERROR 1
/* No event came within the time, or mimeo_wake was called; the server has not acknowledged yet. */
#define MIMEO_EMPTY 2

/* An error. `code` is stable (DQL-0105, STORE-0101, SDK-0301, NATIVE-0101) and is what programs compare;
 * `message` is for a person and is cut after 1,000 bytes. Both end with a zero. Every function takes NULL for
 * it. It is written only by a call that fails. */
typedef struct mimeo_error {
    char code[24];
    char message[1000];
} mimeo_error;

/* Formats of what comes out. What goes in is recognized: JSON text that begins with `{`, or a CBOR map. */
#define MIMEO_CBOR 0u
/* Binary data becomes base64 text, NaN and infinities become null. */
#define MIMEO_JSON 1u
/* JSON where nothing is lost, else CBOR: for languages whose JSON is faster. `format` says which it is. */
#define MIMEO_EITHER 2u

/* The result of a call. `data` holds `count` values, as one CBOR array or JSON array: the rows of a SELECT;
 * after a statement that wrote (`is_write`) the ids of the written documents. Calls that return one value say
 * so. `commit` is the number of the write's commit, 0 in a transaction: mimeo_end tells it. */
typedef struct mimeo_result {
    mimeo_handle handle;
    const uint8_t *data;
    size_t size;
    uint64_t count;
    uint64_t commit;
    uint32_t format;
    uint32_t is_write;
} mimeo_result;

/* Kinds of events. */
/* An observer's new result: `count` rows. The next one comes after this event was released, and has all
 * changes until then. */
#define MIMEO_ROWS 1
/* A login is needed: a number, the seconds until the session ends, 0 if there is none. Log in, then release
 * the event. */
#define MIMEO_LOGIN 2
/* The peers around: one map, as mimeo_state(MIMEO_PRESENCE) has it. */
#define MIMEO_PRESENCE 3
/* Progress of a fetch: one map of `downloaded` and `total`, in bytes. */
#define MIMEO_FETCH_PROGRESS 4
/* A fetch is complete: `object` is the attachment, a handle to be released. The fetch has ended. */
#define MIMEO_FETCH_DONE 5
/* The attachment will not come. The fetch has ended. */
#define MIMEO_FETCH_GONE 6
/* A line of the log: one map of `level`, `message`, and `dropped`, the lines before it that found no room. */
#define MIMEO_LOG 7

/* An event. `source` is the handle that mimeo_observe, mimeo_watch, mimeo_fetch or mimeo_logs gave. */
typedef struct mimeo_event {
    mimeo_handle handle;
    mimeo_handle source;
    mimeo_handle object;
    const uint8_t *data;
    size_t size;
    uint64_t count;
    int32_t kind;
    uint32_t format;
} mimeo_event;

/* Called on the dispatcher thread. The event is valid until it returns. */
typedef void (*mimeo_callback)(void *context, const mimeo_event *event);

/* ---- The library ---- */

/* MIMEO_ABI_VERSION of the library that is loaded. */
uint32_t mimeo_abi_version(void);

/* The version of the library, "0.2.0". Belongs to the library. */
const char *mimeo_version(void);

/* ---- Opening ---- */

/* The instance begins without transports to other peers; mimeo_configure turns on those that are wanted. */
#define MIMEO_ALONE 1u

/* Opens the database; creates it if it does not exist. `config` is a map:
 *   database_id             1 to 128 letters, digits, - and _; usually a UUID
 *   persistence_directory   a path; without it "ditto-<database_id>" in the working directory
 *   connect                 {"type": "server", "url": "https://..."}
 *                           or {"type": "small_peers_only", "private_key": "..."}
 * and nothing else (NATIVE-0106).
 * One instance of one process has a directory open at a time: another one gets STORE-0101 after a second. */
mimeo_status mimeo_open(const void *config, size_t config_size, uint32_t flags, mimeo_handle *database,
                        mimeo_error *error);

/* Closes the database and everything that belongs to it, and waits until the directory is free. */
mimeo_status mimeo_close(mimeo_handle database, mimeo_error *error);

/* Ends and releases what a handle stands for: cancels an observer, a watcher, a subscription or a fetch, rolls
 * back a transaction, closes a database, gives back a result, an event, a cursor or an attachment. */
mimeo_status mimeo_release(mimeo_handle handle, mimeo_error *error);

/* Changes settings of an open database, a map of any of:
 *   device_name   text, of which 24 bytes are kept
 *   metadata      a map for other peers, as they see it in the presence
 *   transports    a map, merged into the present settings:
 *                 {"listen": {"tcp": {"isEnabled": true, "interfaceIP": "127.0.0.1", "port": 4040}},
 *                  "connect": {"tcpServers": ["host:4040"]}, "peerToPeer": {"lan": {"isEnabled": true}}} */
mimeo_status mimeo_configure(mimeo_handle database, const void *settings, size_t settings_size,
                             mimeo_error *error);

/* ---- Statements ---- */

/* Executes one statement of DQL. `where` is a database or a transaction. `arguments` is a map of the values of
 * the parameters (:name), NULL for none. `flags` is a format. */
mimeo_status mimeo_execute(mimeo_handle where, const char *statement, size_t statement_size,
                           const void *arguments, size_t arguments_size, uint32_t flags, mimeo_result *result,
                           mimeo_error *error);

/* Executes a SELECT whose rows are fetched in parts; a statement that writes is refused (NATIVE-0104). The cursor is
 * a copy of one state: later writes do not show. It holds the rows as they are stored and converts them as they are
 * fetched. */
mimeo_status mimeo_query(mimeo_handle where, const char *statement, size_t statement_size,
                         const void *arguments, size_t arguments_size, mimeo_handle *cursor,
                         mimeo_error *error);

/* The next rows of a cursor, at most `limit`, which is not 0 (NATIVE-0104); a result of `count` 0 says that there
 * are no more. */
mimeo_status mimeo_next_rows(mimeo_handle cursor, size_t limit, uint32_t flags, mimeo_result *result,
                             mimeo_error *error);

/* The transaction only reads, and holds up nobody. */
#define MIMEO_READ_ONLY 1u
/* Statements of the transaction come from more than one thread. */
#define MIMEO_ANY_THREAD 2u

/* Begins a transaction. Those that write run one after another: this waits for its turn, at most
 * sqlite3_begin_txn_timeout_secs (SDK-0207). */
mimeo_status mimeo_begin(mimeo_handle database, uint32_t flags, mimeo_handle *transaction, mimeo_error *error);

/* Commits a transaction, or rolls it back if `commits` is 0, and releases it also if that fails. `commit` gets
 * the number of the commit, 0 if nothing was written; it may be NULL. */
mimeo_status mimeo_end(mimeo_handle transaction, int32_t commits, uint64_t *commit, mimeo_error *error);

/* ---- Events ---- */

/* Observes a SELECT: an event MIMEO_ROWS with its result now and after each change of the result. */
mimeo_status mimeo_observe(mimeo_handle database, const char *statement, size_t statement_size,
                           const void *arguments, size_t arguments_size, uint32_t flags,
                           mimeo_callback callback, void *context, mimeo_handle *observer,
                           mimeo_error *error);

/* Watches for events of one kind, MIMEO_LOGIN or MIMEO_PRESENCE. A database with a server needs a watcher for
 * MIMEO_LOGIN before mimeo_sync_start. Of unread events of MIMEO_PRESENCE the latest is kept. */
mimeo_status mimeo_watch(mimeo_handle database, int32_t kind, uint32_t flags, mimeo_callback callback,
                         void *context, mimeo_handle *watcher, mimeo_error *error);

/* The lines of the process's log, from `level` on: 1 error, 2 warning, 3 info, 4 debug, 5 verbose. A later call
 * replaces an earlier one, which gets no more lines. At most 1,000 lines wait to be read; of more the oldest
 * are dropped and counted. */
mimeo_status mimeo_logs(int32_t level, uint32_t flags, mimeo_callback callback, void *context,
                        mimeo_handle *log, mimeo_error *error);

/* The least urgent level that goes to standard error: 1 error to 5 verbose, or 0 for nothing at all. */
mimeo_status mimeo_log_level(int32_t level, mimeo_error *error);

/* The next event of everything in a database (or of a log) that has no callback. Waits at most `milliseconds`,
 * forever if negative; MIMEO_EMPTY if none came, or if one came whose source was released meanwhile;
 * NATIVE-0108 if the database is closed while it waits. Release the event. */
mimeo_status mimeo_next_event(mimeo_handle source, int32_t milliseconds, mimeo_event *event,
                              mimeo_error *error);

/* A file descriptor for poll, epoll or select that is readable while mimeo_next_event would return an event.
 * Do not read or close it. It is closed with its database: take it out of your loop before. */
mimeo_status mimeo_event_fd(mimeo_handle source, int32_t *fd, mimeo_error *error);

/* Lets one mimeo_next_event that waits, or the next one, return MIMEO_EMPTY. */
mimeo_status mimeo_wake(mimeo_handle source, mimeo_error *error);

/* ---- Sync ---- */

/* Starts sync, which reconnects by itself until it is stopped. */
mimeo_status mimeo_sync_start(mimeo_handle database, mimeo_error *error);
mimeo_status mimeo_sync_stop(mimeo_handle database, mimeo_error *error);

/* Requests the documents of `SELECT * FROM c [WHERE ...]` from others until it is released. */
mimeo_status mimeo_subscribe(mimeo_handle database, const char *statement, size_t statement_size,
                             const void *arguments, size_t arguments_size, mimeo_handle *subscription,
                             mimeo_error *error);

/* Logs in at the server with a token that `provider` checks ("development" for the database's development
 * token). `result` gets one value, the provider's information, or null; it may be NULL. */
mimeo_status mimeo_login(mimeo_handle database, const char *provider, size_t provider_size, const char *token,
                         size_t token_size, uint32_t flags, mimeo_result *result, mimeo_error *error);

/* Ends the session and stops sync. Documents stay. */
mimeo_status mimeo_logout(mimeo_handle database, mimeo_error *error);

/* Topics of mimeo_state, besides MIMEO_PRESENCE. */
/* {active, status: "stopped" | "connecting" | "connected", last_error, problems: {query: "code: message"},
 *  last_commit, acknowledged_commit, authenticated, user_id, links: [{peer, kind}],
 *  listening: [{address, port}]} */
#define MIMEO_SYNC 8
/* The present settings of transports. */
#define MIMEO_TRANSPORTS 9

/* One value about the database. */
mimeo_status mimeo_state(mimeo_handle database, int32_t topic, uint32_t flags, mimeo_result *result,
                         mimeo_error *error);

/* The local commits that the server refused, from `commit` on: {commit, code, message}. */
mimeo_status mimeo_refused(mimeo_handle database, uint64_t commit, size_t limit, uint32_t flags,
                           mimeo_result *result, mimeo_error *error);

/* Waits until the server has acknowledged everything up to a local commit; MIMEO_EMPTY if it has not within
 * the time, or has refused that commit. A negative time is 0. */
mimeo_status mimeo_wait_acknowledged(mimeo_handle database, uint64_t commit, int32_t milliseconds,
                                     mimeo_error *error);

/* ---- Attachments ---- */

/* Makes an attachment of bytes, or of a file, which is copied. `metadata` is a map of texts, NULL for none.
 * The result is one value: its token, to be an argument of a statement (`token` in a document). The handle of
 * the result is the attachment, which stays here at least until it is released. */
mimeo_status mimeo_attach_bytes(mimeo_handle database, const void *bytes, size_t size, const void *metadata,
                                size_t metadata_size, uint32_t flags, mimeo_result *result,
                                mimeo_error *error);
mimeo_status mimeo_attach_file(mimeo_handle database, const char *path, size_t path_size,
                               const void *metadata, size_t metadata_size, uint32_t flags,
                               mimeo_result *result, mimeo_error *error);

/* Fetches an attachment by the token that a document holds: events MIMEO_FETCH_PROGRESS, then MIMEO_FETCH_DONE
 * or MIMEO_FETCH_GONE. */
mimeo_status mimeo_fetch(mimeo_handle database, const void *token, size_t token_size, uint32_t flags,
                         mimeo_callback callback, void *context, mimeo_handle *fetch, mimeo_error *error);

/* The bytes of an attachment, as they are: `data` is neither CBOR nor JSON. */
mimeo_status mimeo_attachment_bytes(mimeo_handle attachment, mimeo_result *result, mimeo_error *error);

/* Copies an attachment to a file that does not exist yet. */
mimeo_status mimeo_attachment_copy(mimeo_handle attachment, const char *path, size_t path_size,
                                   mimeo_error *error);

#ifdef __cplusplus
}
#endif

#endif
