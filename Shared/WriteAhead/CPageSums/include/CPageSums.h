#ifndef MIMEO_PAGE_SUMS_H
#define MIMEO_PAGE_SUMS_H

#include <stdint.h>

/* A checksum for every page of a SQLite file: see README.md of WriteAhead. */

/* The code for sqlite3_file_control that turns sums on for one connection's file; the argument is ignored. */
#define PAGE_SUMS_CONTROL 0x4D6D5301

/* Milliseconds after which a connection compares mapped pages again: a comparison takes less than a
 * microsecond, so a thousandth of the time goes into that at most, and damage is served no longer. */
#define PAGE_SUMS_AGE_MS 10000

/* The code that sets another time for one connection's file; the argument is an int. For tests. */
#define PAGE_SUMS_AGE_CONTROL 0x4D6D5302

/* The bytes at the end of each page that a file with sums reserves (SQLITE_FCNTL_RESERVE_BYTES). */
#define PAGE_SUMS_BYTES 8

/* Puts the layer between SQLite and its default file system, once per process. It leaves files alone whose
 * connection does not turn sums on. Returns SQLite's code. */
int page_sums_register(void);

/* Gives sums to pages that have none, because a program without this layer has written them. Nobody may have
 * the file open. Returns 0 or errno. */
int page_sums_adopt(const char *path);

/* The bytes at the beginning of a database file that tell its formats, and whether it has tables. */
#define PAGE_SUMS_FIRST_BYTES 112

/* What a write-ahead log holds. */
typedef struct {
    /* 1 if the header is one. */
    int has_header;
    /* 1 if every byte is zero: room that was made for a first commit. */
    int is_blank;
    /* The header's salts, as the file has them. */
    uint64_t salts;
    /* Frames that belong to the header and follow from each other. */
    uint64_t frames;
    /* 1 if a transaction that has ended wrote the first page; then `first` is its beginning. */
    int has_first;
    uint8_t first[PAGE_SUMS_FIRST_BYTES];
} page_sums_log;

/* Reads a write-ahead log as SQLite does after a crash. Returns 0, or errno if the file cannot be read. */
int page_sums_read_log(const char *path, page_sums_log *found);

/* Whether a page has the sum that belongs to its place, counted from 0, or none at all. */
int page_sums_fit(const uint8_t *page, int bytes, uint64_t number);

#endif
