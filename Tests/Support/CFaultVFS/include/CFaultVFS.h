/* A disk below SQLite that a test cuts off, fills and breaks.
 *
 * The shim stands before SQLite's own VFS and is registered as the default one, so whoever opens with no VFS
 * named comes through it. Files whose path begins with the prefix of a disk belong to that disk; all others go
 * straight through. One disk is one machine: it has its own power, its own space and its own faults.
 *
 * Power. Writes go to the real file at once, and what they replace is kept until the file is synced. So other
 * connections read what was written, as from a kernel's cache. A cut ends every call from then on; the restart
 * gives each 512-byte sector that was not synced one of the contents it had since the last sync, may take back
 * what a file grew by, may let a file vanish whose creation was not synced, and may bring one back whose removal
 * was not. All of it follows from the disk's seed.
 *
 * A file that was cut short is as long as it was, with all that it lost and nothing that was written there since,
 * or is short, with none of what it lost. It is never short with old contents: a file system's journal frees the
 * old blocks in the same step.
 *
 * A failed sync behaves as Linux does: the pages count as clean, so a later sync that succeeds does not save
 * them; only writing them again does.
 *
 * Shared memory (`-shm`) is memory: it does not survive a restart, and its calls are real ones.
 *
 * One mutex guards everything here. Nothing here starts a thread, sleeps or asks a clock. */

#ifndef CFAULTVFS_H
#define CFAULTVFS_H

#include <stdint.h>

typedef struct fault_disk fault_disk;

/* What a failing call does. */
enum {
    /* Any call fails with an I/O error and does nothing. */
    FAULT_EIO = 1,
    /* A call that needs space writes half of what it should and finds none for the rest. */
    FAULT_FULL = 2,
    /* A write writes half of what it should and then fails with an I/O error. */
    FAULT_SHORT_WRITE = 3,
    /* A sync fails, and what it should have saved counts as clean. */
    FAULT_SYNC = 4,
    /* Shared memory cannot grow for want of space. */
    FAULT_MEMORY = 5,
};

/* What has been called on a disk's files so far. */
typedef struct {
    uint64_t opens, reads, writes, truncates, syncs, deletes, others;
    /* Calls that failed because of a fault or for want of space. */
    uint64_t faults;
    /* Sectors that restarts have taken back. */
    uint64_t lost_sectors;
} fault_counts;

/* Begins a disk for the files whose absolute path begins with `prefix`; registers the shim when it is the first. */
fault_disk *fault_disk_begin(const char *prefix, uint64_t seed);

/* Forgets a disk: its files are ordinary ones from now on. Returns the number of handles that are open still;
 * only 0 means done. */
int fault_disk_end(fault_disk *disk);

/* Lets the n-th call (from 1) of those that `kind` concerns fail, and with `persists` all after it. n = 0 ends it. */
void fault_disk_fail(fault_disk *disk, int kind, uint64_t n, int persists);

/* Cuts the power during the n-th call from now that changes the disk; 0 cuts it at once. */
void fault_disk_cut(fault_disk *disk, uint64_t n);

/* Takes back a cut that has not come yet. */
void fault_disk_spare(fault_disk *disk);

/* Whether the power is off. */
int fault_disk_is_off(fault_disk *disk);

/* Decides what the cut has left and gives the power back. Returns the number of handles that are open still;
 * only 0 means done. */
int fault_disk_restart(fault_disk *disk);

/* The bytes by which files may still grow; -1 for no bound. */
void fault_disk_set_space(fault_disk *disk, int64_t bytes);

/* What has been called. */
fault_counts fault_disk_counts(fault_disk *disk);

/* For a process of one thread whose files nobody else opens: SQLite takes no locks, on memory nor on files.
 * Before anything else of SQLite is called. Returns 0, or what SQLite said. */
int fault_use_one_thread(void);

/* The handles that are open. */
int fault_disk_handles(fault_disk *disk);

#endif
