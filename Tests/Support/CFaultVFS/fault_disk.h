/* What the two files of the shim share. All of it is guarded by `fault_mutex`. */

#ifndef FAULT_DISK_H
#define FAULT_DISK_H

#include <pthread.h>
#include <sqlite3.h>
#include <stddef.h>

#include "CFaultVFS.h"

enum { FAULT_SECTOR = 512 };

/* The calls that faults tell apart, and that are counted. */
typedef enum {
    CALL_OPEN, CALL_CREATE, CALL_READ, CALL_WRITE, CALL_TRUNCATE, CALL_SYNC, CALL_DELETE, CALL_GROW_MEMORY, CALL_OTHER,
} fault_call;

/* One content that a sector had since the last sync. */
typedef struct {
    int64_t sector;
    /* How many of its bytes the file had: 0 when the file ended before it. */
    int have;
    /* A failed sync has let go of it: a later one does not save what is there now. */
    int is_doomed;
    /* The file was cut short afterwards, to less than `synced_size`, and lost it. */
    int is_cut_off;
    unsigned char bytes[FAULT_SECTOR];
} fault_image;

/* A file that is known by its path; it outlives its handles, as what is not synced does. */
typedef struct fault_file {
    struct fault_file *next;
    char *path;
    /* In order of time. */
    fault_image *images;
    size_t count, capacity, doomed;
    /* The size now: only the handles that are open change it. */
    int64_t size;
    /* The size at the last sync. */
    int64_t synced_size;
    /* The least size since, if it was cut to less than that; otherwise the same. */
    int64_t shortest;
    /* Its directory entry is not synced. */
    int is_new;
    /* Its next sync syncs its folder too, as SQLite does it for a new journal. */
    int saves_folder;
} fault_file;

/* What a removed file may come back as. */
typedef struct fault_ghost {
    struct fault_ghost *next;
    char *path;
    unsigned char *bytes;
    int64_t size;
} fault_ghost;

struct fault_disk {
    struct fault_disk *next;
    char *prefix;
    size_t prefix_length;
    uint64_t random;
    /* By path, so that a restart takes them in the same order whoever opened them first. */
    fault_file *files;
    fault_ghost *ghosts;
    fault_counts counts;
    int handles;
    int is_off;
    /* Changing calls until the cut; 0 for none. */
    uint64_t cut_in;
    int fault_kind;
    uint64_t fault_in;
    int fault_persists;
    int64_t space;
};

/* What becomes of a call. */
typedef struct {
    /* SQLITE_OK, or what the call fails with. */
    int code;
    /* It has half of its effect before it fails. */
    int is_half;
    /* The power goes off during it: it has its whole effect, which is not synced, and fails. */
    int is_cut;
} fault_verdict;

extern pthread_mutex_t fault_mutex;
extern sqlite3_vfs *fault_real;

/* The disk of a path, or NULL. */
fault_disk *fault_disk_of(const char *path);

/* The record of a path; made if it is missing and `size` is not negative. */
fault_file *fault_file_of(fault_disk *disk, const char *path, int64_t size);

/* Counts a call and decides on it. `error` is what an I/O error of this call is called. */
fault_verdict fault_admit(fault_disk *disk, fault_call call, int error);

/* Keeps the contents of sectors before a call changes them. */
void fault_keep(fault_file *file, sqlite3_file *real, int64_t offset, int64_t count, int64_t size);

/* Called when a file was cut to a size, after its contents were kept. */
void fault_shorten(fault_file *file, int64_t size);

/* Everything written is on the disk. */
void fault_saved(fault_disk *disk, fault_file *file, int64_t size);

/* A sync failed: everything written counts as clean. */
void fault_doom(fault_file *file);

/* The file's entry was removed. With `is_synced` for good; otherwise it may come back. */
void fault_removed(fault_disk *disk, const char *path, int is_synced);

/* Called before a removal that is not synced: keeps what the file may come back as. */
void fault_haunt(fault_disk *disk, const char *path);

void fault_register(void);

#endif
