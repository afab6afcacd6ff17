/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The engine's parts and what they share.
 *
 *   parser.c     what comes in, the loop, the end
 *   runs.c       text runs: white space, fences, how runs are joined
 *   text.c       outside of calls: marks of reasoning, hidden tokens, openers
 *   header.c     is this a call? Names, envelopes, lists
 *   envelope.c   calls as JSON objects
 *   arguments.c  an object of arguments, member by member
 *   tags.c       calls written as tags: where a value ends
 *   channels.c   formats whose messages have headers: Harmony, Kimi K3
 *
 * Each state is a function that looks at the text from `at` on and either moves on or asks for
 * more. It must come to the same result whatever of the text is there, so it decides nothing that
 * later text could change; `final` says that no more will come.
 */
#ifndef MTR_PARSE_INTERNAL_H
#define MTR_PARSE_INTERNAL_H

#include "broker/parse/parser.h"
#include "broker/parse/schema.h"
#include "broker/parse/value.h"
#include "common/base/map.h"

#define MTR_PARSE_MAX_NAME   256  /* bytes of a tool's name with what is around it */
#define MTR_PARSE_MAX_HEADER 1024 /* bytes of an opening tag or a message header */

enum mtr_parse_state {
    MTR_PARSE_TEXT,
    MTR_PARSE_OBJECT,   /* in an object of arguments, between members */
    MTR_PARSE_STRING,   /* in a string of it */
    MTR_PARSE_ENVELOPE, /* behind the arguments, in the object around them */
    MTR_PARSE_TAGS,     /* in a call, between parameters */
    MTR_PARSE_VALUE,    /* in a parameter's value */
    MTR_PARSE_PASSAGE,  /* through an object that is no call */
};

enum mtr_last_mark { MTR_MARK_NONE, MTR_MARK_OPENER, MTR_MARK_CLOSER, MTR_MARK_CALL };

/* What of the text is looked at: all that came, or for a moment a text that was taken out of it. */
struct mtr_view {
    struct mtr_str s;
    size_t at;
    bool final;
};

/* The run that is being written: see runs.c. */
struct mtr_run {
    bool reasoning;
    bool blank;          /* nothing but white space so far */
    bool after_mark;     /* a mark stands before it */
    bool wrote[2];       /* content, reasoning: is there any text of the kind? */
    struct mtr_buf held; /* white space, and a fence line, that a mark would take with it */
    bool line_start;     /* only back ticks since the line began */
    uint32_t ticks;      /* back ticks of the present line's fence */
    bool fence_line;     /* the present line is a fence line, in held */
    bool fence_held;     /* held has a whole fence line */
    bool fence_open;     /* the text is inside a fence */
    bool fence_taken;    /* a fence's first line went with a call: its last line goes too */
    char last;           /* the last character that was put */
};

enum mtr_arguments_form { MTR_ARGS_STREAM, MTR_ARGS_EMPTY, MTR_ARGS_TEXT };

/* A call that was found. */
struct mtr_header {
    struct mtr_str name;
    const struct mtr_json *parameters;
    enum mtr_arguments_form form;
    enum mtr_dialect dialect;   /* STREAM: of the object at `body` */
    enum mtr_parse_state state; /* STREAM: OBJECT or TAGS */
    size_t body;                /* where reading goes on */
    struct mtr_str text;        /* TEXT: the whole object */
    bool text_cut;              /* TEXT: its end is missing */
    bool envelope;              /* an object is open around the arguments */
    bool list, wrapped, fenced;
    bool refused;                /* NO, although all that it says is there */
    size_t skipped, skipped_end; /* elements of a list that are no calls */
};

/* A value of the tag grammars. */
struct mtr_tag_value {
    unsigned types;
    bool json;      /* the tag says that it is JSON, strings in quotes too */
    bool streamed;  /* as a string, while it comes */
    bool begun;     /* a byte of it was looked at */
    bool opened;    /* its key and quote were written */
    size_t scan;    /* looked at so far */
    size_t hold;    /* closing tags that may end the output begin here; SIZE_MAX */
    int last_tag;   /* order of the last of them */
    uint32_t depth; /* nested calls */
};

struct mtr_parser {
    struct mtr_parser_setup setup;
    const struct mtr_parse_format *format; /* of calls, NULL: none are looked for */
    const struct mtr_parse_format *think;  /* of reasoning, or NULL */
    bool interesting[256];                 /* bytes that a mark may begin with */

    struct mtr_buf in;
    struct mtr_view v;
    size_t wait;    /* total bytes that are worth another look; 0: any */
    size_t dropped; /* bytes before in.data[0] since the beginning, for tokens */
    bool failed;
    enum mtr_parse_state state;
    struct mtr_run run;

    bool closer_due; /* a call ended reasoning, its closer may still come */
    enum mtr_last_mark last_mark;

    /* Between calls. */
    bool wrapped;    /* a wrapper is open */
    bool list;       /* a list is open */
    bool after_call; /* the mark before the run is a call */
    uint32_t calls;
    struct mtr_buf name;        /* of the header looked at */
    struct mtr_buf text;        /* arguments that came as a string */
    struct mtr_value_scan scan; /* of a long value */
    size_t scan_from;           /* where that value begins; SIZE_MAX: none */

    /* The call that is open. */
    const struct mtr_json *parameters;
    enum mtr_dialect dialect;
    char close; /* of the object */
    bool envelope;
    bool tags_after; /* the object is a part of a call in tags */
    bool first_member;
    bool silent;         /* the member is left out */
    struct mtr_map keys; /* given so far, by their hash */
    struct mtr_buf key;  /* of the value that is read */
    enum mtr_quote quote;
    struct mtr_tag_value value;
    struct mtr_buf stray; /* text between parameters: content once the call is over */

    /* Channels. */
    bool in_header; /* HARMONY: of a message */

    /* Special tokens, where they are told: offsets since the beginning. */
    struct mtr_parse_token {
        size_t at, len;
    } * tokens;
    size_t token_count, token_cap;

    struct mtr_buf out;
    enum mtr_piece_kind out_kind;
};

/* ---- parser.c: looking ------------------------------------------------------------------------
 */

/* Does the text have this string at `at`? MORE: it may still. A special token's string counts only
 * where its token came, if tokens are told. */
enum mtr_progress mtr_look(const struct mtr_parser *p, size_t at, const char *word);
size_t mtr_look_space(const struct mtr_parser *p, size_t at); /* behind white space */
/* A proper beginning of the word, of at least min bytes, that ends the output. */
bool mtr_look_piece(const struct mtr_parser *p, size_t at, const char *word, size_t min);
/* The end of a value at `at`, remembering how far it was looked at. */
enum mtr_progress mtr_look_value(struct mtr_parser *p, size_t at, enum mtr_dialect dialect,
                                 size_t *end);
enum mtr_progress mtr_look_hidden(const struct mtr_parser *p, size_t at, size_t *len);

static inline bool mtr_at_end(const struct mtr_parser *p, size_t at)
{
    return at >= p->v.s.len;
}

/* ---- parser.c: telling ------------------------------------------------------------------------
 */

void mtr_put_piece(struct mtr_parser *p, enum mtr_piece_kind kind, struct mtr_str text);
struct mtr_buf *mtr_arguments_out(struct mtr_parser *p); /* to append arguments' JSON to */

/* ---- runs.c -----------------------------------------------------------------------------------
 */

void mtr_run_put(struct mtr_parser *p, struct mtr_str text);
void mtr_run_mark(struct mtr_parser *p, enum mtr_last_mark mark); /* ends the run */
void mtr_run_switch(struct mtr_parser *p, bool reasoning);        /* what the next run is */
void mtr_run_end(struct mtr_parser *p);                           /* the end of the output */
bool mtr_run_at_line_start(const struct mtr_parser *p);

/* ---- text.c -----------------------------------------------------------------------------------
 */

enum mtr_progress mtr_text_step(struct mtr_parser *p);
enum mtr_progress mtr_passage_step(struct mtr_parser *p);
/* Closers behind a call, stray brackets: MORE, YES (moved on), NO. */
enum mtr_progress mtr_after_call(struct mtr_parser *p);

/* ---- header.c ---------------------------------------------------------------------------------
 */

enum mtr_progress mtr_header_try(struct mtr_parser *p, size_t at, struct mtr_header *h);
/* The next element of a list or wrapper. */
enum mtr_progress mtr_element_try(struct mtr_parser *p, size_t at, struct mtr_header *h);
void mtr_call_begin(struct mtr_parser *p, const struct mtr_header *h);
void mtr_call_end(struct mtr_parser *p);
/* Is the name declared, once decoration is taken off? */
bool mtr_declared(struct mtr_parser *p, struct mtr_str name, struct mtr_header *h);

/* ---- envelope.c -------------------------------------------------------------------------------
 */

/* An object with name and arguments. */
enum mtr_progress mtr_envelope_try(struct mtr_parser *p, size_t at, struct mtr_header *h);
/* One, or a list of which at least one is. */
enum mtr_progress mtr_list_try(struct mtr_parser *p, size_t at, struct mtr_header *h);
enum mtr_progress mtr_wrapped_list_try(struct mtr_parser *p, size_t at, struct mtr_header *h);
/* What may stand for the arguments where they are due and the name is known. */
enum mtr_progress mtr_body_try(struct mtr_parser *p, size_t at, struct mtr_header *h);

/* ---- arguments.c ------------------------------------------------------------------------------
 */

enum mtr_progress mtr_object_step(struct mtr_parser *p);
enum mtr_progress mtr_string_step(struct mtr_parser *p);
enum mtr_progress mtr_envelope_step(struct mtr_parser *p);
/* A whole object that does not stand in the text as it is. */
void mtr_object_whole(struct mtr_parser *p, struct mtr_str text, bool cut);
/* Notes the key; false: it was given before. */
bool mtr_key_note(struct mtr_parser *p, struct mtr_str key);
bool mtr_key_given(const struct mtr_parser *p, struct mtr_str key);
/* The key with what goes before it and behind it. */
void mtr_key_put(struct mtr_parser *p);

/* ---- tags.c -----------------------------------------------------------------------------------
 */

/* An opening tag at `at`: word, name, end. */
struct mtr_tag {
    size_t end;
    bool malformed; /* no name, or no end on its line */
    struct mtr_buf *name;
    char type[16]; /* type attribute, "" */
};
enum mtr_progress mtr_tag_open(struct mtr_parser *p, size_t at, const char *word,
                               const char *attribute, struct mtr_tag *tag);
enum mtr_progress mtr_tags_step(struct mtr_parser *p);
enum mtr_progress mtr_value_step(struct mtr_parser *p);

/* ---- channels.c -------------------------------------------------------------------------------
 */

enum mtr_progress mtr_harmony_step(struct mtr_parser *p);
enum mtr_progress mtr_kimi3_step(struct mtr_parser *p);

#endif
