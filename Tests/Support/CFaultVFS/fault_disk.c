/* Disks: whose a path is, what a call may do, and what a power cut leaves. */

#include "fault_disk.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

pthread_mutex_t fault_mutex = PTHREAD_MUTEX_INITIALIZER;
static fault_disk *disks = NULL;

/* SplitMix64, as TestSupport has it. */
static uint64_t draw(fault_disk *disk) {
    disk->random += 0x9E3779B97F4A7C15u;
    uint64_t bits = disk->random;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
    return bits ^ (bits >> 31);
}

static void *must(void *memory) {
    if (memory == NULL) abort();
    return memory;
}

/* MARK: beginning and ending */

fault_disk *fault_disk_begin(const char *prefix, uint64_t seed) {
    fault_register();
    fault_disk *disk = must(calloc(1, sizeof *disk));
    disk->prefix = must(strdup(prefix));
    disk->prefix_length = strlen(prefix);
    disk->random = seed;
    disk->space = -1;
    pthread_mutex_lock(&fault_mutex);
    disk->next = disks;
    disks = disk;
    pthread_mutex_unlock(&fault_mutex);
    return disk;
}

static void forget_file(fault_disk *disk, const char *path) {
    for (fault_file **link = &disk->files; *link; link = &(*link)->next) {
        if (strcmp((*link)->path, path) != 0) continue;
        fault_file *file = *link;
        *link = file->next;
        free(file->path);
        free(file->images);
        free(file);
        return;
    }
}

static void forget_ghost(fault_disk *disk, const char *path) {
    for (fault_ghost **link = &disk->ghosts; *link; link = &(*link)->next) {
        if (strcmp((*link)->path, path) != 0) continue;
        fault_ghost *ghost = *link;
        *link = ghost->next;
        free(ghost->path);
        free(ghost->bytes);
        free(ghost);
        return;
    }
}

int fault_disk_end(fault_disk *disk) {
    pthread_mutex_lock(&fault_mutex);
    int handles = disk->handles;
    if (handles == 0) {
        for (fault_disk **link = &disks; *link; link = &(*link)->next) {
            if (*link != disk) continue;
            *link = disk->next;
            break;
        }
        while (disk->files) forget_file(disk, disk->files->path);
        while (disk->ghosts) forget_ghost(disk, disk->ghosts->path);
        free(disk->prefix);
        free(disk);
    }
    pthread_mutex_unlock(&fault_mutex);
    return handles;
}

fault_disk *fault_disk_of(const char *path) {
    if (path == NULL) return NULL;
    for (fault_disk *disk = disks; disk; disk = disk->next) {
        if (strncmp(path, disk->prefix, disk->prefix_length) == 0) return disk;
    }
    return NULL;
}

fault_file *fault_file_of(fault_disk *disk, const char *path, int64_t size) {
    fault_file **link = &disk->files;
    while (*link && strcmp((*link)->path, path) < 0) link = &(*link)->next;
    if (*link && strcmp((*link)->path, path) == 0) return *link;
    if (size < 0) return NULL;
    fault_file *file = must(calloc(1, sizeof *file));
    file->path = must(strdup(path));
    file->synced_size = size;
    file->shortest = size;
    file->size = size;
    file->next = *link;
    *link = file;
    return file;
}

/* MARK: what a test asks for */

void fault_disk_fail(fault_disk *disk, int kind, uint64_t n, int persists) {
    pthread_mutex_lock(&fault_mutex);
    disk->fault_kind = kind;
    disk->fault_in = n;
    disk->fault_persists = persists;
    pthread_mutex_unlock(&fault_mutex);
}

void fault_disk_cut(fault_disk *disk, uint64_t n) {
    pthread_mutex_lock(&fault_mutex);
    disk->cut_in = n;
    if (n == 0) disk->is_off = 1;
    pthread_mutex_unlock(&fault_mutex);
}

void fault_disk_spare(fault_disk *disk) {
    pthread_mutex_lock(&fault_mutex);
    if (!disk->is_off) disk->cut_in = 0;
    pthread_mutex_unlock(&fault_mutex);
}

int fault_disk_is_off(fault_disk *disk) {
    pthread_mutex_lock(&fault_mutex);
    int is_off = disk->is_off;
    pthread_mutex_unlock(&fault_mutex);
    return is_off;
}

void fault_disk_set_space(fault_disk *disk, int64_t bytes) {
    pthread_mutex_lock(&fault_mutex);
    disk->space = bytes;
    pthread_mutex_unlock(&fault_mutex);
}

fault_counts fault_disk_counts(fault_disk *disk) {
    pthread_mutex_lock(&fault_mutex);
    fault_counts counts = disk->counts;
    pthread_mutex_unlock(&fault_mutex);
    return counts;
}

int fault_disk_handles(fault_disk *disk) {
    pthread_mutex_lock(&fault_mutex);
    int handles = disk->handles;
    pthread_mutex_unlock(&fault_mutex);
    return handles;
}

/* MARK: what a call may do */

static void count(fault_disk *disk, fault_call call) {
    switch (call) {
    case CALL_OPEN: case CALL_CREATE: disk->counts.opens += 1; break;
    case CALL_READ: disk->counts.reads += 1; break;
    case CALL_WRITE: disk->counts.writes += 1; break;
    case CALL_TRUNCATE: disk->counts.truncates += 1; break;
    case CALL_SYNC: disk->counts.syncs += 1; break;
    case CALL_DELETE: disk->counts.deletes += 1; break;
    case CALL_GROW_MEMORY: case CALL_OTHER: disk->counts.others += 1; break;
    }
}

static int changes_disk(fault_call call) {
    return call == CALL_CREATE || call == CALL_WRITE || call == CALL_TRUNCATE || call == CALL_SYNC
        || call == CALL_DELETE;
}

static int concerns(int kind, fault_call call) {
    switch (kind) {
    case FAULT_EIO: return 1;
    case FAULT_FULL: return call == CALL_WRITE || call == CALL_CREATE || call == CALL_GROW_MEMORY;
    case FAULT_SHORT_WRITE: return call == CALL_WRITE;
    case FAULT_SYNC: return call == CALL_SYNC;
    case FAULT_MEMORY: return call == CALL_GROW_MEMORY;
    default: return 0;
    }
}

/* SQLite's words for a full disk, as its own VFS chooses them. */
static int full(fault_call call) {
    switch (call) {
    case CALL_CREATE: return SQLITE_CANTOPEN;
    case CALL_GROW_MEMORY: return SQLITE_IOERR_SHMSIZE;
    default: return SQLITE_FULL;
    }
}

fault_verdict fault_admit(fault_disk *disk, fault_call call, int error) {
    fault_verdict verdict = {SQLITE_OK, 0, 0};
    if (disk->is_off) {
        verdict.code = error;
        return verdict;
    }
    count(disk, call);
    if (disk->cut_in > 0 && changes_disk(call) && --disk->cut_in == 0) {
        disk->is_off = 1;
        verdict.code = error;
        verdict.is_cut = 1;
        return verdict;
    }
    if (disk->fault_in > 0 && concerns(disk->fault_kind, call) && --disk->fault_in == 0) {
        if (disk->fault_persists) disk->fault_in = 1;
        disk->counts.faults += 1;
        int is_full = disk->fault_kind == FAULT_FULL || disk->fault_kind == FAULT_MEMORY;
        verdict.code = is_full ? full(call) : error;
        verdict.is_half = disk->fault_kind == FAULT_FULL || disk->fault_kind == FAULT_SHORT_WRITE;
    }
    if (verdict.code == SQLITE_OK && disk->space == 0 && (call == CALL_CREATE || call == CALL_GROW_MEMORY)) {
        disk->counts.faults += 1;
        verdict.code = full(call);
    }
    return verdict;
}

/* MARK: what is not synced */

void fault_keep(fault_file *file, sqlite3_file *real, int64_t offset, int64_t count, int64_t size) {
    if (count <= 0) return;
    int64_t first = offset / FAULT_SECTOR;
    int64_t last = (offset + count - 1) / FAULT_SECTOR;
    /* Everything in one call. */
    int64_t held = size - first * FAULT_SECTOR;
    if (held > (last - first + 1) * FAULT_SECTOR) held = (last - first + 1) * FAULT_SECTOR;
    unsigned char *content = held > 0 ? must(malloc((size_t)held)) : NULL;
    if (content) real->pMethods->xRead(real, content, (int)held, first * FAULT_SECTOR);
    for (int64_t sector = first; sector <= last; sector++) {
        if (file->count == file->capacity) {
            file->capacity = file->capacity ? file->capacity * 2 : 64;
            file->images = must(realloc(file->images, file->capacity * sizeof *file->images));
        }
        /* Written again: the page is dirty as a whole, and a sync saves it. */
        for (size_t index = 0; file->doomed > 0 && index < file->count; index++) {
            if (file->images[index].sector != sector || !file->images[index].is_doomed) continue;
            file->images[index].is_doomed = 0;
            file->doomed -= 1;
        }
        fault_image *image = &file->images[file->count++];
        int64_t start = sector * FAULT_SECTOR;
        int64_t have = size - start;
        image->sector = sector;
        image->is_doomed = 0;
        image->is_cut_off = 0;
        image->have = have <= 0 ? 0 : have > FAULT_SECTOR ? FAULT_SECTOR : (int)have;
        memset(image->bytes, 0, sizeof image->bytes);
        if (image->have > 0) memcpy(image->bytes, content + (start - first * FAULT_SECTOR), (size_t)image->have);
    }
    free(content);
}

void fault_shorten(fault_file *file, int64_t size) {
    if (size >= file->synced_size || size > file->shortest) return;
    file->shortest = size;
    for (size_t index = 0; index < file->count; index++) {
        if ((file->images[index].sector + 1) * FAULT_SECTOR > size) file->images[index].is_cut_off = 1;
    }
}

static int same_folder(const char *left, const char *right) {
    size_t length = (size_t)(strrchr(left, '/') - left);
    return strncmp(left, right, length + 1) == 0 && strchr(right + length + 1, '/') == NULL;
}

/* The folder of a path was synced: what is in it stays, what was removed from it is gone. */
static void folder_saved(fault_disk *disk, const char *path) {
    for (fault_file *file = disk->files; file; file = file->next) {
        if (same_folder(path, file->path)) file->is_new = 0;
    }
    for (fault_ghost *ghost = disk->ghosts, *next; ghost; ghost = next) {
        next = ghost->next;
        if (same_folder(path, ghost->path)) forget_ghost(disk, ghost->path);
    }
}

void fault_saved(fault_disk *disk, fault_file *file, int64_t size) {
    if (file->saves_folder) folder_saved(disk, file->path);
    file->saves_folder = 0;
    size_t kept = 0;
    for (size_t index = 0; file->doomed > 0 && index < file->count; index++) {
        int is_kept = file->images[index].is_doomed && !file->images[index].is_cut_off;
        if (is_kept) file->images[kept++] = file->images[index];
    }
    file->count = kept;
    file->doomed = kept;
    file->synced_size = size;
    file->shortest = size;
    file->is_new = 0;
}

void fault_doom(fault_file *file) {
    for (size_t index = 0; index < file->count; index++) file->images[index].is_doomed = 1;
    file->doomed = file->count;
}

/* MARK: the cut */

/* The file at a path whole, or NULL. */
static unsigned char *load(const char *path, int64_t *size) {
    struct stat status;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return NULL;
    if (fstat(descriptor, &status) != 0) abort();
    unsigned char *bytes = must(malloc((size_t)status.st_size + 1));
    int64_t done = 0;
    while (done < status.st_size) {
        ssize_t step = pread(descriptor, bytes + done, (size_t)(status.st_size - done), done);
        if (step <= 0) abort();
        done += step;
    }
    close(descriptor);
    *size = status.st_size;
    return bytes;
}

static void store(const char *path, const unsigned char *bytes, int64_t size) {
    int descriptor = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) abort();
    int64_t done = 0;
    while (done < size) {
        ssize_t step = pwrite(descriptor, bytes + done, (size_t)(size - done), done);
        if (step <= 0) abort();
        done += step;
    }
    if (ftruncate(descriptor, size) != 0) abort();
    close(descriptor);
}

/* The contents of one sector, by time: chooses one, with `is_short` of those after the file was cut short. */
static void settle(
    fault_disk *disk, fault_file *file, size_t first, uint64_t mood, int is_short, unsigned char *bytes, int64_t size
) {
    int64_t sector = file->images[first].sector;
    uint64_t count = 0;
    while (first + count < file->count && file->images[first + count].sector == sector) {
        if (count == 0 && is_short && file->images[first].is_cut_off) first += 1;
        else count += 1;
    }
    if (count == 0) return;
    /* 0: everything is lost. Otherwise one half of the sectors reached the disk, the others stopped anywhere. */
    uint64_t choice = mood == 0 ? 0 : draw(disk) % 2 ? count : draw(disk) % (count + 1);
    if (choice == count) return;
    int64_t start = sector * FAULT_SECTOR;
    int64_t room = size - start;
    if (room > 0) memcpy(bytes + start, file->images[first + choice].bytes, room < FAULT_SECTOR ? room : FAULT_SECTOR);
    disk->counts.lost_sectors += 1;
}

static int by_sector_and_time(const void *left, const void *right) {
    const fault_image *a = *(const fault_image *const *)left, *b = *(const fault_image *const *)right;
    if (a->sector != b->sector) return a->sector < b->sector ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Puts a file's images in order of sector, then time, so that a sector's stand together. */
static void sort_images(fault_file *file) {
    const fault_image **order = must(malloc((file->count + 1) * sizeof *order));
    for (size_t index = 0; index < file->count; index++) order[index] = &file->images[index];
    qsort(order, file->count, sizeof *order, by_sector_and_time);
    fault_image *sorted = must(malloc((file->count + 1) * sizeof *sorted));
    for (size_t index = 0; index < file->count; index++) sorted[index] = *order[index];
    free(order);
    free(file->images);
    file->images = sorted;
    file->capacity = file->count + 1;
}

/* What a cut leaves of a file; NULL for nothing. */
static unsigned char *remains(fault_disk *disk, fault_file *file, int64_t *size) {
    int64_t found = 0;
    unsigned char *bytes = load(file->path, &found);
    if (bytes == NULL) return NULL;
    uint64_t mood = draw(disk) % 4;
    /* 1: the kernel had written everything, as after the death of a process only. */
    if (mood == 1) {
        *size = found;
        return bytes;
    }
    if (file->is_new && draw(disk) % 2) {
        free(bytes);
        return NULL;
    }
    /* A file system cuts a file short in one step, or not at all. With the step go the contents that it cut off,
       without it all that was written there afterwards. */
    int was_cut = file->shortest < file->synced_size;
    int is_short = was_cut && mood != 0 && draw(disk) % 2;
    int64_t base = is_short ? file->shortest : file->synced_size;
    int64_t most = found < file->synced_size ? file->synced_size : found;
    int64_t left = base;
    if (mood != 0 && (is_short || !was_cut) && found > base) {
        int64_t steps = (found - base + FAULT_SECTOR - 1) / FAULT_SECTOR;
        left = base + (int64_t)(draw(disk) % (uint64_t)(steps + 1)) * FAULT_SECTOR;
        if (left > found || draw(disk) % 2) left = found;
    }
    bytes = must(realloc(bytes, (size_t)most + FAULT_SECTOR));
    memset(bytes + found, 0, (size_t)(most - found) + FAULT_SECTOR);
    sort_images(file);
    for (size_t index = 0; index < file->count; index++) {
        int64_t sector = file->images[index].sector;
        if (index > 0 && file->images[index - 1].sector == sector) continue;
        int is_back = was_cut && !is_short && (sector + 1) * FAULT_SECTOR > file->shortest;
        settle(disk, file, index, is_back ? 0 : mood, is_short, bytes, most);
    }
    *size = left;
    return bytes;
}

static void keep_ghost(fault_disk *disk, const char *path, unsigned char *bytes, int64_t size) {
    forget_ghost(disk, path);
    fault_ghost *ghost = must(calloc(1, sizeof *ghost));
    ghost->path = must(strdup(path));
    ghost->bytes = bytes;
    ghost->size = size;
    ghost->next = disk->ghosts;
    disk->ghosts = ghost;
}

void fault_haunt(fault_disk *disk, const char *path) {
    fault_file *file = fault_file_of(disk, path, -1);
    int64_t size = 0;
    unsigned char *bytes = file ? remains(disk, file, &size) : load(path, &size);
    if (bytes) keep_ghost(disk, path, bytes, size);
}

void fault_removed(fault_disk *disk, const char *path, int is_synced) {
    forget_file(disk, path);
    if (is_synced) folder_saved(disk, path);
}

static void forget_memory(const char *path) {
    char *memory = sqlite3_mprintf("%s-shm", path);
    if (memory) unlink(memory);
    sqlite3_free(memory);
}

int fault_disk_restart(fault_disk *disk) {
    pthread_mutex_lock(&fault_mutex);
    int handles = disk->handles;
    if (handles == 0) {
        for (fault_file *file = disk->files; file; file = file->next) {
            int64_t size = 0;
            unsigned char *bytes = remains(disk, file, &size);
            if (bytes) store(file->path, bytes, size);
            else unlink(file->path);
            free(bytes);
            forget_memory(file->path);
        }
        for (fault_ghost *ghost = disk->ghosts; ghost; ghost = ghost->next) {
            if (access(ghost->path, F_OK) != 0 && draw(disk) % 2) store(ghost->path, ghost->bytes, ghost->size);
        }
        while (disk->files) forget_file(disk, disk->files->path);
        while (disk->ghosts) forget_ghost(disk, disk->ghosts->path);
        disk->is_off = 0;
        disk->cut_in = 0;
        disk->fault_in = 0;
    }
    pthread_mutex_unlock(&fault_mutex);
    return handles;
}
