/* The shim: SQLite's calls, each admitted by its disk before the real one is made. */

#include "fault_disk.h"

#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <string.h>

sqlite3_vfs *fault_real = NULL;

/* A handle. The real one lies behind it, in the same piece of memory. */
typedef struct {
    sqlite3_file base;
    fault_disk *disk;
    /* NULL once the file was removed from under its handle. */
    char *path;
} fault_handle;

static const size_t handle_size = (sizeof(fault_handle) + 15) & ~(size_t)15;

static sqlite3_file *real_of(sqlite3_file *file) { return (sqlite3_file *)((char *)file + handle_size); }

static fault_handle *handle_of(sqlite3_file *file) { return (fault_handle *)file; }

static int64_t size_of(sqlite3_file *real) {
    sqlite3_int64 size = 0;
    real->pMethods->xFileSize(real, &size);
    return size;
}

/* The record of a handle's file; made anew when the file was removed from under it. */
static fault_file *record_of(fault_handle *handle, sqlite3_file *real) {
    fault_file *record = fault_file_of(handle->disk, handle->path, -1);
    return record ? record : fault_file_of(handle->disk, handle->path, size_of(real));
}

/* For calls that change nothing: whether this one may be made. */
static int admit(sqlite3_file *file, fault_call call, int error) {
    pthread_mutex_lock(&fault_mutex);
    fault_verdict verdict = fault_admit(handle_of(file)->disk, call, error);
    pthread_mutex_unlock(&fault_mutex);
    return verdict.code;
}

/* MARK: methods of a file */

static int shim_close(sqlite3_file *file) {
    fault_handle *handle = handle_of(file);
    sqlite3_file *real = real_of(file);
    pthread_mutex_lock(&fault_mutex);
    int code = real->pMethods ? real->pMethods->xClose(real) : SQLITE_OK;
    handle->disk->handles -= 1;
    pthread_mutex_unlock(&fault_mutex);
    sqlite3_free(handle->path);
    handle->base.pMethods = NULL;
    return code;
}

static int shim_read(sqlite3_file *file, void *buffer, int count, sqlite3_int64 offset) {
    int code = admit(file, CALL_READ, SQLITE_IOERR_READ);
    return code ? code : real_of(file)->pMethods->xRead(real_of(file), buffer, count, offset);
}

static int shim_write(sqlite3_file *file, const void *buffer, int count, sqlite3_int64 offset) {
    fault_handle *handle = handle_of(file);
    fault_disk *disk = handle->disk;
    sqlite3_file *real = real_of(file);
    pthread_mutex_lock(&fault_mutex);
    fault_verdict verdict = fault_admit(disk, CALL_WRITE, SQLITE_IOERR_WRITE);
    int amount = verdict.code == SQLITE_OK || verdict.is_cut ? count : verdict.is_half ? count / 2 : 0;
    fault_file *record = record_of(handle, real);
    int64_t size = record->size;
    int64_t growth = offset + amount - size;
    if (disk->space >= 0 && growth > disk->space) {
        int64_t room = size + disk->space - offset;
        amount = room < 0 ? 0 : (int)room;
        growth = offset + amount - size;
        disk->counts.faults += 1;
        if (verdict.code == SQLITE_OK) verdict.code = SQLITE_FULL;
    }
    if (amount > 0) {
        fault_keep(record, real, offset, amount, size);
        int code = real->pMethods->xWrite(real, buffer, amount, offset);
        record->size = code ? size_of(real) : offset + amount > size ? offset + amount : size;
        if (verdict.code == SQLITE_OK) verdict.code = code;
        if (disk->space >= 0 && growth > 0) disk->space -= growth;
    }
    pthread_mutex_unlock(&fault_mutex);
    return verdict.code;
}

static int shim_truncate(sqlite3_file *file, sqlite3_int64 size) {
    fault_handle *handle = handle_of(file);
    sqlite3_file *real = real_of(file);
    pthread_mutex_lock(&fault_mutex);
    fault_verdict verdict = fault_admit(handle->disk, CALL_TRUNCATE, SQLITE_IOERR_TRUNCATE);
    if (verdict.code == SQLITE_OK || verdict.is_cut) {
        fault_file *record = record_of(handle, real);
        int64_t before = record->size;
        fault_keep(record, real, size, before - size, before);
        int code = real->pMethods->xTruncate(real, size);
        record->size = size_of(real);
        fault_shorten(record, record->size);
        if (verdict.code == SQLITE_OK) verdict.code = code;
        if (handle->disk->space >= 0) handle->disk->space += before - size;
    }
    pthread_mutex_unlock(&fault_mutex);
    return verdict.code;
}

static int shim_sync(sqlite3_file *file, int flags) {
    fault_handle *handle = handle_of(file);
    sqlite3_file *real = real_of(file);
    (void)flags;
    pthread_mutex_lock(&fault_mutex);
    fault_verdict verdict = fault_admit(handle->disk, CALL_SYNC, SQLITE_IOERR_FSYNC);
    /* The real disk need not be bothered: what is synced here is what a restart leaves alone. */
    if (verdict.code == SQLITE_OK) {
        fault_file *record = record_of(handle, real);
        fault_saved(handle->disk, record, record->size);
    } else if (!verdict.is_cut) fault_doom(record_of(handle, real));
    pthread_mutex_unlock(&fault_mutex);
    return verdict.code;
}

static int shim_file_size(sqlite3_file *file, sqlite3_int64 *size) {
    int code = admit(file, CALL_OTHER, SQLITE_IOERR_FSTAT);
    return code ? code : real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int shim_lock(sqlite3_file *file, int level) {
    int code = fault_disk_is_off(handle_of(file)->disk) ? SQLITE_IOERR_LOCK : SQLITE_OK;
    return code ? code : real_of(file)->pMethods->xLock(real_of(file), level);
}

static int shim_unlock(sqlite3_file *file, int level) {
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int shim_check_lock(sqlite3_file *file, int *is_reserved) {
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), is_reserved);
}

static int shim_control(sqlite3_file *file, int operation, void *argument) {
    /* Growing ahead would pass by the bound on space. */
    if (operation == SQLITE_FCNTL_SIZE_HINT || operation == SQLITE_FCNTL_CHUNK_SIZE) return SQLITE_OK;
    return real_of(file)->pMethods->xFileControl(real_of(file), operation, argument);
}

static int shim_sector_size(sqlite3_file *file) { return real_of(file)->pMethods->xSectorSize(real_of(file)); }

static int shim_characteristics(sqlite3_file *file) {
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int shim_memory_map(sqlite3_file *file, int region, int size, int extend, void volatile **memory) {
    int code = admit(
        file, extend ? CALL_GROW_MEMORY : CALL_OTHER, extend ? SQLITE_IOERR_SHMSIZE : SQLITE_IOERR_SHMMAP);
    return code ? code : real_of(file)->pMethods->xShmMap(real_of(file), region, size, extend, memory);
}

static int shim_memory_lock(sqlite3_file *file, int offset, int count, int flags) {
    if ((flags & SQLITE_SHM_LOCK) && fault_disk_is_off(handle_of(file)->disk)) return SQLITE_IOERR_SHMLOCK;
    return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void shim_memory_barrier(sqlite3_file *file) { real_of(file)->pMethods->xShmBarrier(real_of(file)); }

static int shim_memory_unmap(sqlite3_file *file, int removes) {
    return real_of(file)->pMethods->xShmUnmap(real_of(file), removes);
}

/* Version 2: shared memory, but no mapped reads, which nobody could let fail. */
static const sqlite3_io_methods methods = {
    2, shim_close, shim_read, shim_write, shim_truncate, shim_sync, shim_file_size, shim_lock, shim_unlock,
    shim_check_lock, shim_control, shim_sector_size, shim_characteristics, shim_memory_map, shim_memory_lock,
    shim_memory_barrier, shim_memory_unmap, NULL, NULL,
};

/* MARK: methods of the VFS */

static int open_on(fault_disk *disk, const char *path, sqlite3_file *file, int flags, int *given) {
    int exists = 0;
    fault_real->xAccess(fault_real, path, SQLITE_ACCESS_EXISTS, &exists);
    int creates = !exists && (flags & SQLITE_OPEN_CREATE);
    fault_verdict verdict = fault_admit(disk, creates ? CALL_CREATE : CALL_OPEN, SQLITE_CANTOPEN);
    if (verdict.code) return verdict.code;
    fault_handle *handle = handle_of(file);
    sqlite3_file *real = real_of(file);
    memset(real, 0, sizeof *real);
    int code = fault_real->xOpen(fault_real, path, real, flags, given);
    if (code) {
        if (real->pMethods) real->pMethods->xClose(real);
        return code;
    }
    handle->disk = disk;
    handle->path = sqlite3_mprintf("%s", path);
    if (handle->path == NULL) {
        real->pMethods->xClose(real);
        return SQLITE_NOMEM;
    }
    fault_file *record = fault_file_of(disk, path, size_of(real));
    record->size = size_of(real);
    if (creates) {
        int is_journal = flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL);
        record->is_new = 1;
        record->saves_folder = is_journal != 0;
    }
    disk->handles += 1;
    handle->base.pMethods = &methods;
    return SQLITE_OK;
}

static int shim_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *given) {
    (void)vfs;
    file->pMethods = NULL;
    pthread_mutex_lock(&fault_mutex);
    fault_disk *disk = fault_disk_of(path);
    int code = disk ? open_on(disk, path, file, flags, given) : SQLITE_OK;
    pthread_mutex_unlock(&fault_mutex);
    /* Nobody's: the real VFS makes the handle what it likes, in memory that is large enough. */
    return disk ? code : fault_real->xOpen(fault_real, path, file, flags, given);
}

static int shim_delete(sqlite3_vfs *vfs, const char *path, int syncs_folder) {
    (void)vfs;
    pthread_mutex_lock(&fault_mutex);
    fault_disk *disk = fault_disk_of(path);
    if (disk == NULL) {
        pthread_mutex_unlock(&fault_mutex);
        return fault_real->xDelete(fault_real, path, syncs_folder);
    }
    fault_verdict verdict = fault_admit(disk, CALL_DELETE, SQLITE_IOERR_DELETE);
    int code = verdict.code;
    if (code == SQLITE_OK || verdict.is_cut) {
        int is_synced = syncs_folder && !verdict.is_cut;
        fault_file *record = fault_file_of(disk, path, -1);
        int64_t size = record ? record->synced_size : 0;
        if (!is_synced) fault_haunt(disk, path);
        int real_code = fault_real->xDelete(fault_real, path, 0);
        if (code == SQLITE_OK) code = real_code;
        if (real_code == SQLITE_OK) fault_removed(disk, path, is_synced);
        if (disk->space >= 0 && real_code == SQLITE_OK) disk->space += size;
    }
    pthread_mutex_unlock(&fault_mutex);
    return code;
}

static int shim_access(sqlite3_vfs *vfs, const char *path, int flags, int *result) {
    (void)vfs;
    pthread_mutex_lock(&fault_mutex);
    fault_disk *disk = fault_disk_of(path);
    fault_verdict verdict = {SQLITE_OK, 0, 0};
    if (disk) verdict = fault_admit(disk, CALL_OTHER, SQLITE_IOERR_ACCESS);
    pthread_mutex_unlock(&fault_mutex);
    return verdict.code ? verdict.code : fault_real->xAccess(fault_real, path, flags, result);
}

static int shim_full_path(sqlite3_vfs *vfs, const char *path, int size, char *result) {
    (void)vfs;
    return fault_real->xFullPathname(fault_real, path, size, result);
}

static void *shim_dl_open(sqlite3_vfs *vfs, const char *path) {
    (void)vfs;
    return fault_real->xDlOpen(fault_real, path);
}

static void shim_dl_error(sqlite3_vfs *vfs, int size, char *message) {
    (void)vfs;
    fault_real->xDlError(fault_real, size, message);
}

static void (*shim_dl_symbol(sqlite3_vfs *vfs, void *library, const char *name))(void) {
    (void)vfs;
    return fault_real->xDlSym(fault_real, library, name);
}

static void shim_dl_close(sqlite3_vfs *vfs, void *library) {
    (void)vfs;
    fault_real->xDlClose(fault_real, library);
}

static int shim_random(sqlite3_vfs *vfs, int size, char *bytes) {
    (void)vfs;
    return fault_real->xRandomness(fault_real, size, bytes);
}

static int shim_sleep(sqlite3_vfs *vfs, int microseconds) {
    (void)vfs;
    return fault_real->xSleep(fault_real, microseconds);
}

static int shim_time(sqlite3_vfs *vfs, double *time) {
    (void)vfs;
    return fault_real->xCurrentTime(fault_real, time);
}

static int shim_error(sqlite3_vfs *vfs, int size, char *message) {
    (void)vfs;
    return fault_real->xGetLastError(fault_real, size, message);
}

static int shim_time64(sqlite3_vfs *vfs, sqlite3_int64 *time) {
    (void)vfs;
    return fault_real->xCurrentTimeInt64(fault_real, time);
}

static sqlite3_vfs shim = {
    2, 0, 0, NULL, "mimeo-fault", NULL, shim_open, shim_delete, shim_access, shim_full_path, shim_dl_open,
    shim_dl_error, shim_dl_symbol, shim_dl_close, shim_random, shim_sleep, shim_time, shim_error, shim_time64,
    NULL, NULL, NULL,
};

static void register_shim(void) {
    fault_real = sqlite3_vfs_find(NULL);
    shim.szOsFile = (int)handle_size + fault_real->szOsFile;
    shim.mxPathname = fault_real->mxPathname;
    sqlite3_vfs_register(&shim, 1);
}

int fault_use_one_thread(void) {
#ifdef __GLIBC__
    /* What a closed store gives back is what the next one takes. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
    int code = sqlite3_config(SQLITE_CONFIG_SINGLETHREAD);
    if (code == SQLITE_OK) code = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    if (code == SQLITE_OK) code = sqlite3_initialize();
    sqlite3_vfs *exclusive = sqlite3_vfs_find("unix-excl");
    return code == SQLITE_OK && exclusive ? sqlite3_vfs_register(exclusive, 1) : code;
}

void fault_register(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_shim);
}
