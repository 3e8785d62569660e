/* Sends a fixed number of requests over connections that stay open, and prints what they cost as JSON:
 *
 *     http PORT TOKEN-FILE KIND COUNT CONNECTIONS PID
 *
 * KIND is point, range, insert or health. Each connection has a thread of its own and sends COUNT requests, one
 * after the other. Times are in milliseconds. Processor time (schedstat, all threads) and voluntary thread
 * switches are those of the process PID, for each request.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DOCUMENTS = 20000, CUSTOMERS = 500, ANSWER_BYTES = 1 << 20 };

static int port, count;
static const char *kind;
static char token[16384];
static double *latencies;
static long run;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void fail(const char *reason) {
    fprintf(stderr, "http: %s\n", reason);
    exit(1);
}

/* The body of a connection's request of this number. */
static int body(char *text, long connection, int number) {
    if (strcmp(kind, "point") == 0)
        return sprintf(text, "{\"statement\":\"SELECT * FROM orders WHERE _id = :i\",\"args\":{\"i\":\"o%ld\"}}",
                       (number * 7 + connection) % DOCUMENTS);
    if (strcmp(kind, "range") == 0)
        return sprintf(text,
                       "{\"statement\":\"SELECT * FROM orders WHERE customer = :c\",\"args\":{\"c\":\"c%ld\"}}",
                       (number * 3 + connection) % CUSTOMERS);
    return sprintf(text,
                   "{\"statement\":\"INSERT INTO written DOCUMENTS (:d)\",\"args\":{\"d\":"
                   "{\"_id\":\"%ld-%ld-%d\",\"a\":%d}}}",
                   run, connection, number, number);
}

static int request(char *text, long connection, int number) {
    if (strcmp(kind, "health") == 0) return sprintf(text, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    char sent[1024];
    int length = body(sent, connection, number);
    return sprintf(text,
                   "POST /api/v5/store/execute HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                   "Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
                   token, length, sent);
}

/* Reads one answer, which must be a 200 with a length. */
static void answer(int connection, char *text) {
    int got = 0, need = -1;
    while (need < 0 || got < need) {
        ssize_t part = read(connection, text + got, (size_t)(ANSWER_BYTES - 1 - got));
        if (part <= 0) fail("the server has closed a connection");
        got += (int)part;
        text[got] = 0;
        char *end = need < 0 ? strstr(text, "\r\n\r\n") : NULL;
        if (end == NULL) continue;
        char *length = strcasestr(text, "content-length:");
        if (length == NULL || length > end) fail("an answer has no length");
        need = (int)(end - text) + 4 + atoi(length + strlen("content-length:"));
        if (need >= ANSWER_BYTES) fail("an answer is too long");
    }
    if (strncmp(text + 9, "200", 3) != 0) fail(text);
}

static void *converse(void *argument) {
    long number = (long)argument;
    char *sent = malloc(sizeof token + 4096), *received = malloc(ANSWER_BYTES);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int connection = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(connection, (struct sockaddr *)&address, sizeof address)) fail("nobody listens");
    for (int turn = 0; turn < count; turn++) {
        int length = request(sent, number, turn), done = 0;
        double begin = now();
        while (done < length) {
            ssize_t part = write(connection, sent + done, (size_t)(length - done));
            if (part <= 0) fail("the server has closed a connection");
            done += (int)part;
        }
        answer(connection, received);
        latencies[number * count + turn] = now() - begin;
    }
    close(connection);
    free(sent);
    free(received);
    return NULL;
}

typedef struct {
    double processor;
    long switches;
} usage;

/* The processor's nanoseconds and the voluntary switches of all threads of a process. */
static usage usage_of(const char *process) {
    usage found = {0, 0};
    char path[512], line[256];
    snprintf(path, sizeof path, "/proc/%s/task", process);
    DIR *tasks = opendir(path);
    if (tasks == NULL) fail("there is no such process");
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        if (task->d_name[0] == '.') continue;
        unsigned long long nanoseconds;
        snprintf(path, sizeof path, "/proc/%s/task/%s/schedstat", process, task->d_name);
        FILE *file = fopen(path, "r");
        if (file != NULL) {
            if (fscanf(file, "%llu", &nanoseconds) == 1) found.processor += (double)nanoseconds;
            fclose(file);
        }
        snprintf(path, sizeof path, "/proc/%s/task/%s/status", process, task->d_name);
        file = fopen(path, "r");
        if (file == NULL) continue;
        long switches;
        while (fgets(line, sizeof line, file))
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &switches) == 1) found.switches += switches;
        fclose(file);
    }
    closedir(tasks);
    return found;
}

static int order(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

int main(int argc, char **arguments) {
    if (argc != 7) fail("PORT TOKEN-FILE KIND COUNT CONNECTIONS PID");
    port = atoi(arguments[1]);
    kind = arguments[3];
    count = atoi(arguments[4]);
    long connections = atol(arguments[5]), all = connections * count;
    if (count < 1 || connections < 1 || connections > 256) fail("COUNT from 1, CONNECTIONS from 1 to 256");
    FILE *file = fopen(arguments[2], "r");
    if (file == NULL) fail("the file of the token cannot be read");
    token[fread(token, 1, sizeof token - 1, file)] = 0;
    token[strcspn(token, "\r\n")] = 0;
    fclose(file);
    run = (long)(now() * 1e6);
    latencies = calloc((size_t)all, sizeof *latencies);
    usage before = usage_of(arguments[6]);
    double begin = now();
    pthread_t threads[256];
    for (long number = 0; number < connections; number++)
        pthread_create(&threads[number], NULL, converse, (void *)number);
    for (long number = 0; number < connections; number++) pthread_join(threads[number], NULL);
    double took = now() - begin;
    usage after = usage_of(arguments[6]);
    qsort(latencies, (size_t)all, sizeof *latencies, order);
    printf("{\"perSecond\":%.0f,\"min\":%.4f,\"median\":%.4f,\"p99\":%.4f,\"processorMicroseconds\":%.1f,"
           "\"switches\":%.2f}\n",
           (double)all / took, latencies[0] * 1e3, latencies[all / 2] * 1e3, latencies[all * 99 / 100] * 1e3,
           (after.processor - before.processor) / (double)all * 1e-3,
           (double)(after.switches - before.switches) / (double)all);
    return 0;
}
