// libedit's line editor. Its functions take variable arguments, which Swift cannot pass: each of these wraps one use.
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

typedef char *(*mimeo_prompt_function)(EditLine *);
typedef unsigned char (*mimeo_edit_function)(EditLine *, int);

// An editor on the process's terminal. The text is UTF-8 whatever the locale says; nothing else of it is set.
static inline EditLine *mimeo_editor(void) {
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0) setlocale(LC_CTYPE, "C.UTF-8");
    return el_init("mimeo", stdin, stdout, stderr);
}

static inline int mimeo_set_prompt(EditLine *editor, mimeo_prompt_function prompt) {
    return el_set(editor, EL_PROMPT, prompt);
}

static inline int mimeo_set_keys(EditLine *editor, const char *name) {
    return el_set(editor, EL_EDITOR, name);
}

static inline int mimeo_set_history(EditLine *editor, History *entries) {
    return el_set(editor, EL_HIST, history, entries);
}

static inline int mimeo_set_data(EditLine *editor, void *data) {
    return el_set(editor, EL_CLIENTDATA, data);
}

static inline void *mimeo_get_data(EditLine *editor) {
    void *data = 0;
    el_get(editor, EL_CLIENTDATA, &data);
    return data;
}

static inline int mimeo_add_function(EditLine *editor, const char *name, const char *help, mimeo_edit_function function) {
    return el_set(editor, EL_ADDFN, name, help, function);
}

static inline int mimeo_bind(EditLine *editor, const char *key, const char *name) {
    return el_set(editor, EL_BIND, key, name, NULL);
}

// Restores the terminal, and repaints, when a signal comes while a line is edited.
static inline int mimeo_handle_signals(EditLine *editor) {
    return el_set(editor, EL_SIGNAL, 1);
}

// While a line is edited, the keys that send signals (Control-C, Control-Z) arrive as characters.
static inline int mimeo_take_signal_keys(EditLine *editor) {
    return el_set(editor, EL_SETTY, "-d", "-isig", NULL);
}

// Takes the terminal out of its line mode before the prompt is shown. el_gets itself does it afterwards: what is typed
// in between would be echoed twice, and Control-C would end the process.
static inline int mimeo_prepare(EditLine *editor) {
    return el_set(editor, EL_PREP_TERM, 1);
}

static inline int mimeo_history_size(History *entries, int count) {
    HistEvent event;
    return history(entries, &event, H_SETSIZE, count);
}

static inline int mimeo_history_add(History *entries, const char *line) {
    HistEvent event;
    return history(entries, &event, H_ENTER, line);
}
