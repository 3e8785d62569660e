/* A layer below SQLite that keeps a checksum in the reserved bytes of every page of a database file.
 *
 * - A page gets its sum when it is written into the file: in write-ahead mode, by a checkpoint. Pages in the
 *   write-ahead log have none: SQLite's own frames have checksums.
 * - A page is compared with its sum whenever it is read into SQLite's cache, and the first time that a
 *   connection maps it. A difference is SQLITE_CORRUPT, and nothing of the page is used.
 * - A mapped page may change afterwards: somebody writes into the file, or the kernel drops the page and reads
 *   a damaged one again. So a transaction that begins later than PAGE_SUMS_AGE_MS after the first comparison
 *   compares again what it maps.
 * - SQLite never sees the sums: they read as zero, and are zero in the write-ahead log. So a program without
 *   this layer that copies the log into the file leaves pages without sums, not with outdated ones. They get
 *   theirs before the next opening (page_sums_adopt).
 *
 * A file whose header has the mark of one of our formats keeps sums in every connection of the process; a new
 * file does for those that turn them on.
 *
 * A handle is used by one thread at a time, because its connection is.
 */

#include "CPageSums.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What is known of a file. */
enum { SUMS_OFF, SUMS_NEW, SUMS_ON, SUMS_BROKEN };

/* A handle. The real one lies behind it, in the same piece of memory. */
typedef struct {
    sqlite3_file base;
    int state;
    int page_bytes;
    /* 1 while the connection may write: it holds SQLite's lock for that. */
    int writes;
    /* One bit per page that was compared when it was mapped, since a moment. */
    uint8_t *seen;
    uint64_t seen_bytes;
    int64_t seen_since_ms;
    int64_t age_ms;
} sums_file;

enum { HEADER_BYTES = 100, RESERVE_OFFSET = 20, MARK_OFFSET = 68, LEAST_PAGE = 512, MOST_PAGE = 65536 };

static sqlite3_vfs *real_vfs = NULL;
static sqlite3_vfs layer;
static sqlite3_io_methods methods[3];
static const size_t handle_bytes = (sizeof(sums_file) + 15) & ~(size_t)15;

static sqlite3_file *real_of(sqlite3_file *file) { return (sqlite3_file *)((char *)file + handle_bytes); }

static sums_file *sums_of(sqlite3_file *file) { return (sums_file *)file; }

/* MARK: the sum */

static uint64_t turned(uint64_t value, int bits) { return (value << bits) | (value >> (64 - bits)); }

static uint64_t word_at(const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* Covers everything before the sum, and the page's place in the file. Never zero. */
static uint64_t sum_of(const uint8_t *page, int bytes, uint64_t number) {
    const uint64_t prime = 0x9E3779B185EBCA87u, other = 0xC2B2AE3D27D4EB4Fu;
    uint64_t lanes[4] = {number * prime, number ^ other, other, prime};
    int end = bytes - PAGE_SUMS_BYTES;
    int place = 0;
    for (; place + 32 <= end; place += 32) {
        for (int lane = 0; lane < 4; lane++) {
            lanes[lane] = turned(lanes[lane] ^ (word_at(page + place + lane * 8) * other), 31) * prime;
        }
    }
    for (; place + 8 <= end; place += 8) {
        lanes[0] = turned(lanes[0] ^ (word_at(page + place) * other), 31) * prime;
    }
    uint64_t sum = turned(lanes[0], 1) + turned(lanes[1], 7) + turned(lanes[2], 12) + turned(lanes[3], 18);
    sum = (sum ^ (sum >> 33)) * other;
    sum ^= sum >> 29;
    return sum ? sum : 1;
}

static int is_zero(const uint8_t *bytes, int count) {
    for (int place = 0; place < count; place += 8) {
        if (word_at(bytes + place) != 0) return 0;
    }
    return 1;
}

/* Whether the page is what was written. */
static int is_whole(const uint8_t *page, int bytes, uint64_t number) {
    return word_at(page + bytes - PAGE_SUMS_BYTES) == sum_of(page, bytes, number);
}

int page_sums_fit(const uint8_t *page, int bytes, uint64_t number) {
    return word_at(page + bytes - PAGE_SUMS_BYTES) == 0 || is_whole(page, bytes, number);
}

/* MARK: a file */

static int page_bytes_of(const uint8_t *header) {
    int bytes = header[16] << 8 | header[17];
    if (bytes == 1) bytes = MOST_PAGE;
    return bytes >= LEAST_PAGE && (bytes & (bytes - 1)) == 0 ? bytes : 0;
}

/* Whether the header names one of our formats (0: none). */
static int has_mark(const uint8_t *header, uint32_t mark) {
    const uint8_t *place = header + MARK_OFFSET;
    return ((uint32_t)place[0] << 24 | (uint32_t)place[1] << 16 | (uint32_t)place[2] << 8 | place[3]) == mark;
}

/* Finds out whether the file has sums. Only the header says so: a damaged one must not turn them off. */
static int turn_on(sums_file *file, sqlite3_file *real) {
    sqlite3_int64 size = 0;
    int code = real->pMethods->xFileSize(real, &size);
    if (code) return code;
    if (size == 0) {
        file->state = SUMS_NEW;
        return SQLITE_OK;
    }
    uint8_t header[HEADER_BYTES] = {0};
    code = real->pMethods->xRead(real, header, HEADER_BYTES, 0);
    if (code && code != SQLITE_IOERR_SHORT_READ) return code;
    file->page_bytes = page_bytes_of(header);
    /* The first page is not whole and has no mark yet: the disk was full, or the power was cut, while the
     * file was made. Nothing was ever committed to it. One that was cut later has its mark. */
    if (size < file->page_bytes && has_mark(header, 0)) {
        file->state = SUMS_NEW;
        return SQLITE_OK;
    }
    file->state = header[RESERVE_OFFSET] == PAGE_SUMS_BYTES && file->page_bytes ? SUMS_ON : SUMS_OFF;
    if (file->state == SUMS_ON) return SQLITE_OK;
    /* Sums that do not depend on the bytes that tell of them: a usual page with what they should be. */
    uint8_t page[4096];
    if (real->pMethods->xRead(real, page, sizeof page, 0)) return SQLITE_OK;
    page[16] = 0x10;
    page[17] = 0;
    page[RESERVE_OFFSET] = PAGE_SUMS_BYTES;
    uint64_t stored = word_at(page + sizeof page - PAGE_SUMS_BYTES);
    if (stored != 0 && stored == sum_of(page, sizeof page, 0)) file->state = SUMS_BROKEN;
    return SQLITE_OK;
}

static int is_page(const sums_file *file, int count, sqlite3_int64 offset) {
    return file->state == SUMS_ON && count == file->page_bytes && offset % count == 0;
}

static int sums_close(sqlite3_file *file) {
    free(sums_of(file)->seen);
    sums_of(file)->seen = NULL;
    sqlite3_file *real = real_of(file);
    return real->pMethods ? real->pMethods->xClose(real) : SQLITE_OK;
}

static int sums_read(sqlite3_file *file, void *buffer, int count, sqlite3_int64 offset) {
    sums_file *sums = sums_of(file);
    sqlite3_file *real = real_of(file);
    int code = real->pMethods->xRead(real, buffer, count, offset);
    if (sums->state == SUMS_OFF || sums->state == SUMS_NEW) return code;
    if (sums->state == SUMS_BROKEN) return SQLITE_CORRUPT;
    if (!is_page(sums, count, offset)) return code;
    /* SQLite would take what was cut off for zeros. Only a writer reads pages that were never written: free
     * ones, to use them. */
    if (code == SQLITE_IOERR_SHORT_READ) return sums->writes && is_zero(buffer, count) ? code : SQLITE_CORRUPT;
    if (code) return code;
    if (sums->writes && is_zero(buffer, count)) return SQLITE_OK;
    if (!is_whole(buffer, count, (uint64_t)(offset / count))) return SQLITE_CORRUPT;
    memset((char *)buffer + count - PAGE_SUMS_BYTES, 0, PAGE_SUMS_BYTES);
    return SQLITE_OK;
}

static int sums_write(sqlite3_file *file, const void *buffer, int count, sqlite3_int64 offset) {
    sums_file *sums = sums_of(file);
    sqlite3_file *real = real_of(file);
    const uint8_t *bytes = buffer;
    int before = sums->state;
    if (sums->state == SUMS_NEW && offset == 0 && count >= LEAST_PAGE) {
        sums->page_bytes = page_bytes_of(bytes);
        int has_sums = bytes[RESERVE_OFFSET] == PAGE_SUMS_BYTES && sums->page_bytes;
        /* A part of the first page decides nothing: a layer above has met the end of the disk. */
        sums->state = !has_sums ? SUMS_OFF : sums->page_bytes == count ? SUMS_ON : SUMS_NEW;
    }
    if (!is_page(sums, count, offset)) return real->pMethods->xWrite(real, buffer, count, offset);
    uint8_t *page = malloc((size_t)count);
    if (page == NULL) return SQLITE_IOERR_NOMEM;
    memcpy(page, buffer, (size_t)count);
    uint64_t sum = sum_of(page, count, (uint64_t)(offset / count));
    memcpy(page + count - PAGE_SUMS_BYTES, &sum, sizeof sum);
    int code = real->pMethods->xWrite(real, page, count, offset);
    free(page);
    /* A first page that is not whole has no sum. */
    if (code) sums->state = before;
    return code;
}

static int sums_truncate(sqlite3_file *file, sqlite3_int64 size) {
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int sums_sync(sqlite3_file *file, int flags) {
    return real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int sums_size(sqlite3_file *file, sqlite3_int64 *size) {
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int sums_lock(sqlite3_file *file, int level) {
    int code = real_of(file)->pMethods->xLock(real_of(file), level);
    if (code == SQLITE_OK && level >= SQLITE_LOCK_RESERVED) sums_of(file)->writes = 1;
    return code;
}

static int sums_unlock(sqlite3_file *file, int level) {
    if (level < SQLITE_LOCK_RESERVED) sums_of(file)->writes = 0;
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int sums_check_lock(sqlite3_file *file, int *is_locked) {
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), is_locked);
}

static int sums_control(sqlite3_file *file, int code, void *argument) {
    if (code == PAGE_SUMS_CONTROL) return turn_on(sums_of(file), real_of(file));
    if (code == PAGE_SUMS_AGE_CONTROL) {
        sums_of(file)->age_ms = *(int *)argument;
        return SQLITE_OK;
    }
    return real_of(file)->pMethods->xFileControl(real_of(file), code, argument);
}

static int sums_sector(sqlite3_file *file) {
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int sums_traits(sqlite3_file *file) {
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int sums_shared_map(sqlite3_file *file, int number, int bytes, int extends, void volatile **place) {
    return real_of(file)->pMethods->xShmMap(real_of(file), number, bytes, extends, place);
}

/* Milliseconds of a clock that never goes back. */
static int64_t now_ms(void) {
#ifdef CLOCK_MONOTONIC_COARSE
    const clockid_t clock = CLOCK_MONOTONIC_COARSE;
#else
    const clockid_t clock = CLOCK_MONOTONIC;
#endif
    struct timespec now = {0, 0};
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* At the beginning of a transaction: forgets which mapped pages were compared, if that was long ago. */
static void forget_old(sums_file *sums) {
    if (sums->seen_bytes == 0) return;
    int64_t now = now_ms();
    if (now - sums->seen_since_ms < sums->age_ms) return;
    memset(sums->seen, 0, sums->seen_bytes);
    sums->seen_since_ms = now;
}

static int sums_shared_lock(sqlite3_file *file, int offset, int count, int flags) {
    int code = real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
    /* The first lock of the write-ahead log is the writer's. */
    if (code == SQLITE_OK && offset == 0 && (flags & SQLITE_SHM_EXCLUSIVE)) {
        sums_of(file)->writes = (flags & SQLITE_SHM_LOCK) != 0;
    }
    /* A reader's transaction begins with the lock of its mark. */
    if (code == SQLITE_OK && (flags & SQLITE_SHM_LOCK) && (flags & SQLITE_SHM_SHARED)) forget_old(sums_of(file));
    return code;
}

static void sums_barrier(sqlite3_file *file) { real_of(file)->pMethods->xShmBarrier(real_of(file)); }

static int sums_shared_unmap(sqlite3_file *file, int deletes) {
    return real_of(file)->pMethods->xShmUnmap(real_of(file), deletes);
}

/* Notes that a page was compared; returns whether it had been before. Without memory every time counts as the
 * first. */
static int was_seen(sums_file *sums, uint64_t number) {
    uint64_t place = number / 8;
    uint8_t bit = (uint8_t)(1 << (number % 8));
    if (place >= sums->seen_bytes) {
        uint64_t bytes = (place + 1) * 2 > 4096 ? (place + 1) * 2 : 4096;
        uint8_t *seen = realloc(sums->seen, bytes);
        if (seen == NULL) return 0;
        memset(seen + sums->seen_bytes, 0, bytes - sums->seen_bytes);
        if (sums->seen_bytes == 0) sums->seen_since_ms = now_ms();
        sums->seen = seen;
        sums->seen_bytes = bytes;
    }
    if (sums->seen[place] & bit) return 1;
    sums->seen[place] |= bit;
    return 0;
}

static int sums_fetch(sqlite3_file *file, sqlite3_int64 offset, int count, void **place) {
    sums_file *sums = sums_of(file);
    sqlite3_file *real = real_of(file);
    if (sums->state == SUMS_BROKEN) return SQLITE_CORRUPT;
    int code = real->pMethods->xFetch(real, offset, count, place);
    if (code || *place == NULL || !is_page(sums, count, offset)) return code;
    uint64_t number = (uint64_t)(offset / count);
    if (was_seen(sums, number) || is_whole(*place, count, number)) return SQLITE_OK;
    sums->seen[number / 8] &= (uint8_t)~(1 << (number % 8));
    real->pMethods->xUnfetch(real, offset, *place);
    *place = NULL;
    return SQLITE_CORRUPT;
}

static int sums_unfetch(sqlite3_file *file, sqlite3_int64 offset, void *place) {
    return real_of(file)->pMethods->xUnfetch(real_of(file), offset, place);
}

/* MARK: the file system */

enum { LOG_MARK = 0x4D6D4C67, STORE_MARK = 0x4D696D65 };

/* Whether a file is one of ours with sums: then every connection of this process keeps them, asked or not. The
 * mark may still be in the write-ahead log, but then the first page has its sum. */
static int is_ours(sqlite3_file *real) {
    uint8_t page[4096];
    if (real->pMethods->xRead(real, page, sizeof page, 0) || page[RESERVE_OFFSET] != PAGE_SUMS_BYTES) return 0;
    return has_mark(page, LOG_MARK) || has_mark(page, STORE_MARK) || is_whole(page, sizeof page, 0);
}

static int sums_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags) {
    (void)vfs;
    if (!(flags & SQLITE_OPEN_MAIN_DB)) return real_vfs->xOpen(real_vfs, name, file, flags, out_flags);
    memset(file, 0, handle_bytes);
    sums_of(file)->age_ms = PAGE_SUMS_AGE_MS;
    sqlite3_file *real = real_of(file);
    real->pMethods = NULL;
    int code = real_vfs->xOpen(real_vfs, name, real, flags, out_flags);
    if (real->pMethods == NULL) return code;
    int version = real->pMethods->iVersion;
    file->pMethods = &methods[version >= 3 ? 2 : version == 2 ? 1 : 0];
    if (code == SQLITE_OK && is_ours(real)) code = turn_on(sums_of(file), real);
    return code;
}

static int sums_delete(sqlite3_vfs *vfs, const char *name, int syncs) {
    (void)vfs;
    return real_vfs->xDelete(real_vfs, name, syncs);
}

static int sums_access(sqlite3_vfs *vfs, const char *name, int flags, int *result) {
    (void)vfs;
    return real_vfs->xAccess(real_vfs, name, flags, result);
}

static int sums_full_path(sqlite3_vfs *vfs, const char *name, int bytes, char *out) {
    (void)vfs;
    return real_vfs->xFullPathname(real_vfs, name, bytes, out);
}

static void *sums_dl_open(sqlite3_vfs *vfs, const char *name) {
    (void)vfs;
    return real_vfs->xDlOpen(real_vfs, name);
}

static void sums_dl_error(sqlite3_vfs *vfs, int bytes, char *message) {
    (void)vfs;
    real_vfs->xDlError(real_vfs, bytes, message);
}

static void (*sums_dl_symbol(sqlite3_vfs *vfs, void *library, const char *symbol))(void) {
    (void)vfs;
    return real_vfs->xDlSym(real_vfs, library, symbol);
}

static void sums_dl_close(sqlite3_vfs *vfs, void *library) {
    (void)vfs;
    real_vfs->xDlClose(real_vfs, library);
}

static int sums_randomness(sqlite3_vfs *vfs, int bytes, char *out) {
    (void)vfs;
    return real_vfs->xRandomness(real_vfs, bytes, out);
}

static int sums_sleep(sqlite3_vfs *vfs, int microseconds) {
    (void)vfs;
    return real_vfs->xSleep(real_vfs, microseconds);
}

static int sums_time(sqlite3_vfs *vfs, double *out) {
    (void)vfs;
    return real_vfs->xCurrentTime(real_vfs, out);
}

static int sums_error(sqlite3_vfs *vfs, int bytes, char *out) {
    (void)vfs;
    return real_vfs->xGetLastError(real_vfs, bytes, out);
}

static int sums_time_integer(sqlite3_vfs *vfs, sqlite3_int64 *out) {
    (void)vfs;
    return real_vfs->xCurrentTimeInt64(real_vfs, out);
}

static int registered = SQLITE_ERROR;

static void put_in_place(void) {
    /* SQLite counts its memory under one lock for all connections, 100 times a read, and nobody asks. In a
     * process that has used SQLite before it goes on counting, which does no harm. */
    sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    real_vfs = sqlite3_vfs_find(NULL);
    if (real_vfs == NULL) return;
    const sqlite3_io_methods all = {
        3, sums_close, sums_read, sums_write, sums_truncate, sums_sync, sums_size, sums_lock, sums_unlock,
        sums_check_lock, sums_control, sums_sector, sums_traits, sums_shared_map, sums_shared_lock,
        sums_barrier, sums_shared_unmap, sums_fetch, sums_unfetch,
    };
    for (int version = 1; version <= 3; version++) {
        methods[version - 1] = all;
        methods[version - 1].iVersion = version;
    }
    layer.iVersion = real_vfs->iVersion < 2 ? real_vfs->iVersion : 2;
    layer.szOsFile = (int)handle_bytes + real_vfs->szOsFile;
    layer.mxPathname = real_vfs->mxPathname;
    layer.zName = "mimeo-page-sums";
    layer.xOpen = sums_open;
    layer.xDelete = sums_delete;
    layer.xAccess = sums_access;
    layer.xFullPathname = sums_full_path;
    layer.xDlOpen = sums_dl_open;
    layer.xDlError = sums_dl_error;
    layer.xDlSym = sums_dl_symbol;
    layer.xDlClose = sums_dl_close;
    layer.xRandomness = sums_randomness;
    layer.xSleep = sums_sleep;
    layer.xCurrentTime = sums_time;
    layer.xGetLastError = sums_error;
    layer.xCurrentTimeInt64 = sums_time_integer;
    registered = sqlite3_vfs_register(&layer, 1);
}

int page_sums_register(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, put_in_place);
    return registered;
}

/* MARK: pages of other programs */

static int adopt_pages(int descriptor, int bytes) {
    uint8_t *page = malloc((size_t)bytes);
    if (page == NULL) return ENOMEM;
    int failure = 0;
    for (uint64_t number = 0; failure == 0; number++) {
        off_t offset = (off_t)number * bytes;
        ssize_t got = pread(descriptor, page, (size_t)bytes, offset);
        if (got < 0) failure = errno;
        if (got != bytes) break;
        uint8_t *place = page + bytes - PAGE_SUMS_BYTES;
        if (word_at(place) != 0 || is_zero(page, bytes)) continue;
        uint64_t sum = sum_of(page, bytes, number);
        memcpy(place, &sum, sizeof sum);
        if (pwrite(descriptor, place, sizeof sum, offset + bytes - PAGE_SUMS_BYTES) != sizeof sum) failure = EIO;
    }
    free(page);
    return failure;
}

int page_sums_adopt(const char *path) {
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return errno;
    uint8_t header[HEADER_BYTES];
    int failure = 0;
    if (pread(descriptor, header, sizeof header, 0) == (ssize_t)sizeof header
        && header[RESERVE_OFFSET] == PAGE_SUMS_BYTES && page_bytes_of(header)) {
        failure = adopt_pages(descriptor, page_bytes_of(header));
    }
    close(descriptor);
    return failure;
}

/* MARK: a write-ahead log */

static uint32_t big_word(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static uint32_t little_word(const uint8_t *bytes) {
    return (uint32_t)bytes[3] << 24 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[1] << 8 | bytes[0];
}

/* SQLite's running checksum, over words in the byte order that the header names. */
static void add_to_sum(uint32_t sum[2], const uint8_t *bytes, int count, int is_big) {
    for (int place = 0; place < count; place += 8) {
        uint32_t first = is_big ? big_word(bytes + place) : little_word(bytes + place);
        uint32_t second = is_big ? big_word(bytes + place + 4) : little_word(bytes + place + 4);
        sum[0] += first + sum[1];
        sum[1] += second + sum[0];
    }
}

enum { LOG_HEADER = 32, FRAME_HEADER = 24 };

/* Reads on after a short count, which a bad block behind readable bytes gives. Returns the bytes read, fewer
   than asked for only at the file's end, or -1. */
static ssize_t read_whole(int descriptor, uint8_t *bytes, size_t count, off_t offset) {
    size_t done = 0;
    while (done < count) {
        ssize_t got = pread(descriptor, bytes + done, count - done, offset + (off_t)done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

/* Returns 0 or errno: a frame that cannot be read is not the log's end. */
static int read_frames(int descriptor, const uint8_t *header, page_sums_log *found) {
    int is_big = (header[3] & 1) != 0;
    uint32_t page = big_word(header + 8);
    if (page < LEAST_PAGE || page > MOST_PAGE || (page & (page - 1)) != 0) return 0;
    uint32_t sum[2] = {0, 0};
    add_to_sum(sum, header, 24, is_big);
    if (sum[0] != big_word(header + 24) || sum[1] != big_word(header + 28)) return 0;
    found->has_header = 1;
    memcpy(&found->salts, header + 16, 8);
    size_t bytes = FRAME_HEADER + page;
    uint8_t *frame = malloc(bytes);
    if (frame == NULL) return ENOMEM;
    off_t offset = LOG_HEADER;
    uint8_t first[PAGE_SUMS_FIRST_BYTES];
    int is_pending = 0;
    ssize_t got;
    while ((got = read_whole(descriptor, frame, bytes, offset)) == (ssize_t)bytes) {
        if (memcmp(frame + 8, header + 16, 8) != 0) break;
        add_to_sum(sum, frame, 8, is_big);
        add_to_sum(sum, frame + FRAME_HEADER, (int)page, is_big);
        if (sum[0] != big_word(frame + 16) || sum[1] != big_word(frame + 20)) break;
        if (big_word(frame) == 1) {
            memcpy(first, frame + FRAME_HEADER, sizeof first);
            is_pending = 1;
        }
        /* The last frame of a transaction has the size of the database after it. */
        if (is_pending && big_word(frame + 4) != 0) {
            memcpy(found->first, first, sizeof first);
            found->has_first = 1;
            is_pending = 0;
        }
        found->frames += 1;
        offset += (off_t)bytes;
    }
    int failure = got < 0 ? errno : 0;
    free(frame);
    return failure;
}

/* Returns 0 or errno: bytes that cannot be read are neither blank nor a damaged header. */
static int read_blank(int descriptor, int *is_blank) {
    uint8_t part[4096];
    ssize_t got;
    *is_blank = 0;
    for (off_t offset = 0; (got = read_whole(descriptor, part, sizeof part, offset)) > 0; offset += got) {
        for (ssize_t place = 0; place < got; place++) {
            if (part[place] != 0) return 0;
        }
    }
    if (got < 0) return errno;
    *is_blank = 1;
    return 0;
}

int page_sums_read_log(const char *path, page_sums_log *found) {
    memset(found, 0, sizeof *found);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return errno;
    uint8_t header[LOG_HEADER];
    int failure = 0;
    ssize_t got = read_whole(descriptor, header, LOG_HEADER, 0);
    if (got < 0) failure = errno;
    if (got == LOG_HEADER && (big_word(header) & ~1u) == 0x377F0682u) failure = read_frames(descriptor, header, found);
    if (failure == 0 && !found->has_header) failure = read_blank(descriptor, &found->is_blank);
    close(descriptor);
    return failure;
}
