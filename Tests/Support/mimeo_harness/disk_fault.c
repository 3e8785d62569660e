/* Makes the disk below one folder read-only or slow for the processes that load it (LD_PRELOAD), also for files that they
 * have open: a real mount does not become read-only, and writable again, beneath open files.
 *
 * MIMEO_TEST_DISK names a file of 20 bytes, which is mapped, so that a test changes all processes at once: "r" for
 * read-only, or the milliseconds that each sync takes as decimal text. MIMEO_TEST_DISK_FOLDER names the folder. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const volatile char *text;
static const char *folder;

__attribute__((constructor)) static void map_state(void) {
    const char *path = getenv("MIMEO_TEST_DISK");
    folder = getenv("MIMEO_TEST_DISK_FOLDER");
    int descriptor = path && folder ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor < 0) return;
    void *place = mmap(NULL, 20, PROT_READ, MAP_SHARED, descriptor, 0);
    if (place != MAP_FAILED) text = place;
    close(descriptor);
}

static int is_read_only(void) { return text && text[0] == 'r'; }

static int is_below(const char *path) {
    size_t length = folder ? strlen(folder) : 0;
    return length && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int is_file_below(int descriptor) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

static int is_path_below(int descriptor, const char *path) {
    if (path[0] == '/') return is_below(path);
    return descriptor != AT_FDCWD && is_file_below(descriptor);
}

static int refuses(int descriptor) { return is_read_only() && is_file_below(descriptor); }
static int refuses_at(int descriptor, const char *path) { return is_read_only() && is_path_below(descriptor, path); }

#define REAL(name, result, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = dlsym(RTLD_NEXT, name)
#define REFUSE(condition) \
    if (condition) { errno = EROFS; return -1; }

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        REAL(#name, int, const char *, int, ...); \
        va_list list; va_start(list, flags); \
        mode_t mode = va_arg(list, mode_t); va_end(list); \
        REFUSE((flags & (O_ACCMODE | O_CREAT | O_TRUNC)) != O_RDONLY && refuses_at(AT_FDCWD, path)) \
        return real(path, flags, mode); \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(#name, int, int, const char *, int, ...); \
        va_list list; va_start(list, flags); \
        mode_t mode = va_arg(list, mode_t); va_end(list); \
        REFUSE((flags & (O_ACCMODE | O_CREAT | O_TRUNC)) != O_RDONLY && refuses_at(at, path)) \
        return real(at, path, flags, mode); \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

ssize_t write(int file, const void *bytes, size_t count) {
    REAL("write", ssize_t, int, const void *, size_t);
    REFUSE(refuses(file))
    return real(file, bytes, count);
}

#define WRITES_AT(name) \
    ssize_t name(int file, const void *bytes, size_t count, off_t place) { \
        REAL(#name, ssize_t, int, const void *, size_t, off_t); \
        REFUSE(refuses(file)) \
        return real(file, bytes, count, place); \
    }
WRITES_AT(pwrite)
WRITES_AT(pwrite64)

ssize_t writev(int file, const struct iovec *parts, int count) {
    REAL("writev", ssize_t, int, const struct iovec *, int);
    REFUSE(refuses(file))
    return real(file, parts, count);
}

#define TRUNCATES(name) \
    int name(int file, off_t size) { \
        REAL(#name, int, int, off_t); \
        REFUSE(refuses(file)) \
        return real(file, size); \
    }
TRUNCATES(ftruncate)
TRUNCATES(ftruncate64)

static void wait_for_disk(int file) {
    long long milliseconds = 0;
    for (int index = 0; text && index < 20 && text[index] >= '0' && text[index] <= '9'; index++)
        milliseconds = milliseconds * 10 + (text[index] - '0');
    if (milliseconds == 0 || !is_file_below(file)) return;
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
}

#define SYNCS(name) \
    int name(int file) { \
        REAL(#name, int, int); \
        REFUSE(refuses(file)) \
        wait_for_disk(file); \
        return real(file); \
    }
SYNCS(fsync)
SYNCS(fdatasync)

int rename(const char *old, const char *new) {
    REAL("rename", int, const char *, const char *);
    REFUSE(refuses_at(AT_FDCWD, new))
    return real(old, new);
}

#define CHANGES(name) \
    int name(const char *path) { \
        REAL(#name, int, const char *); \
        REFUSE(refuses_at(AT_FDCWD, path)) \
        return real(path); \
    }
CHANGES(unlink)
CHANGES(rmdir)

int mkdir(const char *path, mode_t mode) {
    REAL("mkdir", int, const char *, mode_t);
    if (refuses_at(AT_FDCWD, path)) {
        struct stat status;
        errno = stat(path, &status) == 0 ? EEXIST : EROFS;
        return -1;
    }
    return real(path, mode);
}

int access(const char *path, int mode) {
    REAL("access", int, const char *, int);
    REFUSE((mode & W_OK) && refuses_at(AT_FDCWD, path))
    return real(path, mode);
}

int faccessat(int at, const char *path, int mode, int flags) {
    REAL("faccessat", int, int, const char *, int, int);
    REFUSE((mode & W_OK) && refuses_at(at, path))
    return real(at, path, mode, flags);
}
