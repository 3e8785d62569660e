/* Bad input and ends of handles, by the C interface: behaviour DIRECTORY [ROUNDS]. Prints each claim that does not
 * hold; exits non-zero if any. Meant to run under the address sanitizer: nothing of ours leaks. */
#include <mimeo.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

static void claim(int holds, const char *text) {
    if (holds) return;
    failures++;
    printf("does not hold: %s\n", text);
}

#define CLAIM(condition) claim((condition), #condition)
#define FAILS(expression, expected) \
    claim((expression) == MIMEO_ERROR && strcmp(error.code, expected) == 0, #expression " fails with " expected)

static mimeo_error error;

static mimeo_handle open_in(const char *directory, const char *name) {
    char config[4096];
    mimeo_handle db = 0;
    snprintf(config, sizeof config,
             "{\"database_id\": \"00000000-0000-4000-8000-000000000001\", \"persistence_directory\": \"%s/%s\","
             " \"connect\": {\"type\": \"small_peers_only\"}}",
             directory, name);
    if (mimeo_open(config, strlen(config), MIMEO_ALONE, &db, &error) != MIMEO_OK) {
        printf("cannot open: %s: %s\n", error.code, error.message);
        exit(1);
    }
    return db;
}

static mimeo_status run(mimeo_handle where, const char *statement, const char *arguments, mimeo_result *result) {
    return mimeo_execute(where, statement, strlen(statement), arguments, arguments ? strlen(arguments) : 0,
                         MIMEO_JSON, result, &error);
}

static void done(mimeo_handle where, const char *statement, const char *arguments) {
    mimeo_result result;
    mimeo_status status = run(where, statement, arguments, &result);
    if (status != MIMEO_OK) printf("%s: %s: %s\n", statement, error.code, error.message);
    claim(status == MIMEO_OK, statement);
    if (status == MIMEO_OK) mimeo_release(result.handle, NULL);
}

static void handles(mimeo_handle db) {
    mimeo_result result, other;
    mimeo_handle cursor, transaction, observer;
    const char *select = "SELECT * FROM c ORDER BY _id";
    done(db, "INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2}), ({'_id': 3})", NULL);
    CLAIM(run(db, select, NULL, &result) == MIMEO_OK && result.count == 3);
    CLAIM(mimeo_release(result.handle, &error) == MIMEO_OK);
    FAILS(mimeo_release(result.handle, &error), "NATIVE-0101");
    FAILS(mimeo_next_rows(db, 1, MIMEO_JSON, &other, &error), "NATIVE-0102");
    FAILS(run(999999, select, NULL, &other), "NATIVE-0101");
    FAILS(run(0, select, NULL, &other), "NATIVE-0101");
    CLAIM(mimeo_query(db, select, strlen(select), NULL, 0, &cursor, &error) == MIMEO_OK);
    CLAIM(mimeo_next_rows(cursor, 2, MIMEO_JSON, &result, &error) == MIMEO_OK && result.count == 2);
    mimeo_release(result.handle, NULL);
    CLAIM(mimeo_next_rows(cursor, SIZE_MAX, MIMEO_JSON, &result, &error) == MIMEO_OK && result.count == 1);
    mimeo_release(result.handle, NULL);
    CLAIM(mimeo_next_rows(cursor, 2, MIMEO_JSON, &result, &error) == MIMEO_OK && result.count == 0);
    mimeo_release(result.handle, NULL);
    CLAIM(mimeo_release(cursor, &error) == MIMEO_OK);
    FAILS(mimeo_next_rows(cursor, 2, MIMEO_JSON, &result, &error), "NATIVE-0101");
    FAILS(mimeo_release(cursor, &error), "NATIVE-0101");
    const char *delete = "DELETE FROM c";
    FAILS(mimeo_query(db, delete, strlen(delete), NULL, 0, &cursor, &error), "NATIVE-0104");
    CLAIM(mimeo_begin(db, 0, &transaction, &error) == MIMEO_OK);
    FAILS(mimeo_query(transaction, delete, strlen(delete), NULL, 0, &cursor, &error), "NATIVE-0104");
    CLAIM(mimeo_end(transaction, 1, NULL, &error) == MIMEO_OK);
    CLAIM(mimeo_query(db, select, strlen(select), NULL, 0, &cursor, &error) == MIMEO_OK);
    FAILS(mimeo_next_rows(cursor, 0, MIMEO_JSON, &result, &error), "NATIVE-0104");
    CLAIM(mimeo_next_rows(cursor, 9, MIMEO_JSON, &result, &error) == MIMEO_OK && result.count == 3);
    mimeo_release(result.handle, NULL);
    CLAIM(mimeo_release(cursor, &error) == MIMEO_OK);

    uint64_t commit = 7;
    CLAIM(mimeo_begin(db, 0, &transaction, &error) == MIMEO_OK);
    done(transaction, "INSERT INTO c DOCUMENTS ({'_id': 4})", NULL);
    FAILS(run(db, "INSERT INTO c DOCUMENTS ({'_id': 5})", NULL, &result), "SDK-0205");
    mimeo_handle inner;
    FAILS(mimeo_begin(db, 0, &inner, &error), "SDK-0205");
    CLAIM(mimeo_end(transaction, 1, &commit, &error) == MIMEO_OK && commit > 1);
    FAILS(mimeo_end(transaction, 1, &commit, &error), "NATIVE-0101");
    FAILS(run(transaction, select, NULL, &result), "NATIVE-0101");
    CLAIM(mimeo_begin(db, MIMEO_READ_ONLY, &transaction, &error) == MIMEO_OK);
    FAILS(run(transaction, "DELETE FROM c", NULL, &result), "SDK-0209");
    CLAIM(mimeo_release(transaction, &error) == MIMEO_OK);
    FAILS(mimeo_release(transaction, &error), "NATIVE-0101");

    CLAIM(mimeo_observe(db, select, strlen(select), NULL, 0, MIMEO_CBOR, NULL, NULL, &observer, &error) == MIMEO_OK);
    CLAIM(mimeo_release(observer, &error) == MIMEO_OK);
    FAILS(mimeo_release(observer, &error), "NATIVE-0101");
    mimeo_handle subscription, watcher;
    CLAIM(mimeo_subscribe(db, "SELECT * FROM c", 15, NULL, 0, &subscription, &error) == MIMEO_OK);
    CLAIM(mimeo_release(subscription, &error) == MIMEO_OK);
    FAILS(mimeo_release(subscription, &error), "NATIVE-0101");
    CLAIM(mimeo_watch(db, MIMEO_PRESENCE, 0, NULL, NULL, &watcher, &error) == MIMEO_OK);
    CLAIM(mimeo_release(watcher, &error) == MIMEO_OK);
    FAILS(mimeo_release(watcher, &error), "NATIVE-0101");
    CLAIM(mimeo_refused(db, 0, SIZE_MAX, MIMEO_JSON, &result, &error) == MIMEO_OK && result.count == 0);
    mimeo_release(result.handle, NULL);
    CLAIM(mimeo_refused(db, UINT64_MAX, 1, MIMEO_JSON, &result, &error) == MIMEO_OK && result.count == 0);
    mimeo_release(result.handle, NULL);
    CLAIM(mimeo_wait_acknowledged(db, UINT64_MAX, -5, &error) == MIMEO_EMPTY);
}

/* An attachment and its fetch, also one whose end nobody reads: its attachment goes with the event. */
static void attachments(const char *directory) {
    mimeo_handle db = open_in(directory, "attachments"), fetch;
    mimeo_result made, bytes;
    mimeo_event event;
    FAILS(mimeo_attach_bytes(db, NULL, 3, NULL, 0, MIMEO_JSON, &made, &error), "NATIVE-0104");
    FAILS(mimeo_attach_bytes(db, "abc", 3, "{\"a\": 1}", 8, MIMEO_JSON, &made, &error), "NATIVE-0110");
    FAILS(mimeo_attach_file(db, "/nowhere/at/all", 15, NULL, 0, MIMEO_JSON, &made, &error), "SDK-0701");
    FAILS(mimeo_attach_file(db, "/etc/passwd\0x", 13, NULL, 0, MIMEO_JSON, &made, &error), "NATIVE-0104");
    FAILS(mimeo_attach_file(db, "", 0, NULL, 0, MIMEO_JSON, &made, &error), "NATIVE-0104");
    FAILS(mimeo_attach_bytes(db, "abc", SIZE_MAX, NULL, 0, MIMEO_JSON, &made, &error), "NATIVE-0104");
    CLAIM(mimeo_attach_bytes(db, "abc", 3, NULL, 0, MIMEO_JSON, &made, &error) == MIMEO_OK);
    for (int reads = 2; reads >= 0; reads--) {
        CLAIM(mimeo_fetch(db, made.data, made.size, 0, NULL, NULL, &fetch, &error) == MIMEO_OK);
        int fd;
        CLAIM(mimeo_event_fd(db, &fd, &error) == MIMEO_OK);
        struct pollfd wanted = {.fd = fd, .events = POLLIN};
        CLAIM(poll(&wanted, 1, 60000) == 1);
        event.kind = 0;
        while (reads > 0 && event.kind != MIMEO_FETCH_DONE) {
            if (mimeo_next_event(db, 60000, &event, &error) != MIMEO_OK) continue;
            CLAIM(event.source == fetch && mimeo_release(event.handle, &error) == MIMEO_OK);
        }
        if (reads > 0) {
            CLAIM(mimeo_attachment_bytes(event.object, &bytes, &error) == MIMEO_OK);
            CLAIM(bytes.size == 3 && memcmp(bytes.data, "abc", 3) == 0);
            mimeo_release(bytes.handle, NULL);
            CLAIM(mimeo_release(event.object, &error) == MIMEO_OK);
            FAILS(mimeo_release(event.object, &error), "NATIVE-0101");
        }
        CLAIM(mimeo_release(fetch, &error) == MIMEO_OK);
        FAILS(mimeo_release(fetch, &error), "NATIVE-0101");
    }
    CLAIM(mimeo_close(db, &error) == MIMEO_OK);
    FAILS(mimeo_attachment_copy(made.handle, "copy\0x", 6, &error), "NATIVE-0104");
    CLAIM(access("copy", F_OK) != 0);
    CLAIM(mimeo_attachment_bytes(made.handle, &bytes, &error) == MIMEO_OK && bytes.size == 3);
    mimeo_release(bytes.handle, NULL);
    CLAIM(mimeo_release(made.handle, &error) == MIMEO_OK);
    FAILS(mimeo_release(made.handle, &error), "NATIVE-0101");
    FAILS(mimeo_attachment_bytes(made.handle, &bytes, &error), "NATIVE-0101");
}

/* A log that was replaced gets no more lines, and its end takes none from the later one. */
static void logs(const char *directory) {
    mimeo_handle first, second;
    mimeo_event event;
    CLAIM(mimeo_logs(5, MIMEO_JSON, NULL, NULL, &first, &error) == MIMEO_OK);
    CLAIM(mimeo_logs(5, MIMEO_JSON, NULL, NULL, &second, &error) == MIMEO_OK);
    CLAIM(mimeo_release(first, &error) == MIMEO_OK);
    FAILS(mimeo_release(first, &error), "NATIVE-0101");
    FAILS(mimeo_next_event(first, 0, &event, &error), "NATIVE-0101");
    CLAIM(mimeo_log_level(5, &error) == MIMEO_OK);
    /* Its id is no UUID, so there is something to say. */
    char config[4096];
    mimeo_handle db;
    snprintf(config, sizeof config,
             "{\"database_id\": \"cars\", \"persistence_directory\": \"%s/logs\","
             " \"connect\": {\"type\": \"small_peers_only\"}}",
             directory);
    CLAIM(mimeo_open(config, strlen(config), MIMEO_ALONE, &db, &error) == MIMEO_OK);
    CLAIM(mimeo_next_event(second, 60000, &event, &error) == MIMEO_OK && event.kind == MIMEO_LOG);
    CLAIM(event.source == second && mimeo_release(event.handle, &error) == MIMEO_OK);
    CLAIM(mimeo_close(db, &error) == MIMEO_OK);
    CLAIM(mimeo_log_level(0, &error) == MIMEO_OK);
    FAILS(mimeo_log_level(6, &error), "NATIVE-0106");
    CLAIM(mimeo_release(second, &error) == MIMEO_OK);
    FAILS(mimeo_release(second, &error), "NATIVE-0101");
}

static void input(mimeo_handle db) {
    mimeo_result result;
    FAILS(mimeo_execute(db, NULL, 4, NULL, 0, MIMEO_JSON, &result, &error), "NATIVE-0104");
    FAILS(mimeo_execute(db, "SELECT * FROM c", 15, NULL, 0, MIMEO_JSON, NULL, &error), "NATIVE-0104");
    FAILS(mimeo_execute(db, "SELECT '\xff' FROM c", 17, NULL, 0, MIMEO_JSON, &result, &error), "NATIVE-0104");
    /* A surrogate in UTF-8. */
    FAILS(mimeo_execute(db, "SELECT '\xed\xa0\x80' FROM c", 19, NULL, 0, MIMEO_JSON, &result, &error), "NATIVE-0104");
    FAILS(mimeo_execute(db, "SELECT * FROM c", 15, NULL, 0, 9, &result, &error), "NATIVE-0106");
    FAILS(mimeo_execute(db, "SELECT * FROM c", SIZE_MAX, NULL, 0, MIMEO_JSON, &result, &error), "NATIVE-0104");
    FAILS(mimeo_execute(db, "SELECT * FROM c", 15, "{}", SIZE_MAX, MIMEO_JSON, &result, &error), "NATIVE-0104");
    CLAIM(run(db, "SELECT :a FROM c", "{\"a\": \"\\ud800\"}", &result) == MIMEO_ERROR);
    CLAIM(run(db, "SELECT :a FROM c", "{\"a\": 1", &result) == MIMEO_ERROR);
    CLAIM(run(db, "SELECT :a FROM c", "{\"a\": 99999999999999999999}", &result) == MIMEO_ERROR);
    FAILS(mimeo_execute(db, "SELECT :a FROM c", 16, "\x81\x01", 2, MIMEO_JSON, &result, &error), "NATIVE-0105");
    CLAIM(mimeo_execute(db, "SELECT :a FROM c", 16, "\xa1\x61", 2, MIMEO_JSON, &result, &error) == MIMEO_ERROR);
    /* {"d": {"_id": "nan", "n": NaN, "b": h'00ff'}} */
    static const char cbor[] = "\xa1\x61\x64\xa3\x63_id\x63nan\x61n\xf9\x7e\x00\x61\x62\x42\x00\xff";
    const char *insert = "INSERT INTO kinds DOCUMENTS (:d)";
    CLAIM(mimeo_execute(db, insert, strlen(insert), cbor, sizeof cbor - 1, 0, &result, &error) == MIMEO_OK);
    mimeo_release(result.handle, NULL);
    const char *select = "SELECT n, b FROM kinds";
    CLAIM(mimeo_execute(db, select, strlen(select), NULL, 0, MIMEO_EITHER, &result, &error) == MIMEO_OK);
    CLAIM(result.format == MIMEO_CBOR && result.size == 12);
    mimeo_release(result.handle, NULL);
    CLAIM(mimeo_execute(db, select, strlen(select), NULL, 0, MIMEO_JSON, &result, &error) == MIMEO_OK);
    CLAIM(result.size == 23 && memcmp(result.data, "[{\"n\":null,\"b\":\"AP8=\"}]", 23) == 0);
    mimeo_release(result.handle, NULL);

    size_t size = 4 << 20;
    char *large = malloc(size + 64);
    int head = sprintf(large, "{\"d\": {\"_id\": \"large\", \"text\": \"");
    memset(large + head, 'x', size);
    strcpy(large + head + size, "\"}}");
    CLAIM(mimeo_execute(db, insert, strlen(insert), large, strlen(large), MIMEO_JSON, &result, &error) == MIMEO_OK);
    mimeo_release(result.handle, NULL);
    CLAIM(run(db, "SELECT text FROM kinds WHERE _id = 'large'", NULL, &result) == MIMEO_OK && result.size > size);
    mimeo_release(result.handle, NULL);
    free(large);
    size = 6 << 20;
    large = malloc(size + 64);
    head = sprintf(large, "{\"d\": {\"_id\": \"larger\", \"text\": \"");
    memset(large + head, 'x', size);
    strcpy(large + head + size, "\"}}");
    CLAIM(mimeo_execute(db, insert, strlen(insert), large, strlen(large), MIMEO_JSON, &result, &error) == MIMEO_ERROR);
    free(large);

    mimeo_handle none;
    const char *list = "[1]", *empty = "{}";
    CLAIM(mimeo_open(list, strlen(list), 0, &none, &error) == MIMEO_ERROR);
    CLAIM(mimeo_open(empty, strlen(empty), 0, &none, &error) == MIMEO_ERROR);
    CLAIM(mimeo_open(NULL, 0, 0, &none, &error) == MIMEO_ERROR);
    FAILS(mimeo_open(empty, strlen(empty), 64, &none, &error), "NATIVE-0106");
    const char *unusable[] = {"{\"persistence_directory\": \"\"}", "{\"persistence_directory\": \"a\\u0000b\"}",
                              "{\"persistence_directory\": 1}"};
    for (int i = 0; i < 3; i++) FAILS(mimeo_open(unusable[i], strlen(unusable[i]), 0, &none, &error), "NATIVE-0110");
    const char *misspelt = "{\"persistance_directory\": \"a\"}";
    FAILS(mimeo_open(misspelt, strlen(misspelt), 0, &none, &error), "NATIVE-0106");
    FAILS(mimeo_configure(db, "{\"color\": 1}", 12, &error), "NATIVE-0106");
    FAILS(mimeo_configure(db, "{\"device_name\": 1}", 18, &error), "NATIVE-0110");
    FAILS(mimeo_login(db, "p", 1, "t", 1, 0, NULL, &error), "NATIVE-0107");
    FAILS(mimeo_watch(db, 77, 0, NULL, NULL, &none, &error), "NATIVE-0106");
    FAILS(mimeo_state(db, 77, 0, &result, &error), "NATIVE-0106");
    CLAIM(mimeo_state(db, MIMEO_SYNC, MIMEO_JSON, &result, NULL) == MIMEO_OK);
    mimeo_release(result.handle, NULL);
    CLAIM(mimeo_release(12345678, NULL) == MIMEO_ERROR);
}

struct calls {
    mimeo_handle db;
    sem_t called;
    pthread_t thread;
    int count, closes;
};

static void called(void *context, const mimeo_event *event) {
    struct calls *calls = context;
    CLAIM(event->kind == MIMEO_ROWS && event->data != NULL);
    calls->thread = pthread_self();
    calls->count++;
    if (calls->closes) CLAIM(mimeo_close(calls->db, &error) == MIMEO_OK);
    sem_post(&calls->called);
}

static void events(const char *directory) {
    mimeo_handle db = open_in(directory, "events"), observer, polled;
    struct calls calls = {.db = db};
    sem_init(&calls.called, 0, 0);
    const char *select = "SELECT * FROM c";
    CLAIM(mimeo_observe(db, select, 15, NULL, 0, MIMEO_CBOR, called, &calls, &observer, &error) == MIMEO_OK);
    sem_wait(&calls.called);
    CLAIM(!pthread_equal(calls.thread, pthread_self()));
    done(db, "INSERT INTO c DOCUMENTS ({'_id': 1})", NULL);
    sem_wait(&calls.called);
    CLAIM(mimeo_release(observer, &error) == MIMEO_OK);
    int count = calls.count;
    done(db, "INSERT INTO c DOCUMENTS ({'_id': 2})", NULL);

    int32_t fd = -1;
    mimeo_event event;
    CLAIM(mimeo_next_event(db, 0, &event, &error) == MIMEO_EMPTY);
    CLAIM(mimeo_event_fd(db, &fd, &error) == MIMEO_OK && fd >= 0);
    CLAIM(mimeo_observe(db, select, 15, NULL, 0, MIMEO_JSON, NULL, NULL, &polled, &error) == MIMEO_OK);
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    CLAIM(poll(&wanted, 1, 60000) == 1);
    CLAIM(mimeo_next_event(db, 60000, &event, &error) == MIMEO_OK && event.source == polled && event.count == 2);
    CLAIM(poll(&wanted, 1, 0) == 0);
    /* The next result waits for this one. */
    done(db, "INSERT INTO c DOCUMENTS ({'_id': 3})", NULL);
    done(db, "INSERT INTO c DOCUMENTS ({'_id': 4})", NULL);
    CLAIM(mimeo_next_event(db, 100, &(mimeo_event){0}, &error) == MIMEO_EMPTY);
    CLAIM(mimeo_release(event.handle, &error) == MIMEO_OK);
    FAILS(mimeo_release(event.handle, &error), "NATIVE-0101");
    mimeo_status status;
    while ((status = mimeo_next_event(db, 60000, &event, &error)) == MIMEO_EMPTY) {}
    CLAIM(status == MIMEO_OK && event.count == 4);
    mimeo_release(event.handle, NULL);
    CLAIM(mimeo_wake(db, &error) == MIMEO_OK && mimeo_next_event(db, -1, &event, &error) == MIMEO_EMPTY);
    CLAIM(calls.count == count);
    CLAIM(mimeo_close(db, &error) == MIMEO_OK);
    FAILS(mimeo_close(db, &error), "NATIVE-0101");
    FAILS(mimeo_release(polled, &error), "NATIVE-0101");

    /* A callback that closes its own database. */
    calls.db = db = open_in(directory, "events");
    calls.closes = 1;
    CLAIM(mimeo_observe(db, select, 15, NULL, 0, MIMEO_CBOR, called, &calls, &observer, &error) == MIMEO_OK);
    sem_wait(&calls.called);
    FAILS(mimeo_close(db, &error), "NATIVE-0101");
}

static void *hammer(void *context) {
    mimeo_handle db = *(mimeo_handle *)context;
    for (int i = 0; i < 200; i++) {
        mimeo_result result;
        mimeo_error mine;
        if (mimeo_execute(db, "SELECT * FROM c", 15, NULL, 0, MIMEO_CBOR, &result, &mine) == MIMEO_OK) {
            mimeo_release(result.handle, NULL);
        } else if (strcmp(mine.code, "NATIVE-0101") && strcmp(mine.code, "SDK-0402")
                   && strcmp(mine.code, "STORE-0105")) {
            printf("a thread that reads while another closes: %s: %s\n", mine.code, mine.message);
            failures++;
        }
    }
    return NULL;
}

static void threads(const char *directory) {
    for (int round = 0; round < 10; round++) {
        mimeo_handle db = open_in(directory, "threads");
        pthread_t all[4];
        for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, hammer, &db);
        usleep(2000);
        CLAIM(mimeo_close(db, &error) == MIMEO_OK);
        for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    }
}

#define RACED 200

struct race {
    mimeo_handle all[RACED];
    int released;
};

static void *release_all(void *context) {
    struct race *race = context;
    for (int i = 0; i < RACED; i++) {
        mimeo_error mine;
        if (mimeo_release(race->all[i], &mine) == MIMEO_OK) __atomic_fetch_add(&race->released, 1, __ATOMIC_SEQ_CST);
        else if (strcmp(mine.code, "NATIVE-0101")) __atomic_fetch_add(&race->released, RACED, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

/* Results, cursors, observers and transactions that four threads release at once: each is released by one of them. */
static void races(mimeo_handle db) {
    struct race race = {.released = 0};
    pthread_t all[4];
    const char *select = "SELECT * FROM c";
    for (int i = 0; i < RACED; i++) {
        mimeo_result result;
        mimeo_status status;
        if (i % 4 == 0) {
            status = run(db, select, NULL, &result);
            race.all[i] = result.handle;
        } else if (i % 4 == 1) {
            status = mimeo_query(db, select, strlen(select), NULL, 0, &race.all[i], &error);
        } else if (i % 4 == 2) {
            status = mimeo_begin(db, MIMEO_READ_ONLY, &race.all[i], &error);
        } else {
            status = mimeo_observe(db, select, strlen(select), NULL, 0, MIMEO_CBOR, NULL, NULL, &race.all[i], &error);
        }
        CLAIM(status == MIMEO_OK);
    }
    for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, release_all, &race);
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    CLAIM(race.released == RACED);
}

static void forks(mimeo_handle db) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        mimeo_result result;
        mimeo_status status = run(db, "SELECT * FROM c", NULL, &result);
        _exit(status == MIMEO_ERROR && strcmp(error.code, "NATIVE-0103") == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    claim(status == 0, "a forked child is refused with NATIVE-0103");
    done(db, "SELECT * FROM c", NULL);
}

int main(int count, char **words) {
    if (count < 2) return 2;
    CLAIM(mimeo_abi_version() == MIMEO_ABI_VERSION);
    CLAIM(strchr(mimeo_version(), '.') != NULL);
    mimeo_log_level(0, NULL);
    mimeo_handle db = open_in(words[1], "first"), second;
    char config[4096];
    snprintf(config, sizeof config,
             "{\"database_id\": \"00000000-0000-4000-8000-000000000001\", \"persistence_directory\": \"%s/first\","
             " \"connect\": {\"type\": \"small_peers_only\"}}",
             words[1]);
    FAILS(mimeo_open(config, strlen(config), MIMEO_ALONE, &second, &error), "STORE-0101");
    handles(db);
    input(db);
    races(db);
    forks(db);
    attachments(words[1]);
    logs(words[1]);
    /* A transaction that nobody ended, and a result that outlives its database. */
    mimeo_handle transaction;
    mimeo_result result;
    CLAIM(mimeo_begin(db, 0, &transaction, &error) == MIMEO_OK);
    CLAIM(run(db, "SELECT COUNT(*) AS n FROM c", NULL, &result) == MIMEO_OK);
    CLAIM(mimeo_close(db, &error) == MIMEO_OK);
    FAILS(mimeo_release(transaction, &error), "NATIVE-0101");
    CLAIM(result.size == 9 && memcmp(result.data, "[{\"n\":4}]", 9) == 0);
    CLAIM(mimeo_release(result.handle, &error) == MIMEO_OK);
    FAILS(run(db, "SELECT * FROM c", NULL, &result), "NATIVE-0101");
    events(words[1]);
    threads(words[1]);
    for (int round = count > 2 ? atoi(words[2]) : 20; round > 0; round--)
        CLAIM(mimeo_close(open_in(words[1], "again"), &error) == MIMEO_OK);
    if (failures == 0) printf("everything holds\n");
    return failures > 0;
}
