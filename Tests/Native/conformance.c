/* Runs calls.txt by the C interface: conformance FILE DIRECTORY. Prints each difference; exits non-zero if any. */
#include <mimeo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mimeo_error error;
static char code[24];
static int failures, checks;

static void check(int line, const char *expected, const char *found) {
    checks++;
    if (strcmp(expected, found) == 0) return;
    failures++;
    printf("line %d: expected %s, found %s\n", line, expected, found);
}

static mimeo_handle open_database(const char *directory) {
    char config[4096];
    mimeo_handle db = 0;
    snprintf(config, sizeof config,
             "{\"database_id\": \"00000000-0000-4000-8000-000000000001\", \"persistence_directory\": \"%s\","
             " \"connect\": {\"type\": \"small_peers_only\"}}",
             directory);
    if (mimeo_open(config, strlen(config), MIMEO_ALONE, &db, &error) != MIMEO_OK) {
        fprintf(stderr, "%s: %s\n", error.code, error.message);
        exit(1);
    }
    return db;
}

/* The bytes of a result as text, or in hex. */
static char *text_of(const uint8_t *data, size_t size, int hex) {
    char *text = malloc(size * 2 + 1);
    if (hex) {
        for (size_t i = 0; i < size; i++) sprintf(text + 2 * i, "%02x", data[i]);
        size *= 2;
    } else {
        memcpy(text, data, size);
    }
    text[size] = 0;
    return text;
}

int main(int count, char **words) {
    if (count != 3) return 2;
    FILE *file = fopen(words[1], "r");
    if (!file) return 2;
    mimeo_log_level(1, NULL);
    mimeo_handle db = open_database(words[2]), observer = 0, transaction = 0;
    char *line = NULL, statement[4096] = "", arguments[4096] = "";
    size_t room = 0;
    ssize_t length;
    for (int number = 1; (length = getline(&line, &room, file)) > 0; number++) {
        if (line[length - 1] == '\n') line[--length] = 0;
        const char *rest = length > 2 ? line + 2 : "";
        switch (line[0]) {
        case '?': snprintf(arguments, sizeof arguments, "%s", rest); break;
        case '>': snprintf(statement, sizeof statement, "%s", rest); break;
        case '=':
        case 'x':
        case '!': {
            if (line[0] == '!' && !statement[0]) {
                check(number, rest, code);
                break;
            }
            mimeo_result result;
            mimeo_status status = mimeo_execute(transaction ? transaction : db, statement, strlen(statement),
                                                arguments, strlen(arguments),
                                                line[0] == 'x' ? MIMEO_CBOR : MIMEO_JSON, &result, &error);
            if (status == MIMEO_OK) {
                char *found = text_of(result.data, result.size, line[0] == 'x');
                check(number, rest, found);
                free(found);
                mimeo_release(result.handle, NULL);
            } else {
                check(number, rest, error.code);
            }
            statement[0] = arguments[0] = 0;
            break;
        }
        case '@':
            if (observer) mimeo_release(observer, NULL);
            observer = 0;
            statement[0] = 0;
            code[0] = 0;
            if (mimeo_observe(db, rest, strlen(rest), NULL, 0, MIMEO_JSON, NULL, NULL, &observer, &error))
                snprintf(code, sizeof code, "%s", error.code);
            break;
        case '~': {
            mimeo_event event;
            mimeo_status status;
            while ((status = mimeo_next_event(db, 60000, &event, &error)) == MIMEO_EMPTY) {}
            if (status != MIMEO_OK) {
                check(number, rest, error.code);
                break;
            }
            char *found = text_of(event.data, event.size, 0);
            check(number, rest, found);
            free(found);
            mimeo_release(event.handle, NULL);
            break;
        }
        case '(':
            if (mimeo_begin(db, 0, &transaction, &error)) check(number, "a transaction", error.code);
            break;
        case ')':
            if (mimeo_end(transaction, !*rest, NULL, &error)) check(number, "an end", error.code);
            transaction = 0;
            break;
        default: break;
        }
    }
    free(line);
    fclose(file);
    mimeo_close(db, &error);
    printf("%d of %d as expected\n", checks - failures, checks);
    return failures > 0;
}
