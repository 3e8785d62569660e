/* Shifts the clock of day of the processes that load it (LD_PRELOAD): by the seconds, as decimal text of 20 bytes, in the
 * file that MIMEO_TEST_CLOCK names. The file is mapped, so that a test moves all of them at once. Clocks that only measure
 * durations, and the times of files, stay as they are. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile char *text;

__attribute__((constructor)) static void map_shift(void) {
    const char *path = getenv("MIMEO_TEST_CLOCK");
    int descriptor = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (descriptor < 0) return;
    void *place = mmap(NULL, 20, PROT_READ, MAP_SHARED, descriptor, 0);
    if (place != MAP_FAILED) text = place;
    close(descriptor);
}

static long long shift(void) {
    long long seconds = 0;
    for (int index = 0; text && index < 20; index++)
        if (text[index] >= '0' && text[index] <= '9') seconds = seconds * 10 + (text[index] - '0');
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, time);
    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += shift();
    return code;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}
