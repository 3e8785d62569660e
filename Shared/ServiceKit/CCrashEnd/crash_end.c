/* The end of a process that crashed.
 *
 * Swift's runtime puts handlers on these signals before main. They start another program that prints a
 * backtrace, and the dying process waits for it, up to minutes, with its sockets open: clients hang, and
 * nothing restarts the process. The handler here writes one line, and the kernel does the rest: sockets are
 * closed, the exit status names the signal, and a core is written where the system allows one.
 *
 * The handler uses only functions that are safe in a signal handler, and memory that is written before it is
 * installed.
 */

#include "CCrashEnd.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The signals that Swift's runtime takes. */
static const struct {
    int number;
    const char *name;
} crashes[] = {
    {SIGQUIT, "SIGQUIT"}, {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGILL, "SIGILL"},   {SIGSEGV, "SIGSEGV"}, {SIGTRAP, "SIGTRAP"},
};
enum { CRASHES = sizeof crashes / sizeof crashes[0] };

static char lines[CRASHES][256];

/* The signal has its default action again (SA_RESETHAND), but is blocked until the handler returns. Then the
 * second one, raised here, ends the process: also where the first was sent by another process. */
static void end(int number) {
    for (int i = 0; i < CRASHES; i++) {
        if (crashes[i].number != number) continue;
        /* A full pipe that nobody reads must not keep the process. */
        struct pollfd err = {.fd = STDERR_FILENO, .events = POLLOUT};
        if (poll(&err, 1, 0) == 1 && (err.revents & POLLOUT)) {
            ssize_t written = write(STDERR_FILENO, lines[i], strlen(lines[i]));
            (void)written;
        }
    }
    raise(number);
}

void crash_end_install(const char *program) {
    const char *asked = getenv("SWIFT_BACKTRACE");
    if (asked && (strstr(asked, "enable=yes") || strstr(asked, "enable=tty"))) return;
    struct sigaction action = {.sa_handler = end, .sa_flags = (int)(SA_RESETHAND | SA_ONSTACK)};
    sigfillset(&action.sa_mask);
    for (int i = 0; i < CRASHES; i++) {
        snprintf(lines[i], sizeof lines[i], "%s: ended by %s\n", program, crashes[i].name);
        sigaction(crashes[i].number, &action, NULL);
    }
}
